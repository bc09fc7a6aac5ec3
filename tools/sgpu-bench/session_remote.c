/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of the case session for another process: sessions of programs (sgpu/remote.h) over a pipe
 * and over a ring, beside bare calls of the device in this process.
 *
 * An operation takes 4 KiB to the device, runs a job that was loaded before over them, and takes
 * 4 KiB back. A launch runs that job alone, and is waited for: one kernel, and its sealed command.
 */
#include <sgpu/remote.h>

#include "remote/job.h"

#include "bare.h"
#include "cases.h"
#include "setup.h"

enum { BYTES = 4096, NUMBERS = BYTES / sizeof(float), ROUNDS = 100, LAUNCHES = 64 };

#define SEGMENT(id, direction)                                                                 \
	"{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":\"" direction \
	"\",\"data_location_client\":\"" id                                                    \
	"\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":[1024]}}"
/* out = in + in */
static const char job_text[] = "{\"version\":1,\"manifest_id\":\"bench\",\"segments\":[" SEGMENT(
	"in", "INPUT") "," SEGMENT("out",
				   "OUTPUT") "],\"operations\":[{\"gpu_operation_id\":\"DOUBLE\","
					     "\"kernel\":\"vector_add\",\"arguments\":"
					     "{\"a\":\"in\",\"b\":\"in\",\"output\":\"out\"}}]}";

enum { BARE, PIPE, RING, SIDES };

struct side {
	float *in; /* NUMBERS that go there, and those that come back; of bare calls: pinned */
	/* of sessions */
	struct sgpu_remote *remote;
	uint32_t job, buffer;
	/* of bare calls */
	struct sgpu_stream *stream;
	sgpu_devptr memory;
	void *local_job;
};

/* ---- sessions ---- */
static int run_operations(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	const struct sgpu_remote_range ranges[] = { { s->buffer, 0, BYTES },
						    { s->buffer, BYTES, BYTES } };
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < ROUNDS; i++) {
		rc = sgpu_remote_copy_in(s->remote, s->buffer, 0, s->in, BYTES, error);
		rc = rc ? rc : sgpu_remote_run(s->remote, s->job, ranges, 2, error);
		rc = rc ? rc
			: sgpu_remote_copy_out(s->remote, s->in + NUMBERS, s->buffer, BYTES, BYTES,
					       error);
	}
	return rc;
}

static int run_launches(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	const struct sgpu_remote_range ranges[] = { { s->buffer, 0, BYTES },
						    { s->buffer, BYTES, BYTES } };
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		rc = sgpu_remote_run(s->remote, s->job, ranges, 2, error);
		rc = rc ? rc : sgpu_remote_sync(s->remote, error);
	}
	return rc;
}

/* ---- bare calls ---- */
static int run_bare(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	const struct sgpu_device_range ranges[] = { { s->memory, BYTES },
						    { s->memory + BYTES, BYTES } };
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < ROUNDS; i++) {
		struct sgpu_task tasks[2] = { { .untimed = true }, { .untimed = true } };
		void *run = NULL;
		int ended;

		rc = sgpu_copy_in(s->stream, s->memory, s->in, BYTES, &tasks[0]);
		rc = rc ? rc
			: sgpu_remote_jobs.start(s->local_job, s->stream, ranges, 2, &run, error);
		rc = rc ? rc
			: sgpu_copy_out(s->stream, s->in + NUMBERS, s->memory + BYTES, BYTES,
					&tasks[1]);
		rc = bench_finish(s->stream, rc, tasks, 2, "run an operation", error);
		ended = sgpu_remote_jobs.end(&run, rc == SGPU_OK ? error : NULL);
		rc = rc ? rc : ended;
	}
	return rc;
}

static int launch_bare(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		b->tasks[b->vectors + i].untimed = true;
		rc = bare_launch(b, i, 1, error);
		rc = rc ? rc : sgpu_stream_sync(b->stream, error);
	}
	return rc ? rc : sgpu_bench_tasks(b->tasks, b->vectors + LAUNCHES, error);
}

/* ---- what comes before and after ---- */
static int spoil(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)error;
	for (int i = 0; i < (int)NUMBERS; i++) {
		s->in[i] = (float)i;
		s->in[NUMBERS + i] = -1;
	}
	return SGPU_OK;
}

static int is_doubled(void *argument, struct sgpu_error *error)
{
	const float *out = ((const struct side *)argument)->in + NUMBERS;

	for (int i = 0; i < (int)NUMBERS; i++) {
		if (out[i] != (float)(2 * i)) {
			return sgpu_fail(error, SGPU_EDIFFERS, "number %d is %g, not %d", i,
					 (double)out[i], 2 * i);
		}
	}
	return SGPU_OK;
}

/* Of launches, which leave the data on the device. */
static int bring_numbers(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	int rc = spoil(s, error);

	rc = rc ? rc
		: sgpu_remote_copy_in(s->remote, s->buffer, 0, s->in, (uint64_t)2 * BYTES, error);
	return rc ? rc : sgpu_remote_sync(s->remote, error);
}

static int fetch_doubled(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	int rc = sgpu_remote_copy_out(s->remote, s->in + NUMBERS, s->buffer, BYTES, BYTES, error);

	return rc ? rc : is_doubled(s, error);
}

