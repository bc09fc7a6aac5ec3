/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers are allocated by the thread that admits the batch, since an allocation may wait for the whole device, and the
 * loop should not. Where many small ones are one allocation they cost as much as one.
 */
#include "run/memory.h"

#include <stdlib.h>

/* Bytes of all buffers. Up to these the allocation itself says whether there is enough, which costs less than to ask. */
enum { SMALL_MAX = 256 << 20 };

static uint64_t whole_pages(uint64_t size)
{
	const uint64_t page = 4096;

	return (size / page + (size % page != 0 || size == 0)) * page;
}

static bool allocate_together(struct sgpu_memory *memory)
{
	const struct sgpu_plan *plan = memory->plan;
	uint64_t size = 0, at;

	for (int i = 0; i < plan->buffer_count; i++) {
		size += whole_pages(plan->buffers[i].size);
	}
	if (sgpu_device_alloc(memory->device, size, &memory->together, NULL) != SGPU_OK) {
		return false;
	}
	memory->together_size = size;
	at = memory->together;
	for (int i = 0; i < plan->buffer_count; i++) {
		memory->buffers[i] = at;
		at += whole_pages(plan->buffers[i].size);
	}
	return true;
}

static int check_free(const struct sgpu_memory *memory, struct sgpu_error *error)
{
	struct sgpu_device_info info;
	int rc = sgpu_device_get_info(memory->device, &info, error);

	if (rc == SGPU_OK && memory->plan->bytes > info.memory_free) {
		rc = sgpu_fail(error, SGPU_ENOMEM, "the batch needs %llu bytes of device memory and %llu are free",
			       (unsigned long long)memory->plan->bytes, (unsigned long long)info.memory_free);
	}
	return rc;
}

static int allocate(struct sgpu_memory *memory, bool together, struct sgpu_error *error)
{
	const struct sgpu_plan *plan = memory->plan;
	const bool small = plan->bytes <= SMALL_MAX;
	int rc = small ? SGPU_OK : check_free(memory, error);

	if (together && small && plan->buffer_count > 1 && allocate_together(memory)) {
		return SGPU_OK;
	}
	for (int i = 0; rc == SGPU_OK && i < plan->buffer_count; i++) {
		const uint64_t size = plan->buffers[i].size;

		rc = sgpu_device_alloc(memory->device, size, &memory->buffers[i], NULL);
		if (rc != SGPU_OK) { /* others may just have given some back */
			rc = sgpu_device_alloc(memory->device, size, &memory->buffers[i], error);
		}
	}
	return rc;
}

int sgpu_memory_create(struct sgpu_memory *memory, struct sgpu_device *device, const struct sgpu_plan *plan,
		       bool together, struct sgpu_error *error)
{
	struct sgpu_error other;
	int rc;

	memory->device = device;
	memory->plan = plan;
	memory->buffers = calloc((size_t)plan->buffer_count + 1, sizeof(*memory->buffers));
	if (!memory->buffers) {
		return sgpu_fail_nomem(error);
	}
	rc = allocate(memory, together, error);
	if (rc != SGPU_OK) {
		sgpu_memory_clear(memory);
	}
	if (rc == SGPU_ENOMEM && check_free(memory, &other) == SGPU_ENOMEM) {
		*error = other; /* it says how much the whole batch needs */
	}
	return rc;
}

void sgpu_memory_clear(struct sgpu_memory *memory)
{
	for (int i = 0; memory->buffers && !memory->together && i < memory->plan->buffer_count; i++) {
		sgpu_device_free(memory->device, &memory->buffers[i], memory->plan->buffers[i].size);
	}
	sgpu_device_free(memory->device, &memory->together, memory->together_size);
	free(memory->buffers);
	memory->buffers = NULL;
}
