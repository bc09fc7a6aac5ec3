#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Modules that mean harm, or are broken, on the CPU device: what they cannot do, and whom they take with them.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

# A module whose functions do, by the number that they are given, what no module should.
setup_file() {
	has_compiler || return 0
	cat >"$BATS_FILE_TMPDIR/evil.c" <<-'END'
	#define _GNU_SOURCE
	#include <errno.h>
	#include <fcntl.h>
	#include <pthread.h>
	#include <sched.h>
	#include <signal.h>
	#include <stdint.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/ioctl.h>
	#include <sys/mman.h>
	#include <sys/prctl.h>
	#include <sys/ptrace.h>
	#include <sys/resource.h>
	#include <sys/socket.h>
	#include <sys/stat.h>
	#include <sys/syscall.h>
	#include <sys/uio.h>
	#include <unistd.h>

	#include <sgpu/device.h>

	#define FUNCTION(name) int name(const struct sgpu_module_shape *shape, void *const *args, int count)

	extern char **environ;
	static int opened;

	/* What a constructor can open, while the loader may open libraries. */
	__attribute__((constructor)) static void look_around(void)
	{
		static const char *const paths[] = { "/etc/passwd", "/proc/1/mem", "/proc/self/mem", "/proc/self/environ",
						     "/proc/self/oom_score_adj", "/dev/zero", "/tmp", "/", ".", HERE };

		for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
			opened += open(paths[i], O_RDONLY) >= 0;
		}
	}

	static void on_sigsys(int signal)
	{
		(void)signal;
	}

	static void *nothing(void *argument)
	{
		*(int *)argument = 7;
		return NULL;
	}

	static int compute_in_a_thread(void)
	{
		pthread_t thread;
		int value = 0;

		return pthread_create(&thread, NULL, nothing, &value) == 0 && pthread_join(thread, NULL) == 0 && value == 7;
	}

	static int descriptors(void)
	{
		struct stat status;
		int n = 0;

		for (int fd = 3; fd < 1024; fd++) {
			n += syscall(SYS_fstat, fd, &status) == 0 && !S_ISSOCK(status.st_mode) && !S_ISREG(status.st_mode);
		}
		return n;
	}

	/* Whether it went as it may. */
	static int harmless(int what)
	{
		switch (what) {
		case 100: return 1;
		case 101: return opened == 0;
		case 102: return environ == NULL || environ[0] == NULL;
		case 103: return compute_in_a_thread();
		case 104: return descriptors() == 0;
		case 105: return printf("%s\n", "out of line") > 0 && fflush(stdout) == 0 && fputs("and here\n", stderr) > 0;
		case 108: return usleep(60000000) == 0;
		case 106: return ioctl(0, TIOCSTI, "x") < 0;
		default: return 0;
		}
	}

	/* By a pointer whose low half is that of NULL. */
	static long set_limit_from_afar(void)
	{
		struct rlimit *limit = mmap((void *)0x700000000, 4096, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		return limit == MAP_FAILED || getrlimit(RLIMIT_NOFILE, limit) ? 0 :
		       syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, limit, 0);
	}

	static void *anonymous(int protection)
	{
		return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}

	/* Messages to the runner that answer what it did not ask, as many as there is room for. */
	static void babble(void)
	{
		static char message[sizeof(struct { int32_t head[4]; char rest[256]; })] = { 4 };
		struct iovec part = { message, 0 };
		struct msghdr all = { .msg_iov = &part, .msg_iovlen = 1 };
		struct stat status;
		int fd = 3;

		while (syscall(SYS_fstat, fd, &status) != 0 || !S_ISSOCK(status.st_mode)) {
			fd++;
		}
		for (part.iov_len = 1; part.iov_len <= sizeof(message); part.iov_len++) {
			sendmsg(fd, &all, MSG_DONTWAIT);
		}
		while (sendmsg(fd, &all, MSG_DONTWAIT) > 0) {
		}
	}

	/* Beside the function, and after it has returned. */
	static void *call_later(void *argument)
	{
		usleep(100000);
		socket(AF_INET, SOCK_STREAM, 0);
		return argument;
	}

	/* Whatever of it returns is one call too many. */
	static void attack(int what)
	{
		struct sigaction mine = { .sa_handler = on_sigsys };
		struct rlimit limit = { 1 << 20, 1 << 20 };
		cpu_set_t set;
		sigset_t all;
		char *const none[] = { 0 };

		switch (what) {
		case 1: execve("/bin/true", none, none); break;
		case 2: fork(); break;
		case 3: socket(AF_INET, SOCK_STREAM, 0); break;
		case 4: socket(AF_UNIX, SOCK_STREAM, 0); break;
		case 5: ptrace(PTRACE_ATTACH, getppid(), 0, 0); break;
		case 6: syscall(SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0); break;
		case 7: kill(getppid(), 0); break;
		case 8: syscall(SYS_setuid, getuid()); break;
		case 9: syscall(425, 1, 0); break; /* io_uring_setup */
		case 10: syscall(SYS_unshare, 0); break;
		case 11: syscall(SYS_mount, 0, 0, 0, 0, 0); break;
		case 12: syscall(SYS_bpf, 0, 0, 0); break;
		case 20: sigaction(SIGSYS, &mine, NULL); break;
		case 21:
			sigfillset(&all);
			sigprocmask(SIG_BLOCK, &all, NULL);
			socket(AF_UNIX, SOCK_STREAM, 0);
			break;
		case 22: open("/proc/1/mem", O_RDWR); break;
		case 23: open("/proc/self/environ", O_RDONLY); break;
		case 24: open("/proc/1/oom_score_adj", O_WRONLY); break;
		case 25: anonymous(PROT_READ | PROT_WRITE | PROT_EXEC); break;
		case 26: mprotect(anonymous(PROT_READ | PROT_WRITE), 4096, PROT_READ | PROT_EXEC); break;
		case 27: fcntl(0, F_SETOWN, getppid()); break;
		case 28: fcntl(0, F_SETSIG, SIGKILL); break;
		case 29:
			CPU_ZERO(&set);
			CPU_SET(0, &set);
			sched_setaffinity(getppid(), sizeof(set), &set);
			break;
		case 30: syscall(SYS_move_pages, getppid(), 0, 0, 0, 0, 0); break;
		case 31: prctl(PR_SET_DUMPABLE, 1); break;
		case 32: setrlimit(RLIMIT_NOFILE, &limit); break;
		case 33: set_limit_from_afar(); break;
		case 34: memfd_create("x", 0); break;
		case 35: syscall(SYS_tgkill, getpid(), getpid(), SIGKILL); break;
		case 36: syscall(SYS_personality, 0x0400000); break; /* READ_IMPLIES_EXEC */
		case 37: mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, 3, 0); break;
		case 39:
			babble();
			socket(AF_UNIX, SOCK_STREAM, 0);
			break;
		case 38: prctl(PR_SET_PDEATHSIG, 0); break;
	#ifdef __x86_64__
		case 50: {
			long result;

			__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory"); /* getpid of i386 */
			break;
		}
		case 51: syscall(0x40000000 + SYS_getpid); break;
	#endif
		}
	}

	FUNCTION(does)
	{
		int what = *(int32_t *)args[2];
		volatile float *output = *(float **)args[0], *input = *(float **)args[1];

		(void)shape;
		(void)count;
		switch (what) {
		case 200: exit(0);
		case 201: _exit(3);
		case 202: abort();
		case 203: *(volatile int *)8 = 1; return 0;
		case 204: __builtin_trap();
		case 205: /* all that it can reach around its arguments */
			for (int i = 0; i < 10; i++) {
				input[i] = 99;
			}
			for (int i = 10; i < 1024; i++) {
				output[i] = 99;
			}
			return 0;
		case 208: babble(); _exit(0);
		case 207: {
			pthread_t thread;

			return pthread_create(&thread, NULL, call_later, NULL);
		}
		case 206:
			for (long i = 0;; i++) {
				output[i] = 1;
			}
		}
		if (what >= 100) {
			return harmless(what) ? 0 : 9;
		}
		attack(what);
		return 9;
	}
	END
	compile -shared -fPIC -pthread -DHERE="\"$BATS_FILE_TMPDIR\"" -I"$SGPU_TOP/include" -o "$BATS_FILE_TMPDIR/evil.so" \
		"$BATS_FILE_TMPDIR/evil.c"
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires cc
	cp "$BATS_FILE_TMPDIR/evil.so" .
	sgpu-seal keygen -o owner.jwk
	seq 1 10 | floats >x.f32
	head -c 40 /dev/zero >zeros
}

