#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-gpu.sh [NAME...]: what can only be tested on a GPU, step after step: the programs of tests/gpu, the unit tests
# that take their device from SGPU_TEST_DEVICE, tests/gpu/*.bats, both again under compute-sanitizer, a short bench, and
# whether device memory is free again. NAMEs restrict it to files ("test_aead", "faults") or steps (memcheck, racecheck,
# bench). Prints TAP, how long each step took, and last `N passed, N failed`. Exit 1 when any failed, 77 where there is
# nothing to test with. A whole run leaves its record, for docs/check-gpu.md, in check-gpu.md of the folder with the build.
#   SGPU_BUILD       folder with the built programs (build)
#   NVCC             the compiler of the kernels
#   SGPU_TEST_JOBS   programs at a time (6)
#   SGPU_TEST_TIMEOUT   seconds that one file may take (180); three times that under a checker
# Under compute-sanitizer programs find SGPU_TEST_SMALL=1 and should take small sizes.
# check-gpu.sh --probe: only says what is missing, and exits 77, or says nothing.
set -u
cd "$(dirname "$0")/.." || exit 1
SGPU_BUILD=${SGPU_BUILD:-build}
case $SGPU_BUILD in
/*) ;;
*) SGPU_BUILD=$PWD/$SGPU_BUILD ;;
esac
export SGPU_BUILD LC_ALL=C SGPU_TEST_SLOWEST=5
jobs=${SGPU_TEST_JOBS:-6}
# Seconds that a file may take on the slowest machine; under a checker several times as much.
file_timeout=${SGPU_TEST_TIMEOUT:-180}
checked_timeout=$((3 * file_timeout))
steps=(device units bats bench memcheck racecheck memory)
started=$SECONDS

# nothing REASON: a run that tested nothing must not look like one that passed.
nothing() {
	echo "check-gpu.sh: nothing was tested: $1" >&2
	echo "0 passed, 0 failed"
	exit 77
}

has_gpu() {
	[ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || nvidia-smi -L 2>/dev/null | grep -q '^GPU '
}

probe() {
	[ -n "${NVCC:-}" ] || nothing "no nvcc: install the CUDA toolkit, or give NVCC=, without CUDA=0"
	has_gpu || nothing "no NVIDIA GPU: neither /dev/nvidiactl nor anything that nvidia-smi lists"
}

# mentions WORD FILE: the test, or a header beside it or in tests/harness that it includes, or one that this includes,
# says WORD.
mentions() {
	local header folder
	grep -q "$1" "$2" && return 0
	while read -r header; do
		for folder in "${2%/*}" tests/harness; do
			[ -e "$folder/$header" ] || continue
			mentions "$1" "$folder/$header" && return 0
			break
		done
	done < <(sed -n 's/^#include "\(.*\)"$/\1/p' "$2")
	return 1
}

# wanted NAME: no names of files were given, or this one was.
wanted() {
	local name
	[ ${#names[@]} -gt 0 ] || return 0
	for name in "${names[@]}"; do
		[ "$name" != "$1" ] && [ "test_$name" != "$1" ] || return 0
	done
	return 1
}

# find_files: fills `units` with those that run on the device, `kernels` with those of them that test kernels, `races`
# with those of these whose threads share memory, `bats`, and with what of both takes or looks at all of a device's
# memory `units_alone` and `bats_alone`.
find_files() {
	local file name
	units=()
	units_alone=()
	kernels=()
	races=()
	bats=()
	bats_alone=()
	for file in tests/gpu/test_*.c tests/unit/test_*.c; do
		name=$(basename "$file" .c)
		{ [ -e "$file" ] && wanted "$name"; } || continue
		case $file in
		tests/unit/*) mentions SGPU_TEST_DEVICE "$file" || continue ;;
		esac
		if grep -q '^ .*Runs alone' "$file"; then
			units_alone+=("$name")
		else
			units+=("$name")
		fi
		# Of kernels are those of operations, and those that know how to be small for a checker.
		if [[ $name = test_ops_* ]] || grep -q SGPU_TEST_SMALL "$file"; then
			kernels+=("$name")
			grep -q 'racecheck has nothing to find' "$file" || races+=("$name")
		fi
	done
	for file in tests/gpu/*.bats; do
		name=$(basename "$file" .bats)
		{ [ -e "$file" ] && wanted "$name"; } || continue
		if grep -q '^# Runs alone' "$file"; then
			bats_alone+=("$name")
		else
			bats+=("$name")
		fi
	done
}

# run_tests JOBS NAME...: the files of these names, if any.
run_tests() {
	local many=$1
	shift
	[ $# -gt 0 ] || return 0
	SGPU_TEST_JOBS=$many SGPU_TEST_DIRS="tests/gpu tests/unit" SGPU_TEST_DEVICE=cuda SGPU_TEST_NEEDS="no device" \
		SGPU_TEST_TIMEOUT=$file_timeout \
		scripts/run-tests.sh "$@"
}

# Without it nearly all tests would be skipped, each for the same reason.
step_device() {
	local shown
	shown=$("$SGPU_BUILD/bin/sgpu-run" --info 2>&1)
	printf '%s\n' "$shown" | sed 's/^/# /'
	if ! grep -q 'selector *cuda:' <<<"$shown"; then
		echo "not ok 1 - sgpu-run finds a CUDA device"
		return 1
	fi
	echo "ok 1 - sgpu-run finds a CUDA device"
}

step_units() {
	local status=0
	run_tests "$jobs" "${units[@]}" || status=1
	[ ${#units_alone[@]} -eq 0 ] || settle
	run_tests 1 "${units_alone[@]}" || status=1
	return $status
}

step_bats() {
	local status=0
	[ ${#bats[@]} -gt 0 ] || [ ${#bats_alone[@]} -gt 0 ] || return 0
	if ! command -v bats >/dev/null; then
		echo "1..1"
		echo "ok 1 - tests/gpu/*.bats # skip needs bats"
		echo "0 passed, 0 failed, 1 skipped"
		return 0
	fi
	run_tests "$jobs" "${bats[@]}" || status=1
	[ ${#bats_alone[@]} -eq 0 ] || settle
	run_tests 1 "${bats_alone[@]}" || status=1
	return $status
}

# In PATH, or where the toolkit has it.
find_sanitizer() {
	command -v compute-sanitizer && return
	local beside
	for beside in "$(dirname "$NVCC")/compute-sanitizer" /usr/local/cuda/bin/compute-sanitizer; do
		[ -x "$beside" ] && echo "$beside" && return
	done
	return 1
}

# find_planted SANITIZER TOOL: a checker that finds no planted mistake, or one where there is none, is worth nothing.
find_planted() {
	local mistake status
	if [ ! -x "$work/planted" ] && ! "$NVCC" -o "$work/planted" tests/gpu/planted.cu; then
		echo "not ok - tests/gpu/planted.cu does not compile"
		echo "0 passed, 1 failed"
		return 1
	fi
	for mistake in "$2" nothing; do
		"$1" --tool "$2" --error-exitcode 98 "$work/planted" "$mistake" >"$work/planted.log" 2>&1
		status=$?
		if [ "$mistake" = nothing ] && [ $status -ne 0 ] || [ "$mistake" != nothing ] && [ $status -ne 98 ]; then
			echo "not ok - $2 with a planted mistake: $mistake, status $status"
			sed 's/^/# /' "$work/planted.log"
			echo "0 passed, 1 failed"
			return 1
		fi
	done
	echo "ok - $2 finds a planted mistake"
	echo "1 passed, 0 failed"
}

# sanitize TOOL OPTION...: the files of $checked under it.
sanitize() {
	local sanitizer status=0
	[ ${#checked[@]} -gt 0 ] || return 0
	if ! sanitizer=$(find_sanitizer); then
		echo "1..1"
		echo "ok 1 - $1 # skip needs compute-sanitizer, of the CUDA toolkit"
		echo "0 passed, 0 failed, 1 skipped"
		return 0
	fi
	find_planted "$sanitizer" "$1" || status=1
	file_timeout=$checked_timeout SGPU_TEST_SMALL=1 SGPU_TEST_WRAP="$sanitizer --tool $* --error-exitcode 98" \
		run_tests "$((2 * jobs))" "${checked[@]}" || status=1
	return $status
}

# Errors of the API are not errors of a kernel, and some tests cause them.
step_memcheck() {
	checked=("${kernels[@]}")
	sanitize memcheck --report-api-errors no
}

step_racecheck() {
	checked=("${races[@]}")
	sanitize racecheck --racecheck-report all
}

step_bench() {
	[ ${#names[@]} -eq 0 ] || [ "$chosen" = 1 ] || return 0
	if [ ! -x "$SGPU_BUILD/bin/sgpu-bench" ]; then
		echo "ok 1 - short bench # skip sgpu-bench was not built"
		echo "0 passed, 0 failed, 1 skipped"
		return 0
	fi
	timeout 120 "$SGPU_BUILD/bin/sgpu-bench" run --quick </dev/null || {
		echo "not ok 1 - short bench: status $?"
		return 1
	}
	echo "ok 1 - short bench"
}

memory_used() {
	nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | awk '{ sum += $1 } END { print sum }'
}

# Waits until the devices hold no more than before: what was ended a moment ago may still be on its way out. What a driver
# keeps for itself varies by a few MiB.
settle() {
	local i
	for ((i = 0; i < 60; i++)); do
		now=$(memory_used)
		[ "${now:-0}" -gt $((${memory_before:-0} + 64)) ] || return 0
		sleep 1
	done
}

# After everything, no memory is missing.
step_memory() {
	local now
	settle
	if [ -z "$now" ] || [ -z "$memory_before" ]; then
		echo "ok 1 - device memory is free again # skip needs nvidia-smi"
		echo "0 passed, 0 failed, 1 skipped"
		return 0
	fi
	echo "# $memory_before MiB in use before the tests, $now MiB after"
	if [ "$now" -gt $((memory_before + 64)) ]; then
		echo "not ok 1 - device memory is free again"
		return 1
	fi
	echo "ok 1 - device memory is free again"
}

# count LOG STATUS: adds what the step's summaries say, or the step itself when it has none.
count() {
	local sums p f s
	sums=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$1")
	if [ -n "$sums" ]; then
		read -r p f s < <(awk '{ p += $1; f += $2; s += $3 } END { print p, f, s + 0 }' <<<"$sums")
	else
		p=$(grep -c '^ok ' "$1")
		f=0
		s=0
	fi
	[ "$2" -eq 0 ] || [ "$f" -gt 0 ] || f=1
	counts="$p | $f | $s"
	passed=$((passed + p))
	failed=$((failed + f))
	skipped=$((skipped + s))
}

run_step() {
	local log=$work/$1.log begin=$SECONDS status
	echo "# ---- $1"
	"step_$1" 2>&1 | tee "$log" | grep --line-buffered -vE '^[0-9]+ passed, [0-9]+ failed'
	status=${PIPESTATUS[0]}
	count "$log" "$status"
	took+=("$((SECONDS - begin)) s  $1")
	rows+=("| $1 | $counts | $((SECONDS - begin)) s |")
}

# record: what was tested, with what, how it ended, and why tests were skipped.
record() {
	local about
	about=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sort | uniq -c | sed 's/^ *//' | paste -sd ';')
	cat <<-END
	# The last \`make check-gpu\`

	- commit: $("$SGPU_BUILD/bin/sgpu-run" -V | sed -n '1s/.*commit //p')
	- date: $(date -u +%Y-%m-%d)
	- GPUs, driver: $about
	- compiler: $("$NVCC" --version | sed -n 's/.*release \([0-9.]*\).*/CUDA \1/p')
	- machine: $(nproc) processors ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)), Linux $(uname -r)

	| step | passed | failed | skipped | took |
	|---|---|---|---|---|
	END
	printf '%s\n' "${rows[@]}" "| all | $passed | $failed | $skipped | $((SECONDS - started)) s |"
	printf '\nSkipped, how often and why ([what has not been executed](not-executed.md)):\n\n'
	sed -nE 's/^ok [0-9]+ .* # [Ss][Kk][Ii][Pp] *//p' "$work"/*.log | sort | uniq -c | sort -rn |
		sed -E 's/^ *([0-9]+) (.*)/- \1: \2/' | grep . || echo "- none"
}

[ "${1:-}" != --probe ] || {
	probe
	exit 0
}
probe
names=()
chosen_steps=()
for name in "$@"; do
	case " ${steps[*]} " in
	*" $name "*) chosen_steps+=("$name") ;;
	*) names+=("$name") ;;
	esac
done
chosen=0
if [ ${#chosen_steps[@]} -gt 0 ]; then
	steps=("${chosen_steps[@]}")
	chosen=1
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
passed=0
failed=0
skipped=0
took=()
rows=()
find_files
if [ $((${#units[@]} + ${#units_alone[@]} + ${#bats[@]} + ${#bats_alone[@]})) -eq 0 ]; then
	echo "check-gpu.sh: no such test: ${names[*]}" >&2
	exit 2
fi
memory_before=$(memory_used)
nvidia-smi -L 2>/dev/null | sed 's/^/# /'
for step in "${steps[@]}"; do
	run_step "$step"
done
echo "# slowest steps:"
printf '%s\n' "${took[@]}" | sort -rn | sed 's/^/#   /'
echo "# took $((SECONDS - started)) s"
summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary="$summary, $skipped skipped"
[ $chosen = 1 ] || [ ${#names[@]} -gt 0 ] || record >"$SGPU_BUILD/check-gpu.md"
echo "$summary"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
