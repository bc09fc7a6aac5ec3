/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring. Times are in nanoseconds.
 *
 * A case measures points. A point's variants ("plain", "sealed") are sampled in turns. A sample is
 * prepared, timed and verified. Each variant gives one record: statistics of its times and, round
 * by round, of their ratios to the first variant's. */
#ifndef SGPU_BENCH_H
#define SGPU_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/base.h>

#include "device/device.h"

struct sgpu_bench_statistics {
	uint64_t n;
	double min, median, p90,
		p95;   /* p95: the smallest sample that at least 95 % do not exceed */
	double mad;    /* median of the distances from the median */
	double spread; /* (p95 - min) / median */
	double p99;
	double low, high; /* 95 % confidence interval of the median; below 6 samples: all */
};
/* n: at least 1. Overwrites the samples with their distances from the median. */
struct sgpu_bench_statistics sgpu_bench_summarise(double *samples, uint64_t n);

/* ---- cases ---- */
/* Units of the value shown to people. */
#define SGPU_BENCH_BYTES_PER_SECOND "B/s"
#define SGPU_BENCH_OPERATIONS_PER_SECOND "op/s"
#define SGPU_BENCH_NS "ns"

struct sgpu_bench;

/* A case is waived if run() returns SGPU_EUNAVAILABLE or SGPU_ENOMEM, for the reason in the error;
 * after any other error it has failed. sgpu_bench_keep and the like keep what run() makes. */
struct sgpu_bench_case {
	const char *name; /* "secure-copy"; NULL ends a table */
	const char *help;
	const char *unit;
	int (*run)(struct sgpu_bench *bench, struct sgpu_error *error);
};

enum { SGPU_BENCH_PARAMETERS_MAX = 8, SGPU_BENCH_NAME_MAX = 48 };

/* A text, or a number whose unit is in the key: "size_bytes", "streams". */
struct sgpu_bench_parameter {
	const char *key;
	const char *text; /* NULL: number */
	uint64_t number;
};

/* The time that a sample should take: `ratio` times the first variant's median, plus `ns`. 0 and 0:
 * no goal. */
struct sgpu_bench_goal {
	double ratio, ns;
};

struct sgpu_bench_point {
	/* identify the point; those without a key are left out */
	struct sgpu_bench_parameter parameters[SGPU_BENCH_PARAMETERS_MAX];
	uint64_t bytes;			     /* of one sample's payload, or 0 */
	uint64_t operations;		     /* of one sample; 0 counts as 1 */
	const struct sgpu_bench_goal *goals; /* by variant, or NULL */
};

/* All functions get `argument` and run on one thread; an error ends the case. */
struct sgpu_bench_variant {
	const char *name;
	/* Before every sample, untimed: fills inputs, spoils outputs. Or NULL. */
	int (*prepare)(void *argument, struct sgpu_error *error);
	/* Does the work once, to its end. The sample is this call's duration by the host's clock,
	 * or what it sets bench->ns to. */
	int (*work)(void *argument, struct sgpu_error *error);
	/* After the sample, untimed: SGPU_EDIFFERS with the difference if an output is wrong. Above
	 * 64 MiB, only the warm-up and the last sample are verified. Or NULL. */
	int (*verify)(void *argument, struct sgpu_error *error);
	void *argument;
};

/* Samples the variants, and records their ratios to the first one. Errors: those of the variants;
 * SGPU_ECANCELED. */
SGPU_MUST_CHECK int sgpu_bench_measure(struct sgpu_bench *bench,
				       const struct sgpu_bench_point *point,
				       const struct sgpu_bench_variant *variants, int count,
				       struct sgpu_error *error);
/* Records why a point, or one variant of it (NULL: all), was not measured; the case continues. */
void sgpu_bench_waive(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		      const char *variant, const char *format, ...) SGPU_PRINTF(4, 5);

bool sgpu_bench_wants(const struct sgpu_bench *bench, uint64_t size);
/* Returns SGPU_ENOMEM and the reason unless the host and the device have this much memory: the
 * kernel would rather kill the process than refuse. */
SGPU_MUST_CHECK int sgpu_bench_fits(const struct sgpu_bench *bench, uint64_t host_bytes,
				    uint64_t device_bytes, struct sgpu_error *error);

