/* SPDX-License-Identifier: Apache-2.0
 *
 * aead-gpu: AES-256-GCM on the device, in chunks of the sealed format, in the device's memory:
 * several calls back to back, timed by the device.
 */
#include <string.h>

#include "cases.h"

enum { CALLS_MAX = 32, SEED = 4 };
static const struct bench_sizes sizes = { BENCH_SWEEP(SGPU_CHUNK, 1 << 30), 4, 4, 0 };

struct aead {
	struct bench_target out;
	struct sgpu_bench *bench;
	struct bench_sealed host;
	sgpu_devptr plain_in, sealed_in;
	int calls;
	bool opens; /* else it seals */
	struct sgpu_task tasks[CALLS_MAX];
};

static int enqueue(void *argument, struct sgpu_error *error)
{
	struct aead *a = argument;
	const struct bench_sealed *h = &a->host;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < a->calls; i++) {
		struct sgpu_task *task = &a->tasks[i];

		rc = a->opens ? sgpu_device_open_chunks(a->bench->stream, h->key, 0, true,
							a->sealed_in, h->sealed_size, a->out.memory,
							task)
			      : sgpu_device_seal_chunks(a->bench->stream, h->key, 0, true,
							a->plain_in, h->size, a->out.memory, task);
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot enqueue: %s", sgpu_strerror(rc));
}

static int run_calls(void *argument, struct sgpu_error *error)
{
	struct aead *a = argument;

	return sgpu_bench_enqueue(a->bench, &a->bench->stream, 1, enqueue, a, a->tasks, a->calls,
				  error);
}

/* The host's own functions must give the same bytes. */
static int verify_seal(void *argument, struct sgpu_error *error)
{
	struct aead *a = argument;
	int rc = bench_from_device(a->bench->stream, a->host.result, a->out.memory,
				   a->host.sealed_size, error);

	if (rc == SGPU_OK && memcmp(a->host.result, a->host.sealed, a->host.sealed_size) != 0) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "the sealed bytes are not those of the CPU");
	}
	return rc;
}

static int measure(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct aead *a = argument, opening;
	const uint64_t calls = bench_repeats(size, CALLS_MAX);
	const struct sgpu_bench_variant variants[] = {
		{ "open", bench_clear_target, run_calls, bench_verify_target, &opening },
		{ "seal", bench_clear_target, run_calls, verify_seal, a },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "size_bytes", NULL, size } },
		.bytes = size * calls,
		.operations = calls,
	};
	struct sgpu_stream *stream = a->bench->stream;
	struct bench_sealed *h = &a->host;
	int rc = bench_new_sealed(a->bench, size, SEED, h, error);

	rc = rc ? rc : sgpu_bench_new_device_memory(a->bench, size, &a->plain_in, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(a->bench, h->sealed_size, &a->sealed_in, error);
	rc = rc ? rc
		: sgpu_bench_new_device_memory(a->bench, h->sealed_size, &a->out.memory, error);
	rc = rc ? rc : bench_to_device(stream, a->plain_in, h->plain, size, error);
	rc = rc ? rc : bench_to_device(stream, a->sealed_in, h->sealed, h->sealed_size, error);
	a->out = (struct bench_target){ stream, a->out.memory, h->sealed_size, SEED, h->result };
	a->calls = (int)calls;
	opening = *a;
	opening.opens = true;
	opening.out.size = size;
	return rc ? rc : sgpu_bench_measure(a->bench, &point, variants, 2, error);
}

int bench_aead_gpu(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct aead a = { .bench = bench };

	if (!bench->info.opens_on_device) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "no GPU: device '%s' is %s",
				 bench->info.selector, bench->info.name);
	}
	return bench_each_size(bench, &sizes, measure, &a, error);
}
