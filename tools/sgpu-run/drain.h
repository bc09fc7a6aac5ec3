/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs all batches of a spool, several at once.
 */
#ifndef SGPU_RUN_DRAIN_H
#define SGPU_RUN_DRAIN_H

#include "spool.h"
#include "worker.h"

struct drain_counts {
	uint64_t answered,
		partly;	 /* batches with a response; those of them with segments that failed */
	uint64_t failed; /* batches without one */
	unsigned left, others; /* names that are no batches; batches for keys of others */
};

/* Until nothing is left or drain_stop() was called. Returns the exit status: 0, or of the codes of
 * all batches that of the gravest (3, 4, 1, 5), or 3 after a message when the worker cannot go on;
 * then what it had is given back. */
int drain(const struct worker *worker, struct spool *spool, uint64_t timeout_ns,
	  struct drain_counts *counts);
/* Takes no more batches: what is under way ends. Async-signal-safe. */
void drain_stop(void);

#endif
