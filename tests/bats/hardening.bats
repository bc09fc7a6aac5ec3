#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the runner keeps from others, and what it could not do itself. Modules: hostile-module.bats, module-confinement.bats.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

# Code in the runner itself, as a fault in a library would be: it waits for the filter, then does what $TRY says, and ends
# the process with status 9 when it was let, with 8 when it only failed.
setup_file() {
	has_compiler || return 0
	cat >"$BATS_FILE_TMPDIR/inside.c" <<-'END'
	#define _GNU_SOURCE
	#include <dirent.h>
	#include <dlfcn.h>
	#include <errno.h>
	#include <fcntl.h>
	#include <poll.h>
	#include <pthread.h>
	#include <sched.h>
	#include <signal.h>
	#include <stdarg.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/ioctl.h>
	#include <sys/mman.h>
	#include <sys/prctl.h>
	#include <sys/ptrace.h>
	#include <sys/resource.h>
	#include <sys/socket.h>
	#include <sys/syscall.h>
	#include <unistd.h>

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
		cpu_set_t set = { { 1 } };

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
		case 13: return mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
		case 14: return mprotect(&set, 1, PROT_READ | PROT_WRITE | PROT_EXEC);
		case 20: return prctl(PR_SET_DUMPABLE, 1);
		case 21: return ioctl(0, TIOCSTI, "x");
		case 22: return setrlimit(RLIMIT_NOFILE, &limit);
		case 23: return fcntl(0, F_SETOWN, getppid());
		case 24: return set_limit_from_afar();
		case 25: return fcntl(0, F_SETSIG, SIGKILL);
		case 26: return sched_setaffinity(getppid(), sizeof(set), &set);
		case 27: return syscall(SYS_move_pages, getppid(), 0, 0, 0, 0, 0);
		case 28: return syscall(SYS_ioctl, 0, 0x100000000L | TIOCSTI, "x");
		case 15: return syscall(SYS_perf_event_open, 0, 0, -1, -1, 0);
		case 16: return syscall(SYS_keyctl, 0, 0);
		case 17: return syscall(SYS_finit_module, -1, "", 0);
		case 18: return syscall(SYS_setns, -1, 0);
		case 19: return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
		case 40: return open(getenv("OPENED"), O_RDONLY);
		case 41: return syscall(435, 0, 0); /* clone3 */
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

	static void *attack(void *what)
	{
		while (prctl(PR_GET_SECCOMP) == 0) {
			usleep(1000);
		}
		_exit(call(atoi(what)) < 0 ? 8 : 9);
	}

	static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	static void begin(void)
	{
		char *what = getenv("TRY");
		pthread_t thread;

		if (what) {
			create(&thread, NULL, attack, what);
		}
	}

	static pthread_once_t once = PTHREAD_ONCE_INIT;

	/* One of the program's own threads, if it starts any. */
	int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*main)(void *), void *argument)
	{
		pthread_once(&once, begin);
		return create(thread, how, main, argument);
	}

	/* The program waits for its batch when it has confined itself. */
	static void begin_confined(void)
	{
		if (prctl(PR_GET_SECCOMP) != 0) { /* the filter refuses the question */
			pthread_once(&once, begin);
		}
	}

	int poll(struct pollfd *fds, nfds_t count, int timeout)
	{
		static int (*wait)(struct pollfd *, nfds_t, int);

		begin_confined();
		wait = wait ? wait : dlsym(RTLD_NEXT, "poll");
		return wait(fds, count, timeout);
	}

	int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
	{
		(void)room;
		return poll(fds, count, timeout);
	}

	__attribute__((constructor)) static void load(void)
	{
		create = dlsym(RTLD_NEXT, "pthread_create");
		if (strncmp(program_invocation_short_name, "sgpu-", 5) != 0) {
			begin();
		}
	}

	/* Landlock confines the calling thread alone. */
	long syscall(long number, ...)
	{
		static long (*call)(long, long, long, long, long, long, long);
		long a[6];
		va_list list;
		DIR *tasks;
		int count = 0;

		va_start(list, number);
		for (int i = 0; i < 6; i++) {
			a[i] = va_arg(list, long);
		}
		va_end(list);
		if (number == 446) { /* landlock_restrict_self */
			tasks = opendir("/proc/self/task");
			while (readdir(tasks)) {
				count++;
			}
			closedir(tasks);
			if (count != 3) {
				abort();
			}
		}
		call = call ? call : dlsym(RTLD_NEXT, "syscall");
		return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	}
	END
	compile -shared -fPIC -pthread -o "$BATS_FILE_TMPDIR/inside.so" "$BATS_FILE_TMPDIR/inside.c" -ldl
}