# batch NUMBER: batch.tar, whose module does that; z = x + y, which y of zeros leaves x, and w is none of its business.
batch() {
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "evil", "segments": [
	  { "segment_id": "code", "data_location_client": "evil.so", "sensitivity_level": "HIGH", "direction": "INPUT" },
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10] } },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10] } },
	  { "segment_id": "z", "data_location_client": "z.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10] } },
	  { "segment_id": "w", "data_location_client": "w.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10] } } ],
	  "operations": [
	  { "gpu_operation_id": "RUN", "kernel": "module:code:does",
	    "arguments": { "input": "x", "output": "y" }, "params": ["output", "input", { "i32": $1 }] },
	  { "gpu_operation_id": "ADD", "kernel": "vector_add", "arguments": { "a": "x", "b": "y", "output": "z" } },
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "x", "output": "w" } } ] }
	END
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
}

# try NUMBER [OPTION...]
try() {
	batch "$1"
	"${UNDER[@]}" sgpu-run --device cpu --allow-modules -k owner.jwk "${@:2}" -o response batch.tar
}

results() {
	rm -rf out
	sgpu-seal open -k owner.jwk -C out response
}

refused="1:execve 2:clone 3:socket 4:socket 5:ptrace 6:process_vm_readv 7:kill 8:setuid 9:io_uring_setup 10:unshare
	11:mount 12:bpf 20:rt_sigaction 21:socket 22:openat 23:openat 24:openat 25:mmap 26:mprotect 27:fcntl 28:fcntl
	29:sched_setaffinity 30:move_pages 31:prctl 32:prlimit64 33:prlimit64 34:memfd_create 35:tgkill 36:personality
	37:mmap 38:prctl"

