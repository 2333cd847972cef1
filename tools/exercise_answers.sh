#!/usr/bin/env bash
# Proves the exercises: every answer passes its test, and every wrong answer fails it for the reason named; with --stubs every
# stub fails too.
#
#   tools/exercise_answers.sh [--stubs] BUILD_FOLDER [PREFIX]
#
# The programs are those of BUILD_FOLDER/exercises/list.txt (cmake/exercises.cmake) whose name begins with PREFIX. Exit
# status: 0 all as they should be; 1 one is not; 77 no device for any of them.
set -euo pipefail
stubs=no
if [ "$1" = --stubs ]; then
  stubs=yes
  shift
fi
build=$1 prefix=${2:-}
right=0 wrong=0 skipped=0
while IFS=$'\t' read -r program outcome reason; do
  [[ $program == "$prefix"* ]] || continue
  [ "$outcome" != stub ] || [ $stubs = yes ] || continue
  status=0
  said=$("$build/bin/$program" 2>&1) || status=$?
  if [ $status = 77 ]; then
    skipped=$((skipped + 1))
    continue
  fi
  # a test that ran and failed says so; a crash does not
  ended=no
  if [ "$outcome" = pass ]; then
    [ $status != 0 ] || ended=yes
  elif [ $status != 0 ] && grep -q '^test cases: .* failed' <<<"$said" && ! grep -q 'fatal error condition' <<<"$said"; then
    ended=yes
  fi
  if [ "$ended" = yes ] && grep -qE -- "$reason" <<<"$(tr -s '[:space:]' ' ' <<<"$said")"; then
    right=$((right + 1))
  else
    wrong=$((wrong + 1))
    printf '%s should %s with "%s"; its status is %d and it said:\n%s\n' "$program" "${outcome/stub/fail}" "$reason" $status "$said"
  fi
done <"$build/exercises/list.txt"
if [ $((right + wrong)) = 0 ] && [ $skipped -gt 0 ]; then
  echo "skipped: no device"
  exit 77
fi
echo "exercises: $right variants as they should be, $wrong not"
[ $wrong = 0 ] && [ $right -gt 0 ]
