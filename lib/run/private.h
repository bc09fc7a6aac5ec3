/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the objects of a run share. An object knows only those whose headers it
 * includes; only run.c knows them all. What each thread does:
 *
 *   loop      the runner's one thread: owns the graphs of all runs, starts operations and outputs
 *   readers   threads of the runner, one for each active run: admit the batch, bring in its
 *             payloads, write the response
 *   workers   threads of the engine: read files, copy
 *   streams   threads of the device: run kernels and callbacks
 *
 * The other threads send notes to the loop. All threads may read what is set before the batch is
 * admitted.
 */
#ifndef SGPU_RUN_PRIVATE_H
#define SGPU_RUN_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "run/run.h"
#include "run/plan.h"
#include "transfer/transfer.h"

/* The trace of a run: spans, their sums, and the paths of payloads. Any thread may add to it. */

struct sgpu_run_trace {
	atomic_uint_fast64_t begin_ns, end_ns; /* end: 0 until the run ends */
	atomic_uint_fast64_t bytes_in, bytes_out;
	bool keeps_spans;
	int operations;	       /* rows of streams; rows of engines follow, then rows of moves */
	int devices, first;    /* their number; the runner's number of the plan's device 0 */
	pthread_mutex_t mutex; /* guards the members below */
	struct sgpu_span *spans;
	size_t count, capacity;
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_paths paths;
};

void sgpu_trace_init(struct sgpu_run_trace *trace, bool keeps_spans);
void sgpu_trace_clear(struct sgpu_run_trace *trace);
/* Adds a span. If begin_ns is 0, the step never ran, and nothing is added. */
void sgpu_trace_add(struct sgpu_run_trace *trace, enum sgpu_span_kind kind, int row,
		    const char *label, uint64_t begin_ns, uint64_t end_ns, uint64_t bytes);
/* Adds a step of a transfer, in a row of the device's engine. */
void sgpu_trace_step(struct sgpu_run_trace *trace, int device,
		     const struct sgpu_transfer_span *span, const char *label);
/* Returns the row of the moves from one device to another. */
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
	struct sgpu_spread_costs costs; /* SGPU_SPREAD_COSTS, except in tests */
	uint64_t spin_ns;		/* how long a thread looks for work before it sleeps */
};

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
	struct sgpu_run_device devices[SGPU_RUN_DEVICES_MAX]; /* in the plan's order */
	int device_count;
	struct sgpu_links *links; /* between the devices */
	struct sgpu_prepared_table *prepared;
	struct sgpu_run_trace *trace;
	struct sgpu_submission submission;
	struct sgpu_job *job;	    /* the admitted batch */
	struct sgpu_memory *memory; /* the batch's buffers on the devices */
	struct sgpu_leases *leases; /* the batch's files and regions */
	struct sgpu_lent *lent;	    /* the batch's leases, or NULL */
	uint64_t rank;		    /* of this run's transfers; lower ranks go first */
	bool many;		    /* many segments: several threads handle them */
	bool reserved;		    /* space was reserved: truncate the file after the response */
	uint64_t response_size;	    /* least bytes that the response needs in its file, or 0 */
	int under_way; /* moves, outputs, module loads that have not ended; for the loop only */
	atomic_int done, failed, operations; /* the graph's progress */
	int wake_fd;			     /* eventfd: wakes reads and writes of this run */
	atomic_int stop;		     /* 0, or the code with which the run must end */
	atomic_uint_fast64_t stop_ns;	     /* when `stop` was set */
};

/* Stops the run soon. The `code` of the first call counts. */
void sgpu_run_stop(struct sgpu_run_base *base, int code);
/* Formats a text as sgpu_fail does, from malloc; NULL if out of memory. */
char *sgpu_run_text(const char *format, ...) SGPU_PRINTF(1, 2);
/* Makes, as sgpu_run_text does, the text of the failure of an "operation" or a "segment"; text:
 * why, or "". Returns the failure's code. After the run's deadline, that is the reason instead. */
int sgpu_run_failure(const struct sgpu_run_base *base, const char *what, const char *id, int code,
		     const char *text, char **made);

#endif