@test "what a module may do it does: compute, in threads, print to nobody; it sees no file, no variable, no descriptor" {
	local number
	for number in 100 101 102 103 104 105 106; do
		run --separate-stderr -0 try "$number"
		[[ $stderr$output != *"out of line"* && $stderr != *"and here"* ]]
		results
		assert_same out/y.f32 zeros
	done
}

@test "a call that no module needs ends the runner with status 4 and is named, and no response is given" {
	local number
	for number in $refused; do
		run --separate-stderr -4 try "${number%%:*}"
		assert_contains "$stderr" "module 'code', function 'does': system call"
		assert_contains "$stderr" "(${number#*:}) refused: no module needs it"
		assert_no_file response
	done
}

@test "no memory is both written and run, whatever a constructor prepares" {
	local how
	[ "$(uname -m)" = x86_64 ] || skip "for x86-64"
	cat >code.c <<-'END'
	#define _GNU_SOURCE
	#include <stdint.h>
	#include <string.h>
	#include <sys/mman.h>
	#include <sys/socket.h>
	#include <sys/stat.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	#include <device/cpu/module_wire.h>

	static char *writable, *code;

	static int run_it(void)
	{
		static const unsigned char returns_42[] = { 0xb8, 42, 0, 0, 0, 0xc3 };
		int (*function)(void);

		if (!writable || !code || writable == MAP_FAILED || code == MAP_FAILED) {
			return 0;
		}
		memcpy(writable, returns_42, sizeof(returns_42));
		memcpy(&function, &code, sizeof(function));
		return function();
	}

	#ifdef SHARED
	__attribute__((constructor)) static void prepare(void)
	{
		code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		writable = code == MAP_FAILED ? code : mremap(code, 0, 4096, MREMAP_MAYMOVE); /* the same, once more */
		if (writable != MAP_FAILED) {
			mprotect(writable, 4096, PROT_READ | PROT_WRITE);
		}
	}
	#else
	/* Never returns: it says that all is loaded, and takes the memory of a launch for code. */
	__attribute__((constructor)) static void pose(void)
	{
		union {
			struct cmsghdr head;
			char space[CMSG_SPACE(sizeof(int))];
		} passed;
		struct sgpu_host_answer answer = { .kind = SGPU_HOST_LOADED };
		struct sgpu_host_call call;
		struct iovec part = { &answer, sizeof(answer) };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		struct stat status;
		int channel = 3, memory;

		while (syscall(SYS_fstat, channel, &status) != 0 || !S_ISSOCK(status.st_mode)) {
			channel++;
		}
		sendmsg(channel, &message, 0);
		part = (struct iovec){ &call, sizeof(call) };
		message.msg_control = &passed;
		message.msg_controllen = sizeof(passed);
		if (recvmsg(channel, &message, 0) > 0 && message.msg_controllen) {
			memcpy(&memory, CMSG_DATA(&passed.head), sizeof(memory));
			writable = mmap(NULL, call.size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
			code = mmap(NULL, call.size, PROT_READ | PROT_EXEC, MAP_PRIVATE, memory, 0);
		}
		_exit(run_it());
	}
	#endif

	int does(const struct sgpu_module_shape *shape, void *const *args, int count)
	{
		(void)shape;
		(void)args;
		(void)count;
		return run_it();
	}
	END
	for how in SHARED:mmap POSE:recvmsg; do
		compile -shared -fPIC -D"${how%:*}" -I"$SGPU_TOP/include" -I"$SGPU_TOP/lib" -o evil.so code.c
		run --separate-stderr -4 try 0
		assert_contains "$stderr" "(${how#*:}) refused: no module needs it"
		assert_no_file response
	done
}

@test "a call that a thread makes after its function has returned ends the runner, too" {
	# Another module goes on for longer than the thread waits, beside it also on a single processor.
	batch 207
	sed -i -e 's/"kernel": "copy", "arguments": { "input": "x", "output": "w" }/"kernel": "module:again:does",\
		"arguments": { "input": "x", "output": "w" }, "params": ["output", "input", { "i32": 108 }]/' \
		-e 's/"segments": \[/&{ "segment_id": "again", "data_location_client": "evil.so", "sensitivity_level": "HIGH",\
		"direction": "INPUT" },/' job.json
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	run --separate-stderr -4 sgpu-run --device cpu -j 4 --allow-modules -k owner.jwk -o response batch.tar
	assert_contains "$stderr" "refused, after its function had returned"
	assert_no_file response
}

@test "no result goes to the response's file before all modules have kept the rules" {
	# The copy is large enough to be written to its place at once, and ends long before the other module's call.
	batch 207
	head -c 2097152 /dev/zero >large
	sed -i -e 's/"kernel": "copy", "arguments": { "input": "x", "output": "w" }/"kernel": "module:again:does",\
		"arguments": { "input": "x", "output": "w" }, "params": ["output", "input", { "i32": 108 }]/' \
		-e 's/"segments": \[/&{ "segment_id": "again", "data_location_client": "evil.so", "sensitivity_level": "HIGH",\
		"direction": "INPUT" },\
		{ "segment_id": "large", "data_location_client": "large", "sensitivity_level": "HIGH", "direction": "INPUT",\
		"data_type_info": { "dtype": "u8", "shape": [2097152] } },\
		{ "segment_id": "copied", "data_location_client": "copied", "sensitivity_level": "HIGH", "direction": "OUTPUT",\
		"data_type_info": { "dtype": "u8", "shape": [2097152] } },/' \
		-e 's/"operations": \[/&{ "gpu_operation_id": "COPY_LARGE", "kernel": "copy",\
		"arguments": { "input": "large", "output": "copied" } },/' job.json
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	: >response
	touch -d @1000000000 response
	run --separate-stderr -4 bash -c 'sgpu-run --device cpu -j 4 --allow-modules -k owner.jwk batch.tar 1<>response'
	assert_contains "$stderr" "refused, after its function had returned"
	[ "$(stat -c '%s %Y' response)" = "0 1000000000" ]
}

@test "a module that answers what it was not asked ends its process, and makes no call that is refused" {
	run --separate-stderr try 39
	[ "$status" -eq 4 ] || [ "$status" -eq 5 ]
	[ "$status" -eq 4 ] || assert_contains "$stderr" "its process ended"
}

@test "calls by the numbers of other architectures end the runner, too" {
	local number
	[ "$(uname -m)" = x86_64 ] || skip "for x86-64"
	for number in 50 51; do
		run --separate-stderr -4 try "$number"
		assert_contains "$stderr" "a system call was refused that no module needs"
		assert_no_file response
	done
}

@test "a refused call is told as JSON, too" {
	run --separate-stderr -4 try 1 --json
	assert_contains "$stderr" '"tool":"sgpu-run"'
	assert_contains "$stderr" "(execve) refused"
}

@test "a module that ends its process fails its operation alone, even with status 0" {
	local number
	for number in "200:status 0" "201:status 3" "202:SIGABRT" "203:SIGSEGV" "204:SIGILL" "206:SIGSEGV" "208:its process"; do
		run --separate-stderr -5 try "${number%%:*}"
		assert_contains "$stderr" "${number#*:}"
		run -5 results
		assert_same out/w.f32 x.f32
		assert_no_file out/y.f32
	done
}

@test "what a module writes besides its outputs stays with it" {
	run --separate-stderr -0 try 205
	results
	assert_same out/y.f32 zeros
	assert_same out/z.f32 x.f32
	assert_same out/w.f32 x.f32
}

@test "damaged images end their own process and no other" {
	local i at size status crashed=0
	size=$(stat -c %s "$BATS_FILE_TMPDIR/evil.so")
	for ((i = 0; i < ${SGPU_DAMAGED_IMAGES:-50}; i++)); do
		cp "$BATS_FILE_TMPDIR/evil.so" .
		# Every second one in what the loader reads first; always the same ones.
		at=$(((i * 7919 + 13) % (i % 2 ? 4096 : size)))
		# shellcheck disable=SC2059 # the format is an escape on purpose
		printf "\\x$(printf %02x $((i * 37 % 256)))" | dd of=evil.so bs=1 seek="$at" conv=notrunc status=none
		status=0
		try 100 2>message || status=$?
		! grep -q 'its process was ended by signal' message || crashed=$((crashed + 1))
		case $status in
		0 | 5) ;;
		4) grep -q 'refused' message ;;
		*)
			echo "image $i, byte $at: status $status" >&2
			cat message >&2
			return 1
			;;
		esac
	done
	[ "$crashed" -gt 0 ] # else the trial says nothing
}

