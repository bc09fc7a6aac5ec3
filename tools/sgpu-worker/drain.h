/* SPDX-License-Identifier: Apache-2.0
 *
 * State that the thread that drains a spool shares with its closer. */
#ifndef SGPU_RUN_DRAIN_H
#define SGPU_RUN_DRAIN_H

#include <pthread.h>

#include "spool.h"
#include "enclave.h"

struct drain_counts {
	uint64_t answered, partly; /* batches with a response; those of them with failed segments */
	uint64_t failed;	   /* batches without a response */
	unsigned left, others;	   /* files that are no batches; batches for others' keys */
};

/* Runs until nothing is left or drain_stop() was called. Returns the exit status: 0; the gravest of
 * all batches (3, 4, 2, 1, 5); EX_TEMPFAIL if all are for other keys; or, after a message, that of
 * the error that stops the worker, whose batches are then given back. */
int drain(const struct enclave *worker, struct spool *spool, uint64_t timeout_ns,
	  struct drain_counts *counts);
/* Tells drain() to claim no more batches, and to finish those under way. Async-signal-safe. */
void drain_stop(void);

/* A device, and the batches on it. */
struct lane {
	const struct enclave_device *device;
	/* for the thread of drain() alone */
	unsigned flights; /* batches under way or not closed yet */
	uint64_t bytes;	  /* bytes of their files */
	bool big;	  /* a big batch is among them */
	uint64_t started; /* batches started so far */
	/* under drain's mutex */
	unsigned under_way;
	uint64_t bytes_under_way;
	bool broken; /* the device failed */
};

/* A batch from its claim until it is put away. */
struct flight {
	struct flight *next, *next_flying;
	struct drain *drain;
	struct lane *lane; /* the device, once the batch was started */
	struct spool_batch *batch;
	struct sgpu_run *run; /* NULL: nothing is run */
	uint64_t size, begin_ns;
	bool big;
	bool alone;	 /* runs while no other is under way */
	bool last;	 /* the last try, after all other batches */
	bool no_space;	 /* its response found no space in an earlier try */
	uint64_t needs;	 /* bytes that its response needs; 0: not known */
	bool full;	 /* in this try its response found no space */
	bool ended;	 /* the closer owns `run` now; under the mutex */
	bool given_back; /* given back, since its device failed */
	enum { ONCE, AGAIN_ALONE, AGAIN_LAST } again; /* next try: alone; or after all others */
	int code;
	struct sgpu_error error;
};

struct queue {
	struct flight *head, **tail;
};

struct drain {
	const struct enclave *worker;
	struct spool *spool;
	uint64_t timeout_ns, begin_ns;
	/* for the thread of drain() alone */
	struct flight *flying;	   /* batches under way or not closed, in no order */
	struct flight *held;	   /* a claimed batch that no device has room for */
	struct queue again, aside; /* batches to run once more; those to run after all others */
	unsigned aside_count;
	struct lane lanes[ENCLAVE_DEVICES_MAX];
	int lane_count;
	unsigned flights, most; /* batches not closed yet; most under way on a device */
	uint64_t bytes_most;	/* most bytes of files on one device */
	bool alone;		/* a batch that runs alone is under way */
	int patience_ms;
	bool dry, looked; /* at the last look no batch was left; none was under way */
	/* under drain's mutex */
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct queue ended, closed;
	unsigned news, enough; /* batches ended since the last look; how many wake drain() */
	bool finished;	       /* no more batches will end */
	bool broken;	       /* the worker cannot go on, because of `error` */
	struct sgpu_error error;
	struct drain_counts counts;
	int status;
	/* for the closer alone */
	uint64_t largest; /* bytes of the largest response written */
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