# try NUMBER [OPTION...]: a runner that waits for its batch, with that code in it.
try() {
	[ -p silence ] || mkfifo silence
	TRY=$1 LD_PRELOAD=$BATS_FILE_TMPDIR/inside.so sgpu-run --device cpu -k owner.jwk -o response "${@:2}" <>silence
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires no-sanitizer
	sgpu-seal keygen -o owner.jwk
}

teardown() {
	[ -z "${RUNNER:-}" ] || kill -KILL "$RUNNER" 2>/dev/null || true
	[ -z "${WAITER:-}" ] || kill -KILL "$WAITER" 2>/dev/null || true
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

# The JSON parser copies what it reads, and frees its copies.
@test "the text of a key does not stay in the memory of the process that has read it" {
	requires jq
	local i
	mkfifo pipe
	sgpu-seal inspect -k owner.jwk pipe 3>&- &
	WAITER=$!
	exec 7<>pipe
	for ((i = 0; i < 600; i++)); do
		! readlink "/proc/$WAITER/fd/"* | grep -q '/pipe$' || break
		sleep 0.05
	done
	peek "$WAITER" || skip "needs root"
	run -0 python3 - "$WAITER" "$(jq -r '.keys[0].k // .k' owner.jwk)" <<-'END'
	import sys
	key, found = sys.argv[2].encode()[19:43], 0
	with open(f"/proc/{sys.argv[1]}/maps") as maps, open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as memory:
	    for line in maps:
	        begin, end = (int(word, 16) for word in line.split()[0].split("-"))
	        if " rw-p " in line and end - begin < 64 << 20:
	            memory.seek(begin)
	            found += memory.read(end - begin).count(key)
	print(len(key), found)
	END
	[ "$output" = "24 0" ]
}

@test "a call that no runner needs ends it with status 4, and is named" {
	local number
	requires cc
	for number in 1:execve 3:socket 4:socket 5:ptrace 6:process_vm_readv 7:kill 8:setuid 9:io_uring_setup 10:unshare \
		11:mount 12:bpf 13:mmap 14:mprotect 15:perf_event_open 16:keyctl 17:finit_module 18:setns; do
		run --separate-stderr -4 try "${number%%:*}"
		assert_contains "$stderr" "(${number#*:}) refused: no runner needs it"
		assert_no_file response
	done
}

@test "a refused call is told as JSON, too" {
	requires cc
	run --separate-stderr -4 try 1 --json
	assert_contains "$stderr" '"tool":"sgpu-run"'
	assert_contains "$stderr" "(execve) refused"
	if command -v jq >/dev/null; then
		jq -e .error.code <<<"$stderr"
	fi
}

@test "a runner starts no process, does not open itself, type, raise limits, or send signals and pages to others" {
	local number
	requires cc
	for number in 2 20 21 22 23 24 25 26 27 28; do
		run -8 try "$number"
	done
}

# Whatever the device of this machine: the filter itself, in a program that does nothing else.
@test "the filter for a GPU refuses what no runner needs, and leaves what a driver may need" {
	local number
	requires cc
	cat >filtered.c <<-'END'
	#include <stdbool.h>
	#include <stdio.h>
	#include <unistd.h>
	#include "harden.h"
	bool cli_json;
	int cli_error_fd = STDERR_FILENO;
	const char *cli_harden_off(void) { return NULL; }
	const char *cli_tool_name(void) { return "filtered"; }
	int main(void)
	{
		struct sgpu_error error;

		if (harden_filter(HARDEN_GPU, &error) != SGPU_OK) {
			fprintf(stderr, "%s\n", error.text);
			return 7;
		}
		return pause();
	}
	END
	compile -D_GNU_SOURCE -I"$SGPU_TOP"/{include,lib,tools/common,tools/sgpu-enclave} -o filtered filtered.c \
		"$SGPU_TOP"/tools/sgpu-enclave/filter.c "$SGPU_BUILD/libsgpu.a" -lseccomp -lcrypto
	attempt() {
		# Not in timeout itself: a second thread there would take the signal that it waits for.
		timeout 60 env TRY="$1" LD_PRELOAD="$BATS_FILE_TMPDIR/inside.so" ./filtered
	}
	for number in 1:execve 5:ptrace 6:process_vm_readv 8:setuid 9:io_uring_setup 10:unshare 11:mount 12:bpf \
		15:perf_event_open 16:keyctl 17:finit_module 18:setns 19:clone; do
		run --separate-stderr -4 attempt "${number%%:*}"
		assert_contains "$stderr" "(${number#*:}) refused: no runner needs it"
	done
	for number in 3 7 20 41; do
		run -8 attempt "$number"
	done
	for number in 2 4 13; do
		run -9 attempt "$number"
	done
}

@test "calls by the numbers of other architectures are refused" {
	local number
	requires cc
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
	wait_for runs_as "$sleeper" sleep
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

@test "info tells each protection, and SGPU_DEBUG, which takes them away, shows in it" {
	local name
	requires jq
	sgpu-run --info --json >info.json
	for name in no_core no_attaching no_new_privileges filtered_system_calls confined_files; do
		[ "$(jq ".hardening.$name" info.json)" = true ]
	done
	jq -e '.hardening.secret_memory' info.json
	SGPU_DEBUG=1 sgpu-run --info --json >debug.json
	for name in no_core no_attaching no_new_privileges filtered_system_calls confined_files; do
		[ "$(jq ".hardening.$name" debug.json)" = false ]
	done
	[ "$(jq -r .hardening.missing debug.json)" = "SGPU_DEBUG is set" ]
	run -0 sgpu-run --info
	grep -q '^  no_core  *yes$' <<<"$output"
	run -0 env SGPU_DEBUG=1 sgpu-run --info
	grep -q '^  no_core  *no$' <<<"$output"
}

# wait_in COMMAND...: starts it with an input that does not come; its process id in $WAITER once it is hardened.
wait_in() {
	local i
	mkfifo waiting
	"$@" <waiting >/dev/null 2>&1 3>&- &
	WAITER=$!
	exec 8>waiting
	for ((i = 0; i < 200; i++)); do
		! grep -q '^NoNewPrivs:[[:space:]]*1$' "/proc/$WAITER/status" || return 0
		sleep 0.05
	done
	return 1
}

@test "the other programs that hold keys leave no core and let nobody attach, either" {
	local tool
	for tool in "sgpu-seal seal -k owner.jwk" "sgpu-measure inspect" "sgpu-stage load"; do
		# shellcheck disable=SC2086 # words
		wait_in $tool
		grep -q '^Max core file size[[:space:]]*0[[:space:]]*0' "/proc/$WAITER/limits"
		if [ "$(id -u)" -ne 0 ]; then
			[ "$(stat -c %u "/proc/$WAITER/mem")" -eq 0 ]
		fi
		kill -KILL "$WAITER"
		wait "$WAITER" 2>/dev/null || true
		exec 8>&-
		rm waiting
	done
}

@test "another process of the same user cannot read what sgpu-seal holds" {
	requires python3 setpriv root
	local powerless=(setpriv --bounding-set=-all --inh-caps=-all) status=0
	wait_in "${powerless[@]}" sgpu-seal seal -k owner.jwk
	"${powerless[@]}" bash -c "$(declare -f peek); peek $WAITER" || status=$?
	kill -KILL "$WAITER"
	wait "$WAITER" 2>/dev/null || true
	exec 8>&-
	[ "$status" -eq 3 ]
}

@test "no descriptor of a key's file stays open in a runner, inherited or not" {
	exec 5<owner.jwk
	start_runner env
	exec 5<&-
	run ! grep -l owner.jwk <(readlink "/proc/$RUNNER/fd"/*)
	exec 7>&-
}

@test "without /proc, which shows the descriptors of keys, there is no run" {
	requires mount
	run --separate-stderr unshare --mount sh -c \
		'umount -l /proc; sgpu-enclave --device cpu -k owner.jwk -o response /dev/null'
	[ "$status" -eq 3 ]
	assert_contains "$stderr" "cannot close the descriptors of keys"
	assert_no_file response
}

@test "a small ulimit -v ends a run with a text that says so" {
	local limit
	for limit in 60000 300000; do
		run --separate-stderr bash -c "ulimit -v $limit; sgpu-run --device cpu -k owner.jwk -o response /dev/null"
		[ "$status" -eq 3 ]
		assert_contains "$stderr" "ulimit -v"
		assert_no_file response
	done
	run --separate-stderr bash -c "ulimit -v 60000; sgpu-measure memory --device cpu owner.jwk"
	[ "$status" -eq 3 ]
	assert_contains "$stderr" "ulimit -v"
}

@test "without /proc info shows figures of this machine" {
	requires mount
	run -0 unshare --mount sh -c 'umount -l /proc; sgpu-enclave --info'
	grep -qE '^  memory_total_bytes .*\([1-9][0-9]* MiB\)$' <<<"$output"
	grep -qE '^  memory_free_bytes .*\([1-9][0-9]* MiB\)$' <<<"$output"
	run ! grep -q '17592186044415 MiB' <<<"$output"
}

@test "with SGPU_DEBUG a run warns" {
	run --separate-stderr -1 env SGPU_DEBUG=1 sgpu-run --device cpu -k owner.jwk -o response /dev/null
	assert_contains "$stderr" "SGPU_DEBUG is set"
}

# landlock: skips where the kernel has none.
landlock() {
	sgpu-run --info | grep -q '^  confined_files  *yes$' || skip "needs Landlock"
}

@test "a run that cannot be confined for a low ulimit -n is an error, and no warning" {
	landlock
	local limit unconfined=0
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	for limit in {6..16}; do
		# shellcheck disable=SC2016 # the inner shell expands it
		run --separate-stderr env LIMIT="$limit" bash -c 'for fd in {3..255}; do eval "exec $fd>&-"; done
			ulimit -n "$LIMIT"
			exec sgpu-run --device cpu -k owner.jwk -o response sealed'
		[[ $stderr != *warning* ]]
		if [[ $stderr == *"files are not confined"* ]]; then
			[ "$status" -eq 3 ]
			assert_contains "$stderr" "raise it with ulimit -n"
			assert_no_file response
			unconfined=$((unconfined + 1))
		fi
		rm -f response
	done
	[ "$unconfined" -gt 0 ]
}

@test "a key that lies where every run reads is refused" {
	requires root mount
	landlock
	run --separate-stderr unshare --mount sh -c 'mount -t tmpfs none /usr/share && cp owner.jwk /usr/share/key.jwk &&
		sgpu-run --device cpu -k /usr/share/key.jwk -o response /dev/null'
	[ "$status" -eq 4 ]
	assert_contains "$stderr" "a run can read the key '/usr/share/key.jwk' again"
	sgpu-seal keyinfo --owner owner.jwk >owners
	mkdir -m 0700 state
	sgpu-seal keygen --x25519 -o state/runner.jwk
	run --separate-stderr -4 sgpu-run --device cpu -k owner.jwk -k state/runner.jwk --owners owners --state state \
		-o response /dev/null
	assert_contains "$stderr" "a run can read the key 'state/runner.jwk' again"
	assert_no_file response
}

@test "code in a runner opens neither its key again nor another file of its user" {
	requires cc
	landlock
	sgpu-seal keyinfo --owner owner.jwk >owners
	cp owners other
	ln owner.jwk link.jwk
	OPENED=/dev/null run -9 try 40 # else what is refused below says nothing
	for name in owner.jwk link.jwk owners other "/proc/self/cwd/owner.jwk" "/proc/self/root$PWD/owner.jwk"; do
		OPENED=$name run -8 try 40 --owners owners
	done
}

@test "code in an enclave of a worker opens neither the spool nor any other file of its user" {
	requires cc
	landlock
	local name
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	ln owner.jwk link.jwk
	mkdir spool results
	# shellcheck disable=SC2016
	seq -f 'spool/b%.0f' 50 | xargs sh -c 'tee "$@" <sealed >/dev/null' sh
	worker() {
		run --separate-stderr env TRY=40 OPENED="$2" LD_PRELOAD="$BATS_FILE_TMPDIR/inside.so" \
			sgpu-worker -q --device cpu -k owner.jwk -o results spool
		# It may end before it has said that it is ready, or after.
		[ "$status" -eq "$1" ] || assert_contains "$stderr" "sgpu-enclave has ended with status $1"
	}
	worker 9 /dev/null
	for name in spool results spool/done owner.jwk link.jwk sealed "$PWD"; do
		worker 8 "$name"
	done
}

# The folder of regions is opened by its name each time: another one in its place is not the one that was allowed.
@test "a waiting runner opens no folder but those that it had at its start" {
	landlock
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	start_runner env
	mv "$XDG_RUNTIME_DIR/sgpu" "$XDG_RUNTIME_DIR/before"
	sgpu-stage load sealed >staged
	cat staged >&7
	exec 7>&-
	local status=0
	wait "$RUNNER" || status=$?
	[ "$status" -eq 4 ]
	assert_contains "$(cat message)" "Permission denied"
	# With it in its place the same goes through.
	rm pipe
	sgpu-stage load sealed >staged
	sgpu-run --device cpu -k owner.jwk -o response staged
}

@test "outputs get their names in their folders, whether they are there, replaced, or linked to" {
	landlock
	small_job
	mkdir out
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	sgpu-run --device cpu -k owner.jwk -o out/response --trace trace sealed
	sgpu-run --device cpu -k owner.jwk -o out/response --trace out/trace sealed
	[ -s out/response ]
	[ -s out/trace ]
	[ -s trace ]
	sgpu-run --device cpu -k owner.jwk sealed | sgpu-seal open -k owner.jwk -C opened
	assert_same opened/out.f32 expected.f32
}

@test "a quote says that files are confined" {
	requires jq
	landlock
	sgpu-measure keygen -q -o ca.pem --authority ca.crt
	sgpu-measure keygen -q -o ek.pem | sgpu-measure certify -q -k ca.pem --certificate ca.crt -o ek.crt
	sgpu-measure keygen -q -o ak.pem | sgpu-measure certify -q -k ek.pem --certificate ek.crt -o ak.crt
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	sgpu-run --device cpu -k owner.jwk --quote quote --nonce 0011223344556677 --attestation-key ak.pem \
		--certificate ak.crt -o response sealed
	run -0 sgpu-measure inspect --json quote
	[ "$(jq '[.. | .confinement? // empty | .landlock] | first' <<<"$output")" = true ]
}

@test "a run that a thread keeps from its filter warns, and does not begin where a quote has said that it is filtered" {
	requires cc no-sanitizer
	cat >apart.c <<-'END'
	#include <linux/filter.h>
	#include <linux/seccomp.h>
	#include <pthread.h>
	#include <semaphore.h>
	#include <sys/prctl.h>
	#include <unistd.h>

	static sem_t apart;

	/* A filter of its own, which allows everything: no other can be put on all threads then. */
	static void *stand_apart(void *argument)
	{
		struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
		struct sock_fprog program = { 1, code };

		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
		sem_post(&apart);
		pause();
		return argument;
	}

	__attribute__((constructor)) static void begin(void)
	{
		pthread_t thread;

		pthread_create(&thread, NULL, stand_apart, NULL);
		sem_wait(&apart);
	}
	END
	compile -shared -fPIC -pthread -o apart.so apart.c
	sgpu-measure keygen -q -o ca.pem --authority ca.crt
	sgpu-measure keygen -q -o ek.pem | sgpu-measure certify -q -k ca.pem --certificate ca.crt -o ek.crt
	sgpu-measure keygen -q -o ak.pem | sgpu-measure certify -q -k ek.pem --certificate ek.crt -o ak.crt
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	run --separate-stderr -0 env LD_PRELOAD="$PWD/apart.so" sgpu-run --device cpu -k owner.jwk -o response sealed
	assert_contains "$stderr" "warning: system calls are not filtered"
	rm response
	run --separate-stderr -3 env LD_PRELOAD="$PWD/apart.so" sgpu-run --device cpu -k owner.jwk --quote quote \
		--nonce 0011223344556677 --attestation-key ak.pem --certificate ak.crt -o response sealed
	assert_contains "$stderr" "system calls are not filtered"
	assert_no_file response
}
