/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "crypto/crypto.h"
#include "cases.h"

enum { CHUNKS = 64, SEED = 1, PROVIDERS_MAX = 4 }; /* a sample: 1 MiB, always the same chunk */

static const uint8_t key[SGPU_KEY_SIZE] = { 1 };

enum work { SEAL, OPEN };
static const char *const work_names[] = { "seal", "open" };

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
	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "cannot %s: %s", work_names[work], sgpu_strerror(rc));
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

/* Opens what was sealed, unless the sample did that, and compares the result with the pattern. */
static int verify_core(void *argument, struct sgpu_error *error)
{
	struct core *c = argument;
	const int rc = c->work == SEAL ? run_core(c, OPEN, 1, error) : SGPU_OK;

	return rc ? rc : sgpu_bench_check(c->opened, sizeof(c->opened), SEED, error);
}

/* Compares the providers. OpenSSL's comes first, since most programs use it. */
int bench_aead_cpu(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const char *const *names = sgpu_aead_providers();
	struct sgpu_bench_variant variants[PROVIDERS_MAX] = { { .name = NULL } };
	int count = 0, rc;
	struct core *cores;

	if (!sgpu_bench_wants(bench, SGPU_CHUNK)) {
		return SGPU_OK;
	}
	cores = sgpu_bench_new(bench, PROVIDERS_MAX * sizeof(*cores), NULL, error);
	rc = cores ? SGPU_OK : SGPU_ENOMEM;
	for (; rc == SGPU_OK && names[count] && count < PROVIDERS_MAX; count++) {
		struct sgpu_bench_variant *at =
			&variants[strcmp(names[count], "openssl") == 0 ? 0 : count];

		variants[count] = variants[0];
		*at = (struct sgpu_bench_variant){ names[count], prepare_core, work_core,
						   verify_core, &cores[count] };
		rc = bench_new_aead(bench, names[count], key, &cores[count].aead, error);
	}
	for (enum work work = SEAL; rc == SGPU_OK && work <= OPEN; work++) {
		const struct sgpu_bench_point point = {
			.parameters = { { "direction", work_names[work], 0 },
					{ "threads", NULL, 1 },
					{ "size_bytes", NULL, SGPU_CHUNK } },
			.bytes = (uint64_t)CHUNKS * SGPU_CHUNK,
			.operations = CHUNKS,
		};

		for (int i = 0; i < count; i++) {
			cores[i].work = work;
		}
		rc = sgpu_bench_measure(bench, &point, variants, count, error);
	}
	return rc;
}
