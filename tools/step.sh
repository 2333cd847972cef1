#!/usr/bin/env bash
# Builds and runs the program of one step.
#
#   tools/step.sh step|lab NUMBER [OPTIONS OF THE PROGRAM…]
#
# `step` is the CUDA program. Where it cannot be built or finds no usable device, one line says why, and `lab` (the same
# kernels on the CPU executor) runs instead. The exit status is the program's.
set -euo pipefail
cd "$(dirname "$0")/.."
machine=$1 number=$2
shift 2
# shellcheck disable=SC2086  # CMAKE_ARGS is a list of words
tools/setup.sh build ${CMAKE_ARGS:-}

if [ "$machine" = step ]; then
  why=$(cat build/why_no_cuda.txt)
  if [ -n "$why" ]; then
    echo "No CUDA program for step $number: $why. The same kernels run on the CPU executor (make env_check says more)."
  else
    tools/build.sh build "step$number"
    status=0
    "build/bin/step$number" "$@" || status=$?
    [ $status = 77 ] || exit $status
  fi
fi
program=lab$number
[ "$machine$number" != lab09 ] || program=count09  # `lab` counts; lab09 itself is for answers, and fast
tools/build.sh build "$program"
exec "build/bin/$program" "$@"
