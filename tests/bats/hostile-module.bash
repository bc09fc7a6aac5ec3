# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # bats sets BATS_*, the tests use what is set here
# What hostile-module.bats and module-confinement.bats share: a module that means harm, and a batch that runs it.

load helpers

# Numbers of what no module may do, with the calls.
refused="1:execve 2:clone 3:socket 4:socket 5:ptrace 6:process_vm_readv 7:kill 8:setuid 9:io_uring_setup 10:unshare
	11:mount 12:bpf 20:rt_sigaction 21:socket 22:openat 23:openat 24:openat 25:mmap 26:mprotect 27:fcntl 28:fcntl
	29:sched_setaffinity 30:move_pages 31:prctl 32:prlimit64 33:prlimit64 34:memfd_create 35:tgkill 36:personality
	37:mmap 38:prctl 40:openat 41:sendmsg"

# A module whose functions do, by the number that they are given, what no module should.
setup_file() {
	has_compiler || return 0
	cat >"$BATS_FILE_TMPDIR/evil.c" <<-'END'
	#define _GNU_SOURCE
	#include <assert.h>
	#include <errno.h>
	#include <fcntl.h>
	#include <poll.h>
	#include <pthread.h>
	#include <sched.h>
	#include <semaphore.h>
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

	static sem_t asked, answered;

	/* Started while the loader may open libraries, it opens one afterwards. */
	static void *open_late(void *argument)
	{
		sem_wait(&asked);
		open("/etc/ld.so.cache", O_RDONLY);
		sem_post(&answered);
		return argument;
	}

	/* What a constructor can open, while the loader may open libraries. */
	__attribute__((constructor)) static void look_around(void)
	{
		pthread_t thread;
		static const char *const paths[] = { "/etc/passwd", "/proc/1/mem", "/proc/self/mem", "/proc/self/environ",
						     "/proc/self/oom_score_adj", "/dev/zero", "/tmp", "/", ".", HERE };

		for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
			opened += open(paths[i], O_RDONLY) >= 0;
		}
		sem_init(&asked, 0, 0);
		sem_init(&answered, 0, 0);
		pthread_create(&thread, NULL, open_late, NULL);
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

		for (int fd = 4; fd < 1024; fd++) {
			n += syscall(SYS_fstat, fd, &status) == 0 && !S_ISREG(status.st_mode);
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
		case 108: return usleep(60000000) == 0; /* until it is ended */
		case 109: return usleep(4000000) == 0;  /* longer than call_later() waits */
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
		static char message[272] = { 4 };
		struct pollfd room = { .fd = 3, .events = POLLOUT };

		for (size_t n = 1; poll(&room, 1, 0) > 0 && write(3, message, n) > 0; n += n < sizeof(message)) {
		}
	}

	/* Which counts against all processes of the runner's user until it is received. */
	static void send_descriptor(void)
	{
		union {
			struct cmsghdr head;
			char space[CMSG_SPACE(sizeof(int))]; /* standard input */
		} passed = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
		struct iovec part = { "", 1 };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &passed, .msg_controllen = sizeof(passed) };

		sendmsg(3, &message, 0);
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
		case 40: sem_post(&asked); sem_wait(&answered); break;
		case 41: send_descriptor(); break;
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
		case 210: /* answers launches that it does not take */
			for (int32_t ran[64] = { 2 };;) {
				(void)!write(3, ran, sizeof(ran));
			}
		case 209: /* input[6] is HIGH */
			printf("read %g\n", (double)input[6]);
			fflush(stdout);
			dprintf(STDOUT_FILENO, "read %g\n", (double)input[6]);
			dprintf(STDERR_FILENO, "read %g\n", (double)input[6]);
			assert(input[6] != 7);
			return 0;
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
