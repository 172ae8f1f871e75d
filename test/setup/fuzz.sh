#!/usr/bin/env bash
# Runs every fuzz target for the given time each. Usage: fuzz.sh 10s
set -euo pipefail
time=${1:-10s}
cd "$(dirname "$0")/../.."
grep -rlE --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
  dir=$(dirname "$file")
  grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | sed 's/^func //' | while read -r target; do
    echo "fuzzing $dir $target for $time"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir" </dev/null
  done
done
