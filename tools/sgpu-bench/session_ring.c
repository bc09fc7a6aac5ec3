/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of programs (sgpu/remote.h) in the case session: with a worker in another process over a pipe, over a ring, and,
 * where SGPU_SOCKET names a server, with that; beside bare calls of the device in this process, without a secure context and
 * without sealing. An empty group is a message that asks for nothing. An operation takes 4 KiB to the device, runs a job that
 * was loaded before over them, and takes 4 KiB back.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/remote.h>

#include "remote/client.h"
#include "remote/job.h"

#include "cases.h"
#include "memory.h"

enum { BYTES = 4096, ROUNDS = 100 };

#define SEGMENT(id, direction) "{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":\"" direction \
	"\",\"data_location_client\":\"" id "\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":[1024]}}"
/* out = in + in */
static const char job_text[] = "{\"version\":1,\"manifest_id\":\"bench\",\"segments\":[" SEGMENT("in", "INPUT") ","
	SEGMENT("out", "OUTPUT") "],\"operations\":[{\"gpu_operation_id\":\"DOUBLE\",\"kernel\":\"vector_add\",\"arguments\":"
	"{\"a\":\"in\",\"b\":\"in\",\"output\":\"out\"}}]}";

struct side {
	struct sgpu_remote *remote;    /* NULL: bare calls */
	uint32_t job, buffer;
	/* of bare calls */
	struct sgpu_stream *stream;
	void *local_job;
	sgpu_devptr memory;
	float *in, *out;               /* 1024 each; of bare calls: pinned */
};

static int start_ring(struct sgpu_bench *bench, struct sgpu_remote_ring *ring, struct sgpu_error *error)
{
	int bells[2], rc = sgpu_remote_ring_create(&ring->memory, &ring->area, error);

	if (rc < 0) {
		return rc;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells) != 0) {
		close(ring->memory);
		close(ring->area);
		return sgpu_fail_errno(error, "cannot make a pair of sockets");
	}
	ring->bell = bells[0];
	rc = bench_start(bench, "--serve", "ring", (const int[]){ bells[1], STDOUT_FILENO, STDERR_FILENO, ring->memory,
								  ring->area }, 5, error);
	close(bells[1]);
	return rc;
}

static int prepare_remote(struct side *s, struct sgpu_bench *bench, struct sgpu_error *error)
{
	void *memory = NULL;
	int rc = sgpu_bench_new(bench, (size_t)2 * BYTES, &memory, error);

	s->in = memory;
	rc = rc ? rc : sgpu_remote_load(s->remote, job_text, sizeof(job_text) - 1, &s->job, error);
	return rc ? rc : sgpu_remote_alloc(s->remote, (uint64_t)2 * BYTES, &s->buffer, error);
}

static int prepare_bare(struct side *s, struct sgpu_bench *bench, struct sgpu_error *error)
{
	uint64_t bytes = 0;
	void *memory = NULL;
	int rc = sgpu_bench_new_pinned(bench, (uint64_t)2 * BYTES, &memory, error);

	s->in = memory;
	rc = rc ? rc : sgpu_bench_new_stream(bench, bench->device, &s->stream, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(bench, (uint64_t)2 * BYTES, &s->memory, error);
	return rc ? rc : sgpu_remote_jobs.load(bench->device, job_text, sizeof(job_text) - 1, UINT64_MAX, &s->local_job,
					       &bytes, error);
}

/* ---- what is timed ---- */
static int run_empty(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	const uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < ROUNDS; i++) {
		rc = sgpu_group_client_send(s->remote->client, s->remote->results, error);
	}
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int spoil(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)error;
	for (int i = 0; i < BYTES / (int)sizeof(float); i++) {
		s->in[i] = (float)i;
		s->out[i] = -1;
	}
	return SGPU_OK;
}

static int is_doubled(void *argument, struct sgpu_error *error)
{
	const struct side *s = argument;

	for (int i = 0; i < BYTES / (int)sizeof(float); i++) {
		if (s->out[i] != (float)(2 * i)) {
			return sgpu_fail(error, SGPU_EDIFFERS, "number %d is %g, not %d", i, (double)s->out[i], 2 * i);
		}
	}
	return SGPU_OK;
}

