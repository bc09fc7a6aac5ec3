/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan's buffers: one allocation on each device, in which each buffer begins on a page.
 *
 * A move copies a segment, sealed on its way, to another device once it has arrived or its writer
 * has ended. Its readers there are enqueued afterwards, so no stream waits for it.
 */
#include <stdlib.h>

#include "base/base.h"
#include "run/private.h"

/* For up to so many bytes, trying to allocate costs less than asking first how much is free. */
enum { SMALL_MAX = 256 << 20 };

static uint64_t whole_pages(uint64_t size)
{
	const uint64_t page = 4096;

	return (size / page + (size % page != 0 || size == 0)) * page;
}

static int check_free(const struct sgpu_run *run, int device, struct sgpu_error *error)
{
	const unsigned long long bytes = run->memory.shares[device].bytes;
	char where[48] = "device memory";
	struct sgpu_device_info info;
	int rc = sgpu_device_get_info(run->devices[device]->device, &info, error);

	if (rc != SGPU_OK || bytes <= info.memory_free) {
		return rc;
	}
	if (run->job.plan->device_count > 1) {
		snprintf(where, sizeof(where), "memory on device %d", run->devices[device]->number);
	}
	return sgpu_fail(error, SGPU_ENOMEM, "the batch needs %llu bytes of %s and %llu are free",
			 bytes, where, (unsigned long long)info.memory_free);
}

static int allocate(struct sgpu_run *run, int device, struct sgpu_error *error)
{
	struct sgpu_memory_share *share = &run->memory.shares[device];
	struct sgpu_device *on = run->devices[device]->device;
	struct sgpu_error other = { 0 };
	int rc = share->bytes <= SMALL_MAX ? SGPU_OK : check_free(run, device, error);

	if (rc != SGPU_OK || share->bytes == 0) {
		return rc;
	}
	rc = sgpu_device_alloc(on, share->bytes, &share->memory, NULL);
	if (rc != SGPU_OK) { /* other runs may just have freed some */
		rc = sgpu_device_alloc(on, share->bytes, &share->memory, error);
	}
	if (rc == SGPU_ENOMEM && check_free(run, device, &other) == SGPU_ENOMEM) {
		*error = other; /* this text says how much the whole batch needs */
	}
	return rc;
}

int sgpu_memory_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_plan *plan = run->job.plan;
	uint64_t at[SGPU_RUN_DEVICES_MAX] = { 0 }, sum = 0;
	int rc;

	run->memory.buffers = calloc((size_t)plan->buffer_count + 1, sizeof(*run->memory.buffers));
	if (!run->memory.buffers) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < plan->buffer_count; i++) {
		run->memory.shares[plan->buffers[i].device].bytes +=
			whole_pages(plan->buffers[i].size);
		sum += whole_pages(plan->buffers[i].size);
	}
	rc = sgpu_limit_take(SGPU_DEVICE_MEMORY, sum, error);
	if (rc < 0) {
		return rc;
	}
	run->memory.taken = sum;
	for (int i = 0; rc == SGPU_OK && i < plan->device_count; i++) {
		rc = allocate(run, i, error);
	}
	for (int i = 0; rc == SGPU_OK && i < plan->buffer_count; i++) {
		const int device = plan->buffers[i].device;

		run->memory.buffers[i] = run->memory.shares[device].memory + at[device];
		at[device] += whole_pages(plan->buffers[i].size);
	}
	if (rc != SGPU_OK) {
		sgpu_memory_clear(run);
	}
	return rc;
}

void sgpu_memory_clear(struct sgpu_run *run)
{
	for (int i = 0; run->memory.buffers && i < run->job.plan->device_count; i++) {
		sgpu_device_free(run->devices[i]->device, &run->memory.shares[i].memory,
				 run->memory.shares[i].bytes);
	}
	sgpu_limit_give(SGPU_DEVICE_MEMORY, run->memory.taken);
	run->memory.taken = 0;
	free(run->memory.buffers);
	run->memory.buffers = NULL;
}

/* ---- moves ---- */
/* Bytes after which a move checks whether the run was stopped. */
#define PORTION ((uint64_t)256 << 20)

static struct sgpu_peer **peer_of(struct sgpu_run *run, const struct sgpu_plan_move *move)
{
	return &run->runner
			->peers[run->devices[move->from]->number][run->devices[move->to]->number];
}

static int copy_segment(struct sgpu_run *run, const struct sgpu_plan_move *move, uint64_t size,
			struct sgpu_error *error)
{
	const sgpu_devptr from = run->memory.buffers[move->from_buffer],
			  to = run->memory.buffers[move->to_buffer];
	int rc = SGPU_OK;

	for (uint64_t at = 0; rc == SGPU_OK && at < size; at += PORTION) {
		const int stop = atomic_load(&run->stop);

		rc = stop != SGPU_OK ? sgpu_fail(error, stop, "the run was stopped")
				     : sgpu_peer_copy(*peer_of(run, move), to + at, from + at,
						      sgpu_min_u64(size - at, PORTION), error);
	}
	return rc;
}

void sgpu_moves_make(struct sgpu_run *run, int segment)
{
	const struct sgpu_plan *plan = run->job.plan;
	const struct sgpu_segment *s = &run->job.manifest->segments[segment];

	for (int i = plan->segments[segment].first_move; i >= 0; i = plan->moves[i].next) {
		const struct sgpu_plan_move *move = &plan->moves[i];
		struct sgpu_span span = { .kind = SGPU_SPAN_MOVE,
					  .device = run->devices[move->from]->number,
					  .number = run->devices[move->to]->number,
					  .label = s->id,
					  .begin_ns = sgpu_now_ns() };
		struct sgpu_error error = { 0 };
		int rc;

		(void)sgpu_type_bytes(&s->type, &span.bytes); /* known, since it was planned */
		rc = copy_segment(run, move, span.bytes, &error);
		span.end_ns = sgpu_now_ns();
		sgpu_trace_add(run, &span);
		if (rc != SGPU_OK) {
			sgpu_operations_not_moved(
				run, move, rc,
				sgpu_run_text(run,
					      "segment '%s' was not moved from device %d to device "
					      "%d: %s",
					      s->id, span.device, span.number,
					      error.text[0] ? error.text : sgpu_strerror(rc)));
		}
	}
}

int sgpu_moves_open(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_plan *plan = run->job.plan;
	int rc = SGPU_OK;

	pthread_mutex_lock(&run->runner->mutex);
	for (int i = 0; rc == SGPU_OK && i < plan->move_count; i++) {
		struct sgpu_peer **peer = peer_of(run, &plan->moves[i]);

		rc = *peer ? SGPU_OK
			   : sgpu_peer_open(run->devices[plan->moves[i].from]->device,
					    run->devices[plan->moves[i].to]->device, NULL, peer,
					    error);
	}
	pthread_mutex_unlock(&run->runner->mutex);
	return rc;
}
