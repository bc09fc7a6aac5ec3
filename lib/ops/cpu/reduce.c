/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce: sum, least, greatest, mean or deviation of all elements or along an axis; percentile of
 * all.
 *
 * Elements are computed as f64, which holds each type exactly; integer sums are exact below 2^53.
 * The axis is cut into pieces of fixed length, combined in order; a contiguous piece is added in
 * eight lanes. What a mask leaves out counts as 0 in a sum, else as an infinity. A deviation takes
 * two passes: the mean, then the squared distances from it. A percentile takes eight.
 */
#include <math.h>
#include <string.h>

#include "ops/ops_private.h"

enum { INPUT, MASK, OUTPUT };
enum { OPERATION, AXIS, Q };
enum {
	SUM = SGPU_REDUCE_SUM,
	MIN = SGPU_REDUCE_MIN,
	MAX = SGPU_REDUCE_MAX,
	MEAN = SGPU_REDUCE_MEAN,
	STD = SGPU_REDUCE_STD,
	PERCENTILE = SGPU_REDUCE_PERCENTILE
};
#define SIGN ((uint64_t)1 << 63)
enum {
	GRAIN_WORK = 65536, /* elements worth a thread */
	LANES = SGPU_REDUCE_LANES,
	BLOCK = 1024, /* elements converted at a time */
};

static const char *const operations[] = { "sum", "min", "max", "mean", "std", "percentile", NULL };

static enum sgpu_dtype result_dtype(enum sgpu_dtype dtype, int operation, bool masked)
{
	if (dtype == SGPU_F16) {
		return SGPU_F32;
	}
	if ((masked || (operation != MIN && operation != MAX)) &&
	    !(SGPU_TYPES_FLOAT & SGPU_TYPE_BIT(dtype))) {
		return SGPU_F64;
	}
	return dtype;
}

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *type = &call->type[INPUT];
	int axis = (int)call->param[AXIS].number, operation = (int)call->param[OPERATION].number,
	    rank = 0;
	uint64_t shape[SGPU_RANK_MAX] = { 1 };
	const struct sgpu_type mask = sgpu_ops_type(SGPU_U8, type->rank, type->shape);

	if (axis >= type->rank) {
		sgpu_op_diagnose(report, NULL, "axis", "%d is not below the rank of 'input', %d",
				 axis, type->rank);
		return;
	}
	for (int i = 0; axis >= 0 && i < type->rank; i++) {
		if (i != axis) {
			shape[rank++] = type->shape[i];
		}
	}
	call->type[OUTPUT] = sgpu_ops_type(
		result_dtype(type->dtype, operation, call->present[MASK]), rank ? rank : 1, shape);
	sgpu_ops_must_be(call, report, MASK, &mask);
	if (operation == PERCENTILE ? axis >= 0 : call->param[Q].given) {
		sgpu_op_diagnose(report, NULL, operation == PERCENTILE ? "axis" : "q",
				 operation == PERCENTILE ? "a percentile is of all elements"
							 : "only a percentile has it");
	}
	if (sgpu_reduce_view(call).length == 0 && operation != SUM) {
		sgpu_op_diagnose(report, "input", NULL, "holds nothing to take the %s of",
				 operations[operation]);
	}
}

static bool is_plain(const struct sgpu_op_call *call)
{
	return call->type[MASK].dtype == SGPU_NONE && call->param[OPERATION].number < STD;
}

static uint64_t scratch(const struct sgpu_op_call *call)
{
	struct sgpu_reduce_view v = sgpu_reduce_view(call);
	uint64_t partial = sgpu_reduce_partial(&v) * sizeof(double);

	return is_plain(call) ? partial
			      : partial + 3 * v.outer * v.inner * sizeof(double) +
					sizeof(struct sgpu_percentile);
}

/* ---- the maximum is the minimum of the negated values, negated ---- */
SGPU_INLINE double lesser(double a, double b)
{
	return sgpu_reduce_key(b) < sgpu_reduce_key(a) ? b : a;
}

SGPU_CLONES_ATTR static void negate(double *values, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		values[i] = -values[i];
	}
}

SGPU_CLONES_ATTR static void add_lanes(const double *values, double lanes[LANES])
{
	for (int i = 0; i < BLOCK; i += LANES) {
		for (int lane = 0; lane < LANES; lane++) {
			lanes[lane] += values[i + lane];
		}
	}
}

