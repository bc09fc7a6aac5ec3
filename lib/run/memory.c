/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers are allocated by the thread that admits the batch, since an allocation may wait for the whole device, and the
 * loop should not. Where many small ones are one allocation they cost as much as one.
 */
#include "run/memory.h"

#include <stdlib.h>

enum { TOGETHER_MAX = 64 << 20 };

struct sgpu_memory_buffer {
	sgpu_devptr address;
	bool allocated;
};

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
		memory->buffers[i] = (struct sgpu_memory_buffer){ .address = at, .allocated = true };
		at += whole_pages(plan->buffers[i].size);
	}
	return true;
}

int sgpu_memory_create(struct sgpu_memory *memory, struct sgpu_device *device, const struct sgpu_plan *plan,
		       bool together, struct sgpu_error *error)
{
	memory->device = device;
	memory->plan = plan;
	memory->buffers = calloc((size_t)plan->buffer_count + 1, sizeof(*memory->buffers));
	if (!memory->buffers) {
		return sgpu_fail_nomem(error);
	}
	if (together && plan->bytes <= TOGETHER_MAX && plan->buffer_count > 1 && allocate_together(memory)) {
		return SGPU_OK;
	}
	for (int i = 0; i < plan->buffer_count; i++) {
		sgpu_devptr address;

		if (sgpu_memory_get(memory, i, &address, NULL) != SGPU_OK) {
			break; /* whoever uses it will try again, and say so */
		}
	}
	return SGPU_OK;
}

void sgpu_memory_clear(struct sgpu_memory *memory)
{
	for (int i = 0; memory->buffers && !memory->together && i < memory->plan->buffer_count; i++) {
		sgpu_device_free(memory->device, &memory->buffers[i].address, memory->plan->buffers[i].size);
	}
	sgpu_device_free(memory->device, &memory->together, memory->together_size);
	free(memory->buffers);
	memory->buffers = NULL;
}

int sgpu_memory_get(struct sgpu_memory *memory, int buffer, sgpu_devptr *address, struct sgpu_error *error)
{
	struct sgpu_memory_buffer *b = &memory->buffers[buffer];
	int rc = SGPU_OK;

	if (!b->allocated) {
		rc = sgpu_device_alloc(memory->device, memory->plan->buffers[buffer].size, &b->address, error);
		b->allocated = rc == SGPU_OK;
	}
	*address = b->address;
	return rc;
}
