#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run-fuzz.sh SECONDS TARGET...: runs each fuzz target that long on a copy of its corpus, so that what it finds does
# not grow the tree; as many at once as there are processors. What crashes a target is kept in $SGPU_BUILD/crashes.
# Exit 1 when any target failed.
set -u
cd "$(dirname "$0")/.." || exit 1
SGPU_BUILD=${SGPU_BUILD:-build-fuzz}
seconds=$1
shift
[ $# -gt 0 ] || {
	echo "run-fuzz.sh: there is no fuzz target" >&2
	exit 2
}
crashes=$SGPU_BUILD/crashes
mkdir -p "$crashes"

# fuzz TARGET: one line that says what came of it, and what was wrong.
fuzz() {
	local name=${1#fuzz_} corpus log
	corpus=$SGPU_BUILD/corpus/$name
	log=$SGPU_BUILD/fuzz/fuzz_$name.log
	mkdir -p "$corpus"
	[ ! -d "tests/fuzz/corpus/$name" ] || cp -r "tests/fuzz/corpus/$name/." "$corpus/"
	if timeout $((seconds + 120)) "$SGPU_BUILD/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 \
		-rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$crashes/$name-" "$corpus" >"$log" 2>&1; then
		echo "ok - fuzz_$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
	else
		echo "not ok - fuzz_$name: see '$log'"
		grep -m 5 -E 'ERROR|SUMMARY|runtime error|Test unit written' "$log" | sed 's/^/# /'
	fi
}

jobs=$(nproc)
running=0
for target in "$@"; do
	if [ $running -eq "$jobs" ]; then
		wait -n
		running=$((running - 1))
	fi
	fuzz "$target" >"$SGPU_BUILD/fuzz/$target.result" &
	running=$((running + 1))
done
wait
passed=0
failed=0
for target in "$@"; do
	cat "$SGPU_BUILD/fuzz/$target.result"
	case $(head -n 1 "$SGPU_BUILD/fuzz/$target.result") in
	ok*) passed=$((passed + 1)) ;;
	*) failed=$((failed + 1)) ;;
	esac
	rm -f "$SGPU_BUILD/fuzz/$target.result"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