SGPU_CLONES_ATTR static void add_row(double *into, const double *row, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		into[i] += row[i];
	}
}

SGPU_CLONES_ATTR static void least_row(double *into, const double *row, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		into[i] = lesser(into[i], row[i]);
	}
}

struct job {
	struct sgpu_op_call *call;
	struct sgpu_reduce_view v;
	int operation;
	double *result;	     /* of a pass; NULL: the output */
	const double *means; /* of each output: squared distances from it are taken */
	bool counting;	     /* each element counts as 1 */
	struct sgpu_percentile *percentile;
	unsigned shift;	 /* bits behind the digit that is counted */
	uint64_t tiles;	 /* tiles in the inner extent */
	double *partial; /* [outer][pieces][inner]; NULL: one piece per output */
};

static bool is_sum(const struct job *job)
{
	return job->operation == SUM || job->operation == MEAN;
}

SGPU_CLONES_ATTR static void leave_out(double *restrict values, const uint8_t *restrict mask,
				       uint64_t count, double nothing, bool counting)
{
	for (uint64_t i = 0; i < count; i++) {
		values[i] = !mask[i] ? nothing : counting ? 1 : values[i];
	}
}

/* Loads `count` elements of output `output` (step 0), or of it and the next ones (step 1). */
static void load(const struct job *job, uint64_t at, uint64_t count, double *to, uint64_t output,
		 uint64_t step)
{
	const uint8_t *mask = job->call->data[MASK];
	double nothing = is_sum(job) ? 0 : (double)INFINITY;

	sgpu_ops_load_f64(job->call->type[INPUT].dtype, job->call->data[INPUT], at, count, to);
	for (uint64_t i = 0; job->means && i < count; i++) {
		double distance = to[i] - job->means[output + i * step];

		to[i] = distance * distance;
	}
	if (job->operation == MAX) {
		negate(to, count);
	}
	if (mask) {
		leave_out(to, mask + at, count, nothing, job->counting);
	}
}

/* Stores `count` results from output `at` on; changes `values`. */
static void store(const struct job *job, uint64_t at, uint64_t count, double *values)
{
	if (job->operation == MAX) {
		negate(values, count);
	}
	if (job->result) {
		memcpy(job->result + at, values, count * sizeof(*values));
		return;
	}
	for (uint64_t i = 0; job->operation == MEAN && i < count; i++) {
		values[i] /= (double)job->v.length;
	}
	for (uint64_t i = 0; i < count; i++) {
		values[i] = values[i] != values[i] ? (double)NAN
						   : values[i]; /* the same NaN on every device */
	}
	sgpu_ops_store_f64(job->call->type[OUTPUT].dtype, job->call->data[OUTPUT], at, count,
			   values);
}

/* ---- adjacent elements ---- */
static double sum_adjacent(const struct job *job, uint64_t begin, uint64_t end, uint64_t output,
			   double block[BLOCK])
{
	double lanes[LANES] = { 0 };

	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t count = sgpu_ops_min(end - at, BLOCK);

		load(job, at, count, block, output, 0);
		memset(block + count, 0, (BLOCK - count) * sizeof(*block));
		add_lanes(block, lanes);
	}
	return sgpu_ops_add_lanes(lanes);
}

/* A block is a row here: the order does not matter. */
static double least_adjacent(const struct job *job, uint64_t begin, uint64_t end, uint64_t output,
			     double block[BLOCK])
{
	double least[BLOCK], result = (double)INFINITY;

	for (int i = 0; i < BLOCK; i++) {
		least[i] = (double)INFINITY;
	}
	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t count = sgpu_ops_min(end - at, BLOCK);

		load(job, at, count, block, output, 0);
		least_row(least, block, count);
	}
	for (int i = 0; i < BLOCK; i++) {
		result = lesser(result, least[i]);
	}
	sgpu_wipe(least, sizeof(least));
	return result;
}

static void adjacent_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	const struct sgpu_reduce_view *v = &job->v;
	double block[BLOCK];

	for (uint64_t item = begin; item < end; item++) {
		uint64_t from = item % v->pieces * v->piece,
			 to = sgpu_ops_min(from + v->piece, v->length);
		uint64_t output = item / v->pieces, start = output * v->length;
		double value = (is_sum(job) ? sum_adjacent : least_adjacent)(
			job, start + from, start + to, output, block);

		if (job->partial) {
			job->partial[item] = value;
		} else {
			store(job, item, 1, &value);
		}
	}
	sgpu_wipe(block, sizeof(block));
}

