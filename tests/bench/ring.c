/* SPDX-License-Identifier: Apache-2.0
 *
 * What a ring costs between two processes: `ring [ROUNDS]`. Each round times, in turns, a round
 * trip over one bare cache line on which both sides spin, of an empty operation over a ring, and of
 * a byte over a pair of pipes, and how many empty operations a second a client gets through a ring.
 * Prints medians and the least, then the ratios with their goals.
 *
 * Before that, a run of both sides under a filter of system calls that counts and refuses each: the
 * hot path makes none. And both sides wait for a while: an idle ring takes no processor time.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/ring.h>

#include "base/cores.h"
#include "ring/memory.h"

enum { TRIPS = 1000, PIPE_TRIPS = 100, OPERATIONS = 10000, COUNTED = 100000, ROUNDS_MOST = 10000 };
#define SECOND 1000000000u

enum mode { LINE, RING, PIPE, QUIT, MODES = QUIT };

/* Shared between the two processes. */
struct board {
	_Alignas(128) _Atomic uint32_t mode, ready; /* what the other process is to do, and does */
	_Alignas(128) _Atomic uint64_t line;	    /* even: the child's turn to make it odd */
	_Alignas(128) _Atomic uint64_t calls;	    /* that were refused */
	_Atomic uint32_t trapping;
};

static struct board *board;
static int to_child[2], to_parent[2], ends[2], memory_fd, cores[2], cores_found;

static void must(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "ring: %s: %s\n", what, strerror(errno));
		exit(3);
	}
}

static void succeed(int code, const struct sgpu_error *error)
{
	if (code != SGPU_OK) {
		fprintf(stderr, "ring: %s\n", error->text);
		exit(3);
	}
}

/* side: 0 or 1; each has a core of its own, if there are two. */
static void pin(int side)
{
	(void)(cores_found &&
	       sgpu_bind_to_cpu(cores[side])); /* without it, the figures are worse */
}

/* ---- the worker ---- */

static void serve_line(void)
{
	uint64_t seen = 0;

	while (atomic_load(&board->mode) == LINE) {
		for (int i = 0; i < 1000; i++) {
			const uint64_t now =
				atomic_load_explicit(&board->line, memory_order_acquire);

			if (now % 2 && now != seen) {
				seen = now;
				atomic_store_explicit(&board->line, now + 1, memory_order_release);
			}
		}
	}
}

static void serve_ring(struct sgpu_ring_worker *worker)
{
	struct sgpu_ring_operation operation;
	enum sgpu_ring_event event;
	struct sgpu_error error;
	int code;

	while (atomic_load_explicit(&board->mode, memory_order_relaxed) == RING) {
		succeed(sgpu_ring_next(worker, &operation, &event, &error), &error);
		if (event == SGPU_RING_IDLE) {
			code = sgpu_ring_worker_wait(worker, 0, &error);
			succeed(code, &error);
		}
	}
}

static void serve_pipe(void)
{
	char byte;

	while (read(to_child[0], &byte, 1) == 1 && byte) {
		must(write(to_parent[1], &byte, 1) == 1, "cannot write");
	}
}

static void serve(struct sgpu_ring_worker *worker)
{
	enum mode mode;

	do {
		mode = (enum mode)atomic_load(&board->mode);
		atomic_store(&board->ready, (uint32_t)mode);
		if (mode == LINE) {
			serve_line();
		} else if (mode == RING) {
			serve_ring(worker);
		} else if (mode == PIPE) {
			serve_pipe();
			while (atomic_load(&board->mode) == PIPE) {
			}
		}
	} while (mode != QUIT);
}

/* ---- the client ---- */

static void submit_empty(struct sgpu_ring_client *client)
{
	static const struct sgpu_ring_descriptor empty = { .opcode = SGPU_RING_NOP };
	struct sgpu_error error;

	succeed(sgpu_ring_submit(client, &empty, NULL, &error), &error);
}

static void await_one(struct sgpu_ring_client *client)
{
	struct sgpu_ring_result result;
	struct sgpu_error error;
	size_t count = 0;

	while (!count) {
		succeed(sgpu_ring_client_wait(client, 0, &error), &error);
		succeed(sgpu_ring_reap(client, &result, 1, &count, &error), &error);
	}
}