/* ---- the points ---- */
static int measure_operations(struct sgpu_bench *bench, struct side sides[SIDES],
			      struct sgpu_error *error)
{
	const struct sgpu_bench_point point = {
		.parameters = { { "what", "operation", 0 }, { "size_bytes", NULL, BYTES } },
		.operations = ROUNDS,
	};
	struct sgpu_bench_variant variants[SIDES] = { { .name = "bare calls", .work = run_bare },
						      { .name = "pipe", .work = run_operations },
						      { .name = "ring", .work = run_operations } };

	for (int i = 0; i < SIDES; i++) {
		variants[i].prepare = spoil;
		variants[i].verify = is_doubled;
		variants[i].argument = &sides[i];
	}
	return sgpu_bench_measure(bench, &point, variants, SIDES, error);
}

static int measure_launches(struct sgpu_bench *bench, struct side sides[SIDES],
			    struct sgpu_error *error)
{
	const struct sgpu_bench_point point = {
		.parameters = { { "what", "launch", 0 }, { "launches", NULL, LAUNCHES } },
		.operations = LAUNCHES,
	};
	struct sgpu_bench_variant variants[] = {
		{ .name = "bare launch",
		  .prepare = bare_prepare,
		  .work = launch_bare,
		  .verify = bare_verify },
		BENCH_WORK("sealed, pipe", bring_numbers, run_launches, fetch_doubled,
			   &sides[PIPE]),
		BENCH_WORK("sealed, ring", bring_numbers, run_launches, fetch_doubled,
			   &sides[RING]),
	};
	float doubled[NUMBERS];
	struct bare *bare;
	int rc = bare_new(bench, "vector_add", BYTES, &bare, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	for (int i = 0; i < (int)NUMBERS; i++) {
		bare->host[0][i] = bare->host[1][i] = (float)i;
		doubled[i] = (float)(2 * i);
	}
	bare->wanted = doubled;
	variants[0].argument = bare;
	return sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

/* ---- the sides ---- */
BENCH_ENDING(end_remote, struct sgpu_remote, sgpu_remote_close)
BENCH_ENDING(end_local_job, void, sgpu_remote_jobs.free)

static int open_here(struct sgpu_bench *bench, struct side *side, struct sgpu_error *error)
{
	uint64_t bytes = 0;
	void *memory = NULL;
	int rc = sgpu_bench_new_pinned(bench, (uint64_t)2 * BYTES, &memory, error);

	side->in = memory;
	rc = rc ? rc : sgpu_bench_new_stream(bench, bench->device, &side->stream, error);
	rc = rc ? rc
		: sgpu_bench_new_device_memory(bench, (uint64_t)2 * BYTES, &side->memory, error);
	rc = rc ? rc
		: sgpu_remote_jobs.load(bench->device, job_text, sizeof(job_text) - 1, UINT64_MAX,
					&side->local_job, &bytes, error);
	return rc ? rc
		  : sgpu_bench_keep(bench, end_local_job, (uintptr_t)side->local_job, 0, error);
}

/* A session that was just opened. */
static int prepare_session(struct sgpu_bench *bench, struct side *side, struct sgpu_error *error)
{
	void *memory = NULL;
	int rc = sgpu_bench_keep(bench, end_remote, (uintptr_t)side->remote, 0, error);

	rc = rc ? rc : sgpu_bench_new(bench, (size_t)2 * BYTES, &memory, error);
	side->in = memory;
	rc = rc ? rc
		: sgpu_remote_load(side->remote, job_text, sizeof(job_text) - 1, &side->job, error);
	return rc ? rc : sgpu_remote_alloc(side->remote, (uint64_t)2 * BYTES, &side->buffer, error);
}

static int open_sessions(struct sgpu_bench *bench, const struct sgpu_key *owner,
			 struct side sides[SIDES], struct sgpu_error *error)
{
	struct sgpu_remote_config config = { .owner = owner };
	struct sgpu_remote_ring ring;
	int ends[2];
	int rc = bench_start_pipe(bench, "--serve", "session", ends, error);

	if (rc == SGPU_OK) {
		config.in = ends[0];
		config.out = ends[1];
		rc = sgpu_remote_open(&config, &sides[PIPE].remote, error);
	}
	rc = rc ? rc : prepare_session(bench, &sides[PIPE], error);
	rc = rc ? rc : bench_start_ring(bench, &ring, error);
	if (rc == SGPU_OK) {
		config.ring = &ring;
		rc = sgpu_remote_open(&config, &sides[RING].remote, error);
	}
	return rc ? rc : prepare_session(bench, &sides[RING], error);
}

int bench_session_remote(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(bench);
	struct side sides[SIDES] = { { .in = NULL } };
	struct sgpu_key owner;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);

	rc = rc ? rc : open_here(bench, &sides[BARE], error);
	rc = rc ? rc : open_sessions(bench, &owner, sides, error);
	sgpu_key_clear(&owner);
	rc = rc ? rc : measure_operations(bench, sides, error);
	rc = rc ? rc : measure_launches(bench, sides, error);
	sgpu_bench_release(bench, mark);
	return rc;
}
