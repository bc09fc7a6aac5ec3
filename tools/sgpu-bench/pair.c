/* SPDX-License-Identifier: Apache-2.0
 *
 * The other process is a fork: it shares the descriptors and the memory, and makes nothing of its
 * own. A wait that a signal interrupts goes on.
 */
#include "pair.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/attest.h>

#include "base/cores.h"
#include "base/spin.h"

/* ---- pipes ---- */
static int open_pipes(struct pair *pair, struct sgpu_error *error)
{
	return pipe(&pair->fds[0]) == 0 && pipe(&pair->fds[2]) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot make a pipe");
}

static bool send_byte(struct pair *pair, enum pair_direction direction)
{
	return write(pair->fds[2 * direction + 1], "", 1) == 1;
}

static bool await_byte(struct pair *pair, enum pair_direction direction)
{
	ssize_t got;
	char byte;

	do {
		got = read(pair->fds[2 * direction], &byte, 1);
	} while (got < 0 && errno == EINTR);
	return got == 1;
}

/* ---- words in shared memory ---- */
static int open_words(struct pair *pair, struct sgpu_error *error)
{
	void *memory = mmap(NULL, 2 * sizeof(*pair->words), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		return sgpu_fail_nomem(error);
	}
	pair->words = memory;
	return SGPU_OK;
}

static bool send_word(struct pair *pair, enum pair_direction direction)
{
	atomic_fetch_add(&pair->words[direction].count, 1);
	return true;
}

static bool await_word(struct pair *pair, enum pair_direction direction)
{
	const uint32_t seen = pair->seen[direction]++;

	while (atomic_load(&pair->words[direction].count) == seen) {
		sgpu_pause();
	}
	return true;
}

