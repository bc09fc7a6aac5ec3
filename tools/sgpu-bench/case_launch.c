/* SPDX-License-Identifier: Apache-2.0
 *
 * launch: what it takes to start an operation: plain, through the runner, and on sealed data.
 */
#include <string.h>

#include <sgpu/ops.h>

#include "cases.h"
#include "job.h"
#include "memory.h"

enum { ELEMENTS = 256, BYTES = ELEMENTS * 4, LAUNCHES = 64 };
enum { A, B, OUTPUT }; /* arguments of vector_add */

/* Small vectors on the host and on the device, and calls that add them. */
struct state {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	sgpu_devptr memory[3];
	float *host[3];            /* a, b, what comes out: memory of the device's pool */
	struct sgpu_op_call calls[LAUNCHES];
	struct sgpu_task tasks[LAUNCHES + 3];
	int launches;              /* of the variant that is measured */
	const struct job_place *place;
};

static int run_launches(struct state *s, int first, int count, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = first; rc == SGPU_OK && i < first + count; i++) {
		rc = sgpu_bench_launch(s->bench, s->stream, &s->calls[i], &s->tasks[i], error);
	}
	return rc;
}

static int prepare(void *argument, struct sgpu_error *error)
{
	struct state *s = argument;

	(void)error;
	memset(s->tasks, 0, sizeof(s->tasks));
	memset(s->host[OUTPUT], 0xff, BYTES);
	return SGPU_OK;
}

/* Only what the caller waits for: the work itself goes on meanwhile. */
static int enqueue_only(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct state *s = argument;
	uint64_t begin = sgpu_now_ns();
	int rc = run_launches(s, 0, LAUNCHES, error);

	*ns = sgpu_now_ns() - begin;
	return bench_finish(s->stream, rc, s->tasks, LAUNCHES, "launch", error);
}

static int launch_and_wait(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct state *s = argument;
	uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		rc = run_launches(s, i, 1, error);
		rc = rc == SGPU_OK ? sgpu_stream_sync(s->stream, error) : rc;
	}
	*ns = sgpu_now_ns() - begin;
	return rc == SGPU_OK ? sgpu_bench_tasks(s->tasks, LAUNCHES, error) : rc;
}

static int enqueue_tasks(void *argument, struct sgpu_error *error)
{
	struct state *s = argument;

	memset(s->tasks, 0, sizeof(s->tasks));
	return run_launches(s, 0, LAUNCHES, error);
}

/* All of them queued before the first one starts: the device's time alone. */
static int back_to_back(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct state *s = argument;
	int rc = sgpu_bench_enqueue(s->bench, &s->stream, 1, enqueue_tasks, s, error);

	*ns = sgpu_bench_span(s->tasks, LAUNCHES);
	return rc == SGPU_OK ? sgpu_bench_tasks(s->tasks, LAUNCHES, error) : rc;
}

static int check_sum(const struct state *s, const float *sum, int times, struct sgpu_error *error)
{
	for (int i = 0; i < ELEMENTS; i++) {
		if (sum[i] != s->host[A][i] + (float)times * s->host[B][i]) {
			return sgpu_fail(error, SGPU_EDIFFERS, "element %d of the sum is %g", i, (double)sum[i]);
		}
	}
	return SGPU_OK;
}

/* What is in the device's memory after launches that were not brought back. */
static int verify_device(void *argument, struct sgpu_error *error)
{
	struct state *s = argument;
	int rc = bench_from_device(s->stream, s->host[OUTPUT], s->memory[OUTPUT], BYTES, error);

	return rc ? rc : check_sum(s, s->host[OUTPUT], 1, error);
}

static int measure_plain(struct state *s, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "enqueue", .prepare = prepare, .run = enqueue_only, .verify = verify_device, .argument = s },
		{ .name = "launch and wait", .prepare = prepare, .run = launch_and_wait, .verify = verify_device,
		  .argument = s },
		{ .name = "back to back", .prepare = prepare, .run = back_to_back, .verify = verify_device,
		  .argument = s },
	};
	const struct sgpu_bench_point point = { .parameters = { { "launches", NULL, LAUNCHES } },
						.operations = LAUNCHES };

	for (int i = 0; i < LAUNCHES; i++) {
		s->calls[i].data[A] = (void *)(uintptr_t)s->memory[A];
	}
	return sgpu_bench_measure(s->bench, &point, variants, 3, error);
}

/* ---- a chain of operations with its input and its output ---- */
/* The bare calls that the runner's job comes down to. */
static int run_bare(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct state *s = argument;
	struct sgpu_task *in = &s->tasks[LAUNCHES];
	int rc;

	(void)ns;
	rc = sgpu_copy_in(s->stream, s->memory[A], s->host[A], BYTES, &in[0]);
	rc = rc ? rc : sgpu_copy_in(s->stream, s->memory[B], s->host[B], BYTES, &in[1]);
	rc = rc ? rc : run_launches(s, 0, s->launches, error);
	rc = rc ? rc : sgpu_copy_out(s->stream, s->host[OUTPUT], s->memory[OUTPUT], BYTES, &in[2]);
	return bench_finish(s->stream, rc, s->tasks, LAUNCHES + 3, "launch a chain", error);
}

