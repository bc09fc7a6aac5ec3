/* SPDX-License-Identifier: Apache-2.0
 *
 * threshold: the elements in a band, bounds included, as a mask or as a list of indexes.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/ops_private.h"

enum { INPUT, OUTPUT };
enum { LOW, HIGH, MODE };
enum { MASK, INDICES };
enum { BLOCK = 1024, GRAIN = 65536 };

static const char *const modes[] = { "mask", "indices", NULL };

static bool is_indices(const struct sgpu_op_call *call)
{
	return call->param[MODE].number == INDICES;
}

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	uint64_t count = sgpu_ops_count(&call->type[INPUT]);

	if (call->param[LOW].given && call->param[HIGH].given &&
	    call->param[LOW].number > call->param[HIGH].number) {
		sgpu_op_diagnose(report, NULL, "low", "%g is above 'high', %g",
				 call->param[LOW].number, call->param[HIGH].number);
	}
	if (!is_indices(call)) {
		call->type[OUTPUT] =
			sgpu_ops_type(SGPU_U8, call->type[INPUT].rank, call->type[INPUT].shape);
		return;
	}
	if (count > INT32_MAX) {
		sgpu_op_diagnose(report, "input", NULL, "has %llu elements, but indexes are i32",
				 (unsigned long long)count);
		return;
	}
	call->type[OUTPUT] = sgpu_ops_type(SGPU_I32, 1, &count);
}

/* For the mode `indices`: each piece's number of elements in the range; on a GPU the mask, and what
 * the selection needs, 16 bytes for at least 1280 elements. */
static uint64_t scratch(const struct sgpu_op_call *call)
{
	uint64_t count = sgpu_ops_count(&call->type[INPUT]);

	return is_indices(call) ? count + count / 64 + 4096 : 0;
}

struct job {
	struct sgpu_op_call *call;
	double low, high;
	uint64_t *counts; /* by piece: its elements in the range */
};

SGPU_CLONES_ATTR static void inside(const double *in, uint64_t count, double low, double high,
				    uint8_t *out)
{
	for (uint64_t i = 0; i < count; i++) {
		out[i] = (in[i] >= low) & (in[i] <= high);
	}
}

/* Computes the mask of `count` elements from `begin` on, block by block, to bound the stack. */
static void mask(const struct job *job, uint64_t begin, uint64_t count, uint8_t *out)
{
	const struct sgpu_op_call *call = job->call;
	double values[BLOCK];

	for (uint64_t at = 0; at < count; at += BLOCK) {
		uint64_t size = sgpu_ops_min(count - at, BLOCK);

		sgpu_ops_load_f64(call->type[INPUT].dtype, call->data[INPUT], begin + at, size,
				  values);
		inside(values, size, job->low, job->high, out + at);
	}
	sgpu_wipe(values, sizeof(values));
}

static void mask_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;

	mask(job, begin, end - begin, (uint8_t *)job->call->data[OUTPUT] + begin);
}

/* Lists the indexes of a piece where the piece begins. */
static void list_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	int32_t *out = (int32_t *)job->call->data[OUTPUT] + begin;
	uint8_t flags[BLOCK];
	int32_t list[BLOCK];

	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t size = sgpu_ops_min(end - at, BLOCK), found = 0;

		mask(job, at, size, flags);
		for (uint64_t i = 0; i < size;
		     i++) { /* no branch: noisy data would make it costly */
			list[found] = (int32_t)(at + i);
			found += flags[i];
		}
		memcpy(out, list, found * sizeof(*out));
		out += found;
		job->counts[begin / GRAIN] += found;
	}
	sgpu_wipe(flags, sizeof(flags));
	sgpu_wipe(list, sizeof(list));
}

/* The lists of the pieces, then one behind the other. */
static int indices(struct job *job, uint64_t count, struct sgpu_launch *launch)
{
	int32_t *out = job->call->data[OUTPUT];
	uint64_t total = 0;
	int rc;

	memset(job->counts, 0, sgpu_ops_ceil(count, GRAIN) * sizeof(*job->counts));
	rc = sgpu_ops_for(launch, count, GRAIN, list_body, job);
	if (rc) {
		return rc;
	}
	for (uint64_t piece = 0; piece * GRAIN < count; piece++) {
		memmove(out + total, out + piece * GRAIN, job->counts[piece] * sizeof(*out));
		total += job->counts[piece];
	}
	launch->status[1] = (int64_t)total;
	return 0;
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[INPUT]);
	struct job job = {
		.call = call,
		.low = call->param[LOW].given ? call->param[LOW].number : -(double)INFINITY,
		.high = call->param[HIGH].given ? call->param[HIGH].number : (double)INFINITY,
		.counts = call->scratch,
	};

	if (is_indices(call)) {
		return indices(&job, count, launch);
	}
	return sgpu_ops_for(launch, count, GRAIN, mask_body, &job);
}

const struct sgpu_op sgpu_op_threshold = {
	.name = "threshold",
	.help = "elements within a band of values",
	.args = {
	{ "input", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "values" },
	{ "output", false, SGPU_TYPE_BIT(SGPU_U8) | SGPU_TYPE_BIT(SGPU_I32), 0, SGPU_RANK_MAX,
	  "1 inside and 0 outside, or the indexes of the elements inside, ascending" },
	},
	.params = {
	{ "low", SGPU_PARAM_NUMBER, false, -DBL_MAX, DBL_MAX, -DBL_MAX, NULL,
	  "lower bound; absent: none" },
	{ "high", SGPU_PARAM_NUMBER, false, -DBL_MAX, DBL_MAX, DBL_MAX, NULL,
	  "upper bound; absent: none" },
	{ "mode", SGPU_PARAM_CHOICE, false, 0, 0, MASK, modes, "what the output holds" },
	},
	.infer = infer,
	.scratch = scratch,
	.cpu = cpu,
	.at_most = is_indices,
};
