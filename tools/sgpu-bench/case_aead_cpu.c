/* SPDX-License-Identifier: Apache-2.0
 *
 * aead-cpu: AES-256-GCM on the CPU, in chunks of the sealed format: one core in cache, and all
 * cores on memory.
 */
#include <string.h>

#include "cases.h"
#include "made.h"
#include "memory.h"

enum {
	CHUNKS = 64,
	SEED = 1,
	PARTS_A_THREAD = 4
}; /* a sample of one core: 1 MiB, all in one chunk's memory */

static const uint8_t key[SGPU_KEY_SIZE] = { 1 };

enum work { COPY, SEAL, OPEN, WORKS };
static const char *const work_names[WORKS] = { "copy", "seal", "open" };

static int told(int rc, enum work work, struct sgpu_error *error)
{
	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "cannot %s: %s", work_names[work], sgpu_strerror(rc));
}

/* ---- one core: the same chunk again and again ---- */
struct core {
	struct sgpu_aead *aead;
	enum work work;
	uint8_t in[SGPU_CHUNK], sealed[SGPU_CHUNK], opened[SGPU_CHUNK];
	uint8_t nonce[SGPU_NONCE_SIZE], tag[SGPU_TAG_SIZE];
};

static int run_core(struct core *c, enum work work, int times, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < times; i++) {
		rc = work == OPEN ? sgpu_aead_open(c->aead, c->nonce, c->sealed, SGPU_CHUNK,
						   c->opened, c->tag)
				  : sgpu_aead_seal(c->aead, c->nonce, c->in, SGPU_CHUNK, c->sealed,
						   c->tag);
	}
	return told(rc, work, error);
}

static int work_core(void *argument, struct sgpu_error *error)
{
	struct core *c = argument;

	return run_core(c, c->work, CHUNKS, error);
}

static int prepare_core(void *argument, struct sgpu_error *error)
{
	struct core *c = argument;

	sgpu_bench_fill(c->in, sizeof(c->in), SEED);
	memset(c->opened, 0, sizeof(c->opened));
	return run_core(c, SEAL, 1, error);
}

/* What was opened, or what was sealed when it is opened, is what it was made from. */
static int verify_core(void *argument, struct sgpu_error *error)
{
	struct core *c = argument;
	const int rc = c->work == SEAL ? run_core(c, OPEN, 1, error) : SGPU_OK;

	return rc ? rc : bench_verify(c->opened, sizeof(c->opened), SEED, error);
}

enum { PROVIDERS_MAX = 4 };

/* The providers against each other; OpenSSL's first, which is what most programs have. */
static int order_providers(const char *names[PROVIDERS_MAX])
{
	int count = 0;

	for (const char *const *name = sgpu_aead_providers(); *name && count < PROVIDERS_MAX;
	     name++) {
		names[count++] = *name;
		if (strcmp(*name, "openssl") == 0) {
			names[count - 1] = names[0];
			names[0] = *name;
		}
	}
	return count;
}

static int measure_core(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const char *names[PROVIDERS_MAX];
	const int count = order_providers(names);
	struct sgpu_bench_variant variants[PROVIDERS_MAX];
	const size_t mark = sgpu_bench_mark(bench);
	void *memory = NULL;
	int rc = sgpu_bench_new(bench, PROVIDERS_MAX * sizeof(struct core), &memory, error);
	struct core *cores = memory;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		variants[i] = (struct sgpu_bench_variant){ .name = names[i],
							   .prepare = prepare_core,
							   .work = work_core,
							   .verify = verify_core,
							   .argument = &cores[i] };
		rc = bench_new_aead(bench, names[i], key, &cores[i].aead, error);
	}
	for (enum work work = SEAL; rc == SGPU_OK && work <= OPEN; work++) {
		const struct sgpu_bench_point point = {
			.parameters = { { "direction", work_names[work], 0 },
					{ "threads", NULL, 1 },
					{ "size_bytes", NULL, SGPU_CHUNK } },
			.bytes = (uint64_t)CHUNKS * SGPU_CHUNK,
			.operations = CHUNKS,
			.bytes_formula = "operations * size_bytes",
		};

		for (int i = 0; i < count; i++) {
			cores[i].work = work;
		}
		rc = sgpu_bench_measure(bench, &point, variants, count, error);
	}
	sgpu_bench_release(bench, mark);
	return rc;
}

/* ---- all cores: a segment in memory, cut into runs of chunks, each with an expanded key of its
 * own ---- */
struct part {
	struct sgpu_aead *aead;
	int rc;
};

struct all {
	struct sgpu_bench *bench;
	struct sgpu_pool *pool;
	struct sgpu_sealed_keys keys;
	struct part *parts;
	unsigned count;
	uint64_t size;
	enum work work;
	void *plain, *sealed, *opened;
};

