#!/usr/bin/env bash
# Builds every test program of this machine, runs them all, and counts the test cases that ran.
#
#   tools/test.sh
#
# A test program that ran no test case fails, as does a whole run of fewer cases than MIN_TEST_CASES.
# build/test_summary.txt gets "PASSED FAILED" in test cases.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck disable=SC2086  # CMAKE_ARGS is a list of words
tools/setup.sh build ${CMAKE_ARGS:-}
why=$(cat build/why_no_cuda.txt)
[ -z "$why" ] || echo "CUDA programs are left out: $why. Their kernels are tested on the CPU executor."
tools/build.sh build tests

status=0
(cd build && ctest --output-on-failure --timeout 900) || status=$?

# The last line of each Catch2 program says how many test cases it ran; ctest keeps them all in its log. A test that is
# no Catch2 program (a script) counts as one case.
awk -v minimum="${MIN_TEST_CASES:-1}" -v summary=build/test_summary.txt '
  function number_before(word,   i) {
    for (i = 2; i <= NF; ++i) if ($i ~ "^" word) return $(i - 1) + 0
    return 0
  }
  /^[0-9]+\/[0-9]+ Test: / { name = $NF; ++programs; cases = -1; reason = "" }
  /^skipped: /             { reason = substr($0, 10) }
  /^All tests passed \(/   { for (i = 1; i < NF; ++i) if ($i == "in") cases = $(i + 1); passed += cases }
  /^test cases: /          { cases = $3; passed += number_before("passed"); failed += number_before("failed") }
  /^(No tests ran|No test cases matched)/ { cases = 0 }
  /^Test (Passed|Failed)\./ || /^Test .*(Timeout|Exception)/ {
    right = $2 == "Passed."
    if (reason != "" && right) { ++skipped; why = reason }
    else if (cases == 0) { print "make test: " name " ran no test case"; empty = 1 }
    else if (cases < 0) { if (right) ++passed; else ++failed }
  }
  END {
    print passed + 0, failed + 0 > summary
    line = "make test: " passed + failed " test cases of " programs - skipped " programs ran, " failed + 0 " failed"
    if (skipped) line = line "; " skipped " programs skipped: " why
    if (passed + failed < minimum) { line = line "; fewer than the " minimum " there must be"; empty = 1 }
    print line
    exit empty
  }' build/Testing/Temporary/LastTest.log || status=1
exit "$status"