/* ---- rings ---- */
static int open_ring(struct pair *pair, struct sgpu_error *error)
{
	struct sgpu_ring_client_config client = { .wait = pair->way->wait };
	struct sgpu_ring_worker_config worker = { .members[SGPU_RING_OPCODE_SERVICE] =
							  SGPU_RING_KNOWN,
						  .wait = pair->way->wait };
	int memory = -1, rc;

	/* Both ends stay open on both sides. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, &pair->fds[1]) != 0) {
		return sgpu_fail_errno(error, "cannot make a pair of sockets");
	}
	client.doorbell = pair->fds[1];
	worker.doorbell = pair->fds[2];
	rc = sgpu_ring_memory_create(2, 2, &memory, error);
	rc = rc == SGPU_OK ? sgpu_ring_client_open(memory, &client, &pair->client, error) : rc;
	rc = rc == SGPU_OK ? sgpu_ring_worker_open(memory, &worker, &pair->worker, error) : rc;
	if (memory >= 0) {
		close(memory);
	}
	return rc;
}

static bool send_ring(struct pair *pair, enum pair_direction direction)
{
	static const struct sgpu_ring_descriptor empty = { .opcode = SGPU_RING_OPCODE_SERVICE };

	return direction == PAIR_THERE
		       ? sgpu_ring_submit(pair->client, &empty, NULL, NULL) == SGPU_OK
		       : sgpu_ring_finish(pair->worker, pair->ticket, SGPU_OK, 0, NULL) == SGPU_OK;
}

static bool await_ring(struct pair *pair, enum pair_direction direction)
{
	enum sgpu_ring_event event = SGPU_RING_BUSY;
	struct sgpu_ring_operation operation = { .ticket = 0 };
	struct sgpu_ring_result result;
	size_t count = 0;
	int rc = SGPU_OK;

	while (direction == PAIR_THERE && rc == SGPU_OK && event != SGPU_RING_START) {
		rc = sgpu_ring_next(pair->worker, &operation, &event, NULL);
		rc = rc == SGPU_OK && event == SGPU_RING_IDLE
			     ? sgpu_ring_worker_wait(pair->worker, 0, NULL)
			     : rc;
	}
	while (direction == PAIR_BACK && rc == SGPU_OK && count == 0) {
		rc = sgpu_ring_client_wait(pair->client, 0, NULL);
		rc = rc == SGPU_OK ? sgpu_ring_reap(pair->client, &result, 1, &count, NULL) : rc;
	}
	pair->ticket = operation.ticket;
	return rc == SGPU_OK;
}

/* ---- the table ---- */
/* Longer than a process is idle here; one that sleeps after it can be told that the other one has
 * gone. */
#define LONG_NS ((uint64_t)500000000)

const struct pair_way pair_ways[PAIR_WAYS] = {
	{ "pipe", false, { 0, 0, false }, open_pipes, send_byte, await_byte },
	{ "spin", true, { 0, 0, false }, open_words, send_word, await_word },
	{ "ring, spin", true, { LONG_NS, LONG_NS, false }, open_ring, send_ring, await_ring },
	{ "ring, wait", true, { 0, 0, false }, open_ring, send_ring, await_ring },
	{ "ring, sleep", false, { 0, 0, true }, open_ring, send_ring, await_ring },
};

/* ---- both processes ---- */
/* If the other process dies, this thread answers in its place: so no wait has to look for that,
 * which would take time. */
static void *watch(void *argument)
{
	struct pair *pair = argument;
	siginfo_t info;

	while (waitid(P_PID, (id_t)pair->child, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
	}
	pair->is_dead = true;
	if (pair->client) {
		(void)shutdown(pair->fds[1], SHUT_RDWR);
	} else {
		(void)pair->way->send(pair, PAIR_BACK);
	}
	return NULL;
}

static _Noreturn void run_child(struct pair *pair, const int *cpus, pid_t parent)
{
	sigset_t all;

	sigfillset(&all); /* the parent says when it ends */
	if (sigprocmask(SIG_BLOCK, &all, NULL) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
	    getppid() == parent && (!cpus || sgpu_bind_to_cpu(cpus[1]))) {
		while (pair->way->await(pair, PAIR_THERE) && pair->way->send(pair, PAIR_BACK)) {
		}
	}
	_exit(1);
}

int pair_start(struct pair *pair, const struct pair_way *way, const int *cpus,
	       struct sgpu_error *error)
{
	const pid_t parent = getpid();
	struct sgpu_platform platform;
	int rc, failed;

	*pair = (struct pair){ .way = way, .fds = { -1, -1, -1, -1 } };
	CPU_ZERO(&pair->before);
	sgpu_platform_detect(&platform);
	if (platform.kind == SGPU_PLATFORM_GRAMINE_SGX ||
	    platform.kind == SGPU_PLATFORM_GRAMINE_DIRECT) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "two processes share no memory under Gramine");
	}
	rc = way->open(pair, error);
	if (rc < 0) {
		return rc;
	}
	if (cpus && (sched_getaffinity(0, sizeof(pair->before), &pair->before) != 0 ||
		     !sgpu_bind_to_cpu(cpus[0]))) {
		return sgpu_fail_errno(error, "cannot bind to processor %d", cpus[0]);
	}
	pair->child = fork();
	if (pair->child == 0) {
		run_child(pair, cpus, parent);
	}
	if (pair->child < 0) {
		return sgpu_fail_errno(error, "cannot start another process");
	}
	failed = pthread_create(&pair->watcher, NULL, watch, pair);
	pair->is_watched = failed == 0;
	return failed ? sgpu_fail(error, SGPU_ESYSTEM, "cannot start a thread: %s",
				  strerror(failed))
		      : SGPU_OK;
}

void pair_end(struct pair *pair)
{
	if (pair->child > 0) {
		kill(pair->child, SIGKILL);
		if (pair->is_watched) {
			pthread_join(pair->watcher, NULL);
		}
		(void)waitpid(pair->child, NULL, 0);
	}
	sgpu_ring_client_close(&pair->client);
	sgpu_ring_worker_close(&pair->worker);
	for (int i = 0; i < 4; i++) {
		close(pair->fds[i]); /* or -1 */
	}
	if (pair->words) {
		munmap(pair->words, 2 * sizeof(*pair->words));
	}
	if (CPU_COUNT(&pair->before) > 0) {
		(void)sched_setaffinity(0, sizeof(pair->before), &pair->before);
	}
}

int pair_trip(struct pair *pair, struct sgpu_error *error)
{
	if (!pair->way->send(pair, PAIR_THERE) || !pair->way->await(pair, PAIR_BACK) ||
	    pair->is_dead) {
		return sgpu_fail(error, SGPU_ESYSTEM, "%s: no answer of the other process",
				 pair->way->name);
	}
	return SGPU_OK;
}
