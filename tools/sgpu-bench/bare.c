/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs an operation by direct calls of a device.
 */
#include <string.h>

#include "job.h"
#include "setup.h"

int bare_new(struct sgpu_bench *bench, const char *op, uint64_t size, struct bare **bare,
	     struct sgpu_error *error)
{
	struct bare *b = *bare = sgpu_bench_new(bench, sizeof(*b), NULL, error);
	void *host = NULL;
	int rc;

	if (!b) {
		return SGPU_ENOMEM;
	}
	*b = (struct bare){
		.bench = bench, .size = size, .launches = 1, .call = { .op = sgpu_op_find(op) }
	};
	while (b->call.op->args[b->vectors].name) {
		b->inputs += strncmp(b->call.op->args[b->vectors++].name, "output",
				     strlen("output")) != 0;
	}
	rc = sgpu_bench_new_stream(bench, bench->device, &b->stream, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, (uint64_t)b->vectors * size, &host, error);
	for (int k = 0; rc == SGPU_OK && k < b->vectors; k++) {
		rc = sgpu_bench_new_device_memory(bench, size, &b->memory[k], error);
		b->host[k] = (float *)((uint8_t *)host + (uint64_t)k * size);
		b->call.type[k] =
			(struct sgpu_type){ SGPU_F32, 1, { size / sizeof(float), 0, 0, 0 } };
		b->call.present[k] = true;
		b->call.data[k] = (void *)(uintptr_t)b->memory[k];
	}
	b->next = b->call;
	return rc;
}

static void clear_tasks(struct bare *b)
{
	for (int i = 0; i < b->vectors + b->launches; i++) {
		b->tasks[i] = (struct sgpu_task){ .untimed = true };
	}
}

int bare_prepare(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;
	int rc = SGPU_OK;

	clear_tasks(b);
	for (int k = 0; rc == SGPU_OK && k < b->vectors; k++) {
		if (k >= b->inputs) {
			memset(b->host[k], 0xff, b->size);
		}
		rc = bench_to_device(b->stream, b->memory[k], b->host[k], b->size, error);
	}
	return rc;
}

int bare_verify(void *argument, struct sgpu_error *error)
{
	const struct bare *b = argument;
	float *got = b->host[b->inputs];
	int rc = bench_from_device(b->stream, got, b->memory[b->inputs], b->size, error);

	return rc || memcmp(got, b->wanted, b->size) == 0
		       ? rc
		       : sgpu_fail(error, SGPU_EDIFFERS, "what '%s' gave is not what it should be",
				   b->call.op->name);
}

static int launch(struct bare *b, int i, struct sgpu_error *error)
{
	return sgpu_bench_launch(b->bench, b->stream, i ? &b->next : &b->call,
				 &b->tasks[b->vectors + i], error);
}

int bare_launch_each(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < b->launches; i++) {
		rc = launch(b, i, error);
		rc = rc ? rc : sgpu_stream_sync(b->stream, error);
	}
	return rc ? rc : sgpu_bench_tasks(b->tasks, b->vectors + b->launches, error);
}

int bare_begin(struct bare *b, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	clear_tasks(b);
	for (int k = 0; rc == SGPU_OK && k < b->inputs; k++) {
		rc = sgpu_copy_in(b->stream, b->memory[k], b->host[k], b->size, &b->tasks[k]);
	}
	for (int i = 0; rc == SGPU_OK && i < b->launches; i++) {
		rc = launch(b, i, error);
	}
	for (int k = b->inputs; rc == SGPU_OK && k < b->vectors; k++) {
		rc = sgpu_copy_out(b->stream, b->host[k], b->memory[k], b->size, &b->tasks[k]);
	}
	return rc ? bench_finish(b->stream, rc, NULL, 0, "begin a batch", error) : SGPU_OK;
}

int bare_end(struct bare *b, struct sgpu_error *error)
{
	return bench_finish(b->stream, SGPU_OK, b->tasks, b->vectors + b->launches, "run a batch",
			    error);
}