/* The child leaves what it does and does this. */
static void turn_to(enum mode mode, struct sgpu_ring_client *client)
{
	static bool open; /* an operation that only woke the worker, which serves it when it is back
			     at the ring */
	const enum mode before = (enum mode)atomic_load(&board->mode);

	atomic_store(&board->mode, (uint32_t)mode);
	if (before == PIPE) {
		must(write(to_child[1], "", 1) == 1, "cannot write");
	} else if (before == RING) {
		submit_empty(client);
		open = true;
	}
	while (atomic_load(&board->ready) != (uint32_t)mode) {
		sched_yield();
	}
	if (mode == RING && open) {
		await_one(client);
		open = false;
	}
}

static double time_line(void)
{
	uint64_t begin = sgpu_now_ns(), turn = atomic_load(&board->line) + 1;

	for (int i = 0; i < TRIPS; i++, turn += 2) {
		atomic_store_explicit(&board->line, turn, memory_order_release);
		while (atomic_load_explicit(&board->line, memory_order_acquire) == turn) {
		}
	}
	return (double)(sgpu_now_ns() - begin) / TRIPS;
}

static double time_ring(struct sgpu_ring_client *client, int trips)
{
	uint64_t begin = sgpu_now_ns();

	for (int i = 0; i < trips; i++) {
		submit_empty(client);
		await_one(client);
	}
	return (double)(sgpu_now_ns() - begin) / trips;
}

static double time_pipe(void)
{
	uint64_t begin = sgpu_now_ns();
	char byte = 1;

	for (int i = 0; i < PIPE_TRIPS; i++) {
		must(write(to_child[1], &byte, 1) == 1 && read(to_parent[0], &byte, 1) == 1,
		     "cannot use a pipe");
	}
	return (double)(sgpu_now_ns() - begin) / PIPE_TRIPS;
}

/* Nanoseconds an operation, with as many on their way as the ring takes. */
static double time_many(struct sgpu_ring_client *client)
{
	static const struct sgpu_ring_descriptor empty = { .opcode = SGPU_RING_NOP };
	struct sgpu_ring_result results[64];
	struct sgpu_error error;
	uint64_t begin = sgpu_now_ns();
	size_t submitted = 0, reaped = 0, count;
	int code = SGPU_OK;

	while (reaped < OPERATIONS) {
		while (submitted < OPERATIONS) {
			code = sgpu_ring_submit(client, &empty, NULL, &error);
			if (code == SGPU_ERETRY) {
				break;
			}
			succeed(code, &error);
			submitted++;
		}
		succeed(sgpu_ring_reap(client, results, 64, &count, &error), &error);
		if (!count) {
			succeed(sgpu_ring_client_wait(client, 0, &error), &error);
		}
		reaped += count;
	}
	return (double)(sgpu_now_ns() - begin) / OPERATIONS;
}

/* ---- system calls ---- */

static void refuse_call(int signal, siginfo_t *info, void *context)
{
	ucontext_t *machine = context;

	(void)signal;
	(void)info;
	atomic_fetch_add(&board->calls, 1);
#if defined(__x86_64__)
	machine->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#else
	(void)machine;
#endif
}

/* From here on every system call of this process is counted and refused, but those by which it
 * ends. */
static void count_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = { .len = SGPU_ARRAY_LENGTH(filter), .filter = filter };
	struct sigaction action = { .sa_sigaction = refuse_call, .sa_flags = SA_SIGINFO };

	must(sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
	     "cannot filter system calls");
	atomic_fetch_add(&board->trapping, 1);
	while (atomic_load(&board->trapping) < 2) {
	}
}

/* ---- putting it together ---- */

static struct sgpu_ring_client *open_client(uint64_t spin_ns)
{
	const struct sgpu_ring_client_config config = { .doorbell = ends[0],
							.wait = { spin_ns, spin_ns, false } };
	struct sgpu_ring_client *client;
	struct sgpu_error error;

	succeed(sgpu_ring_client_open(memory_fd, &config, &client, &error), &error);
	return client;
}

static struct sgpu_ring_worker *open_worker(uint64_t spin_ns)
{
	const struct sgpu_ring_worker_config config = { .doorbell = ends[1],
							.wait = { spin_ns, spin_ns, false } };
	struct sgpu_ring_worker *worker;
	struct sgpu_error error;

	succeed(sgpu_ring_worker_open(memory_fd, &config, &worker, &error), &error);
	return worker;
}

static void make_ring(void)
{
	struct sgpu_error error;

	succeed(sgpu_ring_memory_create(256, 512, &memory_fd, &error), &error);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "cannot make sockets");
}

static void drop_ring(void)
{
	close(memory_fd);
	close(ends[0]);
	close(ends[1]);
}