static int verify_bare(void *argument, struct sgpu_error *error)
{
	struct state *s = argument;

	return check_sum(s, s->host[OUTPUT], s->launches, error);
}

static int check_job(struct job_side *side, struct sgpu_error *error)
{
	float sum[ELEMENTS];
	int rc = job_read(side->job, "sum", sum, sizeof(sum), error);

	return rc ? rc : check_sum(side->data, sum, ((const struct state *)side->data)->launches, error);
}

static int make_job(const struct state *s, bool sealed, int count, struct job_side *side, struct sgpu_error *error)
{
	const struct job_type type = { "f32", { ELEMENTS } };
	struct job *job = NULL;
	char from[16] = "a", to[16], id[16];
	int rc = job_new(s->bench, sealed, &job, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	*side = (struct job_side){ .bench = s->bench, .job = job, .place = s->place, .batches = 1, .check = check_job,
				   .data = s };
	job_input(job, "a", type, s->host[A], BYTES);
	job_input(job, "b", type, s->host[B], BYTES);
	for (int i = 0; i < count; i++) {
		snprintf(id, sizeof(id), "ADD%d", i);
		snprintf(to, sizeof(to), i < count - 1 ? "x%d" : "sum", i);
		if (i < count - 1) {
			job_between(job, to);
		} else {
			job_output(job, to, type);
		}
		job_operation(job, id, "vector_add", json_pack("{s:s, s:s, s:s}", "a", from, "b", "b", "output", to),
			      NULL, NULL);
		memcpy(from, to, sizeof(from));
	}
	return job_finish(job, error);
}

static int measure_chain(struct state *s, int count, struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(s->bench);
	struct job_side sides[2];
	const struct sgpu_bench_variant variants[] = {
		{ .name = "bare calls", .prepare = prepare, .run = run_bare, .verify = verify_bare, .argument = s },
		{ .name = "runner", .run = job_side_run, .verify = job_side_verify, .argument = &sides[0] },
		{ .name = "runner, sealed", .run = job_side_run, .verify = job_side_verify, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "operations", NULL, (uint64_t)count } }, .operations = (uint64_t)count,
	};
	int rc = SGPU_OK;

	s->launches = count;
	for (int i = 0; i < count; i++) {
		s->calls[i].data[A] = (void *)(uintptr_t)s->memory[i ? OUTPUT : A];
	}
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		rc = make_job(s, i == 1, count, &sides[i], error);
	}
	rc = rc ? rc : sgpu_bench_measure(s->bench, &point, variants, 3, error);
	sgpu_bench_release(s->bench, mark);
	return rc;
}

/* ---- the case ---- */
static void fill_call(struct state *s, struct sgpu_op_call *call)
{
	call->op = sgpu_op_find("vector_add");
	for (int k = 0; k < 3; k++) {
		call->type[k] = (struct sgpu_type){ SGPU_F32, 1, { ELEMENTS, 0, 0, 0 } };
		call->present[k] = true;
		call->data[k] = (void *)(uintptr_t)s->memory[k];
	}
}

static int open_state(struct sgpu_bench *bench, struct state *s, struct sgpu_error *error)
{
	struct job_place *place = NULL;
	int rc = job_new_place(bench, &place, error);

	s->bench = bench;
	s->place = place;
	rc = rc ? rc : sgpu_bench_new_stream(bench, bench->device, &s->stream, error);
	for (int k = 0; rc == SGPU_OK && k < 3; k++) {
		void *host = NULL;

		rc = sgpu_bench_new_device_memory(bench, BYTES, &s->memory[k], error);
		rc = rc ? rc : sgpu_bench_new_pinned(bench, BYTES, &host, error);
		s->host[k] = host;
	}
	for (int i = 0; i < LAUNCHES; i++) {
		fill_call(s, &s->calls[i]);
	}
	for (int i = 0; rc == SGPU_OK && i < ELEMENTS; i++) {
		s->host[A][i] = (float)i;
		s->host[B][i] = (float)(i % 7);
	}
	rc = rc ? rc : bench_to_device(s->stream, s->memory[A], s->host[A], BYTES, error);
	return rc ? rc : bench_to_device(s->stream, s->memory[B], s->host[B], BYTES, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	void *state = NULL;
	int rc = SGPU_OK;

	if (!sgpu_bench_wants(bench, BYTES)) {
		return SGPU_OK;
	}
	rc = sgpu_bench_new(bench, sizeof(struct state), &state, error);
	rc = rc ? rc : open_state(bench, state, error);
	rc = rc ? rc : measure_plain(state, error);
	rc = rc ? rc : measure_chain(state, 1, error);
	return rc ? rc : measure_chain(state, LAUNCHES, error);
}

const struct sgpu_bench_case case_launch = {
	.name = "launch",
	.help = "starting an operation: plain, through the runner, on sealed data",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
