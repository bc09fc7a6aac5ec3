/* SPDX-License-Identifier: Apache-2.0
 *
 * What the objects of a run share. Each of them has a header of its own and knows those that it
 * includes; run.c alone knows them all. Who touches what:
 *
 *   loop      the runner's one thread: owns the graphs of all runs, starts operations and outputs
 *   readers   threads of the runner, one an active run: admit the batch, bring in its payloads,
 *             write the response
 *   workers   of the engine: read files, copy
 *   streams   the device's threads, which run kernels and callbacks
 *
 * The other threads tell the loop by notes. All of them may read what is set before the batch is
 * admitted.
 */
#ifndef SGPU_RUN_PRIVATE_H
#define SGPU_RUN_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "run/run.h"
#include "run/plan.h"
#include "transfer/transfer.h"

/* The record of a run: spans, their sums, and how payloads travelled. Any thread may add. */

struct sgpu_run_trace {
	atomic_uint_fast64_t begin_ns, end_ns; /* end: 0 while it runs */
	atomic_uint_fast64_t bytes_in, bytes_out;
	bool keeps_spans;
	int operations;	    /* rows of streams; those of the engines follow, then those of moves */
	int devices, first; /* how many, and the runner's number of the plan's first */
	pthread_mutex_t mutex; /* guards the members below */
	struct sgpu_span *spans;
	size_t count, capacity;
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_paths paths;
};

void sgpu_trace_init(struct sgpu_run_trace *trace, bool keeps_spans);
void sgpu_trace_clear(struct sgpu_run_trace *trace);
/* Adds a span. One without a begin never ran, and is left out. */
void sgpu_trace_add(struct sgpu_run_trace *trace, enum sgpu_span_kind kind, int row,
		    const char *label, uint64_t begin_ns, uint64_t end_ns, uint64_t bytes);
/* A step of a transfer, in a row of the engine of that device. */
void sgpu_trace_step(struct sgpu_run_trace *trace, int device,
		     const struct sgpu_transfer_span *span, const char *label);
/* The row of moves from one device to another. */
int sgpu_trace_move_row(const struct sgpu_run_trace *trace, int from, int to);
void sgpu_trace_paths(struct sgpu_run_trace *trace, bool out, const uint64_t bytes[SGPU_PATHS]);
/* Sorts the spans by their begin, when the run has ended. */
void sgpu_trace_sort(struct sgpu_run_trace *trace);

struct sgpu_loop;
struct sgpu_run_streams;
struct sgpu_threads;
struct sgpu_engine;
struct sgpu_prepared_table;
struct sgpu_links;

/* The kind of the runner's devices, and its limits. */
struct sgpu_run_traits {
	bool opens_on_device;
	bool pins;
	bool shared_files; /* as in struct sgpu_runner_config */
	uint64_t pinned_max;
	struct sgpu_spread_costs costs; /* the standard ones, but for tests */
	uint64_t spin_ns;		/* how long a thread looks for work before it sleeps */
};

/* A device of the runner, and the engine of its transfers. */
struct sgpu_run_device {
	int number; /* in the order of the runner's configuration */
	struct sgpu_device *device;
	struct sgpu_run_streams *streams;
	struct sgpu_engine *engine;
};

/* The part of a run that all of its objects see. */
struct sgpu_run_base {
	struct sgpu_run_traits *traits;
	struct sgpu_loop *loop;
	struct sgpu_threads *threads;
	struct sgpu_run_device devices[SGPU_RUN_DEVICES_MAX]; /* as the plan numbers them */
	int device_count;
	struct sgpu_links *links; /* between them */
	struct sgpu_prepared_table *prepared;
	struct sgpu_run_trace *trace;
	struct sgpu_submission submission;
	struct sgpu_job *job;	    /* what was admitted */
	struct sgpu_memory *memory; /* its buffers on the devices */
	struct sgpu_leases *leases; /* files and regions that it names */
	struct sgpu_lent *lent;	    /* its leases, or NULL */
	uint64_t rank;		    /* of its transfers, among those of other runs */
	bool many;		    /* many segments, for several threads */
	bool reserved;		    /* space was reserved, to be cut off behind the response */
	uint64_t response_size;	    /* the least that the response needs in its file, or 0 */
	int under_way; /* moves, outputs and loads of modules that have not ended: the loop's */
	atomic_int done, failed, operations; /* how far its graph is */
	int wake_fd;			     /* eventfd that wakes a reader of this run */
	atomic_int stop;		     /* 0, or the code with which the run must end */
	atomic_uint_fast64_t stop_ns;	     /* when `stop` was set */
};

/* Stops the run soon. The first `code` counts. */
void sgpu_run_stop(struct sgpu_run_base *base, int code);
/* Formats a text like that of an error, from malloc; NULL when memory is out. */
char *sgpu_run_text(const char *format, ...) SGPU_PRINTF(1, 2);

#endif
