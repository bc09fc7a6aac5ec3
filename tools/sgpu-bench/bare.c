/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs an operation by direct calls of a device.
 */
#include <string.h>

#include "job.h"
#include "cases.h"

int bare_new(struct sgpu_bench *bench, const char *op, uint64_t size, struct bare **bare,
	     struct sgpu_error *error)
{
	struct bare *b = *bare = sgpu_bench_new(bench, sizeof(*b), NULL, error);
	void *host = NULL;
	int rc;

	if (!b) {
		return SGPU_ENOMEM;
	}
	*b = (struct bare){ .bench = bench, .size = size, .call = { .op = sgpu_op_find(op) } };
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
	return rc;
}

static uint8_t *sealed_host(const struct bare *b, int k)
{
	return b->seal->host + (uint64_t)k * b->seal->stride;
}

static sgpu_devptr sealed_memory(const struct bare *b, int k)
{
	return b->seal->memory + (uint64_t)k * b->seal->stride;
}

static void clear_tasks(struct bare *b)
{
	for (int i = 0; i < BARE_TASKS; i++) {
		b->tasks[i] = (struct sgpu_task){ .untimed = true };
	}
}

/* ---- sealed vectors ---- */
enum { LINE = 256 };

int bare_seal(struct bare *b, struct sgpu_error *error)
{
	const uint8_t secret[SGPU_KEY_SIZE] = { 7 };
	struct bare_seal *s = b->seal = sgpu_bench_new(b->bench, sizeof(*s), NULL, error);
	void *host = NULL;
	int rc = s ? sgpu_sealed_keys_new(secret, "", 0, &s->keys, error) : SGPU_ENOMEM;

	if (rc != SGPU_OK) {
		return rc;
	}
	s->size = sgpu_run_sealed_size(b->size, true);
	s->stride = (s->size + LINE - 1) / LINE * LINE;
	s->chunks = b->size / SGPU_CHUNK + 1;
	rc = bench_new_aead(b->bench, NULL, s->keys.key, &s->aead, error);
	rc = rc ? rc : bench_new_device_key(b->bench, b->stream, &s->keys, &s->key, error);
	rc = rc ? rc
		: sgpu_bench_new_pinned(b->bench, (uint64_t)b->vectors * s->stride, &host, error);
	rc = rc ? rc
		: sgpu_bench_new_device_memory(b->bench, (uint64_t)b->vectors * s->stride,
					       &s->memory, error);
	s->host = host;
	for (int k = 0; rc == SGPU_OK && k < b->inputs; k++) {
		rc = sgpu_seal_chunks(s->aead, &s->keys, (uint64_t)k * s->chunks, true,
				      (const uint8_t *)b->host[k], b->size, sealed_host(b, k));
	}
	return rc;
}

int bare_open(struct bare *b, struct sgpu_error *error)
{
	const struct bare_seal *s = b->seal;
	uint64_t bad;
	int rc = SGPU_OK;

	for (int k = b->inputs; rc == SGPU_OK && k < b->vectors; k++) {
		rc = sgpu_open_chunks(s->aead, &s->keys, (uint64_t)k * s->chunks, true,
				      sealed_host(b, k), s->size, (uint8_t *)b->host[k], &bad);
	}
	return rc ? sgpu_fail(error, rc, "what the device sealed does not open") : SGPU_OK;
}

static int move(struct bare *b, int k)
{
	const struct bare_seal *s = b->seal;
	struct sgpu_task *task = &b->tasks[k], *other = &b->tasks[BARE_VECTORS_MAX + k];
	int rc;

	if (k < b->inputs) {
		rc = sgpu_copy_in(b->stream, sealed_memory(b, k), sealed_host(b, k), s->size, task);
		return rc ? rc
			  : sgpu_device_open_chunks(b->stream, s->key, (uint64_t)k * s->chunks,
						    true, sealed_memory(b, k), s->size,
						    b->memory[k], other);
	}
	rc = sgpu_device_seal_chunks(b->stream, s->key, (uint64_t)k * s->chunks, true, b->memory[k],
				     b->size, sealed_memory(b, k), other);
	return rc ? rc
		  : sgpu_copy_out(b->stream, sealed_host(b, k), sealed_memory(b, k), s->size, task);
}

/* ---- variants ---- */
int bare_prepare(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;
	int rc = SGPU_OK;

	clear_tasks(b);
	for (int k = 0; rc == SGPU_OK && k < b->vectors; k++) {
		if (k >= b->inputs) {
			memset(b->host[k], 0xff, b->size);
		}
		if (k >= b->inputs && b->seal) {
			memset(sealed_host(b, k), 0xff, b->seal->size);
		}
		rc = bench_to_device(b->stream, b->memory[k], b->host[k], b->size, error);
	}
	return rc;
}

int bare_fetch(struct bare *b, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int k = b->inputs; rc == SGPU_OK && k < b->vectors; k++) {
		rc = bench_from_device(b->stream, b->host[k], b->memory[k], b->size, error);
	}
	return rc;
}

static int launch(struct bare *b, struct sgpu_error *error)
{
	return sgpu_bench_launch(b->bench, b->stream, &b->call, &b->tasks[BARE_TASKS - 1], error);
}

int bare_launch(struct bare *b, struct sgpu_error *error)
{
	int rc = launch(b, error);

	rc = rc ? rc : sgpu_stream_sync(b->stream, error);
	return rc ? rc : sgpu_bench_tasks(b->tasks, BARE_TASKS, error);
}

int bare_begin(struct bare *b, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	clear_tasks(b);
	for (int k = 0; rc == SGPU_OK && k < b->inputs; k++) {
		rc = move(b, k);
	}
	rc = rc ? rc : launch(b, error);
	for (int k = b->inputs; rc == SGPU_OK && k < b->vectors; k++) {
		rc = move(b, k);
	}
	return rc ? bench_finish(b->stream, rc, NULL, 0, "begin a batch", error) : SGPU_OK;
}

int bare_end(struct bare *b, struct sgpu_error *error)
{
	return bench_finish(b->stream, SGPU_OK, b->tasks, BARE_TASKS, "run a batch", error);
}
