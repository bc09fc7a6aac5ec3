/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over a spool's batches, which a sgpu-enclave runs. One thread claims, submits, hears and
 * closes them.
 */
#ifndef SGPU_DRAIN_H
#define SGPU_DRAIN_H

#include "enclave_link.h"
#include "spool.h"
#include "wire.h"

struct drain_counts {
	uint64_t answered, partly; /* batches with a response; of these, with failed segments */
	uint64_t failed;	   /* batches without a response */
	unsigned left, others;	   /* files that are no batches; batches for others' keys */
};

/* Runs until nothing is left or drain_stop() is called. Returns the exit status: 0; the gravest of
 * all batches (3, 4, 2, 1, 5); EX_TEMPFAIL if all are for other keys; or, after a message, that of
 * the error that stops the worker, which then gives its batches back. most: batches under way;
 * memory_free: of the enclave's device, in bytes. */
int drain(struct link *enclave, unsigned most, uint64_t memory_free, struct spool *spool,
	  uint64_t timeout_ns, struct drain_counts *counts);
/* Has drain() claim no more batches, and finish those under way. Async-signal-safe. */
void drain_stop(void);
/* Most batches under way. jobs: workers of the CPU device, or 0. */
unsigned drain_most(unsigned jobs);

#endif
