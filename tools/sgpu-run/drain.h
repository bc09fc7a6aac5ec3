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

/* A device, and what is on it. */
struct lane {
	const struct worker_device *device;
	/* the calling thread's */
	unsigned flights; /* under way or not closed */
	uint64_t bytes;	  /* of those */
	bool big;	  /* such a one is among them */
	uint64_t started; /* so far */
	/* under the mutex */
	unsigned under_way;
	uint64_t bytes_under_way;
	bool broken; /* the device failed: it gets no more */
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
	bool alone;	/* no other is under way */
	bool last;	/* it is tried for the last time, after others */
	bool no_space;	/* its response found none before */
	uint64_t needs; /* bytes of the response at least, if it found none; 0: not known */
	bool full;  /* nor now; the disk of the record, or another, is a matter of the machine */
	bool ended; /* `run` is the closer's; under the mutex */
	bool given_back; /* its device failed: it waits in the directory again */
	enum {
		ONCE,
		AGAIN_ALONE,
		AGAIN_LAST
	} again; /* it is to run once more: alone; alone, after all others */
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
	struct flight *flying; /* under way or not closed, in no order */
	struct flight *held;   /* claimed, while there is no room for it */
	struct queue again,
		aside; /* to run once more; those that wait for that until others have been tried */
	unsigned aside_count;
	struct lane lanes[WORKER_DEVICES_MAX];
	int lane_count;
	unsigned flights,
		most; /* those under way or not closed; how many may be under way on a device */
	uint64_t bytes_most; /* of one device */
	bool alone;	     /* such a one is under way */
	int patience_ms;
	bool dry, looked; /* there was none left; and nothing under way when that was seen */
	/* under the mutex */
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct queue ended, closed;
	unsigned news,
		enough; /* how many have ended since the calling thread looked; how many wake it */
	bool finished;	/* nothing more will end */
	bool broken;	/* the worker cannot go on: `error` */
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
/* Of two exit statuses of batches the one that says more. */
int drain_graver(int one, int other);

#endif
