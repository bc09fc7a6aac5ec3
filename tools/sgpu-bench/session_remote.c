/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of the case session for another process: sessions of programs (sgpu/remote.h) over a pipe,
 * over a ring, and, where SGPU_SOCKET names a server, with that; and messages that are not sealed.
 * Beside them, in this process: bare calls of the device, and direct calls of a secure context.
 *
 * An empty group is a message that asks for nothing. An operation takes 4 KiB to the device, runs a
 * job that was loaded before over them, and takes 4 KiB back. A launch runs that job alone, and is
 * waited for: one kernel, and its sealed command. A request clears 4 KiB.
 */
#include <stdlib.h>

#include <sgpu/remote.h>

#include "remote/client.h"
#include "remote/job.h"

#include "bare.h"
#include "cases.h"
#include "made.h"
#include "memory.h"

enum { BYTES = 4096, NUMBERS = BYTES / sizeof(float), ROUNDS = 100, REQUESTS = 64, LAUNCHES = 64 };

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

enum { BARE, DIRECT, PLAIN, PIPE, RING, SERVICE, SIDES };

struct side {
	float *in; /* NUMBERS that go there, and those that come back; of bare calls: pinned */
	int requests;
	/* of sessions */
	struct sgpu_remote *remote;
	uint32_t job, buffer;
	/* of plain messages */
	struct sgpu_pipe pipe;
	/* of calls in this process */
	struct sgpu_stream *stream;
	sgpu_devptr memory;
	void *local_job;
};

/* ---- sessions ---- */
static int run_empty(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < ROUNDS; i++) {
		rc = sgpu_group_client_send(s->remote->client, s->remote->results, error);
	}
	return rc;
}

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

static int run_requests(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < s->requests; i++) {
		rc = sgpu_remote_clear(s->remote, s->buffer, 0, BYTES, error);
	}
	return rc ? rc : sgpu_remote_sync(s->remote, error);
}

/* ---- plain messages ---- */
static int send_plain(struct side *s, enum sgpu_item_kind kind, int count, struct sgpu_error *error)
{
	static uint8_t items[SGPU_GROUP_BYTES], answer[SGPU_MESSAGE_MAX];
	const struct sgpu_item item = { .kind = kind, .size = BYTES };
	size_t size = 0, answer_size = 0;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_item_encode(&item, items, &size, error);
	}
	rc = rc ? rc : sgpu_pipe_exchange(&s->pipe, items, size, answer, &answer_size, error);
	if (rc == SGPU_OK && answer_size != 4 + (size_t)count * 8) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "a request over a pipe failed");
	}
	return rc;
}

static int run_plain(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	return send_plain(s, SGPU_ITEM_CLEAR, s->requests, error);
}

/* ---- calls in this process ---- */
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

static int run_direct(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	struct sgpu_task tasks[REQUESTS] = { { 0 } };
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < s->requests; i++) {
		rc = sgpu_device_clear(s->stream, s->memory, BYTES, &tasks[i]);
	}
	return bench_finish(s->stream, rc, tasks, s->requests, "clear device memory", error);
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
static int measure_sessions(struct sgpu_bench *bench, struct side sides[SIDES],
			    struct sgpu_error *error)
{
	static const char *const names[SIDES] = {
		[PIPE] = "pipe", [RING] = "ring", [SERVICE] = "service"
	};
	const struct sgpu_bench_point empty_group = {
		.parameters = { { "what", "empty group", 0 } },
		.operations = ROUNDS,
	};
	const struct sgpu_bench_point operation = {
		.parameters = { { "what", "operation", 0 }, { "size_bytes", NULL, BYTES } },
		.operations = ROUNDS,
	};
	struct sgpu_bench_variant variant = { .name = "bare calls",
					      .prepare = spoil,
					      .work = run_bare,
					      .verify = is_doubled,
					      .argument = &sides[BARE] };
	struct sgpu_bench_variant empty[SIDES], whole[SIDES] = { variant };
	int count = 0, rc;

