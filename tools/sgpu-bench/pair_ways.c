/* SPDX-License-Identifier: Apache-2.0
 *
 * How one process wakes the other. A wait that a signal interrupts goes on.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/spin.h"
#include "pair.h"

/* ---- descriptors ---- */
static int make_eventfd(int fds[2])
{
	fds[0] = eventfd(0, EFD_CLOEXEC);
	fds[1] = fds[0] < 0 ? -1 : dup(fds[0]);
	return fds[1] < 0 ? -1 : 0;
}

static int make_sockets(int fds[2])
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
}

static bool send_bytes(struct pair *pair, enum pair_direction direction)
{
	const uint64_t one = 1;

	return write(pair->fds[2 * direction + 1], &one, sizeof(one)) == sizeof(one);
}

static bool await_bytes(struct pair *pair, enum pair_direction direction)
{
	uint64_t one;
	ssize_t got;

	do {
		got = read(pair->fds[2 * direction], &one, sizeof(one));
	} while (got < 0 && errno == EINTR);
	return got == sizeof(one);
}

/* ---- words in shared memory ---- */
static bool send_word(struct pair *pair, enum pair_direction direction)
{
	_Atomic uint32_t *word = &pair->words->sent[direction].count;

	atomic_fetch_add(word, 1);
	return pair->way->spins || syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0;
}

/* Until the word is another, by one of three ways to wait. */
static bool await_word(struct pair *pair, enum pair_direction direction)
{
	_Atomic uint32_t *word = &pair->words->sent[direction].count;
	const uint32_t seen = pair->seen[direction]++;

	while (atomic_load(word) == seen) {
		if (!pair->way->spins) {
			(void)syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
		} else if (pair->way->open) {
			sgpu_umwait(word, seen);
		} else {
			sgpu_pause();
		}
	}
	return true;
}

static int find_umwait(struct pair *pair, struct sgpu_error *error)
{
	(void)pair;
	return sgpu_has_umwait() ? SGPU_OK
				 : sgpu_fail(error, SGPU_EUNAVAILABLE,
					     "this processor has no UMWAIT (WAITPKG)");
}

/* ---- rings ---- */
static int open_ring(struct pair *pair, struct sgpu_error *error)
{
	struct sgpu_ring_client_config client = { .wait = pair->way->wait };
	struct sgpu_ring_worker_config worker = { .members[SGPU_RING_OPCODE_SERVICE] =
							  SGPU_RING_KNOWN,
						  .wait = pair->way->wait };
	int memory = -1, rc;

	if (make_sockets(&pair->fds[1]) != 0) { /* both ends stay open on both sides */
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
#define BYTES .send = send_bytes, .await = await_bytes
#define RING .open = open_ring, .send = send_ring, .await = await_ring
/* Longer than a process is idle here; one that sleeps after it can be told that the other one has
 * gone. */
#define LONG_NS ((uint64_t)500000000)

const struct pair_way pair_ways[] = {
	[PAIR_PIPE] = { "pipe", .make = pipe, BYTES },
	[PAIR_SOCKET] = { "unix socket", .make = make_sockets, BYTES },
	[PAIR_EVENTFD] = { "eventfd", .make = make_eventfd, BYTES },
	[PAIR_FUTEX] = { "futex", .send = send_word, .await = await_word },
	[PAIR_SPIN] = { "spin", true, .send = send_word, .await = await_word },
	[PAIR_UMWAIT] = { "umwait", true, .open = find_umwait, .send = send_word,
			  .await = await_word },
	[PAIR_RING_SPIN] = { "ring, spin", true, { LONG_NS, LONG_NS, false }, RING },
	[PAIR_RING_WAIT] = { "ring, wait", true, { 0, 0, false }, RING },
	[PAIR_RING_SLEEP] = { "ring, sleep", false, { 0, 0, true }, RING },
};
