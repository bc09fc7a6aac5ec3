/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for the other side: spinning for a time that adapts, then sleeping; and waking the other
 * side, which costs a system call only if it sleeps.
 */
#ifndef SGPU_RING_WAIT_H
#define SGPU_RING_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/memory.h"
#include "ring/queue.h"

/* How a side sleeps, in its word `sleeping`. */
enum sgpu_sleep { SGPU_AWAKE, SGPU_SLEEPS_ON_FUTEX, SGPU_SLEEPS_ON_DOORBELL };

/* ---- how long to spin ---- */
struct sgpu_spin_time {
	uint64_t ns, least, most;
};

/* spin_ns: as in struct sgpu_ring_config. alone: the other side cannot run while this thread spins,
 * so this thread should not spin. */
void sgpu_spin_time_set(struct sgpu_spin_time *time, uint64_t spin_ns, bool alone);
/* Adapts the time after a wait that ended in sleep. waited_ns: its length; entry: whether there is
 * an entry now. If longer spinning would have saved the sleep, the time doubles, otherwise it
 * halves. */
void sgpu_spin_time_adapt(struct sgpu_spin_time *time, uint64_t waited_ns, bool entry);

/* ---- one side of a ring ---- */
struct sgpu_sleeper {
	_Atomic uint32_t *own, *other; /* shared: the words `sleeping` of both sides */
	int doorbell;		       /* or -1 */
	struct sgpu_spin_time time;
};

void sgpu_sleeper_set(struct sgpu_sleeper *sleeper, struct sgpu_ring_side *own,
		      struct sgpu_ring_side *other, int doorbell, uint64_t spin_ns);
/* Errors: as sgpu_ring_await. */
SGPU_MUST_CHECK int sgpu_sleeper_wait(struct sgpu_sleeper *sleeper,
				      const struct sgpu_consumer *consumer, uint64_t deadline_ns,
				      struct sgpu_error *error);

void sgpu_wake_sleeper(struct sgpu_sleeper *sleeper);
/* Called after an entry was put; never waits. This load, the store that published the entry, and
 * both accesses of a side that goes to sleep are sequentially consistent. So this side sees the
 * announced sleep, or the other side sees the entry. */
static inline void sgpu_wake(struct sgpu_sleeper *sleeper)
{
	if (atomic_load_explicit(sleeper->other, memory_order_seq_cst) != SGPU_AWAKE) {
		sgpu_wake_sleeper(sleeper);
	}
}

#endif