	variant.work = run_operations;
	for (int i = PIPE; i < SIDES && sides[i].remote; i++) {
		variant.name = names[i];
		variant.argument = &sides[i];
		empty[count++] = (struct sgpu_bench_variant){ names[i], .work = run_empty,
							      .argument = &sides[i] };
		whole[count] = variant;
	}
	rc = sgpu_bench_measure(bench, &empty_group, empty, count, error);
	return rc ? rc : sgpu_bench_measure(bench, &operation, whole, count + 1, error);
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
		{ .name = "sealed, pipe",
		  .prepare = bring_numbers,
		  .work = run_launches,
		  .verify = fetch_doubled,
		  .argument = &sides[PIPE] },
		{ .name = "sealed, ring",
		  .prepare = bring_numbers,
		  .work = run_launches,
		  .verify = fetch_doubled,
		  .argument = &sides[RING] },
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

static int measure_requests(struct sgpu_bench *bench, struct side sides[SIDES],
			    struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "direct call", .work = run_direct, .argument = &sides[DIRECT] },
		{ .name = "plain message", .work = run_plain, .argument = &sides[PLAIN] },
		{ .name = "sealed group", .work = run_requests, .argument = &sides[PIPE] },
	};
	int rc = SGPU_OK;

	for (int requests = 1; rc == SGPU_OK && requests <= REQUESTS; requests *= REQUESTS) {
		const struct sgpu_bench_point point = { .parameters = { { "what", "pipe", 0 },
									{ "requests", NULL,
									  (uint64_t)requests } } };

		sides[DIRECT].requests = sides[PLAIN].requests = sides[PIPE].requests = requests;
		rc = sgpu_bench_measure(bench, &point, variants, 3, error);
	}
	return rc;
}

/* ---- the sides ---- */
BENCH_ENDING(end_remote, struct sgpu_remote, sgpu_remote_close)
BENCH_ENDING(end_local_job, void, sgpu_remote_jobs.free)

static int open_here(struct sgpu_bench *bench, struct sgpu_device *inside, struct side *bare,
		     struct side *direct, struct sgpu_error *error)
{
	uint64_t bytes = 0;
	void *memory = NULL;
	int rc = sgpu_bench_new_pinned(bench, (uint64_t)2 * BYTES, &memory, error);

	bare->in = memory;
	rc = rc ? rc : sgpu_bench_new_stream(bench, bench->device, &bare->stream, error);
	rc = rc ? rc
		: sgpu_bench_new_device_memory(bench, (uint64_t)2 * BYTES, &bare->memory, error);
	rc = rc ? rc
		: sgpu_remote_jobs.load(bench->device, job_text, sizeof(job_text) - 1, UINT64_MAX,
					&bare->local_job, &bytes, error);
	rc = rc ? rc : sgpu_bench_keep(bench, end_local_job, (uintptr_t)bare->local_job, 0, error);
	rc = rc ? rc : sgpu_bench_new_stream(bench, inside, &direct->stream, error);
	return rc ? rc
		  : sgpu_device_alloc(inside, BYTES, &direct->memory,
				      error); /* ends with the context */
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
	struct sgpu_pipe pipe;
	int rc = bench_start_pipe(bench, "--serve", "session", &pipe, error);

	if (rc == SGPU_OK) {
		config.in = pipe.in;
		config.out = pipe.out;
		rc = sgpu_remote_open(&config, &sides[PIPE].remote, error);
	}
	rc = rc ? rc : prepare_session(bench, &sides[PIPE], error);
	rc = rc ? rc : bench_start_ring(bench, &ring, error);
	if (rc == SGPU_OK) {
		config.ring = &ring;
		rc = sgpu_remote_open(&config, &sides[RING].remote, error);
	}
	rc = rc ? rc : prepare_session(bench, &sides[RING], error);
	if (rc == SGPU_OK && getenv("SGPU_SOCKET")) {
		rc = sgpu_remote_connect(NULL, owner, NULL, &sides[SERVICE].remote, error);
		rc = rc ? rc : prepare_session(bench, &sides[SERVICE], error);
	}
	return rc;
}

int bench_session_remote(struct sgpu_bench *bench, struct sgpu_secure *context,
			 struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(bench);
	struct side sides[SIDES] = { { .requests = 0 } };
	struct sgpu_key owner;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);

	rc = rc ? rc
		: open_here(bench, sgpu_secure_device(context), &sides[BARE], &sides[DIRECT],
			    error);
	rc = rc ? rc : open_sessions(bench, &owner, sides, error);
	sgpu_key_clear(&owner);
	rc = rc ? rc : measure_sessions(bench, sides, error);
	rc = rc ? rc : measure_launches(bench, sides, error);
	rc = rc ? rc : bench_start_pipe(bench, "--serve", "plain", &sides[PLAIN].pipe, error);
	rc = rc ? rc : send_plain(&sides[PLAIN], SGPU_ITEM_ALLOC, 1, error);
	rc = rc ? rc : measure_requests(bench, sides, error);
	sgpu_bench_release(bench, mark);
	return rc;
}
