/* SPDX-License-Identifier: Apache-2.0
 *
 * launch: what it takes to start an operation: plain, through the runner, and on sealed data.
 */
#include <string.h>

#include "cases.h"
#include "job.h"
#include "memory.h"

enum { ELEMENTS = 256, BYTES = ELEMENTS * 4, LAUNCHES = 64 };
enum { A, B, OUTPUT }; /* arguments of vector_add */

/* Small vectors on the host and on the device, and calls that add them. */
struct state {
	struct bare *bare;
	float sum[ELEMENTS];       /* what comes out */
};

static void expect(struct state *s, int times)
{
	for (int i = 0; i < ELEMENTS; i++) {
		s->sum[i] = s->bare->host[A][i] + (float)times * s->bare->host[B][i];
	}
}

/* ---- launches alone ---- */
static int prepare(void *argument, struct sgpu_error *error)
{
	(void)error;
	bare_spoil(((struct state *)argument)->bare);
	return SGPU_OK;
}

/* Only what the caller waits for: the work itself goes on meanwhile. */
static int enqueue_only(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct bare *b = ((struct state *)argument)->bare;
	uint64_t begin = sgpu_now_ns();
	int rc = bare_launch(b, 0, LAUNCHES, error);

	*ns = sgpu_now_ns() - begin;
	return bench_finish(b->stream, rc, b->tasks, b->vectors + LAUNCHES, "launch", error);
}

static int launch_and_wait(void *argument, struct sgpu_error *error)
{
	struct bare *b = ((struct state *)argument)->bare;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		rc = bare_launch(b, i, 1, error);
		rc = rc == SGPU_OK ? sgpu_stream_sync(b->stream, error) : rc;
	}
	return rc == SGPU_OK ? sgpu_bench_tasks(b->tasks, b->vectors + LAUNCHES, error) : rc;
}

static int enqueue_all(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;

	bare_spoil(b);
	return bare_launch(b, 0, LAUNCHES, error);
}

/* All of them queued before the first one starts: the device's time alone. */
static int back_to_back(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct bare *b = ((struct state *)argument)->bare;
	int rc = sgpu_bench_enqueue(b->bench, &b->stream, 1, enqueue_all, b, error);

	*ns = sgpu_bench_span(b->tasks + b->vectors, LAUNCHES);
	return rc == SGPU_OK ? sgpu_bench_tasks(b->tasks, b->vectors + LAUNCHES, error) : rc;
}

/* What is in the device's memory after launches that were not brought back. */
static int verify(void *argument, struct sgpu_error *error)
{
	const struct state *s = argument;
	struct bare *b = s->bare;
	int rc = bench_from_device(b->stream, b->host[OUTPUT], b->memory[OUTPUT], BYTES, error);

	return rc || memcmp(b->host[OUTPUT], s->sum, BYTES) == 0 ? rc :
	       sgpu_fail(error, SGPU_EDIFFERS, "the sum on the device is not what it should be");
}

static int measure_plain(struct sgpu_bench *bench, struct state *s, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "enqueue", .prepare = prepare, .run = enqueue_only, .verify = verify, .argument = s },
		{ .name = "launch and wait", .prepare = prepare, .work = launch_and_wait, .verify = verify, .argument = s },
		{ .name = "back to back", .prepare = prepare, .run = back_to_back, .verify = verify, .argument = s },
	};
	const struct sgpu_bench_point point = { .parameters = { { "launches", NULL, LAUNCHES } },
						.operations = LAUNCHES };

	expect(s, 1);
	return sgpu_bench_measure(bench, &point, variants, 3, error);
}

/* ---- a chain of operations with its input and its output ---- */
static int measure_chain(struct sgpu_bench *bench, const struct job_place *place, struct state *s, int count,
			 struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(bench);
	struct job_side sides[3];
	const struct sgpu_bench_variant variants[] = { job_variant("bare calls", &sides[0]),
						       job_variant("runner", &sides[1]),
						       job_variant("runner, sealed", &sides[2]) };
	const struct sgpu_bench_point point = {
		.parameters = { { "operations", NULL, (uint64_t)count } }, .operations = (uint64_t)count,
	};
	struct bare *b = s->bare;
	int rc = SGPU_OK;

	expect(s, count);
	b->launches = count;
	b->next.data[A] = b->call.data[OUTPUT];
	for (int i = 0; rc == SGPU_OK && i < 3; i++) {
		struct job **job = &sides[i].jobs[0];

		sides[i] = (struct job_side){ .bench = bench, .place = place, .batches = 1, .at_once = 1,
					      .bare = { i ? NULL : b }, .check = job_check_same, .data = s->sum,
					      .size = BYTES };
		rc = i ? job_new(bench, i == 2, job, error) : SGPU_OK;
		if (i && rc == SGPU_OK) {
			job_chains(*job, 1, count, (struct job_type){ "f32", { ELEMENTS } }, b->host[A], b->host[B], false);
			rc = job_finish(*job, error);
		}
	}
	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, 3, error);
	sgpu_bench_release(bench, mark);
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct job_place *place = NULL;
	struct state s;
	int rc;

	if (!sgpu_bench_wants(bench, BYTES)) {
		return SGPU_OK;
	}
	rc = job_new_place(bench, bench->device, true, &place, error);
	rc = rc ? rc : bare_new(bench, "vector_add", BYTES, &s.bare, error);
	for (int i = 0; rc == SGPU_OK && i < ELEMENTS; i++) {
		s.bare->host[A][i] = (float)i;
		s.bare->host[B][i] = (float)(i % 7);
	}
	rc = rc ? rc : bench_to_device(s.bare->stream, s.bare->memory[A], s.bare->host[A], BYTES, error);
	rc = rc ? rc : bench_to_device(s.bare->stream, s.bare->memory[B], s.bare->host[B], BYTES, error);
	rc = rc ? rc : measure_plain(bench, &s, error);
	rc = rc ? rc : measure_chain(bench, place, &s, 1, error);
	return rc ? rc : measure_chain(bench, place, &s, LAUNCHES, error);
}

const struct sgpu_bench_case case_launch = {
	.name = "launch",
	.help = "starting an operation: plain, through the runner, on sealed data",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
