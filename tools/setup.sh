#!/usr/bin/env bash
# Makes the machine ready for the tutorial: installs the packages that are missing, then configures the build folder.
#
#   tools/setup.sh [BUILD_FOLDER] [CMAKE OPTIONS…]
#
# Read from the environment:
#   GPU                AUTO (default), ON or OFF: whether the CUDA programs are built (cmake/cuda_architectures.cmake)
#   CMAKE_PREFIX_PATH  folders with packages that were unpacked rather than installed; .deps/ is one where it exists
# Exit status: 0 ready; 1 the configure step failed; 3 packages are missing and cannot be installed from here.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
shift || true

# ---- packages ------------------------------------------------------------------------------------------------------
[ -d .deps ] && export CMAKE_PREFIX_PATH="$PWD/.deps/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
IFS=: read -ra prefixes <<<"/usr:/usr/local${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"

missing=()
need_program() { command -v "$1" >/dev/null || missing+=("$2"); }
need_file() {  # PACKAGE PATTERN…: any of the patterns, in any of the prefixes
  local package=$1 pattern prefix
  shift
  for prefix in "${prefixes[@]}"; do
    for pattern in "$@"; do
      compgen -G "$prefix/$pattern" >/dev/null && return
      compgen -G "$prefix/usr/$pattern" >/dev/null && return
    done
  done
  missing+=("$package")
}
need_program "${CXX:-g++}" g++
need_program cmake cmake
need_file libfmt-dev include/fmt/format.h
need_file catch2 include/catch2/catch.hpp include/catch2/catch_all.hpp
need_file nlohmann-json3-dev include/nlohmann/json.hpp
need_file libcli11-dev include/CLI/CLI.hpp
need_file libpcre2-dev include/pcre2.h
need_file libutf8proc-dev include/utf8proc.h
need_file libboost-context-dev 'lib/*/libboost_context*.so' 'lib/libboost_context*.so' 'lib/*/libboost_context*.a'

if [ ${#missing[@]} -gt 0 ]; then
  command -v ninja >/dev/null || missing+=(ninja-build)
  line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  as_root=
  if ! command -v apt-get >/dev/null; then
    echo "These packages (Debian's names) are missing, and this system has no apt-get: ${missing[*]}" >&2
    exit 3
  elif [ "$(id -u)" != 0 ]; then
    as_root=sudo
    if ! command -v sudo >/dev/null || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
      echo "Packages are missing. As root, run:  $line" >&2
      exit 3
    fi
  fi
  echo "Installing: ${missing[*]}"
  wait_for_lock=(-o DPkg::Lock::Timeout=300)
  if ! { $as_root apt-get "${wait_for_lock[@]}" -qq update &&
         $as_root env DEBIAN_FRONTEND=noninteractive apt-get "${wait_for_lock[@]}" -qq install -y \
           --no-install-recommends "${missing[@]}" >/dev/null; }; then
    echo "The packages could not be installed. As root, run:  $line" >&2
    exit 3
  fi
fi

# ---- configure: only when something it depends on has changed --------------------------------------------------------
card=$(nvidia-smi -L 2>/dev/null || true)
asked="GPU=${GPU:-AUTO} $* | $PATH | ${CUDA_HOME:-} ${CUDA_PATH:-} ${CUDACXX:-} ${CUDAHOSTCXX:-} ${CXX:-} | $card"
asked+=" | ${CMAKE_PREFIX_PATH:-}"
mkdir -p "$build"
if [ "$(cat "$build/configured_for.txt" 2>/dev/null)" != "$asked" ]; then
  rm -f "$build/configured_for.txt"
  generator=()
  if [ ! -e "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  if ! cmake -S . -B "$build" "${generator[@]}" -DGPU="${GPU:-AUTO}" "$@" >"$build/configure.log" 2>&1; then
    cat "$build/configure.log" >&2
    exit 1
  fi
  echo "$asked" >"$build/configured_for.txt"
fi
