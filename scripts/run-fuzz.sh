#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run-fuzz.sh SECONDS TARGET...: runs each fuzz target that long on a copy of its corpus, so that what it finds does
# not grow the tree. What crashes a target is kept in $SGPU_BUILD/crashes. Exit 1 when any target failed.
set -u
cd "$(dirname "$0")/.." || exit 1
SGPU_BUILD=${SGPU_BUILD:-build-fuzz}
seconds=$1
shift
[ $# -gt 0 ] || {
	echo "run-fuzz.sh: there is no fuzz target" >&2
	exit 2
}
passed=0
failed=0
crashes=$SGPU_BUILD/crashes
mkdir -p "$crashes"
for target in "$@"; do
	name=${target#fuzz_}
	corpus=$SGPU_BUILD/corpus/$name
	log=$SGPU_BUILD/fuzz/fuzz_$name.log
	mkdir -p "$corpus"
	[ ! -d "tests/fuzz/corpus/$name" ] || cp -r "tests/fuzz/corpus/$name/." "$corpus/"
	if timeout $((seconds + 120)) "$SGPU_BUILD/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 \
		-rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$crashes/$name-" "$corpus" >"$log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		echo "ok - fuzz_$name: $runs inputs"
		passed=$((passed + 1))
	else
		echo "not ok - fuzz_$name: see '$log'"
		grep -m 5 -E 'ERROR|SUMMARY|runtime error|Test unit written' "$log" | sed 's/^/# /'
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
