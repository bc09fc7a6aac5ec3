/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest: the k rows of b that are nearest to each row of a, by Euclidean distance; with labels,
 * the label that most of them have.
 *
 * k candidates and a reserve are chosen by |b|^2 - 2ab, by a matrix product in f32. Then their
 * distances, computed again in f64 from the differences, decide; ties go to the lower index.
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
	CANDIDATES_MAX = K_MAX + RESERVE,
	QUERIES = 512, /* rows of a, and then ROWS of b, in a tile of products */
	ROWS = 2048,
	GRAIN_QUERIES = 8,
	LANES = 8,
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const uint64_t *a = call->type[A].shape, *b = call->type[B].shape,
		       *labels = call->type[LABELS].shape;
	uint64_t k = (uint64_t)call->param[K].number, shape[2] = { a[0], k };

	if (a[1] != b[1]) {
		sgpu_op_diagnose(report, "b", NULL, "has rows of %llu, but 'a' has rows of %llu",
				 (unsigned long long)b[1], (unsigned long long)a[1]);
	}
	if (b[0] > INT32_MAX) {
		sgpu_op_diagnose(report, "b", NULL, "has %llu rows, but indexes are i32",
				 (unsigned long long)b[0]);
	}
	if (k > b[0]) {
		sgpu_op_diagnose(report, NULL, "k", "%llu neighbours, but 'b' has %llu rows",
				 (unsigned long long)k, (unsigned long long)b[0]);
	}
	if (call->present[LABELS] && call->type[LABELS].dtype != SGPU_NONE && labels[0] != b[0]) {
		sgpu_op_diagnose(report, "labels", NULL, "has %llu elements, but 'b' has %llu rows",
				 (unsigned long long)labels[0], (unsigned long long)b[0]);
	}
	if (call->present[LABELS] && call->type[LABELS].dtype == SGPU_NONE) {
		sgpu_op_diagnose(report, "labels", NULL, "needs an element type, i32 or u8");
	}
	call->type[OUTPUT] = sgpu_ops_type(SGPU_I32, call->present[LABELS] ? 1 : 2, shape);
}

struct candidate {
	double distance;
	uint64_t index;
};

struct job {
	const struct sgpu_op_call *call;
	uint64_t d, m, k, keep;
	const float *a, *b;
	float *norms;		      /* [m]: |b|^2 */
	float *products;	      /* [QUERIES][ROWS]: ab */
	struct candidate *candidates; /* [QUERIES][keep]: nearest first */
	uint32_t *found;	      /* [QUERIES]: candidates so far */
	uint64_t query, row, rows;    /* first query, first row and rows of the tile */
};

static uint64_t keep(const struct sgpu_op_call *call)
{
	uint64_t most = (uint64_t)call->param[K].number + RESERVE;

	return most < call->type[B].shape[0] ? most : call->type[B].shape[0];
}

static uint64_t tile_queries(const struct sgpu_op_call *call)
{
	return sgpu_ops_min(call->type[A].shape[0], QUERIES);
}

/* How a device with many threads divides the work. A tile has 2^20 products (4 MiB), or 2^22 for a
 * large call. */
struct sgpu_nearest_plan sgpu_nearest_plan(const struct sgpu_op_call *call)
{
	const uint64_t *a = call->type[A].shape, *b = call->type[B].shape;
	uint64_t tile = (double)a[0] * (double)b[0] * (double)b[1] >= 0x1p32 ? 1 << 22 : 1 << 20,
		 most;
	struct sgpu_nearest_plan plan = { .queries = tile_queries(call), .keep = keep(call) };

	most = tile / (plan.queries ? plan.queries : 1) / ROWS * ROWS;
	plan.rows = sgpu_ops_min(b[0], most);
	return plan;
}

static uint64_t scratch(const struct sgpu_op_call *call)
{
	struct sgpu_nearest_plan plan = sgpu_nearest_plan(call);
	uint64_t m = call->type[B].shape[0], lists = plan.queries * plan.keep * sizeof(uint64_t);
	uint64_t here =
		tile_queries(call) * (keep(call) * sizeof(struct candidate) + sizeof(uint32_t) +
				      sgpu_ops_min(m, ROWS) * sizeof(float));
	uint64_t device = lists + plan.queries * plan.rows * sizeof(float);

	return (here > device ? here : device) + m * sizeof(float);
}

/* The sum of the squares of a or, if b is not NULL, of a - b; kept in lanes. */
SGPU_INLINE double sum_squares(const float *a, const float *b, uint64_t d)
{
	double lanes[LANES] = { 0 };
	uint64_t i = 0;

	for (; i + LANES <= d; i += LANES) {
		for (int lane = 0; lane < LANES; lane++) {
			double x = (double)a[i + lane] - (b ? (double)b[i + lane] : 0.0);

			lanes[lane] += x * x;
		}
	}
	for (int lane = 0; i < d; i++, lane++) {
		double x = (double)a[i] - (b ? (double)b[i] : 0.0);

		lanes[lane] += x * x;
	}
	return sgpu_ops_add_lanes(lanes);
}

