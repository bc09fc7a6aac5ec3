/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "dsa/dsa.h"

#include "cases.h"

enum { SEED = 11, COPIES_MAX = 4096 };
/* Bytes of a sample, unless the copies under way at a time have more. */
#define WORK ((uint64_t)4 << 20)

struct work {
	struct sgpu_bench *bench;
	struct sgpu_dsa *dsa;
	void *from, *to;
	uint64_t size, count;
	unsigned depth;
};

static int prepare(void *argument, struct sgpu_error *error)
{
	struct work *w = argument;

	(void)error;
	memset(w->to, 0, w->count * w->size);
	return SGPU_OK;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct work *w = argument;

	return sgpu_bench_check(w->to, w->count * w->size, SEED, error);
}

static int run_core(void *argument, struct sgpu_error *error)
{
	struct work *w = argument;

	(void)error;
	for (uint64_t i = 0; i < w->count; i++) {
		memcpy((uint8_t *)w->to + i * w->size, (uint8_t *)w->from + i * w->size, w->size);
	}
	return SGPU_OK;
}

/* No core finishes the device's work, so that the figure is the device's alone. */
static int run_device(void *argument, struct sgpu_error *error)
{
	const struct work *w = argument;

	return sgpu_dsa_copy(w->dsa, w->to, w->from, w->count * w->size, w->size, w->depth, error);
}

static int measure_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	static const unsigned depths[] = { 1, 8, 32, SGPU_DSA_DEPTH_MAX };
	const uint64_t most = SGPU_DSA_DEPTH_MAX * size > WORK ? SGPU_DSA_DEPTH_MAX * size : WORK;
	struct work *w = argument;
	const struct sgpu_bench_variant variants[] = {
		{ "core", prepare, run_core, verify, w },
		{ "poll", prepare, run_device, verify, w },
	};
	int rc = bench_new_pages(w->bench, most, &w->from, error);

	rc = rc ? rc : bench_new_pages(w->bench, most, &w->to, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(w->from, most, SEED);
	}
	w->size = size;
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(depths); i++) {
		const uint64_t copies = WORK / size < COPIES_MAX ? WORK / size : COPIES_MAX;
		const uint64_t count = copies > depths[i] ? copies : depths[i];
		const struct sgpu_bench_point point = {
			.parameters = { { "size_bytes", NULL, size },
					{ "depth", NULL, depths[i] } },
			.operations = count,
			.bytes = count * size,
		};

		w->depth = depths[i];
		w->count = count;
		rc = sgpu_bench_measure(w->bench, &point, variants, SGPU_ARRAY_LENGTH(variants),
					error);
	}
	return rc;
}

int bench_dsa(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct bench_sizes sizes = { 64 | 1 << 10 | 4 << 10 | 16 << 10 | 64 << 10 |
							  256 << 10 | 1 << 20,
						  64 | 4 << 10 | 64 << 10 | 1 << 20,
						  2 * SGPU_DSA_DEPTH_MAX, 0, 2 * WORK };
	struct work w = { .bench = bench };
	int rc = sgpu_dsa_open(&w.dsa, error);

	rc = rc ? rc : bench_each_size(bench, &sizes, measure_size, &w, error);
	sgpu_dsa_close(&w.dsa);
	return rc;
}
