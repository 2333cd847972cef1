#!/usr/bin/env bash
# compute-sanitizer over a step's tests: memory errors, races in shared memory, wrong barriers.
#
#   tools/sanitize.sh NUMBER [TOOL…]          tools: memcheck racecheck synccheck initcheck; the first three by default
#
# Exit status: 0 clean; 1 a tool found something; 77 there is no compute-sanitizer or no GPU program to look at.
set -euo pipefail
cd "$(dirname "$0")/.."
number=$1
shift
tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck synccheck)
# shellcheck disable=SC2086  # CMAKE_ARGS is a list of words
tools/setup.sh build ${CMAKE_ARGS:-}
why=$(cat build/why_no_cuda.txt)
if [ -n "$why" ]; then
  echo "compute-sanitizer needs the CUDA programs, which are left out: $why." >&2
  exit 77
fi
sanitizer=$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")
if [ ! -x "$sanitizer" ]; then
  echo "compute-sanitizer is not installed: it comes with the CUDA Toolkit (package cuda-sanitizer-<version>)." >&2
  exit 77
fi
tools/build.sh build "step${number}_test"
status=0
for tool in "${tools[@]}"; do
  echo "== $tool, step $number"
  "$sanitizer" --tool "$tool" --error-exitcode 9 "build/bin/step${number}_test" || status=1
done
exit $status
