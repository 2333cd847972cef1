#!/usr/bin/env bash
# Builds what you have written in the exercises of a step and tests it.
#
#   tools/exercise.sh NUMBER [EXERCISE]
#
# EXERCISE is 1, 2 or 3; without it all three. Where there is a usable GPU the test runs there first, for the result; then on
# the CPU executor, which also sees races and what each request costs. Exit status: 0 all solved; 1 one is not.
set -euo pipefail
cd "$(dirname "$0")/.."
number=$1 only=${2:-}
stubs=()
for answer in "$number"_*/exercise/"$only"*_answer.cuh; do
  [ -e "$answer" ] && stubs+=("${answer%_answer.cuh}.cuh")
done
if [ ${#stubs[@]} = 0 ]; then
  echo "error: EXERCISE=$only: step $number has exercises 1, 2 and 3" >&2
  exit 2
fi
# shellcheck disable=SC2086  # CMAKE_ARGS is a list of words
tools/setup.sh build ${CMAKE_ARGS:-}
machines=(lab)
[ -n "$(cat build/why_no_cuda.txt)" ] || machines=(step lab)

open=()
for stub in "${stubs[@]}"; do
  name=$(basename "$stub" .cuh)
  solved=yes
  for machine in "${machines[@]}"; do
    program=$machine${number}_${name}_stub
    printf '\n==== %s on the %s\n' "$stub" "$([ "$machine" = lab ] && echo "CPU executor" || echo GPU)"
    status=0
    tools/build.sh build "$program" && "build/bin/$program" || status=$?
    [ $status = 0 ] || { [ "$machine" = step ] && [ $status = 77 ]; } || solved=no
  done
  [ $solved = yes ] || open+=("$stub")
done
printf '\nExercises of step %s: %d of %d solved.\n' "$number" $((${#stubs[@]} - ${#open[@]})) ${#stubs[@]}
[ ${#open[@]} = 0 ] || printf '  open: %s (look for YOUR TURN)\n' "${open[@]}"
[ ${#open[@]} = 0 ]
