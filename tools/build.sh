#!/usr/bin/env bash
# Builds targets in an already configured folder, without a word where nothing is to be done.
#
#   tools/build.sh BUILD_FOLDER TARGET…
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
build_targets() { cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "$@"; }
if [ -t 1 ]; then
  build_targets "$@"  # the generator shows its progress in one line
else
  build_targets "$@" | sed -u -e '/no work to do/d' -e '/Built target/d'
fi
