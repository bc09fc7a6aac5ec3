/* SPDX-License-Identifier: Apache-2.0
 *
 * launch: what it takes to start an operation: plain, through the runner, and on sealed data.
 */

#include "cases.h"
#include "job.h"
#include "setup.h"

enum { ELEMENTS = 256, BYTES = ELEMENTS * 4, LAUNCHES = 64 };
enum { A, B, OUTPUT }; /* arguments of vector_add */

static void expect(const struct bare *b, int times, float sum[ELEMENTS])
{
	for (int i = 0; i < ELEMENTS; i++) {
		sum[i] = b->host[A][i] + (float)times * b->host[B][i];
	}
}

/* ---- launches alone ---- */
/* Times only the calls that enqueue, not the work. */
static int enqueue_only(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;
	uint64_t begin = sgpu_now_ns();
	int rc = bare_launch(b, 0, LAUNCHES, error);

	sgpu_bench_give_ns(b->bench, sgpu_now_ns() - begin);
	return bench_finish(b->stream, rc, b->tasks, b->vectors + LAUNCHES, "launch", error);
}

static int enqueue_all(void *argument, struct sgpu_error *error)
{
	return bare_launch(argument, 0, LAUNCHES, error);
}

/* All launches are queued before the first one starts: only the device's time counts. */
static int back_to_back(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;

	return sgpu_bench_enqueue(b->bench, &b->stream, 1, enqueue_all, b, b->tasks + b->vectors,
				  LAUNCHES, error);
}

static int measure_plain(struct sgpu_bench *bench, struct bare *b, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		BENCH_VARIANT("enqueue", bare_prepare, enqueue_only, bare_verify, b),
		BENCH_VARIANT("launch and wait", bare_prepare, bare_launch_each, bare_verify, b),
		BENCH_VARIANT("back to back", bare_prepare, back_to_back, bare_verify, b),
	};
	const struct sgpu_bench_point point = { .parameters = { { "launches", NULL, LAUNCHES } },
						.operations = LAUNCHES };
	float sum[ELEMENTS];

	expect(b, 1, sum);
	b->wanted = sum;
	b->launches = LAUNCHES;
	return sgpu_bench_measure(bench, &point, variants, 3, error);
}

/* ---- a chain of operations with its input and its output ---- */
static void add_chain(struct job *job, const struct job_side *side)
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

	expect(b, count, sum);
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
	rc = rc ? rc : measure_plain(bench, b, error);
	rc = rc ? rc : measure_chain(bench, b, 1, error);
	return rc ? rc : measure_chain(bench, b, LAUNCHES, error);
}