static int run_sealed(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	const struct sgpu_remote_range ranges[] = { { s->buffer, 0, BYTES }, { s->buffer, BYTES, BYTES } };
	const uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < ROUNDS; i++) {
		rc = sgpu_remote_copy_in(s->remote, s->buffer, 0, s->in, BYTES, error);
		rc = rc == SGPU_OK ? sgpu_remote_run(s->remote, s->job, ranges, 2, error) : rc;
		rc = rc == SGPU_OK ? sgpu_remote_copy_out(s->remote, s->out, s->buffer, BYTES, BYTES, error) : rc;
	}
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int run_bare(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	const struct sgpu_device_range ranges[] = { { s->memory, BYTES }, { s->memory + BYTES, BYTES } };
	const uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < ROUNDS; i++) {
		struct sgpu_task tasks[2] = { { .untimed = true }, { .untimed = true } };
		void *run = NULL;
		int ended;

		rc = sgpu_copy_in(s->stream, s->memory, s->in, BYTES, &tasks[0]);
		rc = rc == SGPU_OK ? sgpu_remote_jobs.start(s->local_job, s->stream, ranges, 2, &run, error) : rc;
		rc = rc == SGPU_OK ? sgpu_copy_out(s->stream, s->out, s->memory + BYTES, BYTES, &tasks[1]) : rc;
		rc = bench_finish(s->stream, rc, tasks, 2, "run an operation", error);
		ended = sgpu_remote_jobs.end(&run, rc == SGPU_OK ? error : NULL);
		rc = rc == SGPU_OK ? ended : rc;
	}
	*ns = sgpu_now_ns() - begin;
	return rc;
}

/* ---- the points ---- */
enum { BARE, PIPE, RING, SERVICE, SIDES };

static int measure(struct sgpu_bench *bench, struct side sides[SIDES], int count, struct sgpu_error *error)
{
	static const char *const names[SIDES] = { "bare calls", "pipe", "ring", "service" };
	struct sgpu_bench_variant empty[SIDES], operation[SIDES];
	const struct sgpu_bench_point points[] = {
		{ .parameters = { { "what", "empty group", 0 } }, .operations = ROUNDS },
		{ .parameters = { { "what", "operation", 0 }, { "size_bytes", NULL, BYTES } }, .operations = ROUNDS },
	};
	int rc;

	for (int i = 0; i < count; i++) {
		operation[i] = (struct sgpu_bench_variant){ .name = names[i], .prepare = spoil, .verify = is_doubled,
							    .run = i == BARE ? run_bare : run_sealed, .argument = &sides[i] };
		empty[i] = (struct sgpu_bench_variant){ .name = names[i], .run = run_empty, .argument = &sides[i] };
	}
	rc = sgpu_bench_measure(bench, &points[0], &empty[PIPE], count - PIPE, error);
	return rc < 0 ? rc : sgpu_bench_measure(bench, &points[1], operation, count, error);
}

static int open_sides(struct sgpu_bench *bench, struct side sides[SIDES], bool served, const struct sgpu_key *owner,
		      struct sgpu_remote_ring *ring, struct sgpu_error *error)
{
	struct sgpu_remote_config config = { .owner = owner };
	struct sgpu_pipe pipe;
	int rc = prepare_bare(&sides[BARE], bench, error);

	rc = rc ? rc : bench_start_pipe(bench, "--serve", "session", &pipe, error);
	if (rc == SGPU_OK) {
		config.in = pipe.in;
		config.out = pipe.out;
		rc = sgpu_remote_open(&config, &sides[PIPE].remote, error);
	}
	rc = rc ? rc : start_ring(bench, ring, error);
	config.ring = ring;
	rc = rc ? rc : sgpu_remote_open(&config, &sides[RING].remote, error);
	if (rc == SGPU_OK && served) {
		rc = sgpu_remote_connect(NULL, owner, NULL, &sides[SERVICE].remote, error);
	}
	for (int i = PIPE; rc == SGPU_OK && i < SERVICE + served; i++) {
		rc = prepare_remote(&sides[i], bench, error);
	}
	return rc;
}

int bench_session_ring(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const bool served = getenv("SGPU_SOCKET") != NULL;
	const size_t mark = sgpu_bench_mark(bench);
	struct side sides[SIDES] = { { .remote = NULL } };
	struct sgpu_remote_ring ring = { .memory = -1, .area = -1, .bell = -1 };
	struct sgpu_key owner;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);

	rc = rc ? rc : open_sides(bench, sides, served, &owner, &ring, error);
	for (int i = 0; rc == SGPU_OK && i < SERVICE + served; i++) {
		sides[i].out = sides[i].in + BYTES / sizeof(float);
	}
	rc = rc ? rc : measure(bench, sides, SERVICE + served, error);
	for (int i = PIPE; i < SIDES; i++) {
		sgpu_remote_close(&sides[i].remote);
	}
	if (sides[BARE].local_job) {
		sgpu_remote_jobs.free(&sides[BARE].local_job);
	}
	if (ring.bell >= 0) {
		close(ring.bell);
		close(ring.memory);
		close(ring.area);
	}
	sgpu_bench_release(bench, mark);
	sgpu_key_clear(&owner);
	return rc;
}
