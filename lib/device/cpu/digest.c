/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve of the CPU device's memory.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/crypto.h>

#include <device/cpu/cpu.h>

/* What a request carries beside the range. */
struct custom {
	size_t size;
	uint8_t bytes[SGPU_DIGEST_CUSTOM_MAX];
};

int sgpu_cpu_digest(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, const void *custom,
		    size_t custom_size, uint8_t *digest, struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_DIGEST, .task = task, .size = size, .to = digest,
				      .from = (const void *)(uintptr_t)memory };
	struct custom *copy;
	int code = sgpu_cpu_check_range(stream, memory, size, task);

	if (code < 0) {
		return code;
	}
	copy = malloc(sizeof(*copy));
	if (!copy) {
		return task->code = sgpu_fail_nomem(&task->error);
	}
	copy->size = custom_size;
	if (custom_size > 0) {
		memcpy(copy->bytes, custom, custom_size);
	}
	item.argument = copy;
	code = sgpu_cpu_enqueue(stream, &item);
	if (code < 0) {
		free(copy);
	}
	return code;
}

int sgpu_cpu_digest_now(struct sgpu_device *device, const struct sgpu_cpu_item *item, struct sgpu_error *error)
{
	struct custom *custom = item->argument;
	int code = SGPU_ECANCELED;

	if (!sgpu_pool_cancelled(device->pool)) {
		code = sgpu_kt128_shared(device->pool, item->from, item->size, custom->bytes, custom->size, item->to,
					 SGPU_DIGEST_SIZE, error);
	}
	free(custom);
	return code;
}