/* ---- elements that are not adjacent: rows of the inner extent are combined ---- */
static void combine(const struct job *job, double *into, const double *row, uint64_t count)
{
	if (is_sum(job)) {
		add_row(into, row, count);
	} else {
		least_row(into, row, count);
	}
}

static void strided_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	const struct sgpu_reduce_view *v = &job->v;
	double results[BLOCK], block[BLOCK];

	for (uint64_t item = begin; item < end; item++) {
		uint64_t tile = item % job->tiles * BLOCK, group = item / job->tiles;
		uint64_t count = sgpu_ops_min(v->inner - tile, BLOCK);
		uint64_t from = group % v->pieces * v->piece,
			 to = sgpu_ops_min(from + v->piece, v->length);
		uint64_t start = group / v->pieces * v->length,
			 output = group / v->pieces * v->inner + tile;

		load(job, (start + from) * v->inner + tile, count, results, output, 1);
		for (uint64_t row = from + 1; row < to; row++) {
			load(job, (start + row) * v->inner + tile, count, block, output, 1);
			combine(job, results, block, count);
		}
		if (job->partial) {
			memcpy(job->partial + group * v->inner + tile, results,
			       count * sizeof(*results));
		} else {
			store(job, group * v->inner + tile, count, results);
		}
	}
	sgpu_wipe(results, sizeof(results));
	sgpu_wipe(block, sizeof(block));
}

/* ---- combining the pieces ---- */
static void finish_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	const struct sgpu_reduce_view *v = &job->v;

	for (uint64_t i = begin; i < end; i++) {
		uint64_t first = i / v->inner * v->pieces * v->inner + i % v->inner;
		double value = v->pieces ? job->partial[first] : 0.0; /* an empty sum is 0 */

		for (uint64_t piece = 1; piece < v->pieces; piece++) {
			combine(job, &value, job->partial + first + piece * v->inner, 1);
		}
		store(job, i, 1, &value);
	}
}

static int run(struct job *job, struct sgpu_launch *launch)
{
	const struct sgpu_reduce_view *v = &job->v;
	uint64_t piece = sgpu_ops_min(v->length, v->piece), groups = v->outer * v->pieces;
	int rc;

	job->tiles = sgpu_ops_ceil(v->inner, BLOCK);
	job->partial = v->pieces > 1 ? job->call->scratch : NULL;
	if (v->inner == 1) {
		rc = sgpu_ops_for(launch, groups, sgpu_ops_grain(piece, GRAIN_WORK), adjacent_body,
				  job);
	} else {
		rc = sgpu_ops_for(launch, groups * job->tiles,
				  sgpu_ops_grain(piece * sgpu_ops_min(v->inner, BLOCK), GRAIN_WORK),
				  strided_body, job);
	}
	if (rc || v->pieces == 1) {
		return rc;
	}
	return sgpu_ops_for(launch, v->outer * v->inner, sgpu_ops_grain(v->pieces * 8, GRAIN_WORK),
			    finish_body, job);
}

/* ---- several passes: with a mask, deviations, percentiles ---- */
static void digits_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	struct sgpu_percentile *all = job->percentile, some = { .nans = 0 };
	const uint64_t first = all->prefix[0], second = all->prefix[1];
	double block[BLOCK];

	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t count = sgpu_ops_min(end - at, BLOCK);

		load(job, at, count, block, 0, 0);
		for (uint64_t i = 0; i < count; i++) {
			uint64_t digits = (uint64_t)sgpu_reduce_key(block[i]) ^ SIGN;

			some.nans += digits == 0;
			digits >>= job->shift;
			if (digits >> 8 == first) {
				some.digits[0][digits & 255]++;
			}
			if (digits >> 8 == second) {
				some.digits[1][digits & 255]++;
			}
		}
	}
	for (int i = 0; i < 2; i++) {
		for (int d = 0; d < 256; d++) {
			__atomic_fetch_add(&all->digits[i][d], some.digits[i][d], __ATOMIC_RELAXED);
		}
	}
	__atomic_fetch_add(&all->nans, some.nans, __ATOMIC_RELAXED);
	sgpu_wipe(block, sizeof(block));
	sgpu_wipe(&some, sizeof(some));
}

