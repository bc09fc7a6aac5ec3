/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest: the k rows of b nearest to each row of a, by Euclidean distance; with labels, the label
 * that most of them have.
 *
 * A matrix product in f32 chooses k candidates and a reserve by |b|^2 - 2ab. Then distances in f64,
 * from the differences, decide; ties go to the lower index.
 */
#include <math.h>
#include <string.h>

#include "ops/ops_private.h"

enum { A, B, LABELS, OUTPUT };
enum { K };
enum {
	K_MAX = SGPU_NEAREST_K_MAX,
	RESERVE = SGPU_NEAREST_RESERVE, /* candidates beyond k, since f32 cannot tell close rows
					   apart */
	QUERIES = 512, /* rows of a in a tile of products; rows of b are a multiple of ROWS */
	ROWS = 2048,
	GRAIN_QUERIES = 8,
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const uint64_t *b = call->type[B].shape;
	uint64_t k = (uint64_t)call->param[K].number, shape[2] = { call->type[A].shape[0], k };

	sgpu_ops_same_extent(call, report, A, 1, B, 1);
	if (b[0] > INT32_MAX) {
		sgpu_op_diagnose(report, "b", NULL, "has %llu rows, but indexes are i32",
				 (unsigned long long)b[0]);
	}
	if (k > b[0]) {
		sgpu_op_diagnose(report, NULL, "k", "%llu neighbours, but 'b' has %llu rows",
				 (unsigned long long)k, (unsigned long long)b[0]);
	}
	if (call->type[LABELS].dtype != SGPU_NONE) {
		sgpu_ops_same_extent(call, report, B, 0, LABELS, 0);
	} else if (call->present[LABELS]) {
		sgpu_op_diagnose(report, "labels", NULL, "needs an element type, i32 or u8");
	}
	call->type[OUTPUT] = sgpu_ops_type(SGPU_I32, call->present[LABELS] ? 1 : 2, shape);
}

/* A tile has 2^20 products (4 MiB), or 2^22 for a large call. */
struct sgpu_nearest sgpu_nearest_describe(const struct sgpu_op_call *call)
{
	const uint64_t *a = call->type[A].shape, *b = call->type[B].shape;
	uint64_t tile = (double)a[0] * (double)b[0] * (double)b[1] >= 0x1p32 ? 1 << 22 : 1 << 20;
	struct sgpu_nearest job = {
		.n = a[0],
		.m = b[0],
		.d = b[1],
		.k = (uint64_t)call->param[K].number,
		.tile_queries = sgpu_ops_min(a[0], QUERIES),
		.a = call->data[A],
		.b = call->data[B],
		.labels = call->data[LABELS],
		.label_dtype = call->type[LABELS].dtype,
		.output = call->data[OUTPUT],
		.lists = call->scratch,
	};
	uint64_t most = tile / (job.tile_queries ? job.tile_queries : 1) / ROWS * ROWS;

	job.tile_rows = sgpu_ops_min(job.m, most);
	job.keep = sgpu_ops_min(job.k + RESERVE, job.m);
	if (call->scratch) {
		job.norms = (float *)(job.lists + job.tile_queries * job.keep);
		job.products = job.norms + job.m;
	}
	return job;
}

struct sgpu_gemm sgpu_nearest_tile(struct sgpu_nearest *job, uint64_t query, uint64_t row)
{
	job->query = query;
	job->row = row;
	job->queries = sgpu_ops_min(job->n - query, job->tile_queries);
	job->rows = sgpu_ops_min(job->m - row, job->tile_rows);
	return (struct sgpu_gemm){
		.dtype = SGPU_F32,
		.a = job->a + query * job->d,
		.b = job->b + row * job->d,
		.output = job->products,
		.m = job->queries,
		.n = job->rows,
		.k = job->d,
		.transpose_b = true,
		.lda = job->d,
		.ldb = job->d,
		.ldc = job->rows,
		.alpha = 1,
		.batch = 1,
	};
}

static uint64_t scratch(const struct sgpu_op_call *call)
{
	struct sgpu_nearest job = sgpu_nearest_describe(call);

	return job.tile_queries * job.keep * sizeof(uint64_t) +
	       (job.m + job.tile_queries * job.tile_rows) * sizeof(float);
}

SGPU_CLONES_ATTR static void norms_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_nearest *job = argument;

	for (uint64_t row = begin; row < end; row++) {
		job->norms[row] = (float)sgpu_nearest_square(job->b + row * job->d, NULL, job->d);
	}
}