@test "with SGPU_DEBUG, which leaves the runner open, modules stay where they are" {
	export SGPU_DEBUG=1
	run --separate-stderr -4 try 4
	[ -n "${SGPU_SANITIZE:-}" ] || assert_contains "$stderr" "SGPU_DEBUG is set" # such a build is always open
	assert_contains "$stderr" "(socket) refused: no module needs it"
}

@test "a run says at its start what it confines modules by only where something lacks" {
	run --separate-stderr -0 try 100
	unshare -Ur true 2>/dev/null || skip "needs user namespaces"
	[[ $stderr != *"modules run without"* ]]
}

@test "a file in the place of the program that modules run in is never run: the runner has that program in itself" {
	local i copies=0 at place image=$SGPU_BUILD/module-host/sgpu-module-host.image
	mkdir -p alone/bin alone/lib/sgpu
	cp "$SGPU_BUILD/bin/sgpu-run" alone/bin/
	printf '#!/bin/sh\ntouch %s/mark\n' "$PWD" >hostile
	chmod +x hostile
	# Wherever one might look for it.
	for place in alone/lib/sgpu alone/bin alone/lib .; do
		for i in sgpu-module-host sgpu-module-host.image; do
			cp hostile "$place/$i"
		done
	done
	batch 100
	PATH=$PWD:$PATH LD_LIBRARY_PATH=$PWD alone/bin/sgpu-run --device cpu --allow-modules -k owner.jwk -o response batch.tar
	results
	assert_same out/y.f32 zeros
	assert_no_file mark
	# No other bytes than those that the digest of the runner covers.
	while IFS=: read -r at _; do
		! cmp -s -n "$(stat -c %s "$image")" -i "$at:0" alone/bin/sgpu-run "$image" || copies=$((copies + 1))
	done < <(grep -obUaP '\x7fELF' alone/bin/sgpu-run)
	[ "$copies" -eq 1 ]
}

