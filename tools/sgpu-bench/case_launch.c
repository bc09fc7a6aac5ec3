/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"
#include "job.h"
#include "setup.h"

enum { ELEMENTS = 256, BYTES = ELEMENTS * 4, LONGEST = 64 };
enum { A, B, OUTPUT }; /* arguments of vector_add */

/* ---- a chain of operations with its input and its output ---- */
static void add_chain(struct bench_job *job, const struct job_side *side)
{
	const struct bare *b = side->state;

	job_chains(job, 1, side->count, (struct job_type){ "f32", { ELEMENTS } }, b->host[A],
		   b->host[B], false);
}

static int measure_chain(struct sgpu_bench *bench, struct bare *b, int count,
			 struct sgpu_error *error)
{
	float sum[ELEMENTS];
	const struct job_side runner = { .name = "runner",
					 .add = add_chain,
					 .count = count,
					 .check = job_check_same,
					 .data = sum,
					 .size = BYTES,
					 .state = b };
	struct job_side sides[] = { runner, runner, runner };
	const struct sgpu_bench_point point = {
		.parameters = { { "operations", NULL, (uint64_t)count } },
		.operations = (uint64_t)count,
	};

	for (int i = 0; i < ELEMENTS; i++) {
		sum[i] = b->host[A][i] + (float)count * b->host[B][i];
	}
	b->launches = count;
	b->next.data[A] = b->call.data[OUTPUT];
	sides[0].name = "bare calls";
	sides[0].add = NULL;
	sides[0].bare[0] = b;
	sides[2].name = "runner, sealed";
	sides[2].sealed = true;
	return job_measure(bench, &point, sides, 3, error);
}

int bench_launch(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct bare *b = NULL;
	int rc;

	if (!sgpu_bench_wants(bench, BYTES)) {
		return SGPU_OK;
	}
	rc = bare_new(bench, "vector_add", BYTES, &b, error);
	for (int i = 0; rc == SGPU_OK && i < ELEMENTS; i++) {
		b->host[A][i] = (float)i;
		b->host[B][i] = (float)(i % 7);
	}
	rc = rc ? rc : measure_chain(bench, b, 1, error);
	return rc ? rc : measure_chain(bench, b, LONGEST, error);
}
