#!/usr/bin/env bash
# Builds and runs a reader's own kernel file on the CPU executor; the file defines void run(Lab& lab).
#
#   tools/lab_kernel.sh FILE [OPTIONS OF THE PROGRAM…]
#
# Exit status: that of the program; 2 there is no such file, it holds what the executor cannot run, or does not compile.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -f "${1:-}" ]; then
  echo "error: KERNEL=${1:-}: no such file; make lab KERNEL=common/lab/example.cuh shows how it is done" >&2
  exit 2
fi
file=$1
shift
# shellcheck disable=SC2086  # CMAKE_ARGS is a list of words
tools/setup.sh build ${CMAKE_ARGS:-} -DLAB_KERNEL="$(realpath "$file")"
tools/build.sh build lab_scan
build/bin/lab_scan "$file"
if ! tools/build.sh build lab_kernel; then
  echo "error: $file does not compile; common/simt/LAB.md says what a kernel file may use" >&2
  exit 2
fi
exec build/bin/lab_kernel "$@"