@test "where memory files may not be executed no module is run, and the error says so" {
	requires unshare jq
	cat >setting.sh <<-'END'
	#!/bin/sh
	echo "$1" >/proc/sys/vm/memfd_noexec || exit 77
	shift
	exec "$@"
	END
	chmod +x setting.sh
	unshare -Urpf --mount-proc ./setting.sh 2 true 2>/dev/null ||
		skip "needs a kernel that forbids it by namespaces of processes"
	UNDER=(unshare -Urpf --mount-proc ./setting.sh 2)
	run --separate-stderr -3 try 100
	assert_contains "$stderr" "modules cannot be run: memory files may not be executed here"
	assert_contains "$stderr" "vm.memfd_noexec"
	assert_no_file response
	"${UNDER[@]}" sgpu-run info --json >info.json
	jq -e '.modules.process.holds == false and (.modules.process.text | contains("may not be executed"))' info.json
	# Files that do not ask for it are not executable then; this one does.
	UNDER=(unshare -Urpf --mount-proc ./setting.sh 1)
	run --separate-stderr -0 try 100
}

@test "what modules print goes to no file that was laid in the place of /dev/null" {
	requires mount
	batch 105
	touch listening
	run --separate-stderr -3 unshare --mount sh -c \
		'mount --bind listening /dev/null && exec sgpu-run --device cpu --allow-modules -k owner.jwk -o response batch.tar'
	assert_contains "$stderr" "cannot open '/dev/null' for modules"
	[ ! -s listening ]
	assert_no_file response
}

