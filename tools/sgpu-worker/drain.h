/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over a spool's batches, and the devices that run them. One thread claims batches,
 * submits them, hears their ends, and closes those that have ended.
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

enum { LANE_BATCHES_MAX = 64 }; /* under way on a device */

/* A device: a sgpu-enclave, and the batches that it has. */
struct lane {
	struct link link;
	uint64_t memory_free;	       /* bytes */
	unsigned flights;	       /* batches under way */
	uint64_t bytes;		       /* of their files */
	uint64_t started;	       /* so far */
	bool broken;		       /* the device failed */
	int resting[LANE_BATCHES_MAX]; /* connections without a batch, for the next ones */
	unsigned rests;
};

struct lanes {
	struct lane list[RUNNER_DEVICES_MAX];
	int count;
};

/* lanes.c. Starts the enclaves, and waits until they are ready. Adds the ids of their keys to
 * `options`. submissions: most batches of each at a time. Returns 0, or the exit status after a
 * message. */
int lanes_start(struct lanes *lanes, const struct runner_options *runner, uint64_t submissions,
		struct spool_options *options);
void lanes_end(struct lanes *lanes);
struct flight;
/* Errors: SGPU_EDEVICE: the enclave has ended. */
SGPU_MUST_CHECK int lane_submit(struct flight *flight, uint64_t timeout_ns);
/* Receives what the enclave says of the batch. Returns whether it has ended. */
bool lane_hear(struct flight *flight);

/* Runs until nothing is left or drain_stop() was called. Returns the exit status: 0; the gravest of
 * all batches (3, 4, 2, 1, 5); EX_TEMPFAIL if all are for other keys; or, after a message, that of
 * the error that stops the worker, whose batches are then given back. jobs: workers of the CPU
 * device, or 0. */
int drain(struct lanes *lanes, unsigned jobs, struct spool *spool, uint64_t timeout_ns,
	  struct drain_counts *counts);
/* Tells drain() to claim no more batches, and to finish those under way. Async-signal-safe. */
void drain_stop(void);
/* Most batches under way on a device. */
unsigned drain_most(unsigned jobs, int devices);

/* A batch from its claim until it is put away. */
struct flight {
	struct flight *next;
	struct lane *lane; /* the device that runs it, or NULL */
	struct spool_batch *batch;
	int connection; /* -1: nothing is run, or it has ended */
	bool alone;	/* runs while no other is under way */
	uint64_t needs; /* bytes that its response needs; 0: not known */
	bool full;	/* its response found no space */
	bool again;	/* to be run once more, alone, after all others */
	int code;
	struct sgpu_error error;
	struct report report;
};

#endif
