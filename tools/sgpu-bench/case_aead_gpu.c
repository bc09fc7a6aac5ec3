/* SPDX-License-Identifier: Apache-2.0
 *
 * aead-gpu: AES-256-GCM on the device, in chunks of the sealed format, in the device's memory: several calls back to
 * back, timed by the device.
 */
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "memory.h"

enum { CALLS_MAX = 32, SEED = 4 };
#define SIZE_LEAST ((uint64_t)SGPU_CHUNK)
#define SIZE_LARGEST ((uint64_t)1 << 30)
/* A sample of large calls works on about as much as this. */
#define SAMPLE ((uint64_t)256 << 20)

struct aead {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	struct sgpu_device_key *key;
	struct sgpu_sealed_keys keys;
	uint64_t size, sealed_size;
	int calls;
	void *plain, *sealed, *result;          /* the host's */
	sgpu_devptr plain_in, sealed_in, out;
	bool opens;
	struct sgpu_task tasks[CALLS_MAX];
};

static int enqueue(void *argument, struct sgpu_error *error)
{
	struct aead *a = argument;
	int rc = SGPU_OK;

	memset(a->tasks, 0, sizeof(a->tasks));
	for (int i = 0; rc == SGPU_OK && i < a->calls; i++) {
		struct sgpu_task *task = &a->tasks[i];

		rc = a->opens ?
			sgpu_device_open_chunks(a->stream, a->key, 0, true, a->sealed_in, a->sealed_size, a->out, task) :
			sgpu_device_seal_chunks(a->stream, a->key, 0, true, a->plain_in, a->size, a->out, task);
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot enqueue: %s", sgpu_strerror(rc));
}

static int prepare(void *argument, struct sgpu_error *error)
{
	struct aead *a = argument;

	return bench_clear(a->stream, a->out, a->sealed_size, error);
}

static int run_calls(struct aead *a, bool opens, uint64_t *ns, struct sgpu_error *error)
{
	int rc;

	a->opens = opens;
	rc = sgpu_bench_enqueue(a->bench, &a->stream, 1, enqueue, a, error);
	rc = rc ? rc : sgpu_bench_tasks(a->tasks, a->calls, error);
	*ns = sgpu_bench_span(a->tasks, a->calls);
	return rc;
}

static int open_calls(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run_calls(argument, true, ns, error);
}

static int seal_calls(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run_calls(argument, false, ns, error);
}

static int verify_open(void *argument, struct sgpu_error *error)
{
	struct aead *a = argument;
	int rc = bench_from_device(a->stream, a->result, a->out, a->size, error);

	return rc == SGPU_OK ? bench_verify(a->result, a->size, SEED, error) : rc;
}

/* The bytes that the host's own functions give. */
static int verify_seal(void *argument, struct sgpu_error *error)
{
	struct aead *a = argument;
	int rc = bench_from_device(a->stream, a->result, a->out, a->sealed_size, error);

	if (rc == SGPU_OK && memcmp(a->result, a->sealed, a->sealed_size) != 0) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "the sealed bytes are not those of the CPU");
	}
	return rc;
}

static int make(struct aead *a, struct sgpu_error *error)
{
	const uint8_t secret[SGPU_KEY_SIZE] = { 4 };
	struct sgpu_device *device = a->bench->device;
	struct sgpu_aead *aead = NULL;
	int rc = sgpu_stream_create(device, &a->stream, error);

	rc = rc ? rc : sgpu_sealed_keys_new(secret, "", 0, &a->keys, error);
	rc = rc ? rc : sgpu_device_key_load(a->stream, &a->keys, &a->key, error);
	rc = rc ? rc : sgpu_device_alloc(device, a->size, &a->plain_in, error);
	rc = rc ? rc : sgpu_device_alloc(device, a->sealed_size, &a->sealed_in, error);
	rc = rc ? rc : sgpu_device_alloc(device, a->sealed_size, &a->out, error);
	rc = rc ? rc : sgpu_host_alloc(device, a->size, &a->plain, error);
	rc = rc ? rc : sgpu_host_alloc(device, a->sealed_size, &a->sealed, error);
	rc = rc ? rc : sgpu_host_alloc(device, a->sealed_size, &a->result, error);
	rc = rc ? rc : sgpu_aead_create(NULL, a->keys.key, &aead, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(a->plain, a->size, SEED);
		rc = sgpu_seal_chunks(aead, &a->keys, 0, true, a->plain, a->size, a->sealed);
		rc = rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot seal: %s", sgpu_strerror(rc));
	}
	sgpu_aead_free(&aead);
	rc = rc ? rc : bench_to_device(a->stream, a->plain_in, a->plain, a->size, error);
	return rc ? rc : bench_to_device(a->stream, a->sealed_in, a->sealed, a->sealed_size, error);
}

static void unmake(struct aead *a)
{
	struct sgpu_device *device = a->bench->device;

	sgpu_device_key_free(&a->key);
	sgpu_stream_free(&a->stream);
	sgpu_device_free(device, &a->plain_in, a->size);
	sgpu_device_free(device, &a->sealed_in, a->sealed_size);
	sgpu_device_free(device, &a->out, a->sealed_size);
	sgpu_host_free(device, &a->plain, a->size);
	sgpu_host_free(device, &a->sealed, a->sealed_size);
	sgpu_host_free(device, &a->result, a->sealed_size);
	sgpu_wipe(&a->keys, sizeof(a->keys));
}

static int measure(struct sgpu_bench *bench, uint64_t size, struct sgpu_error *error)
{
	struct aead *a = calloc(1, sizeof(*a));
	uint64_t chunks = size / SGPU_CHUNK + 1, calls = SAMPLE / size;
	int rc;

	if (!a) {
		return sgpu_fail_nomem(error);
	}
	a->bench = bench;
	a->size = size;
	a->sealed_size = size + chunks * SGPU_TAG_SIZE;
	a->calls = calls < 1 ? 1 : calls > CALLS_MAX ? CALLS_MAX : (int)calls;
	rc = make(a, error);
	if (rc == SGPU_OK) {
		const struct sgpu_bench_variant variants[] = {
			{ .name = "open", .prepare = prepare, .run = open_calls, .verify = verify_open, .argument = a },
			{ .name = "seal", .prepare = prepare, .run = seal_calls, .verify = verify_seal, .argument = a },
		};
		const struct sgpu_bench_point point = {
			.parameters = { { "size_bytes", NULL, size } },
			.bytes = size * (uint64_t)a->calls, .operations = (uint64_t)a->calls,
			.bytes_formula = "operations * size_bytes",
		};

		rc = sgpu_bench_measure(bench, &point, variants, 2, error);
	}
	unmake(a);
	free(a);
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, SIZE_LEAST, SIZE_LARGEST, sizes), rc = SGPU_OK;

	(void)state;
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, sizes[i] } } };
		struct sgpu_error lack;

		if (sgpu_bench_fits(bench, 4 * sizes[i], 4 * sizes[i], &lack) != SGPU_OK) {
			sgpu_bench_waive(bench, &point, NULL, "%s", lack.text);
		} else {
			rc = measure(bench, sizes[i], error);
		}
	}
	return rc;
}

const struct sgpu_bench_case case_aead_gpu = {
	.name = "aead-gpu",
	.help = "AES-256-GCM on the device: open and seal",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.requires = SGPU_BENCH_GPU | SGPU_BENCH_OPENS_ON_DEVICE,
	.run = run,
};
