/* SPDX-License-Identifier: Apache-2.0
 *
 * Items of a command group, as a session may seal them: whatever they are, the worker answers, and
 * has nothing left when the session ends. What decodes encodes to the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "channel/group.h"

/* ---- jobs, which are pretended: each writes to its ranges ---- */
struct run {
	struct sgpu_device_range ranges[SGPU_MODULE_RANGES_MAX];
	int count;
	struct sgpu_task task;
};

static int touch(struct sgpu_launch *launch, void *argument)
{
	const struct run *run = argument;

	(void)launch;
	for (int i = 0; i < run->count; i++) {
		if (run->ranges[i].size > 0) {
			*(volatile uint8_t *)(uintptr_t)run->ranges[i].address ^= 1;
		}
	}
	return SGPU_OK;
}

static int load(struct sgpu_device *device, const char *text, size_t size, uint64_t most,
		void **job, uint64_t *bytes, struct sgpu_error *error)
{
	(void)device;
	(void)text;
	(void)most;
	*bytes = 0;
	*job = size > 1 ? malloc(1) : NULL;
	return *job ? SGPU_OK : sgpu_fail(error, SGPU_EINVALID, "no job");
}

static void free_job(void **job)
{
	free(*job);
	*job = NULL;
}

static int start(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges,
		 int count, void **run, struct sgpu_error *error)
{
	struct run *new = *run = calloc(1, sizeof(*new));

	(void)job;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	memcpy(new->ranges, ranges, (size_t)count * sizeof(*ranges));
	new->count = count;
	return sgpu_device_launch_on(stream, touch, new, new->ranges, count, &new->task);
}

static int end(void **run, struct sgpu_error *error)
{
	(void)error;
	free(*run);
	*run = NULL;
	return SGPU_OK;
}

static void expect(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

static void encode_again(const uint8_t *data, size_t size)
{
	static struct sgpu_item items[SGPU_GROUP_ITEMS];
	static uint8_t again[SGPU_GROUP_BYTES];
	size_t written = 0;
	int count = 0;

	if (sgpu_items_decode(data, size, items, &count, NULL) == SGPU_OK) {
		for (int i = 0; i < count; i++) {
			expect(sgpu_item_encode(&items[i], again, &written, NULL) == SGPU_OK,
			       "it does not encode again");
		}
		expect(written == size && (size == 0 || memcmp(again, data, size) == 0),
		       "it is encoded as something else");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sgpu_device_config device_config = { .jobs = 1,
								 .memory_limit = 16 << 20 };
	static const struct sgpu_group_jobs jobs = { load, free_job, start, end };
	static uint8_t area[4096], answer[SGPU_GROUP_BYTES];
	static const struct sgpu_group_config config = {
		.area = area, .area_size = sizeof(area), .memory_limit = 1 << 20, .jobs = &jobs
	};
	static struct sgpu_device *device;
	static struct sgpu_secure *context;
	static struct sgpu_group_worker worker;
	struct sgpu_secure_stats before, after;
	size_t answer_size = 0;

	if (!device) {
		expect(sgpu_device_open("cpu", &device_config, &device, NULL) == SGPU_OK &&
			       sgpu_secure_create(device, NULL, &context, NULL) == SGPU_OK,
		       "no device");
	}
	if (size > SGPU_GROUP_BYTES) {
		return 0;
	}
	encode_again(data, size);
	expect(sgpu_group_worker_open(&worker, context, &config, NULL) == SGPU_OK, "no worker");
	sgpu_secure_get_stats(context, &before);
	sgpu_group_worker_run(&worker, data, size, answer, &answer_size);
	expect(answer_size >= 4 && answer_size <= sizeof(answer), "an answer of another size");
	sgpu_group_worker_close(&worker);
	sgpu_secure_get_stats(context, &after);
	expect(after.used_bytes == before.used_bytes, "memory is left");
	return 0;
}
