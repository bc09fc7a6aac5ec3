/* SPDX-License-Identifier: Apache-2.0
 *
 * secure-copy: what it costs that nothing but sealed data cross the bus, next to a plain copy of the same size from
 * pinned memory in the same run. At rest: the host's memory holds sealed data. Live: it holds plaintext, ordinary
 * memory. Times are the host's, from the call to its end.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/transfer.h>

#include "cases.h"
#include "memory.h"

enum { SEED = 5, SIZES = 7 };
#define MIB ((uint64_t)1 << 20)
static const uint64_t sizes[SIZES] = { 4096, 65536, 262144, 4 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB };

static const char nvidia_cc[] = "NVIDIA CC mode, H100 and TDX, 64 MiB, against CC off";

struct copy {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	struct sgpu_engine *engine;
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *key;     /* of what is sealed at rest */
	struct sgpu_live_key *live;
	struct sgpu_aead *aead;
	sgpu_devptr device;
	void *plain, *sealed, *result;   /* pinned */
	void *memory, *memory_result;    /* ordinary */
	uint64_t room, sealed_room;      /* bytes of all of them */
	uint64_t size, sealed_size;      /* of the point that is measured */
	uint64_t next;                   /* chunk number that was not used with `key` */
	uint64_t first;                  /* of the last copy out */
};

/* ---- up ---- */
static int prepare_up(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;

	return bench_clear(c->stream, c->device, c->size, error);
}

static int verify_up(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;
	int rc = bench_from_device(c->stream, c->result, c->device, c->size, error);

	return rc == SGPU_OK ? bench_verify(c->result, c->size, SEED, error) : rc;
}

static int outcome(int rc, const struct sgpu_transfer_result *result, struct sgpu_error *error)
{
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "%s", result->error.text);
}

static int up_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct copy *c = argument;

	(void)ns;
	return bench_to_device(c->stream, c->device, c->plain, c->size, error);
}

static int up_at_rest(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct copy *c = argument;
	struct sgpu_transfer_result result;
	const struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN, .key = c->key, .last = true, .memory = c->device, .size = c->sealed_size,
		.source = sgpu_source_from_memory(c->sealed, true),
	};
	int rc = sgpu_transfer_sync(c->engine, &request, &result);

	(void)ns;
	return outcome(rc, &result, error);
}

static int up_stage(struct copy *c, enum sgpu_transfer_stage stage, struct sgpu_error *error)
{
	struct sgpu_transfer_result result;
	int rc = sgpu_live_in_stages(c->engine, c->live, stage, c->memory, c->size, c->device, &result);

	return outcome(rc, &result, error);
}

static int up_live(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	(void)ns;
	return up_stage(argument, SGPU_TRANSFER_OPEN, error);
}

static int up_staged(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	(void)ns;
	return up_stage(argument, SGPU_TRANSFER_STAGE, error);
}

static int up_encrypted(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	(void)ns;
	return up_stage(argument, SGPU_TRANSFER_ENCRYPT, error);
}

static int up_authenticated(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	(void)ns;
	return up_stage(argument, SGPU_TRANSFER_AUTHENTICATE, error);
}

/* ---- down ---- */
static int prepare_down(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;

	(void)error;
	bench_spoil(c->result, c->sealed_size);
	bench_spoil(c->memory_result, c->size);
	return SGPU_OK;
}

static int down_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct copy *c = argument;

	(void)ns;
	return bench_from_device(c->stream, c->result, c->device, c->size, error);
}

static int verify_down_plain(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;

	return bench_verify(c->result, c->size, SEED, error);
}

static int down_at_rest(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct copy *c = argument;
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_OUT, .key = c->key, .last = true, .memory = c->device, .size = c->size,
		.sink = sgpu_sink_to_memory(c->result, true),
	};
	struct sgpu_transfer_result result;
	int rc;

	(void)ns;
	request.first = c->first = c->next;
	c->next += c->size / SGPU_CHUNK + 1;
	rc = sgpu_transfer_sync(c->engine, &request, &result);
	return outcome(rc, &result, error);
}

