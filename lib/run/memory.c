/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of a plan. Many small buffers in one allocation cost as much as one buffer.
 */
#include <stdlib.h>

#include "base/base.h"
#include "run/private.h"

/* Most bytes of a device's buffers that are allocated without asking first how much memory is free:
 * it costs less to just try. */
enum { SMALL_MAX = 256 << 20 };

static uint64_t whole_pages(uint64_t size)
{
	const uint64_t page = 4096;

	return (size / page + (size % page != 0 || size == 0)) * page;
}

static bool allocate_together(struct sgpu_run *run, int device)
{
	const struct sgpu_plan *plan = run->job.plan;
	struct sgpu_memory_share *share = &run->memory.shares[device];
	sgpu_devptr at;

	if (sgpu_device_alloc(run->devices[device].device, share->paged, &share->together, NULL) !=
	    SGPU_OK) {
		return false;
	}
	at = share->together;
	for (int i = 0; i < plan->buffer_count; i++) {
		if (plan->buffers[i].device == device) {
			run->memory.buffers[i] = at;
			at += whole_pages(plan->buffers[i].size);
		}
	}
	return true;
}

static int check_free(const struct sgpu_run *run, int device, struct sgpu_error *error)
{
	const unsigned long long bytes = run->memory.shares[device].bytes;
	char where[48] = "device memory";
	struct sgpu_device_info info;
	int rc = sgpu_device_get_info(run->devices[device].device, &info, error);

	if (rc != SGPU_OK || bytes <= info.memory_free) {
		return rc;
	}
	if (run->job.plan->device_count > 1) {
		snprintf(where, sizeof(where), "memory on device %d", run->devices[device].number);
	}
	return sgpu_fail(error, SGPU_ENOMEM, "the batch needs %llu bytes of %s and %llu are free",
			 bytes, where, (unsigned long long)info.memory_free);
}

static int allocate(struct sgpu_run *run, int device, bool together, struct sgpu_error *error)
{
	const struct sgpu_plan *plan = run->job.plan;
	const struct sgpu_memory_share *share = &run->memory.shares[device];
	const bool small = share->bytes <= SMALL_MAX;
	int rc = small ? SGPU_OK : check_free(run, device, error);

	if (together && small && share->count > 1 && allocate_together(run, device)) {
		return SGPU_OK;
	}
	for (int i = 0; rc == SGPU_OK && i < plan->buffer_count; i++) {
		const uint64_t size = plan->buffers[i].size;

		if (plan->buffers[i].device != device) {
			continue;
		}
		rc = sgpu_device_alloc(run->devices[device].device, size, &run->memory.buffers[i],
				       NULL);
		if (rc != SGPU_OK) { /* other runs may just have freed some */
			rc = sgpu_device_alloc(run->devices[device].device, size,
					       &run->memory.buffers[i], error);
		}
	}
	return rc;
}

int sgpu_memory_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_plan *plan = run->job.plan;
	struct sgpu_error other;
	uint64_t paged = 0;
	int device = 0, rc;

	run->memory.buffers = calloc((size_t)plan->buffer_count + 1, sizeof(*run->memory.buffers));
	if (!run->memory.buffers) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < plan->buffer_count; i++) {
		struct sgpu_memory_share *share = &run->memory.shares[plan->buffers[i].device];

		share->bytes += plan->buffers[i].size;
		share->paged += whole_pages(plan->buffers[i].size);
		share->count++;
		paged += whole_pages(plan->buffers[i].size);
	}
	rc = sgpu_limit_take(SGPU_DEVICE_MEMORY, paged, error);
	if (rc < 0) {
		return rc;
	}
	run->memory.taken = paged;
	for (; device < plan->device_count; device++) {
		rc = allocate(run, device, run->runner->traits.opens_on_device, error);
		if (rc != SGPU_OK) {
			break;
		}
	}
	if (rc != SGPU_OK) {
		sgpu_memory_clear(run);
	}
	if (rc == SGPU_ENOMEM && check_free(run, device, &other) == SGPU_ENOMEM) {
		*error = other; /* this text says how much the whole batch needs */
	}
	return rc;
}

void sgpu_memory_clear(struct sgpu_run *run)
{
	for (int i = 0; run->memory.buffers && i < run->job.plan->buffer_count; i++) {
		const int device = run->job.plan->buffers[i].device;

		if (!run->memory.shares[device].together) {
			sgpu_device_free(run->devices[device].device, &run->memory.buffers[i],
					 run->job.plan->buffers[i].size);
		}
	}
	for (int i = 0; run->memory.buffers && i < run->job.plan->device_count; i++) {
		sgpu_device_free(run->devices[i].device, &run->memory.shares[i].together,
				 run->memory.shares[i].paged);
	}
	sgpu_limit_give(SGPU_DEVICE_MEMORY, run->memory.taken);
	run->memory.taken = 0;
	free(run->memory.buffers);
	run->memory.buffers = NULL;
}
