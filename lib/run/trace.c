/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans for the trace, and their sums for statistics and for the response's timings.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "run/private.h"

void sgpu_trace_init(struct sgpu_run_trace *trace, bool keeps_spans)
{
	*trace = (struct sgpu_run_trace){ .keeps_spans = keeps_spans };
	atomic_store(&trace->begin_ns, sgpu_now_ns());
}

void sgpu_trace_clear(struct sgpu_run_trace *trace)
{
	free(trace->spans);
}

/* If out of memory, drops the span; the sums stay right. */
static void record_span(struct sgpu_run_trace *trace, const struct sgpu_span *span)
{
	if (trace->count == trace->capacity) {
		size_t capacity = trace->capacity ? 2 * trace->capacity : 256;
		struct sgpu_span *spans = realloc(trace->spans, capacity * sizeof(*spans));

		if (!spans) {
			return;
		}
		trace->spans = spans;
		trace->capacity = capacity;
	}
	trace->spans[trace->count++] = *span;
}

void sgpu_trace_add(struct sgpu_run_trace *trace, const struct sgpu_span *span)
{
	struct sgpu_run_total *total = &trace->totals[span->kind];

	if (span->end_ns < span->begin_ns || span->begin_ns == 0) {
		return;
	}
	total->count++;
	total->ns += span->end_ns - span->begin_ns;
	total->bytes += span->bytes;
	if (trace->keeps_spans) {
		record_span(trace, span);
	}
}

void sgpu_trace_paths(struct sgpu_run_trace *trace, bool out, const uint64_t bytes[SGPU_PATHS])
{
	for (int i = 0; i < SGPU_PATHS; i++) {
		(out ? trace->paths.out : trace->paths.in)[i] += bytes[i];
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

void sgpu_trace_sort(struct sgpu_run_trace *trace)
{
	if (trace->count > 1) {
		qsort(trace->spans, trace->count, sizeof(*trace->spans), by_begin);
	}
}

void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress)
{
	uint64_t begin = atomic_load(&run->trace.begin_ns), end = atomic_load(&run->trace.end_ns);
	const uint64_t busy = atomic_load(&run->busy_ns);
	const bool stopping = busy != 0 && atomic_load(&run->stop) != SGPU_OK;
	uint64_t since = atomic_load(&run->stop_ns);

	/* The response of a run that was stopped may have taken long; no device did. */
	since = since > busy ? since : busy;

	*progress = (struct sgpu_run_progress){
		.operations_done = atomic_load(&run->done_count),
		.operations_failed = atomic_load(&run->failed_count),
		.operations = atomic_load(&run->operation_count),
		.bytes_in = atomic_load(&run->trace.bytes_in),
		.bytes_out = atomic_load(&run->trace.bytes_out),
		.elapsed_ns = (end ? end : sgpu_now_ns()) - begin,
		.stopping_ns = stopping ? sgpu_now_ns() - since : 0,
	};
	for (int i = 0; progress->operations && i < run->job.batch->segment_count; i++) {
		if (run->job.batch->segments[i].input) {
			progress->bytes_in_all += sgpu_batch_payload_size(run->job.batch, i);
		}
	}
}

const struct sgpu_batch *sgpu_run_get_batch(const struct sgpu_run *run)
{
	return run->job.batch;
}

void sgpu_run_get_result(const struct sgpu_run *run, struct sgpu_run_result *result)
{
	const struct sgpu_run_trace *trace = &run->trace;

	*result = (struct sgpu_run_result){
		.manifest_id = run->job.prepared ? run->job.prepared->manifest->id : "",
		.owner = run->job.owner,
		.descriptor_failed = run->descriptor_failed,
		.has_module = run->job.has_module,
		.response_full = run->descriptor_failed && run->code == SGPU_ENOSPACE,
		.response_size = run->response_size,
		.paths = trace->paths,
		.spans = trace->spans,
		.span_count = trace->count,
	};
	memcpy(result->totals, trace->totals, sizeof(trace->totals));
}
