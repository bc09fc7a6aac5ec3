/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a run, while it goes on and afterwards.
 */
#include <string.h>

#include <sgpu/base.h>

#include "run/state.h"

void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress)
{
	uint64_t begin = atomic_load(&run->trace.begin_ns), end = atomic_load(&run->trace.end_ns);
	const bool stopping = atomic_load(&run->busy) && atomic_load(&run->base.stop) != SGPU_OK;

	*progress = (struct sgpu_run_progress){
		.operations_done = atomic_load(&run->count.done),
		.operations_failed = atomic_load(&run->count.failed),
		.operations_running = atomic_load(&run->count.running),
		.operations = atomic_load(&run->count.operations),
		.bytes_in = atomic_load(&run->trace.bytes_in),
		.bytes_out = atomic_load(&run->trace.bytes_out),
		.elapsed_ns = (end ? end : sgpu_now_ns()) - begin,
		.stopping_ns = stopping ? sgpu_now_ns() - atomic_load(&run->base.stop_ns) : 0,
	};
}

bool sgpu_run_response_full(const struct sgpu_run *run, uint64_t *size)
{
	*size = run->base.response_size;
	return run->descriptor_failed && run->code == SGPU_ENOSPACE;
}

bool sgpu_run_descriptor_failed(const struct sgpu_run *run)
{
	return run->descriptor_failed;
}

bool sgpu_run_was_replayed(const struct sgpu_run *run)
{
	return run->job.replayed;
}

const char *sgpu_run_get_owner(const struct sgpu_run *run)
{
	return run->job.owner;
}

const struct sgpu_batch *sgpu_run_get_batch(const struct sgpu_run *run)
{
	return run->job.batch;
}

void sgpu_run_get_spans(const struct sgpu_run *run, const struct sgpu_span **spans, size_t *count)
{
	*spans = run->trace.spans;
	*count = run->trace.count;
}

void sgpu_run_get_totals(const struct sgpu_run *run, struct sgpu_run_total totals[SGPU_SPAN_KINDS])
{
	memcpy(totals, run->trace.totals, sizeof(run->trace.totals));
}

void sgpu_run_get_paths(const struct sgpu_run *run, struct sgpu_run_paths *paths)
{
	*paths = run->trace.paths;
}

void sgpu_run_get_rows(const struct sgpu_run *run, struct sgpu_run_rows *rows)
{
	sgpu_trace_rows(&run->trace, rows);
}

const char *sgpu_run_row_name(const struct sgpu_run *run, int row, int *number, int *device)
{
	return sgpu_trace_row_name(&run->trace, row, number, device);
}
