#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the runner keeps from others, and what code that runs in it cannot do.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

# A module that does what its only number says, and fails when it was let.
setup_file() {
	has_compiler || return 0
	cat >"$BATS_FILE_TMPDIR/tries.c" <<-'END'
	#define _GNU_SOURCE
	#include <errno.h>
	#include <signal.h>
	#include <stdint.h>
	#include <sys/ioctl.h>
	#include <sys/mman.h>
	#include <sys/prctl.h>
	#include <sys/ptrace.h>
	#include <sys/resource.h>
	#include <sys/socket.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	#include <sgpu/device.h>

	/* By a pointer whose low half is that of NULL. */
	static long set_limit_from_afar(void)
	{
		struct rlimit *limit = mmap((void *)0x700000000, 4096, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		return limit == MAP_FAILED || getrlimit(RLIMIT_NOFILE, limit) ? 0 :
		       syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, limit, 0);
	}

	static long call(int what)
	{
		char *const none[] = { 0 };
		struct rlimit limit = { 1 << 20, 1 << 20 };

		switch (what) {
		case 1: return execve("/bin/true", none, none);
		case 2: return fork();
		case 3: return socket(AF_INET, SOCK_STREAM, 0);
		case 4: return socket(AF_UNIX, SOCK_STREAM, 0);
		case 5: return ptrace(PTRACE_ATTACH, getppid(), 0, 0);
		case 6: return syscall(SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0);
		case 7: return kill(getppid(), 0);
		case 8: return syscall(SYS_setuid, getuid()); /* the C library would ask every thread */
		case 9: return syscall(425, 1, 0); /* io_uring_setup */
		case 10: return syscall(SYS_unshare, 0);
		case 11: return syscall(SYS_mount, 0, 0, 0, 0, 0);
		case 12: return syscall(SYS_bpf, 0, 0, 0);
		case 20: return prctl(PR_SET_DUMPABLE, 1);
		case 21: return ioctl(0, TIOCSTI, "x");
		case 22: return setrlimit(RLIMIT_NOFILE, &limit);
		case 23: return prctl(PR_GET_DUMPABLE) == 0 ? -1 : 0;
		case 24: return set_limit_from_afar();
	#ifdef __x86_64__
		case 30: {
			long result;

			__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory"); /* getpid of i386 */
			return result;
		}
		case 31: return syscall(0x40000000 + SYS_getpid);
	#endif
		default: return 0;
		}
	}

	int tries(const struct sgpu_module_shape *shape, void *const *args, int count)
	{
		int what = *(int32_t *)args[2];

		(void)shape;
		(void)count;
		return what == 0 || call(what) < 0 ? 0 : 9;
	}
	END
	compile -shared -fPIC -I"$SGPU_TOP/include" -o "$BATS_FILE_TMPDIR/tries.so" "$BATS_FILE_TMPDIR/tries.c"
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires cc no-sanitizer
	cp "$BATS_FILE_TMPDIR/tries.so" .
	sgpu-seal keygen -o owner.jwk
	seq 0 9 | floats >x.f32
}

teardown() {
	[ -z "${RUNNER:-}" ] || kill -KILL "$RUNNER" 2>/dev/null || true
	sgpu_teardown
}

# try NUMBER: runs a batch whose module does that.
try() {
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "tries", "segments": [
	  { "segment_id": "code", "data_location_client": "tries.so", "sensitivity_level": "HIGH", "direction": "INPUT" },
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10] } },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10] } } ],
	  "operations": [
	  { "gpu_operation_id": "RUN", "kernel": "module:code:tries",
	    "arguments": { "input": "x", "output": "y" }, "params": ["output", "input", { "i32": $1 }] } ] }
	END
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk |
		sgpu-run --device cpu --allow-modules -k owner.jwk "${@:2}" -o response
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

@test "a module that only computes runs under the filter" {
	try 0
	[ -s response ]
}

@test "a module starts no program, opens no socket, reaches no process and gains no right" {
	local number
	for number in 1:execve 3:socket 4:socket 5:ptrace 6:process_vm_readv 7:kill 8:setuid 9:io_uring_setup 10:unshare \
		11:mount 12:bpf; do
		run --separate-stderr -4 try "${number%%:*}"
		assert_contains "$stderr" "(${number#*:}"
		assert_contains "$stderr" "refused: no runner needs it"
		assert_no_file response
	done
}

@test "a refused call is told as JSON, too" {
	run --separate-stderr -4 try 1 --json
	assert_contains "$stderr" '"tool":"sgpu-run"'
	assert_contains "$stderr" "(execve) refused"
	if command -v jq >/dev/null; then
		jq -e .error.code <<<"$stderr"
	fi
}

@test "a module starts no process, and does not open its own, type into a terminal, or raise limits" {
	local number
	for number in 2 20 21 22 23 24; do
		try "$number"
	done
}

@test "calls by the numbers of other architectures are refused" {
	local number
	[ "$(uname -m)" = x86_64 ] || skip "for x86-64"
	for number in 30 31; do
		run --separate-stderr -4 try "$number"
		assert_contains "$stderr" "not one of this architecture"
	done
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

@test "with SGPU_DEBUG a run warns, and the same calls are possible" {
	export SGPU_DEBUG=1
	run --separate-stderr -5 try 4
	assert_contains "$stderr" "SGPU_DEBUG is set"
	assert_contains "$stderr" "function 'tries'"
}
