/* SPDX-License-Identifier: Apache-2.0
 *
 * What items name, and waiting.
 */
#include "secure/group_state.h"

#include "base/base.h"

int sgpu_group_wait_idle(struct sgpu_group_worker *w, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; i < SGPU_GROUP_STREAMS; i++) {
		int synced = w->streams[i]
				     ? sgpu_stream_sync(w->streams[i], rc == SGPU_OK ? error : NULL)
				     : SGPU_OK;

		rc = rc == SGPU_OK ? synced : rc;
	}
	return rc;
}

int sgpu_group_find_range(const struct sgpu_group_worker *w, uint32_t handle, uint64_t offset,
			  uint64_t size, struct sgpu_device_range *range, struct sgpu_error *error)
{
	const struct sgpu_group_buffer *b =
		handle < SGPU_GROUP_BUFFERS ? &w->buffers[handle] : NULL;

	if (!b || !b->memory) {
		return sgpu_fail(error, SGPU_EUSAGE, "there is no buffer %u", (unsigned)handle);
	}
	if (offset > b->size || size > b->size - offset) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%llu bytes from %llu are not in buffer %u of %llu bytes",
				 (unsigned long long)size, (unsigned long long)offset,
				 (unsigned)handle, (unsigned long long)b->size);
	}
	*range = (struct sgpu_device_range){ b->memory + offset, size };
	return SGPU_OK;
}

int sgpu_group_no_object(const char *what, uint32_t handle, bool there, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EUSAGE,
			 there ? "there is a %s %u already" : "there is no %s %u", what,
			 (unsigned)handle);
}

uint64_t sgpu_group_memory_left(const struct sgpu_group_worker *w)
{
	return w->config.memory_limit > 0 ? w->config.memory_limit - w->used : UINT64_MAX;
}

int sgpu_group_alloc(struct sgpu_group_worker *w, uint64_t size, sgpu_devptr *memory,
		     struct sgpu_error *error)
{
	int rc = sgpu_limit_take(SGPU_DEVICE_MEMORY, size, error);

	if (rc < 0) {
		return rc;
	}
	rc = sgpu_device_alloc(w->device, size, memory, error);
	if (rc < 0) {
		sgpu_limit_give(SGPU_DEVICE_MEMORY, size);
		return rc;
	}
	w->used += size;
	return SGPU_OK;
}

void sgpu_group_free(struct sgpu_group_worker *w, sgpu_devptr *memory, uint64_t size)
{
	if (*memory) {
		sgpu_device_free(w->device, memory, size);
		sgpu_limit_give(SGPU_DEVICE_MEMORY, size);
		w->used -= size;
	}
}

int sgpu_group_find_ranges(const struct sgpu_group_worker *w, const struct sgpu_item_call *call,
			   struct sgpu_device_range ranges[SGPU_MODULE_RANGES_MAX],
			   struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < call->range_count; i++) {
		const struct sgpu_item_range *range = &call->ranges[i];

		rc = sgpu_group_find_range(w, range->buffer, range->offset, range->size, &ranges[i],
					   error);
	}
	return rc;
}
