/* SPDX-License-Identifier: Apache-2.0
 *
 * Prices options by direct calls of a device.
 */
#include <string.h>

#include "job.h"
#include "cases.h"

enum { LINE = 256 };

static uint64_t place(const struct bare *b, int k)
{
	return (uint64_t)k * b->side->size;
}

static uint64_t sealed_place(const struct bare *b, int k)
{
	return (uint64_t)k * b->stride;
}

static int new_memory(struct bare *b, uint64_t size, uint8_t **host, sgpu_devptr *memory,
		      struct sgpu_error *error)
{
	void *pinned = NULL;
	const int rc = sgpu_bench_new_pinned(b->bench, OPTIONS_VECTORS * size, &pinned, error);

	*host = pinned;
	return rc ? rc
		  : sgpu_bench_new_device_memory(b->bench, OPTIONS_VECTORS * size, memory, error);
}

static int seal_inputs(struct bare *b, struct sgpu_error *error)
{
	const uint8_t secret[SGPU_KEY_SIZE] = { 7 };
	int rc = sgpu_sealed_keys_new(secret, "", 0, &b->keys, error);

	rc = rc ? rc : bench_new_aead(b->bench, NULL, b->keys.key, &b->aead, error);
	rc = rc ? rc : bench_new_device_key(b->bench, b->stream, &b->keys, &b->key, error);
	for (int k = 0; rc == SGPU_OK && k < OPTIONS_INPUTS; k++) {
		rc = sgpu_seal_chunks(b->aead, &b->keys, (uint64_t)k * b->chunks, true,
				      b->host + place(b, k), b->side->size,
				      b->sealed_host + sealed_place(b, k));
	}
	return rc;
}

int bare_new(struct sgpu_bench *bench, const struct job_side *side, struct bare **bare,
	     struct sgpu_error *error)
{
	struct bare *b = *bare = sgpu_bench_new(bench, sizeof(*b), NULL, error);
	int rc;

	if (!b) {
		return SGPU_ENOMEM;
	}
	b->bench = bench;
	b->side = side;
	b->sealed_size = sgpu_run_sealed_size(side->size, true);
	b->stride = (b->sealed_size + LINE - 1) / LINE * LINE;
	b->chunks = side->size / SGPU_CHUNK + 1;
	rc = sgpu_bench_new_stream(bench, bench->device, &b->stream, error);
	rc = rc ? rc : new_memory(b, side->size, &b->host, &b->memory, error);
	rc = rc ? rc : new_memory(b, b->stride, &b->sealed_host, &b->sealed_memory, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	memcpy(b->host, side->data, OPTIONS_INPUTS * side->size);
	options_describe(side, &b->call);
	for (int k = 0; k < OPTIONS_VECTORS; k++) {
		b->call.data[k] = (void *)(uintptr_t)(b->memory + place(b, k));
	}
	return seal_inputs(b, error);
}

static void clear_tasks(struct bare *b)
{
	for (int i = 0; i < BARE_TASKS; i++) {
		b->tasks[i] = (struct sgpu_task){ .untimed = true };
	}
}

static int move(struct bare *b, int k)
{
	struct sgpu_task *task = &b->tasks[k], *other = &b->tasks[OPTIONS_VECTORS + k];
	const sgpu_devptr sealed = b->sealed_memory + sealed_place(b, k),
			  plain = b->memory + place(b, k);
	uint8_t *host = b->sealed_host + sealed_place(b, k);
	const uint64_t chunk = (uint64_t)k * b->chunks;
	int rc;

	if (k < OPTIONS_INPUTS) {
		rc = sgpu_copy_in(b->stream, sealed, host, b->sealed_size, task);
		return rc ? rc
			  : sgpu_device_open_chunks(b->stream, b->key, chunk, true, sealed,
						    b->sealed_size, plain, other);
	}
	rc = sgpu_device_seal_chunks(b->stream, b->key, chunk, true, plain, b->side->size, sealed,
				     other);
	return rc ? rc : sgpu_copy_out(b->stream, host, sealed, b->sealed_size, task);
}

/* ---- variants ---- */
int bare_prepare(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	const uint64_t outputs = place(b, OPTIONS_INPUTS);

	clear_tasks(b);
	memset(b->host + outputs, 0xff, OPTIONS_OUTPUTS * b->side->size);
	memset(b->sealed_host + sealed_place(b, OPTIONS_INPUTS), 0xff, OPTIONS_OUTPUTS * b->stride);
	return bench_to_device(b->stream, b->memory, b->host, place(b, OPTIONS_VECTORS), error);
}

static int launch(struct bare *b, struct sgpu_error *error)
{
	return sgpu_bench_launch(b->bench, b->stream, &b->call, &b->tasks[BARE_TASKS - 1], error);
}

int bare_run(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	int rc = SGPU_OK;

	clear_tasks(b);
	for (int k = 0; rc == SGPU_OK && k < OPTIONS_VECTORS; k++) {
		rc = k == OPTIONS_INPUTS ? launch(b, error) : SGPU_OK;
		rc = rc ? rc : move(b, k);
	}
	return bench_finish(b->stream, rc, b->tasks, BARE_TASKS, "run a batch", error);
}

int bare_check(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	uint64_t bad;
	int rc = SGPU_OK;

	for (int k = OPTIONS_INPUTS; rc == SGPU_OK && k < OPTIONS_VECTORS; k++) {
		rc = sgpu_open_chunks(b->aead, &b->keys, (uint64_t)k * b->chunks, true,
				      b->sealed_host + sealed_place(b, k), b->sealed_size,
				      b->host + place(b, k), &bad);
	}
	return rc ? sgpu_fail(error, rc, "what the device sealed does not open")
		  : options_check(b->side, b->host + place(b, OPTIONS_INPUTS), error);
}

int bare_launch(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	const int rc = launch(b, error);

	return bench_finish(b->stream, rc, b->tasks, BARE_TASKS, "launch an operation", error);
}

int bare_fetch(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	const uint64_t outputs = place(b, OPTIONS_INPUTS);
	const int rc = bench_from_device(b->stream, b->host + outputs, b->memory + outputs,
					 OPTIONS_OUTPUTS * b->side->size, error);

	return rc ? rc : options_check(b->side, b->host + outputs, error);
}
