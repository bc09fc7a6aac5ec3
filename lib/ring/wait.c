/* SPDX-License-Identifier: Apache-2.0
 *
 * A hostile peer may set the shared words `sleeping` to anything. This only makes the peer sleep
 * on, wake this side too often, or be woken by a system call that cannot block. So the doorbell is
 * a socket. An eventfd would block a writer if the peer filled it and cleared O_NONBLOCK, which
 * both ends share; MSG_DONTWAIT applies to one call. A socket also shows that the other end is
 * closed.
 */
#include "ring/private.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

/* A wake from deep idle takes 150 to 230 us on recent processors; longer spinning saves nothing. */
enum { SPIN_LEAST_NS = 1000, SPIN_MOST_NS = 200000, SPIN_FIRST_NS = 20000 };

/* ---- how long to spin ---- */

void sgpu_spin_time_set(struct sgpu_spin_time *time, uint64_t spin_ns, bool alone)
{
	*time = alone || spin_ns
			? (struct sgpu_spin_time){ spin_ns, spin_ns, spin_ns }
			: (struct sgpu_spin_time){ SPIN_FIRST_NS, SPIN_LEAST_NS, SPIN_MOST_NS };
}

void sgpu_spin_time_adapt(struct sgpu_spin_time *time, uint64_t waited_ns, bool entry)
{
	if (entry && waited_ns < time->most) {
		time->ns = time->ns < time->most / 2 ? time->ns * 2 : time->most;
	} else {
		time->ns = time->ns / 2 > time->least ? time->ns / 2 : time->least;
	}
}

/* ---- sleeping ---- */

void sgpu_sleeper_set(struct sgpu_sleeper *sleeper, struct sgpu_ring_side *own,
		      struct sgpu_ring_side *other, int doorbell, uint64_t spin_ns)
{
	/* Without a doorbell, both sides are threads of this process and share its processors. */
	const bool alone =
		doorbell >= 0 ? sysconf(_SC_NPROCESSORS_ONLN) == 1 : sgpu_cpu_count() == 1;

	sleeper->own = &own->sleeping;
	sleeper->other = &other->sleeping;
	sleeper->doorbell = doorbell;
	sgpu_spin_time_set(&sleeper->time, spin_ns, alone);
}

/* Announces sleep, then looks for an entry again. If there is one, withdraws the announcement and
 * returns false. sgpu_wake says why both accesses are sequentially consistent. */
static bool arm(struct sgpu_sleeper *sleeper, const struct sgpu_consumer *consumer)
{
	const uint32_t how =
		sleeper->doorbell >= 0 ? SGPU_SLEEPS_ON_DOORBELL : SGPU_SLEEPS_ON_FUTEX;

	atomic_store_explicit(sleeper->own, how, memory_order_seq_cst);
	if (sgpu_consumer_ready(consumer)) {
		atomic_store_explicit(sleeper->own, SGPU_AWAKE, memory_order_relaxed);
		return false;
	}
	return true;
}

/* Discards up to 4096 bytes that the other side sent. True: the other end is closed. */
static bool is_closed(int doorbell)
{
	char bytes[4096];
	ssize_t got;

	do {
		got = recv(doorbell, bytes, sizeof(bytes), MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

/* After sleep, withdraws the announcement and empties the doorbell. SGPU_ESYSTEM: the other end is
 * closed and no entry is left. */
static int disarm(struct sgpu_sleeper *sleeper, const struct sgpu_consumer *consumer,
		  struct sgpu_error *error)
{
	atomic_store_explicit(sleeper->own, SGPU_AWAKE, memory_order_relaxed);
	/* Entries put before the closing can still be read, so check for the closing first. */
	if (sleeper->doorbell >= 0 && is_closed(sleeper->doorbell) &&
	    !sgpu_consumer_ready(consumer)) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the other side of the ring has gone");
	}
	return SGPU_OK;
}

/* May wake for no reason, so the caller looks again. */
static void sleep_until(struct sgpu_sleeper *sleeper, uint64_t now, uint64_t deadline_ns)
{
	const uint64_t ns = deadline_ns > now ? deadline_ns - now : 0;
	const struct timespec left = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	struct pollfd bell = { .fd = sleeper->doorbell, .events = POLLIN | POLLRDHUP };

	if (sleeper->doorbell >= 0) {
		(void)ppoll(&bell, 1, deadline_ns ? &left : NULL, NULL);
	} else {
		(void)syscall(SYS_futex, sleeper->own, FUTEX_WAIT, SGPU_SLEEPS_ON_FUTEX,
			      deadline_ns ? &left : NULL, NULL, 0);
	}
}

int sgpu_sleeper_wait(struct sgpu_sleeper *sleeper, const struct sgpu_consumer *consumer,
		      uint64_t deadline_ns, struct sgpu_error *error)
{
	uint32_t empty;
	const _Atomic uint32_t *word = sgpu_consumer_word(consumer, &empty);
	uint64_t before;
	int rc;

	while (!sgpu_spin(word, empty, sleeper->time.ns)) {
		before = sgpu_now_ns();
		if (deadline_ns && before >= deadline_ns) {
			return sgpu_fail(error, SGPU_ETIMEOUT,
					 "nothing came from the other side of the ring in time");
		}
		if (!arm(sleeper, consumer)) {
			break;
		}
		sleep_until(sleeper, before, deadline_ns);
		rc = disarm(sleeper, consumer, error);
		if (rc < 0) {
			return rc;
		}
		sgpu_spin_time_adapt(&sleeper->time, sleeper->time.ns + sgpu_now_ns() - before,
				     sgpu_consumer_ready(consumer));
	}
	return SGPU_OK;
}

/* ---- waking ---- */

void sgpu_wake_sleeper(struct sgpu_sleeper *sleeper)
{
	struct iovec byte = { .iov_base = "", .iov_len = 1 };
	const struct msghdr packet = { .msg_iov = &byte, .msg_iovlen = 1 };
	const int saved = errno;

	switch (atomic_exchange_explicit(sleeper->other, SGPU_AWAKE, memory_order_seq_cst)) {
	case SGPU_SLEEPS_ON_FUTEX:
		(void)syscall(SYS_futex, sleeper->other, FUTEX_WAKE, 1, NULL, NULL, 0);
		break;
	case SGPU_SLEEPS_ON_DOORBELL:
		/* A full socket wakes the other side as well; a closed one has nobody to wake. A
		 * confined worker may call sendmsg, but not send. */
		if (sleeper->doorbell >= 0) {
			(void)sendmsg(sleeper->doorbell, &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
		}
		break;
	default:
		break; /* the other side woke by itself, or its word is invalid */
	}
	errno = saved;
}
