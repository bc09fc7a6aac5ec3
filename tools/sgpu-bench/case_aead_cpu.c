/* SPDX-License-Identifier: Apache-2.0
 *
 * aead-cpu: AES-256-GCM on the CPU, in chunks of the sealed format: one core in cache, and all cores on memory.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/crypto.h>
#include <sgpu/seal.h>

#include "cases.h"

enum { CHUNKS = 64, SEED = 1, PARTS_A_THREAD = 4 }; /* a sample of one core: 1 MiB, all in one chunk's memory */

/* One core: the same chunk again and again. */
struct core {
	struct sgpu_aead *aead;
	uint8_t in[SGPU_CHUNK], sealed[SGPU_CHUNK], opened[SGPU_CHUNK];
	uint8_t nonce[SGPU_NONCE_SIZE], tag[SGPU_TAG_SIZE];
};

/* All cores: a segment in memory, cut into runs of chunks, each with an expanded key of its own. */
struct part {
	struct sgpu_aead *aead;
	uint64_t first, size;  /* chunk; plaintext bytes */
	int rc;
};

struct all {
	struct sgpu_pool *pool;
	struct sgpu_sealed_keys keys;
	struct part *parts;
	unsigned count;
	uint64_t size;
	bool opens;
	uint8_t *plain, *sealed, *opened;
};

static int seal_core(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct core *c = argument;
	int rc = SGPU_OK;

	(void)ns;
	for (int i = 0; rc == SGPU_OK && i < CHUNKS; i++) {
		rc = sgpu_aead_seal(c->aead, c->nonce, c->in, SGPU_CHUNK, c->sealed, c->tag);
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot seal: %s", sgpu_strerror(rc));
}

static int open_core(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct core *c = argument;
	int rc = SGPU_OK;

	(void)ns;
	for (int i = 0; rc == SGPU_OK && i < CHUNKS; i++) {
		rc = sgpu_aead_open(c->aead, c->nonce, c->sealed, SGPU_CHUNK, c->opened, c->tag);
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot open: %s", sgpu_strerror(rc));
}

static int prepare_core(void *argument, struct sgpu_error *error)
{
	struct core *c = argument;
	int rc;

	sgpu_bench_fill(c->in, sizeof(c->in), SEED);
	memset(c->opened, 0, sizeof(c->opened));
	rc = sgpu_aead_seal(c->aead, c->nonce, c->in, SGPU_CHUNK, c->sealed, c->tag);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot seal: %s", sgpu_strerror(rc));
}

/* What was sealed opens to what it was made from. */
static int verify_core(void *argument, struct sgpu_error *error)
{
	struct core *c = argument;
	int rc = sgpu_aead_open(c->aead, c->nonce, c->sealed, SGPU_CHUNK, c->opened, c->tag);

	if (rc == SGPU_OK && sgpu_bench_check(c->opened, sizeof(c->opened), SEED) == sizeof(c->opened)) {
		return SGPU_OK;
	}
	return sgpu_fail(error, SGPU_EDIFFERS, "a chunk does not open to what was sealed");
}

enum { PROVIDERS_MAX = 4 };

/* The providers against each other; OpenSSL's first, which is what most programs have. */
static int order_providers(const char *names[PROVIDERS_MAX])
{
	int count = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (const char *const *name = sgpu_aead_providers(); *name; name++) {
			if ((strcmp(*name, "openssl") == 0) == (pass == 0) && count < PROVIDERS_MAX) {
				names[count++] = *name;
			}
		}
	}
	return count;
}

static int measure_direction(struct sgpu_bench *bench, const char *direction, struct core *cores,
			     const char *const *names, int count, struct sgpu_error *error)
{
	struct sgpu_bench_variant variants[PROVIDERS_MAX];
	const struct sgpu_bench_point point = {
		.parameters = { { "direction", direction, 0 }, { "threads", NULL, 1 },
				{ "size_bytes", NULL, SGPU_CHUNK } },
		.bytes = (uint64_t)CHUNKS * SGPU_CHUNK, .operations = CHUNKS, .bytes_formula = "operations * size_bytes",
	};

	for (int i = 0; i < count; i++) {
		variants[i] = (struct sgpu_bench_variant){
			.name = names[i], .prepare = prepare_core, .run = direction[0] == 's' ? seal_core : open_core,
			.verify = verify_core, .argument = &cores[i],
		};
	}
	return sgpu_bench_measure(bench, &point, variants, count, error);
}

static int measure_core(struct sgpu_bench *bench, const uint8_t key[SGPU_KEY_SIZE], struct sgpu_error *error)
{
	const char *names[PROVIDERS_MAX];
	int count = order_providers(names), rc = SGPU_OK;
	struct core *cores = calloc(PROVIDERS_MAX, sizeof(*cores));

	if (!cores) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_aead_create(names[i], key, &cores[i].aead, error);
	}
	rc = rc ? rc : measure_direction(bench, "seal", cores, names, count, error);
	rc = rc ? rc : measure_direction(bench, "open", cores, names, count, error);
	for (int i = 0; i < count; i++) {
		sgpu_aead_free(&cores[i].aead);
	}
	free(cores);
	return rc;
}

/* ---- all cores ---- */
static void work(void *argument, uint64_t begin, uint64_t end)
{
	struct all *a = argument;

	for (uint64_t i = begin; i < end; i++) {
		struct part *p = &a->parts[i];
		uint8_t *sealed = a->sealed + p->first * SGPU_SEALED_CHUNK;
		uint64_t sealed_size = p->size / SGPU_CHUNK * SGPU_SEALED_CHUNK, at = p->first * SGPU_CHUNK;

		p->rc = a->opens ?
			sgpu_open_chunks(p->aead, &a->keys, p->first, false, sealed, sealed_size,
					 a->opened + at, NULL) :
			sgpu_seal_chunks(p->aead, &a->keys, p->first, false, a->plain + at, p->size, sealed);
	}
}