static int run_percentile(struct job *job, double n, struct sgpu_launch *launch)
{
	struct sgpu_percentile *p = job->percentile;
	int rc = 0;

	memset(p, 0, sizeof(*p));
	sgpu_percentile_rank(p, job->call->param[Q].number, n);
	for (job->shift = 64; job->shift > 0 && !rc;) {
		job->shift -= 8;
		rc = sgpu_ops_for(launch, job->v.length, GRAIN_WORK, digits_body, job);
		sgpu_percentile_step(p);
	}
	*job->result = sgpu_percentile_between(p, sgpu_reduce_unkey((int64_t)(p->prefix[0] ^ SIGN)),
					       sgpu_reduce_unkey((int64_t)(p->prefix[1] ^ SIGN)));
	return rc;
}

/* Settles the results of a pass, `partial`, as the output, or as means. */
static void settle_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	const double *counts = job->partial + job->v.outer * job->v.inner;
	struct job to = *job;

	to.operation = SUM; /* results are just stored */
	for (uint64_t i = begin; i < end; i++) {
		double value = sgpu_reduce_settle(job->operation, job->partial[i],
						  job->call->data[MASK] ? counts[i]
									: (double)job->v.length);

		store(&to, i, 1, &value);
	}
}

/* Counts, if there is a mask; means, for deviations; then the operation. */
static int run_passes(struct job *job, struct sgpu_launch *launch)
{
	uint64_t outputs = job->v.outer * job->v.inner;
	double *values = (double *)job->call->scratch + sgpu_reduce_partial(&job->v),
	       *counts = values + outputs, *means = counts + outputs;
	bool masked = job->call->data[MASK] != NULL;
	int operation = job->operation, rc = 0;

	job->percentile = (struct sgpu_percentile *)(means + outputs);
	for (int pass = masked ? 0 : operation == STD ? 1 : 2; pass < 3 && !rc; pass++) {
		job->counting = pass == 0;
		job->means = pass == 2 && operation == STD ? means : NULL;
		job->result = pass == 0 ? counts : values;
		job->operation = pass < 2 || operation == STD ? SUM : operation;
		rc = pass == 2 && operation == PERCENTILE
			     ? run_percentile(job, masked ? *counts : (double)job->v.length, launch)
			     : run(job, launch);
		if (pass == 0) {
			pass += operation != STD;
			continue;
		}
		job->operation = pass == 1 ? MEAN : operation;
		job->result = pass == 1 ? means : NULL;
		job->partial = values;
		rc = rc ? rc : sgpu_ops_for(launch, outputs, GRAIN_WORK, settle_body, job);
	}
	return rc;
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct job job = { .call = call,
			   .v = sgpu_reduce_view(call),
			   .operation = (int)call->param[OPERATION].number };

	return is_plain(call) ? run(&job, launch) : run_passes(&job, launch);
}

const struct sgpu_op sgpu_op_reduce = {
	.name = "reduce",
	.help = "sum, least, greatest, mean, deviation or percentile, of all or along an axis",
	.args = {
	{ "input", false, SGPU_TYPES_ALL, 1, SGPU_RANK_MAX, "values" },
	{ "mask", true, SGPU_TYPE_BIT(SGPU_U8), 1, SGPU_RANK_MAX,
	  "the shape of 'input'; elements where it is 0 do not count" },
	{ "output", false, SGPU_TYPES_ALL & ~SGPU_TYPE_BIT(SGPU_F16), 1, SGPU_RANK_MAX,
	  "f32 of f16, f64 of integers but for min and max without mask, else the input's type" },
	},
	.params = {
	{ "operation", SGPU_PARAM_CHOICE, true, 0, 0, SUM, operations, "what to compute" },
	{ "axis", SGPU_PARAM_INTEGER, false, -1, SGPU_RANK_MAX - 1, -1, NULL,
	  "dimension that goes away, from 0; -1: all, and the output has shape [1]" },
	{ "q", SGPU_PARAM_NUMBER, false, 0, 100, 50, NULL,
	  "percentile: per cent of the elements below; 50 is the median" },
	},
	.infer = infer,
	.scratch = scratch,
	.cpu = cpu,
};
