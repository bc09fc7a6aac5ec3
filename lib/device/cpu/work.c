/* SPDX-License-Identifier: Apache-2.0
 *
 * Work with the CPU device's memory: copies, clears and digests.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include <device/cpu/cpu.h>

#include "crypto/crypto.h"

/* Several workers share a copy of SHARED_BYTES or more. */
#define SHARED_BYTES ((uint64_t)4 << 20)
#define GRAIN_BYTES ((uint64_t)1 << 20)

/* ---- copies and clears ---- */
static void copy_bytes(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_cpu_item *item = argument;

	memcpy((char *)item->work.to + begin, (const char *)item->work.from + begin, end - begin);
}

static int perform_copy(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			struct sgpu_task *task)
{
	(void)task;
	if (item->work.size < SHARED_BYTES) {
		copy_bytes((void *)(uintptr_t)item, 0, item->work.size);
		return SGPU_OK;
	}
	return sgpu_pool_for(device->pool, item->work.size, GRAIN_BYTES, 0, copy_bytes,
			     (void *)(uintptr_t)item);
}

static void clear_bytes(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_cpu_item *item = argument;

	sgpu_cpu_clear(item->work.out + begin, end - begin);
}

/* No clear is cancelled: what it clears must not stay. */
static int perform_clear(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			 struct sgpu_task *task)
{
	(void)task;
	if (item->work.size <= SGPU_CPU_BRIEF) {
		memset(item->work.to, 0, item->work.size);
	} else if (item->work.size < SHARED_BYTES ||
		   sgpu_pool_for(device->pool, item->work.size, SHARED_BYTES, 0, clear_bytes,
				 (void *)(uintptr_t)item) != SGPU_OK) {
		sgpu_cpu_clear(item->work.out, item->work.size);
	}
	return SGPU_OK;
}

/* ---- digests ---- */
static int perform_digest(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			  struct sgpu_task *task)
{
	return sgpu_pool_cancelled(device->pool)
		       ? SGPU_ECANCELED
		       : sgpu_kt128_shared(device->pool, item->work.from, item->work.size, NULL, 0,
					   item->work.to, SGPU_KT128_SIZE, &task->error);
}

static int perform_measure(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			   struct sgpu_task *task)
{
	return sgpu_pool_cancelled(device->pool)
		       ? SGPU_ECANCELED
		       : sgpu_measure_pages_shared(device->pool, item->work.from, item->work.size,
						   item->work.measure_key, item->work.to,
						   &task->error);
}

/* ---- requests ---- */
static int enqueue_one(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	static int (*const performs[])(struct sgpu_device * device,
				       const struct sgpu_cpu_item *item, struct sgpu_task *task) = {
		[SGPU_WORK_COPY_IN] = perform_copy,	 [SGPU_WORK_COPY_OUT] = perform_copy,
		[SGPU_WORK_CLEAR] = perform_clear,	 [SGPU_WORK_DIGEST] = perform_digest,
		[SGPU_WORK_MEASURE] = perform_measure,	 [SGPU_WORK_OPEN] = sgpu_cpu_open_run,
		[SGPU_WORK_SEAL] = sgpu_cpu_seal_run,	 [SGPU_WORK_OPEN_FROM] = sgpu_cpu_open_run,
		[SGPU_WORK_SEAL_TO] = sgpu_cpu_seal_run,
	};
	struct sgpu_cpu_item item = { .perform = performs[work->kind],
				      .work = *work,
				      .moves = work->kind <= SGPU_WORK_CLEAR,
				      .brief = work->size <= SGPU_CPU_BRIEF };
	struct sgpu_device_range ranges[2];
	const int count = sgpu_work_ranges(work, ranges);
	const int rc = sgpu_device_check(stream->device, ranges, count, work->task);

	item.work.to = work->to ? work->to : sgpu_cpu_pointer(work->out);
	item.work.from = work->from ? work->from : sgpu_cpu_pointer(work->in);
	return rc == SGPU_OK ? sgpu_cpu_enqueue(stream, &item) : rc;
}

int sgpu_cpu_enqueue_work(struct sgpu_stream *stream, const struct sgpu_work *work, int count)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = enqueue_one(stream, &work[i]);
	}
	return rc;
}