/* ---- candidates ---- */
static void select_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_nearest *job = argument;

	for (uint64_t query = begin; query < end; query++) {
		const float *products = job->products + query * job->rows;
		uint64_t *list = job->lists + query * job->keep;

		if (job->row == 0) {
			memset(list, 0xff, job->keep * sizeof(*list));
		}
		for (uint64_t i = 0; i < job->rows; i++) {
			uint64_t key = sgpu_nearest_key(job, i, products[i]), at = job->keep - 1;

			if (key >= list[at]) {
				continue;
			}
			for (; at > 0 && list[at - 1] > key; at--) {
				list[at] = list[at - 1];
			}
			list[at] = key;
		}
	}
}

/* ---- the decision ---- */
struct candidate {
	double distance;
	uint64_t index;
};

SGPU_CLONES_ATTR static void sort_exactly(const struct sgpu_nearest *job, uint64_t query,
					  const uint64_t *keys, struct candidate *to)
{
	for (uint64_t i = 0; i < job->keep; i++) {
		uint64_t index = (uint32_t)keys[i], at = i;
		double distance = sgpu_nearest_distance(job, query, index);

		for (; at > 0 && (to[at - 1].distance > distance ||
				  (to[at - 1].distance == distance && to[at - 1].index > index));
		     at--) {
			to[at] = to[at - 1];
		}
		to[at] = (struct candidate){ distance, index };
	}
}

/* The most frequent label; among equally frequent ones, the nearest row's. */
static int32_t majority(const struct sgpu_nearest *job, const struct candidate *list)
{
	int32_t labels[K_MAX], best = 0;
	uint64_t most = 0;

	for (uint64_t i = 0; i < job->k; i++) {
		labels[i] = sgpu_ops_label(job->labels, job->label_dtype, list[i].index);
	}
	for (uint64_t i = 0; i < job->k; i++) {
		uint64_t votes = 0;

		for (uint64_t j = 0; j < job->k; j++) {
			votes += labels[j] == labels[i];
		}
		if (votes > most) {
			most = votes;
			best = labels[i];
		}
	}
	sgpu_wipe(labels, sizeof(labels));
	return best;
}

static void decide_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_nearest *job = argument;
	struct candidate list[K_MAX + RESERVE];

	for (uint64_t i = begin; i < end; i++) {
		uint64_t query = job->query + i;

		sort_exactly(job, query, job->lists + i * job->keep, list);
		if (job->labels) {
			job->output[query] = majority(job, list);
			continue;
		}
		for (uint64_t n = 0; n < job->k; n++) {
			job->output[query * job->k + n] = (int32_t)list[n].index;
		}
	}
	sgpu_wipe(list, sizeof(list));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_nearest job = sgpu_nearest_describe(call);
	int rc = sgpu_ops_for(launch, job.m, GRAIN_QUERIES * 8, norms_body, &job);

	for (uint64_t query = 0; !rc && query < job.n; query += job.tile_queries) {
		for (uint64_t row = 0; !rc && row < job.m; row += job.tile_rows) {
			const struct sgpu_gemm gemm = sgpu_nearest_tile(&job, query, row);

			rc = sgpu_gemm(&gemm, launch);
			rc = rc ? rc
				: sgpu_ops_for(launch, job.queries, GRAIN_QUERIES, select_body,
					       &job);
		}
		rc = rc ? rc : sgpu_ops_for(launch, job.queries, GRAIN_QUERIES, decide_body, &job);
	}
	return rc;
}

const struct sgpu_op sgpu_op_nearest = {
	.name = "nearest",
	.help = "nearest rows by distance, or the label of their majority",
	.args = {
	{ "a", false, SGPU_TYPE_BIT(SGPU_F32), 2, 2, "queries: [n, d]" },
	{ "b", false, SGPU_TYPE_BIT(SGPU_F32), 2, 2, "rows to search: [m, d]" },
	{ "labels", true, SGPU_TYPE_BIT(SGPU_I32) | SGPU_TYPE_BIT(SGPU_U8), 1, 1,
	  "labels of b: [m]" },
	{ "output", false, SGPU_TYPE_BIT(SGPU_I32), 1, 2,
	  "[n, k] indexes of rows, nearest first; with labels [n], the label of the majority" },
	},
	.params = {
	{ "k", SGPU_PARAM_INTEGER, false, 1, K_MAX, 1, NULL, "number of neighbours" },
	},
	.infer = infer,
	.scratch = scratch,
	.cpu = cpu,
};
