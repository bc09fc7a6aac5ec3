/* SPDX-License-Identifier: Apache-2.0
 *
 * launch: what it takes to start an operation: plain, through the runner, and on sealed data.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/ops.h>

#include "cases.h"
#include "job.h"

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
	struct job jobs[2];        /* unsealed, sealed */
	struct job_place place;
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

static int finish_tasks(struct state *s, int count, struct sgpu_error *error)
{
	int rc = sgpu_stream_sync(s->stream, error);

	return rc == SGPU_OK ? sgpu_bench_tasks(s->tasks, count, error) : rc;
}

/* Only what the caller waits for: the work itself goes on meanwhile. */
static int enqueue_only(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct state *s = argument;
	uint64_t begin = sgpu_now_ns();
	int rc = run_launches(s, 0, LAUNCHES, error), ended;

	*ns = sgpu_now_ns() - begin;
	ended = finish_tasks(s, LAUNCHES, rc == SGPU_OK ? error : NULL);
	return rc == SGPU_OK ? ended : rc;
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

static int check_sum(struct state *s, const float *sum, int times, struct sgpu_error *error)
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
	struct sgpu_task task = { 0 };
	int rc = sgpu_copy_out(s->stream, s->host[OUTPUT], s->memory[OUTPUT], BYTES, &task);

	rc = rc == SGPU_OK ? sgpu_stream_sync(s->stream, error) : sgpu_fail(error, rc, "%s", sgpu_strerror(rc));
	if (rc == SGPU_OK) {
		rc = sgpu_bench_tasks(&task, 1, error);
	}
	return rc == SGPU_OK ? check_sum(s, s->host[OUTPUT], 1, error) : rc;
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
	if (rc == SGPU_OK) {
		rc = sgpu_copy_in(s->stream, s->memory[B], s->host[B], BYTES, &in[1]);
	}
	if (rc == SGPU_OK) {
		rc = run_launches(s, 0, s->launches, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_copy_out(s->stream, s->host[OUTPUT], s->memory[OUTPUT], BYTES, &in[2]);
	}
	return finish_tasks(s, LAUNCHES + 3, error) == SGPU_OK ? rc : error->code;
}

static int verify_bare(void *argument, struct sgpu_error *error)
{
	struct state *s = argument;

	return check_sum(s, s->host[OUTPUT], s->launches, error);
}

static int run_plain_job(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct state *s = argument;

	return job_run_on(&s->jobs[0], s->bench, &s->place, false, ns, error);
}

static int run_sealed_job(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct state *s = argument;

	return job_run_on(&s->jobs[1], s->bench, &s->place, false, ns, error);
}

static int verify_job(struct state *s, struct job *job, struct sgpu_error *error)
{
	float sum[ELEMENTS];
	int rc = job_read(job, "sum", sum, sizeof(sum), error);

	return rc == SGPU_OK ? check_sum(s, sum, s->launches, error) : rc;
}

static int verify_plain_job(void *argument, struct sgpu_error *error)
{
	return verify_job(argument, &((struct state *)argument)->jobs[0], error);
}

static int verify_sealed_job(void *argument, struct sgpu_error *error)
{
	return verify_job(argument, &((struct state *)argument)->jobs[1], error);
}

static int make_job(struct state *s, int index, int count, struct sgpu_error *error)
{
	const struct job_type type = { "f32", { ELEMENTS } };
	struct job *job = &s->jobs[index];
	char from[16] = "a", to[16], id[16];
	int rc = job_begin(job, index == 1, error);

	if (rc != SGPU_OK) {
		return rc;
	}
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
	const struct sgpu_bench_variant variants[] = {
		{ .name = "bare calls", .prepare = prepare, .run = run_bare, .verify = verify_bare, .argument = s },
		{ .name = "runner", .run = run_plain_job, .verify = verify_plain_job, .argument = s },
		{ .name = "runner, sealed", .run = run_sealed_job, .verify = verify_sealed_job, .argument = s },
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
		rc = make_job(s, i, count, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_bench_measure(s->bench, &point, variants, 3, error);
	}
	job_clear(&s->jobs[0]);
	job_clear(&s->jobs[1]);
	return rc;
}

/* ---- all of it ---- */
static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	struct state *s = state;
	int rc;

	if (!sgpu_bench_wants(bench, BYTES)) {
		return SGPU_OK;
	}
	rc = measure_plain(s, error);
	rc = rc == SGPU_OK ? measure_chain(s, 1, error) : rc;
	return rc == SGPU_OK ? measure_chain(s, LAUNCHES, error) : rc;
}

static void fill_call(struct state *s, struct sgpu_op_call *call)
{
	call->op = sgpu_op_find("vector_add");
	for (int k = 0; k < 3; k++) {
		call->type[k] = (struct sgpu_type){ SGPU_F32, 1, { ELEMENTS, 0, 0, 0 } };
		call->present[k] = true;
		call->data[k] = (void *)(uintptr_t)s->memory[k];
	}
}

static int bring_in(struct state *s, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int k = 0; rc == SGPU_OK && k < 2; k++) {
		rc = sgpu_copy_in(s->stream, s->memory[k], s->host[k], BYTES, &s->tasks[k]);
	}
	return rc == SGPU_OK ? finish_tasks(s, 2, error) : sgpu_fail(error, rc, "%s", sgpu_strerror(rc));
}

static int setup(struct sgpu_bench *bench, void **state, struct sgpu_error *error)
{
	struct state *s = calloc(1, sizeof(*s));
	int rc;

	*state = s;
	if (!s) {
		return sgpu_fail_nomem(error);
	}
	s->bench = bench;
	rc = sgpu_stream_create(bench->device, &s->stream, error);
	for (int k = 0; rc == SGPU_OK && k < 3; k++) {
		rc = sgpu_device_alloc(bench->device, BYTES, &s->memory[k], error);
		if (rc == SGPU_OK) {
			rc = sgpu_host_alloc(bench->device, BYTES, (void **)&s->host[k], error);
		}
	}
	for (int i = 0; i < LAUNCHES; i++) {
		fill_call(s, &s->calls[i]);
	}
	for (int i = 0; rc == SGPU_OK && i < ELEMENTS; i++) {
		s->host[A][i] = (float)i;
		s->host[B][i] = (float)(i % 7);
	}
	rc = rc == SGPU_OK ? bring_in(s, error) : rc;
	return rc == SGPU_OK ? job_place_open(&s->place, bench->device, true, error) : rc;
}

static void teardown(struct sgpu_bench *bench, void *state)
{
	struct state *s = state;

	if (!s) {
		return;
	}
	sgpu_stream_free(&s->stream);
	for (int k = 0; k < 3; k++) {
		sgpu_device_free(bench->device, &s->memory[k], BYTES);
		sgpu_host_free(bench->device, (void **)&s->host[k], BYTES);
	}
	job_clear(&s->jobs[0]);
	job_clear(&s->jobs[1]);
	job_place_close(&s->place);
	free(s);
}

const struct sgpu_bench_case case_launch = {
	.name = "launch",
	.help = "starting an operation: plain, through the runner, on sealed data",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.setup = setup,
	.run = run,
	.teardown = teardown,
};