# has_module PID: sets line to the processes below this runner, of which the last has loaded its module.
has_module() {
	local pid=$1 child
	line=()
	while child=$(cat "/proc/$pid/task"/*/children 2>/dev/null) && [ -n "$child" ]; do
		pid=${child%% *}
		line+=("$pid")
	done
	[ "${#line[@]}" -gt 0 ] && grep -qs '/module\.[0-9]' "/proc/$pid/maps"
}

# modules_in_namespaces: skips where they are not.
modules_in_namespaces() {
	requires jq
	sgpu-run info --json | jq -e .modules.namespaces.holds >/dev/null || skip "needs namespaces for modules"
}

@test "the kernel shows a module in namespaces and a root of its own, without rights, under a filter" {
	local worker kind status=0 shown line
	requires root unshare
	modules_in_namespaces
	batch 108 # which sleeps until it is ended here
	sgpu-run --device cpu --allow-modules -k owner.jwk -o response batch.tar 2>message 3>&- &
	local runner=$!
	wait_for has_module "$runner"
	worker=${line[-1]}
	mkdir seen
	for kind in user pid mnt net ipc uts; do
		readlink "/proc/$worker/ns/$kind" "/proc/$runner/ns/$kind" >"seen/$kind"
	done
	cat "/proc/$worker/status" >seen/status
	(cd "/proc/$worker/root" && find . -maxdepth 1 -mindepth 1 && find etc -mindepth 1) >seen/root
	tr '\0' '\n' <"/proc/$worker/environ" >seen/environ
	kill -KILL "$worker"
	wait "$runner" || status=$?
	[ "$status" -eq 5 ]
	assert_contains "$(cat message)" "SIGKILL"
	for kind in user pid mnt net ipc uts; do
		[ "$(sort -u "seen/$kind" | wc -l)" -eq 2 ]
	done
	for shown in CapInh:0 CapPrm:0 CapEff:0 CapBnd:0 CapAmb:0 NoNewPrivs:1 Seccomp:2; do
		grep -qE "^${shown%:*}:[[:space:]]*0*${shown#*:}\$" seen/status
	done
	run ! grep -vE '^(\./(lib[a-z0-9]*|usr|etc|proc|dev|nix|gnu)|etc/ld\.so\.cache)$' seen/root
	[ ! -s seen/environ ]
}

@test "info says how modules are confined here, as text and as JSON" {
	local name
	requires jq
	sgpu-run info --json >info.json
	for name in process namespaces root landlock seccomp no_capabilities; do
		jq -e ".modules.$name | (.holds | type) == \"boolean\" and (.text | length) > 0" info.json
	done
	[ "$(jq .modules.process.holds info.json)" = true ]
	run -0 sgpu-run info
	assert_contains "$output" "modules       of the CPU device, tried on this machine"
	requires unshare
	unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_net_namespaces' 2>/dev/null || skip "needs user namespaces to be counted"
	unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_net_namespaces; sgpu-run info --json' >info.json
	jq -e '.modules.process.holds and (.modules.namespaces.holds | not)' info.json
	jq -r .modules.namespaces.text info.json | grep -q 'these kinds: .*network'
}

@test "without namespaces a module is confined all the same, and the run warns" {
	local number
	requires unshare
	unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces' 2>/dev/null || skip "needs user namespaces to be counted"
	cat >none.sh <<-'END'
	#!/bin/sh
	echo 0 >/proc/sys/user/max_user_namespaces
	for kind in mnt net ipc uts pid; do echo 0 >/proc/sys/user/max_${kind}_namespaces; done
	exec "$@"
	END
	chmod +x none.sh
	UNDER=(unshare -Ur ./none.sh)
	for number in 100 101 102 103 104; do
		run --separate-stderr -0 try "$number"
		assert_contains "$stderr" "modules"
		assert_contains "$stderr" "namespace"
	done
	for number in 3:socket 22:openat 25:mmap; do
		run --separate-stderr -4 try "${number%%:*}"
		assert_contains "$stderr" "(${number#*:}) refused: no module needs it"
	done
}

@test "where the kernel gives no listener, refused calls end the process without a name, and the run says so" {
	local number
	requires no-sanitizer
	# Who is listened to already gets no listener of its own.
	cat >listened.c <<-'END'
	#include <linux/filter.h>
	#include <linux/seccomp.h>
	#include <stddef.h>
	#include <sys/prctl.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	int main(int argc, char **argv)
	{
		struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_acct, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog program = { 4, code };
		int fd;

		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
		return argc < 2 || fd < 0 || dup(fd) < 0 ? 77 : execvp(argv[1], argv + 1);
	}
	END
	compile -o listened listened.c
	./listened true || skip "needs a kernel with seccomp listeners"
	UNDER=(./listened)
	for number in 100 101 103; do
		run --separate-stderr -0 try "$number"
		assert_contains "$stderr" "not named"
	done
	rm response
	for number in $refused; do
		run --separate-stderr -4 try "${number%%:*}"
		assert_contains "$stderr" "a system call was refused that no module needs"
		assert_no_file response
	done
}

@test "no process of the same user looks into those of a module, or takes its image" {
	requires root setpriv jq
	local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups) there=$TEST_SHM/there pid line runner sleeper
	modules_in_namespaces
	# One that is still being loaded: its image has a name.
	printf '__attribute__((constructor)) static void stay(void) { for (;;) { } }\nint does(void) { return 0; }\n' >stay.c
	compile -shared -fPIC -o evil.so stay.c
	batch 0
	mkdir "$there"
	cp owner.jwk batch.tar "$SGPU_BUILD/bin/sgpu-run" "$there"
	chmod 711 "$TEST_SHM"
	chown -R 65534 "$there"
	"${nobody[@]}" "$there/sgpu-run" --device cpu --allow-modules --timeout 600s -k "$there/owner.jwk" -o "$there/response" \
		"$there/batch.tar" 2>/dev/null 3>&- &
	runner=$!
	"${nobody[@]}" sleep 600 3>&- &
	sleeper=$!
	wait_for runs_as "$sleeper" sleep
	wait_for has_module "$runner"
	[ "${#line[@]}" -eq 3 ]
	"${nobody[@]}" sh -c "exec 9</proc/$sleeper/mem && ls /proc/$sleeper/root/" >/dev/null # else the trial says nothing
	for pid in "${line[@]}"; do
		for what in mem environ maps ns/mnt; do
			run ! "${nobody[@]}" sh -c "exec 9</proc/$pid/$what"
		done
		run ! "${nobody[@]}" ls "/proc/$pid/root/"
		grep -q 'CapEff:.*0000000000000000' "/proc/$pid/status"
	done
	kill -KILL "$runner" "$sleeper"
}