static int verify_down_at_rest(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;
	uint64_t bad = 0;
	int rc = sgpu_open_chunks(c->aead, &c->keys, c->first, true, c->result, c->sealed_size, c->memory_result, &bad);

	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "what the device sealed does not open at chunk %llu",
				 (unsigned long long)bad);
	}
	return bench_verify(c->memory_result, c->size, SEED, error);
}

static int down_live(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct copy *c = argument;
	struct sgpu_transfer_result result;
	int rc = sgpu_live_out(c->engine, c->live, c->device, c->size, c->memory_result, &result);

	(void)ns;
	return outcome(rc, &result, error);
}

static int verify_down_live(void *argument, struct sgpu_error *error)
{
	struct copy *c = argument;

	return bench_verify(c->memory_result, c->size, SEED, error);
}

/* ---- points ---- */
static int measure_up(struct copy *c, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ "plain", prepare_up, up_plain, verify_up, c, 0, NULL },
		{ "at rest", prepare_up, up_at_rest, verify_up, c, 0, NULL },
		{ "live", prepare_up, up_live, verify_up, c, c->size == 64 * MIB ? 5.4 : 0, nvidia_cc },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "direction", "up", 0 }, { "size_bytes", NULL, c->size } }, .bytes = c->size,
	};

	return sgpu_bench_measure(c->bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

static int measure_down(struct copy *c, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ "plain", prepare_down, down_plain, verify_down_plain, c, 0, NULL },
		{ "at rest", prepare_down, down_at_rest, verify_down_at_rest, c, 0, NULL },
		{ "live", prepare_down, down_live, verify_down_live, c, c->size == 64 * MIB ? 5.2 : 0, nvidia_cc },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "direction", "down", 0 }, { "size_bytes", NULL, c->size } }, .bytes = c->size,
	};

	return sgpu_bench_measure(c->bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

/* That of Graviton's paper (table 2): each variant does all that the one before does, and one thing more. */
static int measure_breakdown(struct copy *c, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ "base", prepare_up, up_plain, verify_up, c, 0, NULL },
		{ "+ staging", prepare_up, up_staged, verify_up, c, 0, NULL },
		{ "+ AES on CPU", prepare_up, up_encrypted, NULL, c, 0, NULL },
		{ "+ tags on CPU", prepare_up, up_authenticated, NULL, c, 0, NULL },
		{ "+ opening on GPU", prepare_up, up_live, verify_up, c, 0, NULL },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "direction", "breakdown", 0 }, { "size_bytes", NULL, c->size } }, .bytes = c->size,
	};

	return sgpu_bench_measure(c->bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

/* A fresh key for every size: the last chunk of one is a whole one of the next. */
static int seal(struct copy *c, uint64_t size, struct sgpu_error *error)
{
	const uint8_t secret[SGPU_KEY_SIZE] = { 9 };
	int rc;

	sgpu_device_key_free(&c->key);
	sgpu_aead_free(&c->aead);
	c->size = size;
	c->next = size / SGPU_CHUNK + 1;
	c->sealed_size = size + c->next * SGPU_TAG_SIZE;
	rc = sgpu_sealed_keys_new(secret, "", 0, &c->keys, error);
	rc = rc ? rc : sgpu_aead_create(NULL, c->keys.key, &c->aead, error);
	rc = rc ? rc : sgpu_device_key_load(c->stream, &c->keys, &c->key, error);
	if (rc == SGPU_OK) {
		rc = sgpu_seal_chunks(c->aead, &c->keys, 0, true, c->plain, size, c->sealed);
		rc = rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot seal: %s", sgpu_strerror(rc));
	}
	return rc;
}

static int measure(struct copy *c, uint64_t size, struct sgpu_error *error)
{
	int rc = seal(c, size, error);

	if (rc == SGPU_OK && size >= 4 * MIB) { /* smaller copies are in the case session */
		rc = measure_up(c, error);
		rc = rc ? rc : bench_to_device(c->stream, c->device, c->plain, size, error);
		rc = rc ? rc : measure_down(c, error);
	}
	return rc == SGPU_OK && size <= 64 * MIB ? measure_breakdown(c, error) : rc;
}

/* ---- the case ---- */
static bool is_quick(uint64_t size)
{
	return size == 4 * MIB || size == 64 * MIB;
}

/* The largest size that is wanted and that there is memory for. */
static uint64_t largest(struct sgpu_bench *bench)
{
	uint64_t size = 0;

	for (int i = 0; i < SIZES; i++) {
		if (sgpu_bench_wants(bench, sizes[i]) && (!bench->options.quick || is_quick(sizes[i])) &&
		    sgpu_bench_fits(bench, 6 * sizes[i], 2 * sizes[i], NULL) == SGPU_OK) {
			size = sizes[i];
		}
	}
	return size;
}

static int allocate(struct copy *c, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_device *device = c->bench->device;
	int rc;

	c->room = size;
	c->sealed_room = size + (size / SGPU_CHUNK + 1) * SGPU_TAG_SIZE;
	rc = sgpu_device_alloc(device, c->room, &c->device, error);
	rc = rc ? rc : sgpu_host_alloc(device, c->room, &c->plain, error);
	rc = rc ? rc : sgpu_host_alloc(device, c->sealed_room, &c->sealed, error);
	rc = rc ? rc : sgpu_host_alloc(device, c->sealed_room, &c->result, error);
	rc = rc ? rc : bench_map(c->room, &c->memory, error);
	rc = rc ? rc : bench_map(c->room, &c->memory_result, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(c->plain, c->room, SEED);
		memcpy(c->memory, c->plain, c->room);
	}
	return rc;
}

static int setup(struct sgpu_bench *bench, void **state, struct sgpu_error *error)
{
	const struct sgpu_engine_config config = { .workers = bench->options.jobs };
	const uint8_t secret[SGPU_KEY_SIZE] = { 8 };
	struct sgpu_sealed_keys keys = { .salt = { 0 } };
	struct copy *c = calloc(1, sizeof(*c));
	uint64_t size = largest(bench);
	int rc;

	*state = c;
	if (!c) {
		return sgpu_fail_nomem(error);
	}
	c->bench = bench;
	if (size == 0) {
		return SGPU_OK;
	}
	rc = sgpu_stream_create(bench->device, &c->stream, error);
	rc = rc ? rc : allocate(c, size, error);
	rc = rc ? rc : sgpu_engine_create(bench->device, &config, &c->engine, error);
	rc = rc ? rc : sgpu_sealed_keys_new(secret, "", 0, &keys, error);
	rc = rc ? rc : sgpu_live_key_load(c->engine, &keys, &c->live, error);
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	struct copy *c = state;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < SIZES; i++) {
		const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, sizes[i] } } };
		bool wanted = sgpu_bench_wants(bench, sizes[i]) && (!bench->options.quick || is_quick(sizes[i]));

		if (wanted && sizes[i] > c->room) {
			sgpu_bench_waive(bench, &point, NULL, "not enough memory");
		} else if (wanted) {
			rc = measure(c, sizes[i], error);
		}
	}
	return rc;
}

static void teardown(struct sgpu_bench *bench, void *state)
{
	struct copy *c = state;

	if (!c) {
		return;
	}
	sgpu_device_key_free(&c->key);
	sgpu_live_key_free(&c->live);
	sgpu_engine_free(&c->engine);
	sgpu_aead_free(&c->aead);
	sgpu_stream_free(&c->stream);
	sgpu_device_free(bench->device, &c->device, c->room);
	sgpu_host_free(bench->device, &c->plain, c->room);
	sgpu_host_free(bench->device, &c->sealed, c->sealed_room);
	sgpu_host_free(bench->device, &c->result, c->sealed_room);
	bench_unmap(&c->memory, c->room);
	bench_unmap(&c->memory_result, c->room);
	sgpu_free_wiped(&c, sizeof(*c));
}

const struct sgpu_bench_case case_secure_copy = {
	.name = "secure-copy",
	.help = "copies sealed at rest and sealed live, next to the plain one",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.requires = SGPU_BENCH_DEVICE,
	.setup = setup,
	.run = run,
	.teardown = teardown,
};
