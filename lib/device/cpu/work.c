/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies, clears and digests of the CPU device's memory: each request is checked and enqueued here,
 * and performed here on the stream's thread.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include <device/cpu/cpu.h>

#include "crypto/crypto.h"

/* From SHARED_BYTES on several workers share a copy. */
#define SHARED_BYTES ((uint64_t)4 << 20)
#define GRAIN_BYTES ((uint64_t)1 << 20)

static void *pointer(sgpu_devptr address)
{
	return (void *)(uintptr_t)address;
}

/* ---- copies and clears ---- */
static void copy_bytes(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_cpu_item *item = argument;

	memcpy((char *)item->to + begin, (const char *)item->from + begin, end - begin);
}

static int perform_copy(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			struct sgpu_task *task)
{
	(void)task;
	if (item->size < SHARED_BYTES) {
		copy_bytes((void *)(uintptr_t)item, 0, item->size);
		return SGPU_OK;
	}
	return sgpu_pool_for(device->pool, item->size, GRAIN_BYTES, copy_bytes,
			     (void *)(uintptr_t)item);
}

struct clearing {
	struct sgpu_device *device;
	const struct sgpu_cpu_item *item;
};

static void clear_bytes(void *argument, uint64_t begin, uint64_t end)
{
	const struct clearing *clearing = argument;

	sgpu_cpu_pages_clear(clearing->device, (uintptr_t)clearing->item->to + begin, end - begin);
}

/* What is large may have been asked for and never written to. */
static int perform_clear(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			 struct sgpu_task *task)
{
	struct clearing clearing = { device, item };

	(void)task;
	if (item->size < SHARED_BYTES) {
		memset(item->to, 0, item->size);
		return SGPU_OK;
	}
	return sgpu_pool_for(device->pool, item->size, SHARED_BYTES, clear_bytes, &clearing);
}

/* Without a source it clears. */
static int enqueue_move(struct sgpu_stream *stream, void *to, const void *from, uint64_t size,
			struct sgpu_task *task)
{
	const struct sgpu_cpu_item item = { .kind = SGPU_CPU_WORK,
					    .work = from ? perform_copy : perform_clear,
					    .moves = true,
					    .to = to,
					    .from = from,
					    .size = size,
					    .task = task };

	return sgpu_cpu_enqueue(stream, &item);
}

static int copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		   struct sgpu_task *task)
{
	int code = sgpu_cpu_check_range(stream, to, size, task);

	return code < 0 ? code : enqueue_move(stream, pointer(to), from, size, task);
}

static int copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size,
		    struct sgpu_task *task)
{
	int code = sgpu_cpu_check_range(stream, from, size, task);

	return code < 0 ? code : enqueue_move(stream, to, pointer(from), size, task);
}

static int clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		 struct sgpu_task *task)
{
	int code = sgpu_cpu_check_range(stream, memory, size, task);

	return code < 0 ? code : enqueue_move(stream, pointer(memory), NULL, size, task);
}

/* ---- digests ---- */
/* A digest's customisation string, or the key of a measure. */
struct custom {
	size_t size;
	uint8_t bytes[SGPU_DIGEST_CUSTOM_MAX];
};

static void free_custom(struct custom *custom)
{
	sgpu_wipe(custom, sizeof(*custom));
	free(custom);
}

static int perform_digest(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			  struct sgpu_task *task)
{
	struct custom *custom = item->argument;
	int code = SGPU_ECANCELED;

	if (!sgpu_pool_cancelled(device->pool)) {
		code = sgpu_kt128_shared(device->pool, item->from, item->size, custom->bytes,
					 custom->size, item->to, SGPU_KT128_SIZE, &task->error);
	}
	free_custom(custom);
	return code;
}

static int perform_measure(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			   struct sgpu_task *task)
{
	struct custom *key = item->argument;
	int code = SGPU_ECANCELED;

	if (!sgpu_pool_cancelled(device->pool)) {
		code = sgpu_measure_pages_shared(device->pool, item->from, item->size,
						 key->size > 0 ? key->bytes : NULL, item->to,
						 &task->error);
	}
	free_custom(key);
	return code;
}

static int enqueue_digest(struct sgpu_stream *stream, bool pages, sgpu_devptr memory, uint64_t size,
			  const void *custom, size_t custom_size, uint8_t *result,
			  struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_WORK,
				      .work = pages ? perform_measure : perform_digest,
				      .to = result,
				      .from = pointer(memory),
				      .size = size,
				      .task = task };
	struct custom *copy;
	int code = sgpu_cpu_check_range(stream, memory, size, task);

	if (code < 0) {
		return code;
	}
	item.argument = copy = malloc(sizeof(*copy));
	if (!copy) {
		return task->code = sgpu_fail_nomem(&task->error);
	}
	copy->size = custom_size;
	if (custom_size > 0) {
		memcpy(copy->bytes, custom, custom_size);
	}
	code = sgpu_cpu_enqueue(stream, &item);
	if (code < 0) {
		free_custom(copy);
	}
	return code;
}

static int digest(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, const void *custom,
		  size_t custom_size, uint8_t *result, struct sgpu_task *task)
{
	return enqueue_digest(stream, false, memory, size, custom, custom_size, result, task);
}

static int measure(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		   const uint8_t *key, uint8_t *result, struct sgpu_task *task)
{
	return enqueue_digest(stream, true, memory, size, key, key ? SGPU_KEY_SIZE : 0, result,
			      task);
}

/* ---- host memory ---- */
static int host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
		      struct sgpu_error *error)
{
	(void)device;
	if (size > SIZE_MAX - SGPU_CPU_PAGE) {
		return sgpu_fail_nomem(error);
	}
	*memory = aligned_alloc(SGPU_CPU_PAGE, (size / SGPU_CPU_PAGE + 1) * SGPU_CPU_PAGE);
	return *memory ? SGPU_OK : sgpu_fail_nomem(error);
}

static void host_free(struct sgpu_device *device, void *memory, uint64_t size)
{
	(void)device;
	sgpu_wipe(memory, size);
	free(memory);
}

const struct sgpu_device_peer_calls sgpu_cpu_peer_calls = {
	.alloc = sgpu_cpu_shared_alloc,
	.free = sgpu_cpu_shared_free,
	.wait = sgpu_cpu_peer_wait,
};

const struct sgpu_device_memory_calls sgpu_cpu_memory_calls = {
	.alloc = sgpu_cpu_alloc,
	.free = sgpu_cpu_free,
	.host_alloc = host_alloc,
	.host_free = host_free,
	.limit = sgpu_cpu_memory_limit,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.clear = clear,
	.check = sgpu_cpu_check_range,
	.digest = digest,
	.measure = measure,
};