static int run_all(struct all *a, bool opens, struct sgpu_error *error)
{
	int rc;

	a->opens = opens;
	sgpu_pool_enter(a->pool);
	rc = sgpu_pool_for(a->pool, a->count, 1, work, a);
	sgpu_pool_leave(a->pool);
	for (unsigned i = 0; rc == SGPU_OK && i < a->count; i++) {
		rc = a->parts[i].rc;
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot %s: %s", opens ? "open" : "seal", sgpu_strerror(rc));
}

/* What the memory can do: a copy of the same bytes by as many threads. */
static void copy(void *argument, uint64_t begin, uint64_t end)
{
	struct all *a = argument;

	for (uint64_t i = begin; i < end; i++) {
		memcpy(a->opened + a->parts[i].first * SGPU_CHUNK, a->plain + a->parts[i].first * SGPU_CHUNK,
		       a->parts[i].size);
	}
}

static int copy_all(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct all *a = argument;
	int rc;

	(void)ns;
	sgpu_pool_enter(a->pool);
	rc = sgpu_pool_for(a->pool, a->count, 1, copy, a);
	sgpu_pool_leave(a->pool);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot copy: %s", sgpu_strerror(rc));
}

static int verify_copy(void *argument, struct sgpu_error *error)
{
	struct all *a = argument;

	return memcmp(a->opened, a->plain, a->size) == 0 ? SGPU_OK : sgpu_fail(error, SGPU_EDIFFERS, "a wrong copy");
}

static int seal_all(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	(void)ns;
	return run_all(argument, false, error);
}

static int open_all(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	(void)ns;
	return run_all(argument, true, error);
}

static int verify_all(void *argument, struct sgpu_error *error)
{
	struct all *a = argument;
	int rc;

	memset(a->opened, 0, a->size);
	rc = run_all(a, true, error);
	if (rc == SGPU_OK && sgpu_bench_check(a->opened, a->size, SEED) != a->size) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "a chunk does not open to what was sealed");
	}
	return rc;
}

static void free_all(struct all *a)
{
	for (unsigned i = 0; a->parts && i < a->count; i++) {
		sgpu_aead_free(&a->parts[i].aead);
	}
	sgpu_pool_free(&a->pool);
	free(a->parts);
	free(a->plain);
	free(a->sealed);
	free(a->opened);
	sgpu_wipe(&a->keys, sizeof(a->keys));
}

static int make_all(struct all *a, uint64_t size, unsigned threads, const uint8_t key[SGPU_KEY_SIZE],
		    struct sgpu_error *error)
{
	uint64_t chunks = size / SGPU_CHUNK, at = 0;
	int rc = sgpu_sealed_keys_new(key, "", 0, &a->keys, error);

	a->size = size;
	a->count = chunks < threads * PARTS_A_THREAD ? (unsigned)chunks : threads * PARTS_A_THREAD;
	a->parts = calloc(a->count, sizeof(*a->parts));
	a->plain = malloc(size);
	a->sealed = malloc(chunks * SGPU_SEALED_CHUNK);
	a->opened = malloc(size);
	if (rc == SGPU_OK && (!a->parts || !a->plain || !a->sealed || !a->opened)) {
		return sgpu_fail_nomem(error);
	}
	rc = rc ? rc : sgpu_pool_create(threads, &a->pool, error);
	sgpu_bench_fill(a->plain, size, SEED);
	for (unsigned i = 0; rc == SGPU_OK && i < a->count; i++) {
		uint64_t end = chunks * (i + 1) / a->count;

		a->parts[i] = (struct part){ .first = at, .size = (end - at) * SGPU_CHUNK };
		at = end;
		rc = sgpu_aead_create(NULL, a->keys.key, &a->parts[i].aead, error);
	}
	return rc;
}

static int measure_all(struct sgpu_bench *bench, uint64_t size, const uint8_t key[SGPU_KEY_SIZE],
		       struct sgpu_error *error)
{
	unsigned jobs = bench->options.jobs;
	struct sgpu_error lack;
	struct all a = { 0 };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "copy", .run = copy_all, .verify = verify_copy, .argument = &a },
		{ .name = "seal", .run = seal_all, .verify = verify_all, .argument = &a },
		{ .name = "open", .run = open_all, .verify = verify_all, .argument = &a },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "threads", NULL, jobs }, { "size_bytes", NULL, size } },
		.bytes = size,
	};
	int rc;

	if (sgpu_bench_fits(bench, 3 * size, 0, &lack) != SGPU_OK) {
		sgpu_bench_waive(bench, &point, NULL, "%s", lack.text);
		return SGPU_OK;
	}
	rc = make_all(&a, size, jobs, key, error);
	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, 3, error);
	free_all(&a);
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	const uint8_t key[SGPU_KEY_SIZE] = { 1 };
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, (uint64_t)1 << 20, (uint64_t)1 << 30, sizes), rc = SGPU_OK;

	(void)state;
	if (sgpu_bench_wants(bench, SGPU_CHUNK)) {
		rc = measure_core(bench, key, error);
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = measure_all(bench, sizes[i], key, error);
	}
	return rc;
}

const struct sgpu_bench_case case_aead_cpu = {
	.name = "aead-cpu",
	.help = "AES-256-GCM on the CPU: its providers on one core in cache; all cores against a copy",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.run = run,
};