/* ---- what a case keeps until its end ---- */
typedef void sgpu_bench_end_fn(struct sgpu_bench *bench, uintptr_t what, uint64_t size);
/* end() is called at the case's end, also after an error, in reverse order; or at once, if this
 * function fails. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_bench_keep(struct sgpu_bench *bench, sgpu_bench_end_fn *end,
				    uintptr_t what, uint64_t size, struct sgpu_error *error);
/* Frees memory from malloc. */
sgpu_bench_end_fn sgpu_bench_end_memory;
/* Defines a sgpu_bench_end_fn from a function that takes a pointer to the thing's pointer. */
#define SGPU_BENCH_ENDING(name, type, function)                                   \
	static void name(struct sgpu_bench *bench, uintptr_t what, uint64_t size) \
	{                                                                         \
		type *made = (type *)what;                                        \
                                                                                  \
		(void)bench, (void)size;                                          \
		function(&made);                                                  \
	}
/* For a part of a case: waits for the device, and ends what was kept since bench->kept was `mark`.
 */
void sgpu_bench_release(struct sgpu_bench *bench, const void *mark);
/* Returns zeroed memory, or NULL: SGPU_ENOMEM. At the case's end, `end` (or NULL) ends what the
 * memory holds; then the memory is freed. */
void *sgpu_bench_new(struct sgpu_bench *bench, size_t size, sgpu_bench_end_fn *end,
		     struct sgpu_error *error);
/* Make and keep a stream of `device`; memory of bench->device; pinned memory of its host pool.
 * Errors: those of sgpu/device.h; SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_bench_new_stream(struct sgpu_bench *bench, struct sgpu_device *device,
					  struct sgpu_stream **stream, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_bench_new_device_memory(struct sgpu_bench *bench, uint64_t size,
						 sgpu_devptr *memory, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_bench_new_pinned(struct sgpu_bench *bench, uint64_t size, void **memory,
					  struct sgpu_error *error);

/* Fills memory with a seed's pattern. The other returns SGPU_EDIFFERS and names the first byte that
 * differs, unless the memory has it. */
void sgpu_bench_fill(void *memory, uint64_t size, uint64_t seed);
SGPU_MUST_CHECK int sgpu_bench_check(const void *memory, uint64_t size, uint64_t seed,
				     struct sgpu_error *error);

struct sgpu_bench_exit {
	uint64_t cycles_per_second; /* of the time-stamp counter */
	uint64_t guest_exit_cycles; /* of a CPUID, which exits a virtual machine; 0: not in one */
};
void sgpu_bench_leave_guest(void);
struct sgpu_bench_exit sgpu_bench_measure_exit(void);

/* ---- work on streams ---- */
enum { SGPU_BENCH_STREAMS_MAX = 4 };
/* Makes streams of bench->device wait for a gate, a copy, while enqueue(argument, error) enqueues
 * work with these zeroed tasks, then waits for the work's end. If the copy ends too early, the work
 * is enqueued again after a longer one. The sample is from the start of the first task to the end
 * of the last. */
