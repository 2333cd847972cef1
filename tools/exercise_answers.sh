#!/usr/bin/env bash
# Proves the exercises: every answer passes its test, and every stub and every wrong answer fails it for the reason named.
#
#   tools/exercise_answers.sh BUILD_FOLDER [PREFIX]
#
# The programs are those of BUILD_FOLDER/exercises/list.txt (cmake/exercises.cmake) whose name begins with PREFIX. Exit
# status: 0 all as they should be; 1 one is not; 77 no device for any of them.
set -euo pipefail
build=$1 prefix=${2:-}
right=0 wrong=0 skipped=0
while IFS=$'\t' read -r program outcome reason; do
  [[ $program == "$prefix"* ]] || continue
  status=0
  said=$("$build/bin/$program" 2>&1) || status=$?
  if [ $status = 77 ]; then
    skipped=$((skipped + 1))
    continue
  fi
  # a test that ran and failed says so; a crash does not
  case $outcome in
    pass) ended=$([ $status = 0 ] && echo yes || echo no) ;;
    fail) ended=$([ $status != 0 ] && grep -q '^test cases: .* failed' <<<"$said" && echo yes || echo no) ;;
  esac
  if [ "$ended" = yes ] && tr -s '[:space:]' ' ' <<<"$said" | grep -qE -- "$reason"; then
    right=$((right + 1))
  else
    wrong=$((wrong + 1))
    printf '%s should %s with "%s"; its status is %d and it said:\n%s\n' "$program" "$outcome" "$reason" $status "$said"
  fi
done <"$build/exercises/list.txt"
if [ $((right + wrong)) = 0 ] && [ $skipped -gt 0 ]; then
  echo "skipped: no device"
  exit 77
fi
echo "exercises: $right variants as they should be, $wrong not"
[ $wrong = 0 ] && [ $right -gt 0 ]
