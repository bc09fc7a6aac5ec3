#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the runner keeps from others, and what it could not do itself. Modules: hostile-module.bats.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires no-sanitizer
	sgpu-seal keygen -o owner.jwk
}

teardown() {
	[ -z "${RUNNER:-}" ] || kill -KILL "$RUNNER" 2>/dev/null || true
	sgpu_teardown
}

# start_runner COMMAND...: a runner whose batch does not come, once it waits for it; its process id in $RUNNER.
start_runner() {
	local i
	mkfifo pipe
	"$@" sgpu-run --device cpu -k owner.jwk -o response pipe 2>message 3>&- &
	RUNNER=$!
	exec 7<>pipe
	for ((i = 0; i < 600; i++)); do
		[ "$(sed -n 's/^Seccomp:[[:space:]]*//p' "/proc/$RUNNER/status")" != 2 ] || return 0
		sleep 0.05
	done
	cat message >&2
	return 1
}

# peek PID: 0 when its memory can be read by process_vm_readv or by its file, else 3.
peek() {
	python3 - "$1" <<-'END'
	import ctypes, sys
	pid = int(sys.argv[1])
	libc = ctypes.CDLL(None, use_errno=True)
	class IoVec(ctypes.Structure):
	    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
	buffer = ctypes.create_string_buffer(16)
	read = False
	try:
	    with open(f"/proc/{pid}/maps") as maps:
	        start = int(maps.readline().split("-")[0], 16)
	    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
	        memory.seek(start)
	        read = len(memory.read(16)) == 16
	except OSError:
	    start = 0x400000
	here, there = IoVec(ctypes.addressof(buffer), 16), IoVec(start, 16)
	if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 16:
	    read = True
	sys.exit(0 if read else 3)
	END
}

@test "the kernel shows a running runner as filtered and without new rights, in every thread" {
	local task
	start_runner
	for task in "/proc/$RUNNER/task"/*/status; do
		grep -q '^Seccomp:[[:space:]]*2$' "$task"
		grep -q '^NoNewPrivs:[[:space:]]*1$' "$task"
	done
	exec 7>&-
}

@test "a process of the same user cannot read the runner's memory" {
	requires python3 setpriv root
	# Root without what makes it root: else it may read every process.
	local powerless=(setpriv --bounding-set=-all --inh-caps=-all) sleeping=0 running=0 sleeper
	start_runner "${powerless[@]}"
	"${powerless[@]}" sleep 60 7>&- &
	sleeper=$!
	sleep 0.2
	"${powerless[@]}" bash -c "$(declare -f peek); peek $sleeper" || sleeping=$?
	"${powerless[@]}" bash -c "$(declare -f peek); peek $RUNNER" || running=$?
	kill "$sleeper"
	[ "$sleeping" -eq 0 ] # else the trial says nothing
	[ "$running" -eq 3 ]
}

@test "a runner that crashes leaves no core file" {
	local signal status
	ulimit -c unlimited || skip "core files are switched off for good"
	for signal in SEGV ABRT; do
		rm -f pipe
		start_runner
		kill -"$signal" "$RUNNER"
		status=0
		wait "$RUNNER" 2>/dev/null || status=$?
		exec 7>&-
		[ "$status" -gt 128 ]
		[ -z "$(find . -name '*core*')" ]
	done
}

@test "info tries each protection, and SGPU_DEBUG, which takes them away, shows in it" {
	local name
	requires jq
	sgpu-run info --json >info.json
	for name in no_core no_attaching no_new_privileges filtered_system_calls; do
		[ "$(jq ".hardening.$name.holds" info.json)" = true ]
	done
	jq -e '.hardening.secret_memory.text' info.json
	SGPU_DEBUG=1 sgpu-run info --json >debug.json
	for name in no_core no_attaching no_new_privileges filtered_system_calls; do
		[ "$(jq ".hardening.$name.holds" debug.json)" = false ]
		jq -r ".hardening.$name.text" debug.json | grep -q 'SGPU_DEBUG is set'
	done
	run -0 sgpu-run info
	assert_contains "$output" "of this build, tried on this machine"
}
