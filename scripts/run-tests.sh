#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run-tests.sh [NAME...]: runs tests/unit and tests/bats, or only the files named ("seal", "test_kt128"), two files at
# a time. Prints TAP, why tests were skipped, which failed, and last `N passed, N failed`. Exit 1 when any failed.
#   SGPU_BUILD       folder with the built programs (build)
#   SGPU_VECTORS     folder with published test vectors
#   SGPU_SANITIZE    the sanitizer that was built in, if any
#   SGPU_TEST_JOBS   files at a time (2)
#   SGPU_TEST_DIRS   folders to look in, or files, in place of tests/unit and tests/bats
#   SGPU_TEST_WRAP   a command that unit programs run under
#   SGPU_TEST_TIMEOUT   seconds that one file may take (1200)
#   SGPU_TEST_NEEDS  a test that is skipped with this in its reason has failed
#   SGPU_TEST_SLOWEST   how many of the slowest files to name
set -u
cd "$(dirname "$0")/.." || exit 1
top=$PWD
SGPU_BUILD=${SGPU_BUILD:-build}
case $SGPU_BUILD in
/*) ;;
*) SGPU_BUILD=$top/$SGPU_BUILD ;;
esac
export SGPU_BUILD
jobs_max=${SGPU_TEST_JOBS:-2}
read -ra folders <<<"${SGPU_TEST_DIRS:-tests/unit tests/bats}"
read -ra wrap <<<"${SGPU_TEST_WRAP:-}"
file_timeout=${SGPU_TEST_TIMEOUT:-1200}
ulimit -c 0

# A make that a test starts must not take part in the one that started us, nor a sanitizer's exit look like one of ours.
unset MAKEFLAGS MFLAGS MAKELEVEL
# Without the last one, clang 14 takes what lies before a library's thread-local memory for a header where that memory is
# 16 bytes into a page, and its search for leaks ends by a signal.
export ASAN_OPTIONS=${ASAN_OPTIONS:-exitcode=99:allocator_may_return_null=1:intercept_tls_get_addr=0}
export TSAN_OPTIONS=${TSAN_OPTIONS:-exitcode=99:second_deadlock_stack=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# Where python3 is a launcher of another one, it takes eight times as long to start.
python=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))' 2>/dev/null) && PATH=$python:$PATH

# A file that does not end when told to is killed, and what it started with it.
runner=(timeout -k 10 "$file_timeout")
# The thread sanitizer's memory map does not fit every address randomisation.
if [ "${SGPU_SANITIZE:-}" = thread ] && setarch "$(uname -m)" -R true 2>/dev/null; then
	runner+=(setarch "$(uname -m)" -R)
fi

work=$(mktemp -d) || exit 1
SGPU_TEST_SHM=$(mktemp -d /dev/shm/sgpu-tests.XXXXXX 2>/dev/null || mktemp -d) || exit 1
chmod 711 "$SGPU_TEST_SHM" # tests let other users into folders of theirs below it
export SGPU_TEST_SHM
trap 'rm -rf "$work" "$SGPU_TEST_SHM"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# wanted FILE NAME...: FILE is among the names, or there are none.
wanted() {
	local base name
	base=$(basename "${1%.*}")
	shift
	[ $# -gt 0 ] || return 0
	for name in "$@"; do
		[ "$name" != "$base" ] && [ "test_$name" != "$base" ] || return 0
	done
	return 1
}

# end_group GROUP: kills what is left of a group of processes, and waits for its end, a minute at most: what was killed
# holds a device's memory until the driver has let go of it.
end_group() {
	local i
	kill -KILL -- "-$1" 2>/dev/null
	for ((i = 0; i < 600; i++)); do
		ps -e -o pgid=,stat= 2>/dev/null | awk -v group="$1" '$1 == group && $2 !~ /^Z/ { found = 1 } END { exit !found }' ||
			return 0
		sleep 0.1
	done
	echo "# processes that it started are still there"
}

# run_file FILE: its TAP, and at the end the line "# status N".
run_file() {
	local name status
	local command=()
	name=$(basename "${1%.*}")
	case $1 in
	*.bats) command=(bats --tap --print-output-on-failure "$1") ;;
	*)
		# Much of a test's time would go into pages that malloc gives back and takes again.
		command=(env MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824 "${wrap[@]}" "$SGPU_BUILD/unit/$name")
		if [ ! -x "$SGPU_BUILD/unit/$name" ]; then
			echo "# '$SGPU_BUILD/unit/$name' was not built"
			command=(false)
		fi
		;;
	esac
	# timeout leads a group of processes of its own. It kills only those that are left when its child does not end.
	"${runner[@]}" "${command[@]}" </dev/null 2>&1 &
	wait $!
	status=$?
	if [ $status -eq 124 ] || [ $status -eq 137 ]; then
		status=124
		end_group $!
	fi
	echo "# status $status"
}

# report FILE LOG: prints the file's tests with the name of the file, adds them to $work/results.
report() {
	awk -v file="$(basename "${1%.*}")" -v results="$work/results" -v start="$count" -v needs="${SGPU_TEST_NEEDS:-}" '
	function result(word, name) { print word "\t" file ": " name >> results }
	function skip(name) {
		if (needs == "" || !index(name, needs)) { line("ok", name); result("skipped", name); return }
		sub(/# *[Ss][Kk][Ii][Pp]/, "- skipped, but needed:", name)
		line("not ok", name)
		result("failed", name)
		bad++
	}
	function line(word, name) { printf "%s %d - %s: %s\n", word, ++start, file, name; seen++ }
	# A file that has nothing to run says why in its plan, and counts as one test that was skipped.
	/^1\.\.0 *# *[Ss][Kk][Ii][Pp]/ {
		skip("all of it" substr($0, 5))
		planned = 1
		status_of_skip = 77
		next
	}
	/^1\.\.[0-9]+/ { plan = substr($1, 4); planned = 1; next }
	/^(not )?ok [0-9]+/ {
		word = /^not/ ? "not ok" : "ok"
		name = $0
		sub(/^(not )?ok [0-9]+ *(- )?/, "", name)
		if (word == "ok" && match(name, / # [Ss][Kk][Ii][Pp]/)) { skip(name); next }
		line(word, name)
		if (word == "not ok") { result("failed", name); bad++ }
		else result("passed", name)
		next
	}
	/^# status / { status = $3; next }
	{ print }
	END {
		if (status == 124) trouble = "took too long"
		else if (!planned || seen < plan) trouble = "ended after " seen + 0 " of " (planned ? plan : "?") \
			" tests with status " status
		else if (status != 0 && status != status_of_skip && !bad) trouble = "ended with status " status
		if (trouble != "") { line("not ok", trouble); result("failed", trouble) }
	}' "$2"
	count=$(wc -l <"$work/results")
}

files=()
for folder in "${folders[@]}"; do
	for file in "$folder" "$folder"/test_*.c "$folder"/*.bats; do
		[ -f "$file" ] && wanted "$file" "$@" && files+=("$file")
	done
done
for name in "$@"; do
	[[ " ${files[*]##*/}" =~ " "(test_)?"$name." ]] || {
		echo "run-tests.sh: no such test: $name" >&2
		exit 2
	}