/* Two children, since neither may do anything else afterwards. They never sleep. */
static uint64_t run_counted(void)
{
	pid_t client, worker;
	int status[2];

	make_ring();
	atomic_store(&board->mode, RING);
	worker = fork();
	if (worker == 0) {
		struct sgpu_ring_worker *w = open_worker(100 * (uint64_t)SECOND);

		pin(1);
		count_calls();
		serve_ring(w);
		_exit(0);
	}
	client = fork();
	if (client == 0) {
		struct sgpu_ring_client *c = open_client(100 * (uint64_t)SECOND);

		pin(0);
		count_calls();
		(void)time_ring(c, COUNTED);
		for (int i = 0; i < COUNTED / OPERATIONS; i++) {
			(void)time_many(c);
		}
		atomic_store(&board->mode, QUIT);
		submit_empty(c); /* so that the worker looks at the mode */
		_exit(0);
	}
	must(worker > 0 && client > 0, "cannot fork");
	must(waitpid(client, &status[0], 0) == client && waitpid(worker, &status[1], 0) == worker,
	     "cannot wait");
	must(status[0] == 0 && status[1] == 0, "a side under the filter ended badly");
	drop_ring();
	return atomic_load(&board->calls);
}

static double cpu_seconds(const struct rusage *usage)
{
	return (double)usage->ru_utime.tv_sec + (double)usage->ru_stime.tv_sec +
	       ((double)usage->ru_utime.tv_usec + (double)usage->ru_stime.tv_usec) / 1e6;
}

/* A worker that waits for two seconds, as it would in service. */
static double run_idle(void)
{
	struct rusage usage;
	struct sgpu_error error;
	pid_t worker;

	make_ring();
	worker = fork();
	if (worker == 0) {
		_exit(sgpu_ring_worker_wait(open_worker(0), sgpu_now_ns() + 2 * (uint64_t)SECOND,
					    &error) != SGPU_ETIMEOUT);
	}
	must(worker > 0 && wait4(worker, NULL, 0, &usage) == worker, "cannot run a worker");
	drop_ring();
	return cpu_seconds(&usage);
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double print(const char *what, double *times, int rounds)
{
	qsort(times, (size_t)rounds, sizeof(*times), by_value);
	printf("%-44s median %8.1f ns, least %8.1f ns\n", what, times[rounds / 2], times[0]);
	return times[rounds / 2];
}

static void run_rounds(int rounds)
{
	static double times[4][ROUNDS_MOST];
	struct sgpu_ring_client *client = open_client(0);
	double line, ring, pipe_trip, many;

	for (int i = 0; i < rounds; i++) {
		turn_to(LINE, client);
		times[0][i] = time_line();
		turn_to(RING, client);
		times[1][i] = time_ring(client, TRIPS);
		times[2][i] = time_many(client);
		turn_to(PIPE, client);
		times[3][i] = time_pipe();
	}
	turn_to(QUIT, client);
	line = print("round trip, bare cache line", times[0], rounds);
	ring = print("round trip, empty operation over a ring", times[1], rounds);
	many = print("empty operation, many on their way", times[2], rounds);
	pipe_trip = print("round trip, one byte over pipes", times[3], rounds);
	printf("ring / bare line %.2f (goal: at most 2)\n", ring / line);
	printf("pipe / ring %.1f (goal: at least 20)\n", pipe_trip / ring);
	printf("%.2f million empty operations a second (goal: at least 1)\n", 1000 / many);
	sgpu_ring_client_close(&client);
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 200;
	pid_t child;

	cores_found = sgpu_find_cores(cores);
	must(rounds > 0 && rounds <= ROUNDS_MOST, "rounds are 1 to 10000");
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	must(board != MAP_FAILED && pipe(to_child) == 0 && pipe(to_parent) == 0, "cannot set up");
	printf("system calls for %d operations of both sides: %llu (goal: 0)\n", 2 * COUNTED,
	       (unsigned long long)run_counted());
	printf("processor time of an idle worker in 2 s: %.4f s (goal: none)\n", run_idle());
	fflush(stdout);
	make_ring();
	atomic_store(&board->mode, LINE);
	child = fork();
	if (child == 0) {
		pin(1);
		serve(open_worker(0));
		_exit(0);
	}
	must(child > 0, "cannot fork");
	pin(0);
	run_rounds(rounds);
	must(waitpid(child, NULL, 0) == child, "cannot wait");
	return 0;
}
