#!/usr/bin/env bash
# Builds env_check in a folder of its own, without CUDA and without the steps, so that it works where those do not, and
# runs it. CUDA programs of the tutorial that are already built are named to it: will they run on the cards here?
#
#   tools/env_check.sh [OPTIONS OF env_check…]
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-env_check
[ -d .deps ] && export CMAKE_PREFIX_PATH="$PWD/.deps/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
configure() { cmake -S env_check -B $build >$build/configure.log 2>&1; }
mkdir -p $build
if ! [ -e $build/Makefile ] && ! [ -e $build/build.ninja ] && ! configure; then
  tools/setup.sh build  # installs what is missing, fmt and nlohmann-json among it
  rm -f $build/CMakeCache.txt
  configure || { cat $build/configure.log >&2; exit 1; }
fi
tools/build.sh $build env_check
programs=()
for program in build/bin/step0?; do
  [ -f "$program" ] && programs+=(--binary "$program")
done
case " $* " in *" --facts"*) programs=() ;; esac  # another machine's facts: this build is not its
exec $build/bin/env_check "${programs[@]}" "$@"
