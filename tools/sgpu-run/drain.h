/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the thread that drains a spool and its closer.
 */
#ifndef SGPU_RUN_DRAIN_H
#define SGPU_RUN_DRAIN_H

#include <pthread.h>

#include "spool.h"
#include "worker.h"

/* Runs all batches of a spool, several at once. */

struct drain_counts {
	uint64_t answered, partly; /* with a response; of these with failed segments */
	uint64_t failed;	   /* batches without one */
	unsigned left, others;	   /* no batches; for others' keys */
};

/* Runs until nothing is left or drain_stop() was called. Returns the exit status: 0, or the gravest
 * of all batches (3, 4, 1, 5), or 3 after a message when the worker cannot go on; what it had is
 * given back then. */
int drain(const struct worker *worker, struct spool *spool, uint64_t timeout_ns,
	  struct drain_counts *counts);
/* Takes no more batches: what is under way ends. Async-signal-safe. */
void drain_stop(void);

/* A device, and what is on it. */
struct lane {
	const struct worker_device *device;
	/* the calling thread's */
	unsigned flights; /* under way or not closed */
	uint64_t bytes;	  /* of those */
	bool big;	  /* a big one is among them */
	uint64_t started; /* so far */
	/* under the mutex */
	unsigned under_way;
	uint64_t bytes_under_way;
	bool broken; /* the device failed */
};

/* A batch on its way. */
struct flight {
	struct flight *next, *next_flying;
	struct drain *drain;
	struct lane *lane; /* once it was started */
	struct spool_batch *batch;
	struct sgpu_run *run; /* NULL: nothing is run */
	uint64_t size, begin_ns;
	bool big;
	bool alone;	 /* no other is under way */
	bool last;	 /* the last try, after others */
	bool no_space;	 /* it had found none before */
	uint64_t needs;	 /* bytes of a response that found none; 0: not known */
	bool full;	 /* nor now: no matter of the machine's other disks */
	bool ended;	 /* `run` is the closer's; under the mutex */
	bool given_back; /* to the directory: its device failed */
	enum { ONCE, AGAIN_ALONE, AGAIN_LAST } again; /* once more: alone; or after all others */
	int code;
	struct sgpu_error error;
};

struct queue {
	struct flight *head, **tail;
};

struct drain {
	const struct worker *worker;
	struct spool *spool;
	uint64_t timeout_ns, begin_ns;
	/* the calling thread's */
	struct flight *flying;	   /* in no order */
	struct flight *held;	   /* claimed, while there is no room for it */
	struct queue again, aside; /* to run once more; those after others */
	unsigned aside_count;
	struct lane lanes[WORKER_DEVICES_MAX];
	int lane_count;
	unsigned flights, most; /* not closed yet; most under way on a device */
	uint64_t bytes_most;	/* of one device */
	bool alone;		/* a big one is under way */
	int patience_ms;
	bool dry, looked; /* none was left; and none under way then */
	/* under the mutex */
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct queue ended, closed;
	unsigned news, enough; /* ended since the last look; how many wake the caller */
	bool finished;	       /* nothing more will end */
	bool broken;	       /* the worker cannot go on: `error` */
	struct sgpu_error error;
	struct drain_counts counts;
	int status;
	/* the closer's */
	uint64_t largest; /* bytes, of the responses that were written */
};

void drain_put(struct queue *queue, struct flight *flight);
struct flight *drain_take_all(struct queue *queue);
/* Wakes the calling thread; async-signal-safe. */
void drain_wake(void);
/* The worker cannot go on. The first reason stays. */
void drain_break_off(struct drain *drain, const struct sgpu_error *error);

/* The closer: a thread of struct drain. */
void *drain_close(void *drain);
/* The graver of two batches' exit statuses. */
int drain_graver(int one, int other);

#endif
