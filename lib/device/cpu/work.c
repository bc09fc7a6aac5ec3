/* SPDX-License-Identifier: Apache-2.0
 *
 * What the items of a stream do on the CPU device. Anything that computes or moves more than a little holds a token
 * of the pool, so that --jobs bounds the processors in use whatever the number of streams.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cpu/cpu.h>

/* Copies up to here cost less than waiting for a token, and from SHARED on they are worth several workers. */
#define INLINE_BYTES ((uint64_t)64 << 10)
#define SHARED_BYTES ((uint64_t)4 << 20)
#define PIECE_BYTES ((uint64_t)1 << 20)

static void copy_piece(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_cpu_item *item = argument;

	memcpy((char *)item->to + begin, (const char *)item->from + begin, end - begin);
}

static void clear_piece(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_cpu_item *item = argument;

	memset((char *)item->to + begin, 0, end - begin);
}

static int move(struct sgpu_device *device, struct sgpu_cpu_item *item)
{
	void (*piece)(void *, uint64_t, uint64_t) = item->kind == SGPU_CPU_COPY ? copy_piece : clear_piece;

	if (item->size < SHARED_BYTES) {
		piece(item, 0, item->size);
		return SGPU_OK;
	}
	return sgpu_pool_for(device->pool, item->size, PIECE_BYTES, piece, item);
}

static int launch(struct sgpu_device *device, struct sgpu_cpu_item *item, struct sgpu_task *task)
{
	int64_t status[2] = { 0, 0 };
	struct sgpu_launch context = { .device = device, .pool = device->pool, .error = &task->error, .status = status };
	int code;

	if (sgpu_pool_cancelled(device->pool)) {
		return SGPU_ECANCELED;
	}
	code = item->function.launch(&context, item->argument);
	task->actual = (uint64_t)status[1];
	return code != SGPU_OK ? code : (int)status[0];
}

static int open_sealed(struct sgpu_device *device, struct sgpu_cpu_item *item, struct sgpu_task *task)
{
	int code = sgpu_cpu_open_chunks(device, item, &task->bad_chunk);

	if (code == SGPU_EAUTH) {
		sgpu_fail(&task->error, code, "sealed data do not verify at chunk %llu",
			  (unsigned long long)task->bad_chunk);
	}
	return code;
}

static int compute(struct sgpu_device *device, struct sgpu_cpu_item *item, struct sgpu_task *task)
{
	switch (item->kind) {
	case SGPU_CPU_COPY:
	case SGPU_CPU_CLEAR:
		return move(device, item);
	case SGPU_CPU_OPEN:
		return open_sealed(device, item, task);
	case SGPU_CPU_SEAL:
		return sgpu_cpu_seal_chunks(device, item);
	case SGPU_CPU_DIGEST:
		return sgpu_cpu_digest_now(device, item, &task->error);
	case SGPU_CPU_LAUNCH:
		return launch(device, item, task);
	default:
		return SGPU_EUSAGE;
	}
}

void sgpu_cpu_perform(struct sgpu_device *device, struct sgpu_cpu_item *item)
{
	struct sgpu_task ignored, *task = item->task ? item->task : &ignored;
	bool token = !((item->kind == SGPU_CPU_COPY || item->kind == SGPU_CPU_CLEAR) && item->size <= INLINE_BYTES);

	if (item->kind == SGPU_CPU_CALL) {
		item->function.call(item->argument);
		return;
	}
	task->error.text[0] = task->error.hint[0] = '\0';
	if (token) {
		sgpu_pool_enter(device->pool);
	}
	task->begin_ns = sgpu_now_ns();
	task->code = compute(device, item, task);
	task->end_ns = sgpu_now_ns();
	if (token) {
		sgpu_pool_leave(device->pool);
	}
	task->error.code = task->code;
	if (task->code != SGPU_OK && task->error.text[0] == '\0') {
		sgpu_fail(&task->error, task->code, "%s", sgpu_strerror(task->code));
	}
}
