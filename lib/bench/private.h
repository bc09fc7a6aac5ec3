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
	sgpu_bench_end_fn *end;
	uintptr_t what;
	uint64_t size;
	bool is_memory; /* `what` is memory that is freed after end() */
};

struct sgpu_bench_private {
	const struct sgpu_bench_case *row;
	void (*record)(void *argument, const struct sgpu_bench_record *record);
	void *argument;
	int counts[3]; /* by status */
	bool told;     /* an error of a variant was recorded already */
	struct sgpu_bench_gate gate;
	struct sgpu_bench_kept *kept;
	size_t kept_count;
	uint64_t ns, cpu_ns; /* of the current sample, as its variant gave them; 0: not given */
};

extern const char *const sgpu_bench_stops[]; /* NULL-terminated */

/* Starts a record of the running case and a point (or NULL), with the status passed. */
void sgpu_bench_start_record(const struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			     const char *variant, struct sgpu_bench_record *record);
void sgpu_bench_give(struct sgpu_bench *bench, const struct sgpu_bench_record *record);
/* Records a point as waived if something is lacking, else as failed. */
void sgpu_bench_give_error(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			   const char *variant, const struct sgpu_error *error);

/* Adds an item to an array that only this function enlarges. */
int sgpu_bench_append(void **array, size_t *count, const void *item, size_t size,
		      struct sgpu_error *error);

/* A member of a record in JSON. */
struct sgpu_bench_member {
	const char *key;
	enum {
		SGPU_BENCH_IS_COUNT,
		SGPU_BENCH_IS_NUMBER,
		SGPU_BENCH_IS_TEXT,
		SGPU_BENCH_IS_WORD
	} kind;
	size_t offset, size; /* in the struct: of a uint64_t, double, char[] or enum */
	int digits;	     /* decimal places of a number */
	const char *with;    /* key of the member with which this one is written; its own: unless
				empty; NULL: always */
	const char *const *words; /* texts of an enum's values */
};
/* Members of all records; of records that passed; of those that did not. */
extern const struct sgpu_bench_member sgpu_bench_heads[], sgpu_bench_members[], sgpu_bench_reason[];

/* All zero if n is 0. Overwrites the samples with their distances from the median. */
void sgpu_bench_summarise(double *samples, uint64_t n, struct sgpu_bench_statistics *statistics);

#endif
