/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over a spool's batches, which a sgpu-enclave runs. One thread claims batches, submits
 * them, hears their ends, and closes those that have ended.
 */
#ifndef SGPU_DRAIN_H
#define SGPU_DRAIN_H

#include "enclave_link.h"
#include "spool.h"
#include "wire.h"

struct drain_counts {
	uint64_t answered, partly; /* batches with a response; those of them with failed segments */
	uint64_t failed;	   /* batches without a response */
	unsigned left, others;	   /* files that are no batches; batches for others' keys */
};

/* Runs until nothing is left or drain_stop() was called. Returns the exit status: 0; the gravest of
 * all batches (3, 4, 2, 1, 5); EX_TEMPFAIL if all are for other keys; or, after a message, that of
 * the error that stops the worker, whose batches are then given back. most: batches under way;
 * memory_free: bytes that the enclave's device has. */
int drain(struct link *enclave, unsigned most, uint64_t memory_free, struct spool *spool,
	  uint64_t timeout_ns, struct drain_counts *counts);
/* Tells drain() to claim no more batches, and to finish those under way. Async-signal-safe. */
void drain_stop(void);
/* Most batches under way. jobs: workers of the CPU device, or 0. */
unsigned drain_most(unsigned jobs);

#endif
