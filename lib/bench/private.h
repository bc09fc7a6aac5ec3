/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of lib/bench.
 */
#ifndef SGPU_BENCH_PRIVATE_H
#define SGPU_BENCH_PRIVATE_H

#include <bench/bench.h>

/* Holds streams back; made on first use. */
struct sgpu_bench_gate {
	struct sgpu_stream *stream;
	sgpu_devptr device_memory;
	void *host_memory;
	uint64_t capacity; /* bytes of both; 0: there is no gate */
	uint64_t size;	   /* bytes that the next gate copies */
};

/* What a case has made, and how it ends. */
struct sgpu_bench_kept {
	void (*end)(struct sgpu_bench *bench, uintptr_t what, uint64_t size);
	uintptr_t what;
	uint64_t size;
	bool is_memory; /* to be freed then */
};

enum { SGPU_BENCH_LACKS_MAX = 16 };
struct sgpu_bench_private {
	const struct sgpu_bench_case *row;
	void (*record)(void *argument, const struct sgpu_bench_record *record);
	void *argument;
	int counts[3]; /* records so far, by status */
	bool told;     /* one of them is of an error */
	struct sgpu_bench_gate gate;
	struct sgpu_bench_kept *kept;
	size_t kept_count;
	uint64_t ns; /* of the sample that is taken, as its variant says; 0: it does not */
	struct sgpu_bench_latency latency; /* of that sample */
	/* Variants that are waived for all points. */
	char lacks[SGPU_BENCH_LACKS_MAX][SGPU_BENCH_NAME_MAX];
	int lack_count;
	double cycles_per_ns; /* of the time-stamp counter; 0: there is none */
};

extern const char *const sgpu_bench_stops[]; /* NULL-terminated */

/* A record of the running case and of a point (or NULL); status passed. */
void sgpu_bench_start_record(const struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			     const char *variant, struct sgpu_bench_record *record);
void sgpu_bench_give(struct sgpu_bench *bench, const struct sgpu_bench_record *record);
/* A record for an error: waived when something is lacking, else failed. */
void sgpu_bench_give_error(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			   const char *variant, const struct sgpu_error *error);

/* Adds an item to an array that only this has made larger. */
int sgpu_bench_append(void **array, size_t *count, const void *item, size_t size,
		      struct sgpu_error *error);

/* A member of a record, as JSON has it. */
struct sgpu_bench_member {
	const char *key;
	enum {
		SGPU_BENCH_IS_COUNT,
		SGPU_BENCH_IS_NUMBER,
		SGPU_BENCH_IS_TEXT,
		SGPU_BENCH_IS_WORD
	} kind;
	size_t offset, size;	  /* in the struct: of a uint64_t, double, char[] or enum */
	int digits;		  /* that a number keeps behind the point */
	const char *with;	  /* there only when that member is: often itself. NULL: always */
	const char *const *words; /* of an enum */
};
/* For all records; for those that passed; for the others; for records of noise. Each ends with a
 * NULL key. */
extern const struct sgpu_bench_member sgpu_bench_heads[], sgpu_bench_members[], sgpu_bench_reason[],
	sgpu_bench_noise_members[];

/* Zeros if n is 0. Distances from the median take the place of the samples. */
void sgpu_bench_summarise(double *samples, uint64_t n, struct sgpu_bench_statistics *statistics);

#endif
