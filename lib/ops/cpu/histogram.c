/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram: counts of values in bins of equal width. Bin i holds the values v with edge(i) <= v <
 * edge(i + 1), where edge(i) = min + i * ((max - min) / bins) in f64 and edge(bins) = max, which
 * the last bin includes. Values outside, and NaN, are not counted.
 */
/* gcc vectorises no code that must keep exception flags, which nothing here reads. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif
#include <string.h>

#include "ops/ops_private.h"

enum { INPUT, OUTPUT };
enum { BINS, MIN, MAX };
enum {
	BINS_MAX = 65536,
	BLOCK = 1024,
	PIECES_MAX = 64, /* each piece has its own counts */
	PIECE_MIN = 1 << 16,
	GRAIN_BINS = 4096,
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	uint64_t bins = (uint64_t)call->param[BINS].number,
		 count = sgpu_ops_count(&call->type[INPUT]);

	if (!(call->param[MIN].number < call->param[MAX].number)) {
		sgpu_op_diagnose(report, NULL, "max", "%g is not above 'min', %g",
				 call->param[MAX].number, call->param[MIN].number);
	}
	if (count > INT32_MAX) {
		sgpu_op_diagnose(report, "input", NULL, "has %llu elements, but counts are i32",
				 (unsigned long long)count);
	}
	call->type[OUTPUT] = sgpu_ops_type(SGPU_I32, 1, &bins);
}

static uint64_t piece_size(uint64_t count)
{
	uint64_t size = count / PIECES_MAX + 1;

	return size < PIECE_MIN ? PIECE_MIN : size;
}

static uint64_t scratch(const struct sgpu_op_call *call)
{
	uint64_t count = sgpu_ops_count(&call->type[INPUT]), size = piece_size(count);

	return (count / size + 1) * ((uint64_t)call->param[BINS].number + 1) * sizeof(uint32_t);
}

struct job {
	const struct sgpu_op_call *call;
	uint64_t count, piece;
	struct sgpu_bins bins;
	uint32_t *counts; /* [pieces][bins + 1]; the last counts values outside the range */
};

struct sgpu_bins sgpu_histogram_bins(const struct sgpu_op_call *call)
{
	struct sgpu_bins bins = { .count = (int)call->param[BINS].number,
				  .min = call->param[MIN].number,
				  .max = call->param[MAX].number };

	bins.width = (bins.max - bins.min) / bins.count;
	return bins;
}

SGPU_CLONES_ATTR static void locate(struct sgpu_bins bins, const double *restrict values,
				    uint64_t count, int32_t *restrict to)
{
	for (uint64_t i = 0; i < count; i++) {
		to[i] = sgpu_histogram_bin(&bins, values[i]);
	}
}

/* An item is a value; a call gets one piece. */
static void count_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t slots = (uint64_t)job->bins.count + 1;
	uint32_t *counts = job->counts + begin / job->piece * slots;
	double values[BLOCK];
	int32_t bins[BLOCK];

	memset(counts, 0, slots * sizeof(*counts));
	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t size = sgpu_ops_min(end - at, BLOCK);

		sgpu_ops_load_f64(job->call->type[INPUT].dtype, job->call->data[INPUT], at, size,
				  values);
		locate(job->bins, values, size, bins);
		for (uint64_t i = 0; i < size; i++) {
			counts[bins[i]]++;
		}
	}
	sgpu_wipe(values, sizeof(values));
	sgpu_wipe(bins, sizeof(bins));
}

static void add_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	int32_t *out = job->call->data[OUTPUT];
	uint64_t slots = (uint64_t)job->bins.count + 1;

	memset(out + begin, 0, (end - begin) * sizeof(*out));
	for (uint64_t piece = 0; piece * job->piece < job->count; piece++) {
		const uint32_t *counts = job->counts + piece * slots;

		for (uint64_t bin = begin; bin < end; bin++) {
			out[bin] += (int32_t)counts[bin];
		}
	}
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct job job = {
		.call = call,
		.count = sgpu_ops_count(&call->type[INPUT]),
		.bins = sgpu_histogram_bins(call),
		.counts = call->scratch,
	};
	int rc;

	job.piece = piece_size(job.count);
	rc = sgpu_ops_for(launch, job.count, job.piece, count_body, &job);
	return rc ? rc : sgpu_ops_for(launch, (uint64_t)job.bins.count, GRAIN_BINS, add_body, &job);
}

const struct sgpu_op sgpu_op_histogram = {
	.name = "histogram",
	.help = "counts of values in bins of equal width",
	.args = {
	{ "input", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "values" },
	{ "output", false, SGPU_TYPE_BIT(SGPU_I32), 1, 1, "a count for each bin" },
	},
	.params = {
	{ "bins", SGPU_PARAM_INTEGER, false, 1, BINS_MAX, 256, NULL, "number of bins" },
	{ "min", SGPU_PARAM_NUMBER, true, -1e300, 1e300, 0.0, NULL,
	  "lower bound of the first bin" },
	{ "max", SGPU_PARAM_NUMBER, true, -1e300, 1e300, 0.0, NULL,
	  "upper bound of the last bin, which includes it" },
	},
	.infer = infer,
	.scratch = scratch,
	.cpu = cpu,
};
