#!/usr/bin/env bash
# Builds env_check in a folder of its own, without CUDA and without the steps, so that it works where those do not.
#
#   tools/env_check.sh [OPTIONS OF env_check…]
set -euo pipefail
cd "$(dirname "$0")/.."
GPU=OFF tools/setup.sh build-env_check -DEXECUTOR=OFF
tools/build.sh build-env_check env_check
exec build-env_check/bin/env_check "$@"