SGPU_CLONES_ATTR static double square(const float *row, uint64_t d)
{
	return sum_squares(row, NULL, d);
}

SGPU_CLONES_ATTR static double distance(const float *a, const float *b, uint64_t d)
{
	return sum_squares(a, b, d);
}

static void norms_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;

	for (uint64_t row = begin; row < end; row++) {
		job->norms[row] = (float)square(job->b + row * job->d, job->d);
	}
}

/* ---- candidates ---- */
/* NaN counts as infinitely far, so that the order is total. */
SGPU_INLINE double ordered(double value)
{
	return value != value ? (double)INFINITY : value;
}

/* Inserts a candidate after those that are equally near. A full list drops its last candidate. */
static void insert(struct candidate *list, uint32_t *found, uint64_t most, struct candidate one)
{
	uint64_t at = *found < most ? (*found)++ : most - 1;

	while (at > 0 && list[at - 1].distance > one.distance) {
		list[at] = list[at - 1];
		at--;
	}
	list[at] = one;
}

static void select_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	const float *norms = job->norms + job->row;

	for (uint64_t query = begin; query < end; query++) {
		const float *products = job->products + query * job->rows;
		struct candidate *list = job->candidates + query * job->keep;
		uint32_t *found = &job->found[query];

		for (uint64_t i = 0; i < job->rows; i++) {
			double near = ordered((double)(norms[i] - 2.0f * products[i]));

			if (*found < job->keep || near < list[job->keep - 1].distance) {
				insert(list, found, job->keep,
				       (struct candidate){ near, job->row + i });
			}
		}
	}
}

/* ---- the decision ---- */
static void sort_exactly(const struct job *job, const float *query, const struct candidate *from,
			 struct candidate to[CANDIDATES_MAX])
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < job->keep; i++) {
		struct candidate one = { ordered(distance(query, job->b + from[i].index * job->d,
							  job->d)),
					 from[i].index };
		uint64_t at = count++;

		while (at > 0 &&
		       (to[at - 1].distance > one.distance ||
			(to[at - 1].distance == one.distance && to[at - 1].index > one.index))) {
			to[at] = to[at - 1];
			at--;
		}
		to[at] = one;
	}
}

/* The most frequent label; among equally frequent ones, that of the nearest row. */
static int32_t majority(const struct job *job, const struct candidate *list)
{
	int32_t labels[K_MAX], best = 0;
	uint64_t most = 0;

	for (uint64_t i = 0; i < job->k; i++) {
		labels[i] = sgpu_ops_label(job->call, LABELS, list[i].index);
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
	const struct job *job = argument;
	int32_t *out = job->call->data[OUTPUT];
	struct candidate list[CANDIDATES_MAX];

	for (uint64_t i = begin; i < end; i++) {
		uint64_t query = job->query + i;

		sort_exactly(job, job->a + query * job->d, job->candidates + i * job->keep, list);
		if (job->call->data[LABELS]) {
			out[query] = majority(job, list);
		} else {
			for (uint64_t n = 0; n < job->k; n++) {
				out[query * job->k + n] = (int32_t)list[n].index;
			}
		}
	}
	sgpu_wipe(list, sizeof(list));
}

/* Finds the candidates for one block of queries among all rows. */
static int search(struct job *job, uint64_t queries, struct sgpu_launch *launch)
{
	struct sgpu_gemm gemm = { .dtype = SGPU_F32,
				  .a = job->a + job->query * job->d,
				  .output = job->products,
				  .m = queries,
				  .k = job->d,
				  .transpose_b = true,
				  .lda = job->d,
				  .ldb = job->d,
				  .alpha = 1.0,
				  .batch = 1 };
	int rc;

	memset(job->found, 0, queries * sizeof(*job->found));
	for (job->row = 0; job->row < job->m; job->row += job->rows) {
		job->rows = sgpu_ops_min(job->m - job->row, ROWS);
		gemm.b = job->b + job->row * job->d;
		gemm.n = gemm.ldc = job->rows;
		rc = sgpu_gemm(&gemm, launch);
		rc = rc ? rc : sgpu_ops_for(launch, queries, GRAIN_QUERIES, select_body, job);
		if (rc) {
			return rc;
		}
	}
	return sgpu_ops_for(launch, queries, GRAIN_QUERIES, decide_body, job);
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t n = call->type[A].shape[0], block = tile_queries(call);
	struct job job = { .call = call,
			   .d = call->type[A].shape[1],
			   .m = call->type[B].shape[0],
			   .k = (uint64_t)call->param[K].number,
			   .keep = keep(call),
			   .a = call->data[A],
			   .b = call->data[B],
			   .candidates = call->scratch };
	int rc;

	job.found = (uint32_t *)(job.candidates + block * job.keep);
	job.norms = (float *)(job.found + block);
	job.products = job.norms + job.m;
	rc = sgpu_ops_for(launch, job.m, GRAIN_QUERIES * 8, norms_body, &job);
	for (job.query = 0; !rc && job.query < n; job.query += block) {
		rc = search(&job, sgpu_ops_min(n - job.query, block), launch);
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
