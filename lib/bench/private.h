/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of lib/bench.
 */
#ifndef SGPU_BENCH_PRIVATE_H
#define SGPU_BENCH_PRIVATE_H

#include <bench/bench.h>

struct sgpu_bench_kept {
	struct sgpu_bench_kept *before;
	sgpu_bench_end_fn *end;
	uintptr_t what;
	uint64_t size;
};

/* Gives a record of the running case, a point (or NULL) and a variant (or NULL), with more members,
 * which it frees. */
void sgpu_bench_give(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		     const char *variant, enum sgpu_bench_status status, json_t *more);
/* Records a point as waived if something is lacking, else as failed. */
void sgpu_bench_give_error(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			   const char *variant, const struct sgpu_error *error);

/* All zero if n is 0. Overwrites the samples with their distances from the median. */
void sgpu_bench_summarise(double *samples, uint64_t n, struct sgpu_bench_statistics *statistics);

#endif