done
[ ${#files[@]} -gt 0 ] || {
	echo "run-tests.sh: no tests in: ${folders[*]}" >&2
	exit 2
}

# Reports in the order in which files end; the unit programs come first and are short.
count=0
: >"$work/results"
declare -A running=()
begun=()
next=0
while [ $next -lt ${#files[@]} ] || [ ${#running[@]} -gt 0 ]; do
	while [ $next -lt ${#files[@]} ] && [ ${#running[@]} -lt "$jobs_max" ]; do
		run_file "${files[next]}" >"$work/$next.log" &
		running[$!]=$next
		begun[next]=$SECONDS
		next=$((next + 1))
	done
	wait -n -p ended "${!running[@]}"
	report "${files[${running[$ended]}]}" "$work/${running[$ended]}.log"
	echo "$((SECONDS - begun[${running[$ended]}])) s  $(basename "${files[${running[$ended]}]%.*}")" >>"$work/took"
	unset "running[$ended]"
done
echo "1..$count"

passed=$(grep -c '^passed' "$work/results")
failed=$(grep -c '^failed' "$work/results")
skipped=$(grep -c '^skipped' "$work/results")
if [ "${SGPU_TEST_SLOWEST:-0}" -gt 0 ]; then
	echo "# slowest files:"
	sort -rn "$work/took" | head -n "$SGPU_TEST_SLOWEST" | sed 's/^/#   /'
fi
if [ "$skipped" -gt 0 ]; then
	echo "# skipped, and why:"
	sed -n 's/^skipped\t.* # [Ss][Kk][Ii][Pp] *//p' "$work/results" | sort | uniq -c | sort -rn | sed 's/^/#  /'
fi
if [ "$failed" -gt 0 ]; then
	echo "# failed:"
	sed -n 's/^failed\t/#   /p' "$work/results"
fi
summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary="$summary, $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
