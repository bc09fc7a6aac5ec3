/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of lib/bench.
 */
#ifndef SGPU_BENCH_PRIVATE_H
#define SGPU_BENCH_PRIVATE_H

#include <bench/bench.h>

/* The gate (gate.c), made on first use. */
struct sgpu_bench_gate {
	struct sgpu_stream *stream;
	sgpu_devptr device_memory;
	void *host_memory;
	uint64_t capacity; /* bytes of each memory; 0: there is no gate */
	uint64_t size;	   /* bytes that the next gate copies */
};

struct sgpu_bench_kept {
	struct sgpu_bench_kept *before;
	sgpu_bench_end_fn *end;
	uintptr_t what;
	uint64_t size;
};

struct sgpu_bench_private {
	const struct sgpu_bench_case *row;
	void (*record)(void *argument, const json_t *record);
	void *argument;
	int counts[3]; /* by status */
	bool told;     /* an error of a variant was recorded already */
	struct sgpu_bench_gate gate;
	struct sgpu_bench_kept *kept; /* the last one */
	uint64_t ns, cpu_ns; /* of the current sample, as its variant gave them; 0: not given */
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
