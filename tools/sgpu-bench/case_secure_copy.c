/* SPDX-License-Identifier: Apache-2.0
 *
 * secure-copy: the cost of copies whose data cross the bus sealed, next to a plain copy of the same
 * size from pinned memory in the same run. At rest: the host's memory holds sealed data. Live, to
 * the device only: it is ordinary memory with plaintext. Times are the host's, from the call to its
 * end.
 */
#include <string.h>

#include "transfer/transfer.h"

#include "cases.h"

enum { SEED = 5 };
enum { PLAIN, AT_REST }; /* the variants of both directions */
#define MIB ((uint64_t)1 << 20)
static const struct bench_sizes sizes = { 4 << 10 | 64 << 10 | 256 << 10 | 4 * MIB | 64 * MIB |
						  256 * MIB | 1024 * MIB,
					  4 * MIB | 64 * MIB, 6, 2, 0 };

struct copy {
	struct bench_target device;
	struct sgpu_bench *bench;
	struct sgpu_engine *engine;
	struct sgpu_live_key *live;
	struct sgpu_stream *crypt;    /* of transfers at rest */
	struct bench_sealed host;     /* pinned; sealed at rest */
	void *memory, *memory_result; /* ordinary */
	uint64_t size;
	uint64_t next;	/* first chunk number not used with host.key */
	uint64_t first; /* that of the last copy out */
};

SGPU_BENCH_ENDING(end_engine, struct sgpu_engine, sgpu_engine_free)
SGPU_BENCH_ENDING(end_live_key, struct sgpu_live_key, sgpu_live_key_free)

static int outcome(int rc, const struct sgpu_transfer_result *result, struct sgpu_error *error)
{
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "%s", result->error.text);
}

static int move(struct copy *c, struct sgpu_transfer_request *request, struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = NULL;
	struct sgpu_transfer_result result;
	int rc;

	request->key = c->host.key;
	request->last = true;
	request->memory = c->device.memory;
	request->copy = c->bench->stream;
	request->crypt = c->crypt;
	rc = sgpu_transfer_begin(c->engine, request, &transfer, error);
	if (rc) {
		return rc;
	}
	result = *sgpu_transfer_wait(transfer);
	sgpu_transfer_free(&transfer);
	return outcome(result.code, &result, error);
}

static int up_plain(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;

	return bench_to_device(c->bench->stream, c->device.memory, c->host.plain, c->size, error);
}

static int up_at_rest(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.size = c->host.sealed_size,
		.end = { .memory = c->host.sealed, .registered = true },
	};

	return move(c, &request, error);
}

static int up_live(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;
	struct sgpu_transfer_result result;
	const int rc = sgpu_live_in(c->live, c->memory, c->size, c->device.memory, &result);

	return outcome(rc, &result, error);
}

static int prepare_down(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;

	(void)error;
	bench_spoil(c->host.result, c->host.sealed_size);
	bench_spoil(c->memory_result, c->size);
	return SGPU_OK;
}

static int down_plain(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;

	return bench_from_device(c->bench->stream, c->host.result, c->device.memory, c->size,
				 error);
}

static int down_at_rest(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_OUT,
		.first = c->next,
		.size = c->size,
		.end = { .memory = c->host.result, .registered = true },
	};

	c->first = c->next;
	c->next += c->size / SGPU_CHUNK + 1;
	return move(c, &request, error);
}

static int verify_down(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;
	uint64_t bad = 0;
	int rc = SGPU_OK;

	if (c->bench->variant == AT_REST) {
		rc = sgpu_open_chunks(c->host.aead, &c->host.keys, c->first, true, c->host.result,
				      c->host.sealed_size, c->memory_result, &bad);
	}
	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "what the device sealed does not open at chunk %llu",
				 (unsigned long long)bad);
	}
	return sgpu_bench_check(c->bench->variant == PLAIN ? c->host.result : c->memory_result,
				c->size, SEED, error);
}

static int measure_direction(struct copy *c, const char *direction,
			     const struct sgpu_bench_variant *variants, int count,
			     struct sgpu_error *error)
{
	const struct sgpu_bench_point point = {
		.parameters = { { "direction", direction, 0 }, { "size_bytes", NULL, c->size } },
		.bytes = c->size,
	};

	return sgpu_bench_measure(c->bench, &point, variants, count, error);
}

static int measure_both(struct copy *c, struct sgpu_error *error)
{
	const struct sgpu_bench_variant up[] = {
		{ "plain", bench_clear_target, up_plain, bench_verify_target, c },
		{ "at rest", bench_clear_target, up_at_rest, bench_verify_target, c },
		{ "live", bench_clear_target, up_live, bench_verify_target, c },
	};
	const struct sgpu_bench_variant down[] = {
		{ "plain", prepare_down, down_plain, verify_down, c },
		{ "at rest", prepare_down, down_at_rest, verify_down, c },
	};
	int rc;

	rc = measure_direction(c, "up", up, SGPU_ARRAY_LENGTH(up), error);
	rc = rc ? rc : up_plain(c, error);
	return rc ? rc : measure_direction(c, "down", down, SGPU_ARRAY_LENGTH(down), error);
}

/* First and last line of table 2 of Graviton's paper. */
static int measure_breakdown(struct copy *c, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ "base", bench_clear_target, up_plain, bench_verify_target, c },
		{ "+ opening on GPU", bench_clear_target, up_live, bench_verify_target, c },
	};

	return measure_direction(c, "breakdown", variants, SGPU_ARRAY_LENGTH(variants), error);
}

/* Each size has a new key, since one's last chunk is a full chunk of the next. */
static int measure(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct copy *c = argument;
	int rc = bench_new_sealed(c->bench, size, SEED, &c->host, error);

	c->size = size;
	c->next = size / SGPU_CHUNK + 1;
	rc = rc ? rc : sgpu_bench_new_device_memory(c->bench, size, &c->device.memory, error);
	rc = rc ? rc : bench_new_pages(c->bench, size, &c->memory, error);
	rc = rc ? rc : bench_new_pages(c->bench, size, &c->memory_result, error);
	c->device = (struct bench_target){ c->bench->stream, c->device.memory, size, SEED,
					   c->host.result };
	if (rc == SGPU_OK) {
		memcpy(c->memory, c->host.plain, size);
	}
	if (rc == SGPU_OK && size >= 4 * MIB) { /* the case session has smaller ones */
		rc = measure_both(c, error);
	}
	return rc == SGPU_OK && size <= 64 * MIB ? measure_breakdown(c, error) : rc;
}

int bench_secure_copy(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const struct sgpu_engine_config config = { .workers = bench->options.jobs };
	struct copy c = { .bench = bench };
	int rc = sgpu_engine_create(bench->device, &config, &c.engine, error);

	rc = rc ? rc : sgpu_bench_keep(bench, end_engine, (uintptr_t)c.engine, 0, error);
	rc = rc ? rc : sgpu_bench_new_stream(bench, bench->device, &c.crypt, error);
	rc = rc ? rc : sgpu_live_key_load(c.engine, &c.live, error);
	rc = rc ? rc : sgpu_bench_keep(bench, end_live_key, (uintptr_t)c.live, 0, error);
	return rc ? rc : bench_each_size(bench, &sizes, measure, &c, error);
}