static void work_parts(void *argument, uint64_t begin, uint64_t end)
{
	struct all *a = argument;

	for (uint64_t i = begin; i < end; i++) {
		struct part *p = &a->parts[i];
		const uint64_t chunks = a->size / SGPU_CHUNK, first = chunks * i / a->count;
		const uint64_t size = (chunks * (i + 1) / a->count - first) * SGPU_CHUNK;
		uint8_t *plain = (uint8_t *)a->plain + first * SGPU_CHUNK,
			*opened = (uint8_t *)a->opened + first * SGPU_CHUNK;
		uint8_t *sealed = (uint8_t *)a->sealed + first * SGPU_SEALED_CHUNK;

		if (a->work == COPY) {
			memcpy(opened, plain, size);
		} else if (a->work == SEAL) {
			p->rc = sgpu_seal_chunks(p->aead, &a->keys, first, false, plain, size,
						 sealed);
		} else {
			p->rc = sgpu_open_chunks(p->aead, &a->keys, first, false, sealed,
						 sgpu_run_sealed_size(size, false), opened, NULL);
		}
	}
}

static int work_all(void *argument, struct sgpu_error *error)
{
	struct all *a = argument;
	int rc;

	sgpu_pool_enter(a->pool);
	rc = sgpu_pool_for(a->pool, a->count, 1, work_parts, a);
	sgpu_pool_leave(a->pool);
	for (unsigned i = 0; rc == SGPU_OK && i < a->count; i++) {
		rc = a->parts[i].rc;
	}
	return told(rc, a->work, error);
}

static int prepare_all(void *argument, struct sgpu_error *error)
{
	const struct all *a = argument;

	(void)error;
	bench_spoil(a->opened, a->size);
	return SGPU_OK;
}

/* The copy, or what was sealed, opened. */
static int verify_all(void *argument, struct sgpu_error *error)
{
	struct all opening = *(const struct all *)argument;
	int rc = SGPU_OK;

	if (opening.work == SEAL) {
		opening.work = OPEN;
		rc = work_all(&opening, error);
	}
	return rc ? rc : bench_verify(opening.opened, opening.size, SEED, error);
}

static int make_all(struct all *a, uint64_t size, struct sgpu_error *error)
{
	const unsigned threads = a->bench->options.jobs;
	const uint64_t chunks = size / SGPU_CHUNK;
	int rc = sgpu_sealed_keys_new(key, "", 0, &a->keys, error);

	a->size = size;
	a->count = chunks < threads * PARTS_A_THREAD ? (unsigned)chunks : threads * PARTS_A_THREAD;
	rc = rc ? rc
		: sgpu_bench_new(a->bench, a->count * sizeof(*a->parts), (void **)&a->parts, error);
	rc = rc ? rc : sgpu_bench_new(a->bench, size, &a->plain, error);
	rc = rc ? rc : sgpu_bench_new(a->bench, chunks * SGPU_SEALED_CHUNK, &a->sealed, error);
	rc = rc ? rc : sgpu_bench_new(a->bench, size, &a->opened, error);
	rc = rc ? rc : bench_new_pool(a->bench, &a->pool, error);
	for (unsigned i = 0; rc == SGPU_OK && i < a->count; i++) {
		rc = bench_new_aead(a->bench, NULL, a->keys.key, &a->parts[i].aead, error);
	}
	if (rc == SGPU_OK) {
		sgpu_bench_fill(a->plain, size, SEED);
	}
	return rc;
}

static int measure_all(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct all *a = argument, works[WORKS];
	struct sgpu_bench_variant variants[WORKS];
	const struct sgpu_bench_point point = {
		.parameters = { { "threads", NULL, a->bench->options.jobs },
				{ "size_bytes", NULL, size } },
		.bytes = size,
	};
	const int rc = make_all(a, size, error);

	for (int work = COPY; work < WORKS;
	     work++) { /* a copy first: what the memory can do; then what is opened is sealed */
		works[work] = *a;
		works[work].work = (enum work)work;
		variants[work] = (struct sgpu_bench_variant){ .name = work_names[work],
							      .prepare = prepare_all,
							      .work = work_all,
							      .verify = verify_all,
							      .argument = &works[work] };
	}
	return rc ? rc : sgpu_bench_measure(a->bench, &point, variants, WORKS, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct all a = { .bench = bench };
	const int rc = sgpu_bench_wants(bench, SGPU_CHUNK) ? measure_core(bench, error) : SGPU_OK;

	return rc ? rc
		  : bench_sweep(bench, (uint64_t)1 << 20, (uint64_t)1 << 30,
				(struct bench_need){ 3, 0, 0 }, measure_all, &a, error);
}

const struct sgpu_bench_case case_aead_cpu = {
	.name = "aead-cpu",
	.help = "AES-256-GCM on the CPU: its providers on one core in cache; all cores against a "
		"copy",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.run = run,
};
