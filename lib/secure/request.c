/* SPDX-License-Identifier: Apache-2.0
 *
 * A request of a secure context: what is checked before the device enqueues it. The context's own
 * account says whether a range lies in one allocation, as on every device; the processor's says
 * whether it lies in the context.
 */
#include "channel/channel.h"
#include "secure/context.h"

int sgpu_secure_check_range(struct sgpu_secure *context, sgpu_devptr address, uint64_t size,
			    struct sgpu_task *task)
{
	const struct sgpu_block *block;
	bool inside;

	pthread_mutex_lock(&context->arena_lock);
	block = sgpu_arena_find(&context->arena, address);
	inside = block && address - block->range.address <= block->size &&
		 size <= block->size - (address - block->range.address);
	pthread_mutex_unlock(&context->arena_lock);
	return inside ? SGPU_OK : sgpu_task_refuse_range(task, address, size);
}

int sgpu_secure_begin(struct sgpu_secure *context, const struct sgpu_device_range *ranges,
		      int count, struct sgpu_task *task)
{
	int rc = SGPU_OK;

	for (int i = 0; i < count; i++) {
		rc = sgpu_secure_check_range(context, ranges[i].address, ranges[i].size, task);
		if (rc < 0) {
			return rc;
		}
	}
	rc = sgpu_processor_enter(context->ground->processor, context->grant.channel, ranges, count,
				  task ? &task->error : NULL);
	if (rc < 0) {
		if (task) {
			task->code = rc;
		}
		return rc;
	}
	atomic_fetch_add_explicit(&context->requests, 1, memory_order_relaxed);
	return SGPU_OK;
}

int sgpu_secure_end(struct sgpu_secure *context, int rc)
{
	sgpu_processor_leave(context->ground->processor);
	return rc;
}
