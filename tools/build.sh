#!/usr/bin/env bash
# Builds targets in an already configured folder, without a word where nothing is to be done.
#
#   tools/build.sh BUILD_FOLDER TARGET…
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "$@" | sed -u -e '/no work to do/d' -e '/Built target/d'
