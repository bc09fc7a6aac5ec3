/* SPDX-License-Identifier: Apache-2.0
 *
 * Work on the streams of the CPU device: each request is checked and enqueued here, and performed here on the stream's
 * thread. Work that computes, or moves more than a little, holds a token of the pool, so that --jobs bounds the processors
 * in use whatever the number of streams. chunks.c has the requests to open and to seal.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/crypto.h>

#include <device/cpu/cpu.h>

/* Copies up to here cost less than a wait for a token, and from SHARED_BYTES on several workers share one. */
#define INLINE_BYTES ((uint64_t)64 << 10)
#define SHARED_BYTES ((uint64_t)4 << 20)
#define GRAIN_BYTES ((uint64_t)1 << 20)

static void *pointer(sgpu_devptr address)
{
	return (void *)(uintptr_t)address;
}

int sgpu_cpu_check_range(struct sgpu_stream *stream, sgpu_devptr address, uint64_t size, struct sgpu_task *task)
{
	if (sgpu_cpu_owns(stream->device, address, size) ||
	    sgpu_frames_reach(&stream->device->pages.frames, address, size)) {
		return SGPU_OK;
	}
	if (task) {
		task->code = sgpu_fail(&task->error, SGPU_EUSAGE, "%llu bytes at device address %#llx are not allocated",
				       (unsigned long long)size, (unsigned long long)address);
	}
	return SGPU_EUSAGE;
}

void sgpu_cpu_perform(struct sgpu_device *device, const struct sgpu_cpu_item *item)
{
	struct sgpu_task ignored, *task = item->task ? item->task : &ignored;

	if (item->kind == SGPU_CPU_CALL) {
		item->call(item->argument);
		return;
	}
	task->error.text[0] = task->error.hint[0] = '\0';
	if (item->size > INLINE_BYTES || !item->moves) {
		sgpu_pool_enter(device->pool);
	}
	task->begin_ns = sgpu_now_ns();
	task->code = item->work(device, item, task);
	task->end_ns = sgpu_now_ns();
	if (item->size > INLINE_BYTES || !item->moves) {
		sgpu_pool_leave(device->pool);
	}
	task->error.code = task->code;
	if (task->code != SGPU_OK && task->error.text[0] == '\0') {
		sgpu_fail(&task->error, task->code, "%s", sgpu_strerror(task->code));
	}
}

/* ---- copies ---- */
/* Without a source it clears. */
static void move_bytes(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_cpu_item *item = argument;

	if (item->from) {
		memcpy((char *)item->to + begin, (const char *)item->from + begin, end - begin);
	} else {
		memset((char *)item->to + begin, 0, end - begin);
	}
}

static int move(struct sgpu_device *device, const struct sgpu_cpu_item *item, struct sgpu_task *task)
{
	(void)task;
	if (item->size < SHARED_BYTES) {
		move_bytes((void *)(uintptr_t)item, 0, item->size);
		return SGPU_OK;
	}
	return sgpu_pool_for(device->pool, item->size, GRAIN_BYTES, move_bytes, (void *)(uintptr_t)item);
}

static int enqueue_move(struct sgpu_stream *stream, void *to, const void *from, uint64_t size, struct sgpu_task *task)
{
	const struct sgpu_cpu_item item = { .kind = SGPU_CPU_WORK, .work = move, .moves = true, .to = to, .from = from,
					    .size = size, .task = task };

	return sgpu_cpu_enqueue(stream, &item);
}

int sgpu_cpu_copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size, struct sgpu_task *task)
{
	int code = sgpu_cpu_check_range(stream, to, size, task);

	return code < 0 ? code : enqueue_move(stream, pointer(to), from, size, task);
}

int sgpu_cpu_copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size, struct sgpu_task *task)
{
	int code = sgpu_cpu_check_range(stream, from, size, task);

	return code < 0 ? code : enqueue_move(stream, to, pointer(from), size, task);
}

int sgpu_cpu_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, struct sgpu_task *task)
{
	int code = sgpu_cpu_check_range(stream, memory, size, task);

	return code < 0 ? code : enqueue_move(stream, pointer(memory), NULL, size, task);
}

/* ---- digests ---- */
struct custom {
	size_t size;
	uint8_t bytes[SGPU_DIGEST_CUSTOM_MAX];
};

static int digest(struct sgpu_device *device, const struct sgpu_cpu_item *item, struct sgpu_task *task)
{
	struct custom *custom = item->argument;
	int code = SGPU_ECANCELED;

	if (!sgpu_pool_cancelled(device->pool)) {
		code = sgpu_kt128_shared(device->pool, item->from, item->size, custom->bytes, custom->size, item->to,
					 SGPU_DIGEST_SIZE, &task->error);
	}
	free(custom);
	return code;
}

int sgpu_cpu_digest(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, const void *custom,
		    size_t custom_size, uint8_t *result, struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_WORK, .work = digest, .to = result, .from = pointer(memory),
				      .size = size, .task = task };
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
		free(copy);
	}
	return code;
}

/* ---- launches and callbacks ---- */
static int launch(struct sgpu_device *device, const struct sgpu_cpu_item *item, struct sgpu_task *task)
{
	int64_t status[2] = { 0, 0 };
	struct sgpu_launch context = { .device = device, .pool = device->pool, .error = &task->error, .status = status };
	int code;

	if (sgpu_pool_cancelled(device->pool)) {
		return SGPU_ECANCELED;
	}
	code = item->launch(&context, item->argument);
	task->actual = (uint64_t)status[1];
	return code != SGPU_OK ? code : (int)status[0];
}

int sgpu_cpu_launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument, struct sgpu_task *task)
{
	const struct sgpu_cpu_item item = { .kind = SGPU_CPU_WORK, .work = launch, .launch = function,
					    .argument = argument, .task = task };

	return sgpu_cpu_enqueue(stream, &item);
}

int sgpu_cpu_launch_on(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		       const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	int code = SGPU_OK, i;

	for (i = 0; i < count && code == SGPU_OK; i++) {
		code = sgpu_cpu_check_range(stream, ranges[i].address, ranges[i].size, task);
	}
	return code == SGPU_OK ? sgpu_cpu_launch(stream, function, argument, task) : code;
}

int sgpu_cpu_callback(struct sgpu_stream *stream, void (*function)(void *argument), void *argument)
{
	const struct sgpu_cpu_item item = { .kind = SGPU_CPU_CALL, .call = function, .argument = argument };

	return sgpu_cpu_enqueue(stream, &item);
}