SGPU_MUST_CHECK int sgpu_bench_enqueue(struct sgpu_bench *bench, struct sgpu_stream *const *streams,
				       int count,
				       int (*enqueue)(void *argument, struct sgpu_error *error),
				       void *argument, struct sgpu_task *tasks, int task_count,
				       struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_bench_tasks(const struct sgpu_task *tasks, int count,
				     struct sgpu_error *error);
/* Launches an operation as the runner does: the device's own implementation, or the table's for the
 * CPU. The call must live until the task ends. */
SGPU_MUST_CHECK int sgpu_bench_launch(struct sgpu_bench *bench, struct sgpu_stream *stream,
				      struct sgpu_op_call *call, struct sgpu_task *task,
				      struct sgpu_error *error);

/* ---- records ---- */
enum sgpu_bench_status { SGPU_BENCH_PASSED, SGPU_BENCH_WAIVED, SGPU_BENCH_FAILED };
extern const char *const sgpu_bench_statuses[]; /* "passed" and so on, NULL */
/* Give a record of the running case, a point (or NULL) and a variant (or NULL). One gets more
 * members, which it frees. The other records that something is lacking, or else a failure. */
void sgpu_bench_give(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		     const char *variant, enum sgpu_bench_status status, json_t *more);
void sgpu_bench_give_error(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			   const char *variant, const struct sgpu_error *error);

/* A record is a measurement as sgpu-bench(1) describes it. These return a member, or "" and 0 if
 * the record lacks it. */
const char *sgpu_bench_text(const json_t *record, const char *key);
double sgpu_bench_number(const json_t *record, const char *key);
bool sgpu_bench_passed(const json_t *record);
/* Returns the median in the unit of the case; 0 if the measurement did not pass. */
double sgpu_bench_value(const json_t *record);
enum { SGPU_BENCH_KEY_MAX = 2 * SGPU_BENCH_NAME_MAX * (SGPU_BENCH_PARAMETERS_MAX + 1) };
/* "bandwidth pinned direction=h2d size_bytes=4096", with sorted parameters. */
void sgpu_bench_key(const json_t *record, char key[SGPU_BENCH_KEY_MAX]);

struct sgpu_bench_options {
	bool quick; /* fewer sizes, less time */
	/* Samples of each variant. 0: until there is a reason to stop, but at least 5; 3 with
	 * `quick` or if the time is exceeded by far. */
	unsigned samples;
	uint64_t time_ns;	      /* for each point and variant; 0: 0.3 s (quick: 0.1 s) */
	uint64_t size_min, size_max;  /* bytes; size_max 0: no limit */
	unsigned jobs;		      /* threads for work on all cores; 0: sgpu_cpu_count() */
	enum sgpu_device_timer timer; /* of devices that a case opens */
};

enum { SGPU_BENCH_GATE = 1 << 20 }; /* bytes */

/* The environment of a case. */
struct sgpu_bench {
	struct sgpu_device *device;
	struct sgpu_stream *stream;	   /* of the device */
	struct sgpu_device_info info;	   /* zero without a device */
	struct sgpu_bench_options options; /* jobs is never 0 here */
	int variant;			   /* the one being sampled */
	/* For work() to set: how long the sample took, by wall and by processor. 0: what the host's
	 * clock says, and this process's processor time. */
	uint64_t ns, cpu_ns;
	/* For the files of lib/bench. */
	const struct sgpu_bench_case *row;
	void (*record)(void *argument, const json_t *record);
	void *argument;
	int counts[3]; /* by status */
	bool told;     /* a variant's error is recorded already */
	struct {
		struct sgpu_stream *stream;
		sgpu_devptr to;
		void *from;
		int copies; /* of the next gate */
	} gate;
	struct sgpu_bench_kept *kept; /* the last one */
};

/* Runs a case and passes its records, at least one, to `record`. device: may be NULL. *status: of
 * the case, failed if a record failed. Errors: SGPU_ECANCELED; a failing case is no error. */
SGPU_MUST_CHECK int sgpu_bench_run(const struct sgpu_bench_case *row,
				   const struct sgpu_bench_options *options,
				   struct sgpu_device *device,
				   void (*record)(void *argument, const json_t *record),
				   void *argument, enum sgpu_bench_status *status,
				   struct sgpu_error *error);

/* ---- results: JSON Lines, as sgpu-bench(1) describes them ---- */
struct sgpu_bench_results {
	json_t *environment; /* an object, or NULL */
	json_t *records;     /* an array */
	char *text;	     /* the file's, if the caller keeps it here */
};
void sgpu_bench_results_clear(struct sgpu_bench_results *results);

/* Describes the machine and a device by a new object; NULL: no memory. */
json_t *sgpu_bench_environment(const struct sgpu_device_info *info,
			       const struct sgpu_bench_options *options);
/* Reads untrusted text. `name` is for messages. Errors: SGPU_EINVALID, SGPU_ENOMEM; *results is
 * then empty. */
SGPU_MUST_CHECK int sgpu_bench_read(const char *text, size_t size, const char *name,
				    struct sgpu_bench_results *results, struct sgpu_error *error);

/* ---- comparison ---- */
/* As sgpu-bench(1) has them. For the first four, the measurement passed in both runs. */
enum sgpu_bench_verdict {
	SGPU_BENCH_SAME,
	SGPU_BENCH_FASTER,
	SGPU_BENCH_SLOWER,
	SGPU_BENCH_AMBIGUOUS,
	SGPU_BENCH_ONLY_FIRST,
	SGPU_BENCH_ONLY_SECOND,
	SGPU_BENCH_NOT_MEASURED
};
extern const char *const sgpu_bench_verdicts[];
struct sgpu_bench_difference {
	const json_t *first, *second;	 /* of the results; NULL: missing */
	enum sgpu_bench_verdict verdict; /* NOT_MEASURED: it did not pass in one run or both */
	double change;			 /* of the median time: 0.1 is a tenth slower */
	double noise; /* |log(1 + change)| must exceed this to be more than noise */
};
/* Pairs two runs' records by key, in the order of the first. ratios: compares these, not the times.
 * The array is from malloc. */
SGPU_MUST_CHECK int sgpu_bench_compare(const struct sgpu_bench_results *first,
				       const struct sgpu_bench_results *second, bool ratios,
				       struct sgpu_bench_difference **differences, size_t *count,
				       struct sgpu_error *error);
#endif
