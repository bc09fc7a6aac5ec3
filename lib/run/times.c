/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the stages of a run took, for statistics and for the response's timings.
 */
#include <string.h>

#include <sgpu/base.h>

#include "run/private.h"
#include "run/runner.h"

void sgpu_times_init(struct sgpu_run_times *times)
{
	*times = (struct sgpu_run_times){ 0 };
	pthread_mutex_init(&times->mutex, NULL);
	atomic_store(&times->begin_ns, sgpu_now_ns());
}

void sgpu_times_clear(struct sgpu_run_times *times)
{
	pthread_mutex_destroy(&times->mutex);
}

void sgpu_times_add(struct sgpu_run_times *times, enum sgpu_span_kind kind, uint64_t begin_ns,
		    uint64_t end_ns, uint64_t bytes)
{
	if (end_ns < begin_ns || begin_ns == 0) {
		return;
	}
	pthread_mutex_lock(&times->mutex);
	times->totals[kind].count++;
	times->totals[kind].ns += end_ns - begin_ns;
	times->totals[kind].bytes += bytes;
	pthread_mutex_unlock(&times->mutex);
}

void sgpu_times_step(struct sgpu_run_times *times, const struct sgpu_transfer_span *span)
{
	static const enum sgpu_span_kind kinds[SGPU_STEPS] = {
		[SGPU_STEP_READ] = SGPU_SPAN_READ,	   [SGPU_STEP_COPY_IN] = SGPU_SPAN_COPY_IN,
		[SGPU_STEP_OPEN] = SGPU_SPAN_OPEN,	   [SGPU_STEP_SEAL] = SGPU_SPAN_SEAL,
		[SGPU_STEP_COPY_OUT] = SGPU_SPAN_COPY_OUT, [SGPU_STEP_WRITE] = SGPU_SPAN_WRITE,
	};

	sgpu_times_add(times, kinds[span->step], span->begin_ns, span->end_ns, span->bytes);
}

void sgpu_times_paths(struct sgpu_run_times *times, bool out, const uint64_t bytes[SGPU_PATHS])
{
	pthread_mutex_lock(&times->mutex);
	for (int i = 0; i < SGPU_PATHS; i++) {
		(out ? times->paths.out : times->paths.in)[i] += bytes[i];
	}
	pthread_mutex_unlock(&times->mutex);
}

void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress)
{
	uint64_t begin = atomic_load(&run->times.begin_ns), end = atomic_load(&run->times.end_ns);
	const bool stopping = atomic_load(&run->busy) && atomic_load(&run->base.stop) != SGPU_OK;

	*progress = (struct sgpu_run_progress){
		.operations_done = atomic_load(&run->base.done),
		.operations_failed = atomic_load(&run->base.failed),
		.operations = atomic_load(&run->base.operations),
		.bytes_in = atomic_load(&run->times.bytes_in),
		.bytes_out = atomic_load(&run->times.bytes_out),
		.elapsed_ns = (end ? end : sgpu_now_ns()) - begin,
		.stopping_ns = stopping ? sgpu_now_ns() - atomic_load(&run->base.stop_ns) : 0,
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
	const struct sgpu_run_times *times = &run->times;

	*result = (struct sgpu_run_result){
		.owner = run->job.owner,
		.descriptor_failed = run->descriptor_failed,
		.response_full = run->descriptor_failed && run->code == SGPU_ENOSPACE,
		.response_size = run->base.response_size,
		.paths = times->paths,
	};
	memcpy(result->totals, times->totals, sizeof(times->totals));
}
