/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run did and when: spans, their sums, and how payloads travelled. Any thread may add.
 */
#ifndef SGPU_RUN_TRACE_H
#define SGPU_RUN_TRACE_H

#include <pthread.h>
#include <stdatomic.h>

#include <sgpu/run.h>

#include "transfer/transfer.h"

struct sgpu_run_trace {
	atomic_uint_fast64_t begin_ns, end_ns; /* end: 0 while it runs */
	atomic_uint_fast64_t bytes_in, bytes_out;
	bool keeps_spans;
	int operations;	    /* rows of streams; those of the engines follow, then those of moves */
	int devices, first; /* how many, and the number of the first of the plan */
	pthread_mutex_t mutex; /* the rest */
	struct sgpu_span *spans;
	size_t count, capacity;
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_paths paths;
};

void sgpu_trace_init(struct sgpu_run_trace *trace, bool keeps_spans);
void sgpu_trace_clear(struct sgpu_run_trace *trace);
/* A span without a begin never ran, and is left out. */
void sgpu_trace_add(struct sgpu_run_trace *trace, enum sgpu_span_kind kind, int row,
		    const char *label, uint64_t begin_ns, uint64_t end_ns, uint64_t bytes);
/* A step of a transfer, in a row of the engine of that device. */
void sgpu_trace_step(struct sgpu_run_trace *trace, int device,
		     const struct sgpu_transfer_span *span, const char *label);
/* The row of moves from one device to another. */
int sgpu_trace_move_row(const struct sgpu_run_trace *trace, int from, int to);
void sgpu_trace_paths(struct sgpu_run_trace *trace, bool out, const uint64_t bytes[SGPU_PATHS]);
void sgpu_trace_rows(const struct sgpu_run_trace *trace, struct sgpu_run_rows *rows);
/* As sgpu_run_row_name. */
const char *sgpu_trace_row_name(const struct sgpu_run_trace *trace, int row, int *number,
				int *device);
/* In order of their begin, at the end. */
void sgpu_trace_sort(struct sgpu_run_trace *trace);

#endif
