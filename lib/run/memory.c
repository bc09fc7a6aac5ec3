/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers are allocated by the thread that admits the batch, since an allocation may wait for the
 * whole device, and the loop must not. Many small buffers in one allocation cost as much as one
 * buffer.
 */
#include "run/memory.h"

#include <stdlib.h>

#include "base/base.h"
#include "run/job.h"
#include "run/private.h"

/* Most bytes of a device's buffers that are allocated without asking first how much memory is free:
 * it costs less to just try. */
enum { SMALL_MAX = 256 << 20 };

static uint64_t whole_pages(uint64_t size)
{
	const uint64_t page = 4096;

	return (size / page + (size % page != 0 || size == 0)) * page;
}

static bool allocate_together(struct sgpu_memory *memory, int device)
{
	const struct sgpu_plan *plan = memory->plan;
	struct sgpu_memory_share *share = &memory->shares[device];
	sgpu_devptr at;

	if (sgpu_device_alloc(memory->devices[device].device, share->paged, &share->together,
			      NULL) != SGPU_OK) {
		return false;
	}
	at = share->together;
	for (int i = 0; i < plan->buffer_count; i++) {
		if (plan->buffers[i].device == device) {
			memory->buffers[i] = at;
			at += whole_pages(plan->buffers[i].size);
		}
	}
	return true;
}

static int check_free(const struct sgpu_memory *memory, int device, struct sgpu_error *error)
{
	const unsigned long long bytes = memory->shares[device].bytes;
	char where[48] = "device memory";
	struct sgpu_device_info info;
	int rc = sgpu_device_get_info(memory->devices[device].device, &info, error);

	if (rc != SGPU_OK || bytes <= info.memory_free) {
		return rc;
	}
	if (memory->plan->device_count > 1) {
		snprintf(where, sizeof(where), "memory on device %d",
			 memory->devices[device].number);
	}
	return sgpu_fail(error, SGPU_ENOMEM, "the batch needs %llu bytes of %s and %llu are free",
			 bytes, where, (unsigned long long)info.memory_free);
}

static int allocate(struct sgpu_memory *memory, int device, bool together, struct sgpu_error *error)
{
	const struct sgpu_plan *plan = memory->plan;
	const struct sgpu_memory_share *share = &memory->shares[device];
	const bool small = share->bytes <= SMALL_MAX;
	int rc = small ? SGPU_OK : check_free(memory, device, error);

	if (together && small && share->count > 1 && allocate_together(memory, device)) {
		return SGPU_OK;
	}
	for (int i = 0; rc == SGPU_OK && i < plan->buffer_count; i++) {
		const uint64_t size = plan->buffers[i].size;

		if (plan->buffers[i].device != device) {
			continue;
		}
		rc = sgpu_device_alloc(memory->devices[device].device, size, &memory->buffers[i],
				       NULL);
		if (rc != SGPU_OK) { /* other runs may just have freed some */
			rc = sgpu_device_alloc(memory->devices[device].device, size,
					       &memory->buffers[i], error);
		}
	}
	return rc;
}

int sgpu_memory_create(struct sgpu_run_base *base, struct sgpu_error *error)
{
	struct sgpu_memory *memory = base->memory;
	const struct sgpu_plan *plan = base->job->plan;
	struct sgpu_error other;
	uint64_t paged = 0;
	int device = 0, rc;

	memory->devices = base->devices;
	memory->plan = plan;
	memory->buffers = calloc((size_t)plan->buffer_count + 1, sizeof(*memory->buffers));
	if (!memory->buffers) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < plan->buffer_count; i++) {
		struct sgpu_memory_share *share = &memory->shares[plan->buffers[i].device];

		share->bytes += plan->buffers[i].size;
		share->paged += whole_pages(plan->buffers[i].size);
		share->count++;
		paged += whole_pages(plan->buffers[i].size);
	}
	rc = sgpu_limit_take(SGPU_DEVICE_MEMORY, paged, error);
	if (rc < 0) {
		return rc;
	}
	memory->taken = paged;
	for (; device < plan->device_count; device++) {
		rc = allocate(memory, device, base->traits->opens_on_device, error);
		if (rc != SGPU_OK) {
			break;
		}
	}
	if (rc != SGPU_OK) {
		sgpu_memory_clear(memory);
	}
	if (rc == SGPU_ENOMEM && check_free(memory, device, &other) == SGPU_ENOMEM) {
		*error = other; /* this text says how much the whole batch needs */
	}
	return rc;
}

void sgpu_memory_clear(struct sgpu_memory *memory)
{
	for (int i = 0; memory->buffers && i < memory->plan->buffer_count; i++) {
		const int device = memory->plan->buffers[i].device;

		if (!memory->shares[device].together) {
			sgpu_device_free(memory->devices[device].device, &memory->buffers[i],
					 memory->plan->buffers[i].size);
		}
	}
	for (int i = 0; memory->buffers && i < memory->plan->device_count; i++) {
		sgpu_device_free(memory->devices[i].device, &memory->shares[i].together,
				 memory->shares[i].paged);
	}
	sgpu_limit_give(SGPU_DEVICE_MEMORY, memory->taken);
	memory->taken = 0;
	free(memory->buffers);
	memory->buffers = NULL;
}
