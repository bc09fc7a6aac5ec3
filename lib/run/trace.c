/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans for the trace, and their sums for statistics and for the response's timings.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "run/private.h"

/* If out of memory, drops the span; the sums stay right. */
static void record_span(struct sgpu_run *run, const struct sgpu_span *span)
{
	struct sgpu_run_result *result = &run->result;

	if (result->span_count == run->span_capacity) {
		size_t capacity = run->span_capacity ? 2 * run->span_capacity : 256;
		struct sgpu_span *spans = realloc(result->spans, capacity * sizeof(*spans));

		if (!spans) {
			return;
		}
		result->spans = spans;
		run->span_capacity = capacity;
	}
	result->spans[result->span_count++] = *span;
}

void sgpu_trace_add(struct sgpu_run *run, const struct sgpu_span *span)
{
	struct sgpu_run_total *total = &run->result.totals[span->kind];

	if (span->end_ns < span->begin_ns || span->begin_ns == 0) {
		return;
	}
	total->count++;
	total->ns += span->end_ns - span->begin_ns;
	total->bytes += span->bytes;
	if (run->submission.options.spans) {
		record_span(run, span);
	}
}

void sgpu_trace_paths(struct sgpu_run *run, bool out, const uint64_t bytes[SGPU_PATHS])
{
	struct sgpu_run_paths *paths = &run->result.paths;

	for (int i = 0; i < SGPU_PATHS; i++) {
		(out ? paths->out : paths->in)[i] += bytes[i];
	}
}

static int by_begin(const void *a, const void *b)
{
	const struct sgpu_span *x = a, *y = b;

	if (x->begin_ns != y->begin_ns) {
		return x->begin_ns < y->begin_ns ? -1 : 1;
	}
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

void sgpu_trace_sort(struct sgpu_run *run)
{
	if (run->result.span_count > 1) {
		qsort(run->result.spans, run->result.span_count, sizeof(*run->result.spans),
		      by_begin);
	}
}

void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress)
{
	uint64_t begin = atomic_load(&run->begin_ns), end = atomic_load(&run->end_ns);
	const uint64_t busy = atomic_load(&run->busy_ns);
	const bool stopping = busy != 0 && atomic_load(&run->stop) != SGPU_OK;
	uint64_t since = atomic_load(&run->stop_ns);

	/* The response of a run that was stopped may have taken long; no device did. */
	since = since > busy ? since : busy;

	*progress = (struct sgpu_run_progress){
		.operations_done = atomic_load(&run->done_count),
		.operations_failed = atomic_load(&run->failed_count),
		.operations = atomic_load(&run->operation_count),
		.bytes_in = atomic_load(&run->bytes_in),
		.bytes_out = atomic_load(&run->bytes_out),
		.elapsed_ns = (end ? end : sgpu_now_ns()) - begin,
		.stopping_ns = stopping ? sgpu_now_ns() - since : 0,
	};
	for (int i = 0; progress->operations && i < run->job.batch->segment_count; i++) {
		if (run->job.batch->segments[i].input) {
			progress->bytes_in_all += sgpu_batch_payload_size(run->job.batch, i);
		}
	}
}

const struct sgpu_run_result *sgpu_run_get_result(const struct sgpu_run *run)
{
	return &run->result;
}
