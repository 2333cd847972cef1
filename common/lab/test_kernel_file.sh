#!/usr/bin/env bash
# The programs behind `make lab KERNEL=…`: the example runs and is checked, other files are refused with status 2.
#
#   common/lab/test_kernel_file.sh FOLDER_OF_PROGRAMS
set -euo pipefail
bin=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

expect() {  # STATUS PATTERN COMMAND…
  local wanted=$1 pattern=$2 status=0 said
  shift 2
  said=$("$@" 2>&1) || status=$?
  if [ $status != "$wanted" ] || ! grep -qE "$pattern" <<<"$said"; then
    printf '%s\n  wanted status %s and "%s"; status %s, said:\n%s\n' "$*" "$wanted" "$pattern" $status "$said"
    exit 1
  fi
}

here=$(dirname "$0")
expect 0 '^$' "$bin/lab_scan" "$here/example.cuh"
expect 0 ' example.cuh +ok ' "$bin/lab_example" --shape 1000
expect 0 '  32 global ld +4.00 sectors +3  .*y\[i\] = x\[n - 1 - i\];' "$bin/lab_example" --lines
expect 0 '  line  common/lab/example.cuh' "$bin/lab_example" --lines
expect 0 '"checked": true' "$bin/lab_example" --json /dev/stdout
expect 2 'shape' "$bin/lab_example" --shape 0
expect 2 'missing.cuh: cannot be read' "$bin/lab_scan" "$folder/missing.cuh"
sed 's/launch(reverse, ceil_div(lab.n, 256), 256, lab.how(), \(.*\));/reverse<<<4, 256>>>(\1);/' \
  "$here/example.cuh" >"$folder/arrows.cuh"
expect 2 'arrows.cuh:8: <<<grid, block>>> is not supported here: write launch\(kernel' "$bin/lab_scan" "$folder/arrows.cuh"
grep -v '^void run' "$here/example.cuh" >"$folder/no_run.cuh"
expect 2 'no_run.cuh:1: .* run' "$bin/lab_scan" "$folder/no_run.cuh"
expect 2 'no such file' "$here/../../tools/lab_kernel.sh" "$folder/missing.cuh"
