/* SPDX-License-Identifier: Apache-2.0
 *
 * State that the thread that drains a spool shares with its closer.
 */
#ifndef SGPU_DRAIN_H
#define SGPU_DRAIN_H

#include <pthread.h>

#include "runner.h"
#include "spool.h"
#include "wire.h"

struct drain_counts {
	uint64_t answered, partly; /* batches with a response; those of them with failed segments */
	uint64_t failed;	   /* batches without a response */
	unsigned left, others;	   /* files that are no batches; batches for others' keys */
};

/* A device: a sgpu-enclave, and the batches that it has. */
struct lane {
	char device[RUNNER_DEVICE_NAME];
	pid_t pid; /* 0: it has ended, with `status` */
	int status;
	int control;
	uint64_t memory_free; /* bytes */
	unsigned flights;     /* batches under way or not closed yet */
	unsigned under_way;
	uint64_t bytes, bytes_under_way; /* bytes of their files */
	bool big;			 /* a big batch is among them */
	uint64_t started;		 /* batches started so far */
	bool broken; /* the device failed; under drain's mutex, as the closer sets it, too */
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
/* Has the enclaves end, and waits for that. */
void lanes_end(struct lanes *lanes);
struct flight;
/* Sends a batch. Errors: SGPU_EDEVICE: the enclave has ended. */
SGPU_MUST_CHECK int lane_submit(struct lane *lane, struct flight *flight, uint64_t timeout_ns,
				struct sgpu_error *error);
/* Receives what the enclave says of the batch. Returns whether it has ended. */
bool lane_hear(struct lane *lane, struct flight *flight);

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
	struct flight *next, *next_flying;
	struct drain *drain;
	struct lane *lane; /* the device, once the batch was started */
	struct spool_batch *batch;
	int connection; /* -1: nothing is run, or it has ended */
	uint64_t size, begin_ns;
	bool big;
	bool alone;			   /* runs while no other is under way */
	uint64_t needs;			   /* bytes that its response needs; 0: not known */
	bool full;			   /* its response found no space */
	bool ended;			   /* the closer owns it now */
	bool given_back;		   /* given back, since its device failed */
	enum { ONCE, ALONE, ASIDE } again; /* to be run alone; to be given back at the end */
	int code;
	struct sgpu_error error;
	struct report report;
};

struct queue {
	struct flight *head, **tail;
};

struct drain {
	struct lanes *lanes;
	struct spool *spool;
	uint64_t timeout_ns, begin_ns;
	int signal_fd; /* tells of SIGUSR1 */
	/* for the thread of drain() alone */
	struct flight *flying;	   /* batches under way or not closed, in no order */
	struct flight *held;	   /* a claimed batch that no device has room for */
	struct queue again, aside; /* batches to run once more; those to give back at the end */
	unsigned aside_count;
	unsigned flights, most; /* batches not closed yet; most under way on a device */
	uint64_t bytes_most;	/* most bytes of files on one device */
	bool alone;		/* a batch that runs alone is under way */
	bool dry, looked;	/* at the last look no batch was left; none was under way */
	/* under drain's mutex */
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct queue ended, closed;
	bool finished; /* no more batches will end */
	bool broken;   /* the worker cannot go on, because of `error` */
	struct sgpu_error error;
	struct drain_counts counts;
	int status;
};

void drain_put(struct queue *queue, struct flight *flight);
struct flight *drain_take_all(struct queue *queue);
/* Wakes the thread of drain(); async-signal-safe. */
void drain_wake(void);
/* Records that the worker cannot go on. The first reason stays. */
void drain_break_off(struct drain *drain, const struct sgpu_error *error);

/* The closer's thread; `drain` is a struct drain. */
void *drain_close(void *drain);
/* Returns the graver of two batches' exit statuses. */
int drain_graver(int one, int other);

#endif
