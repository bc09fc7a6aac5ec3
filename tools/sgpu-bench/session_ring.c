/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of programs (sgpu/remote.h) in the case session: with a worker in another process over a pipe, over a ring, and,
 * where SGPU_SOCKET names a server, with that; beside bare calls of the device in this process, without a secure context and
 * without sealing. An empty group is a message that asks for nothing. An operation takes 4 KiB to the device, runs a job that
 * was loaded before over them, and takes 4 KiB back.
 */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/remote.h>

#include "remote/client.h"
#include "remote/job.h"

#include "cases.h"
#include "memory.h"

enum { BYTES = 4096, ROUNDS = 100, MEMORY_FD = 3, AREA_FD = 4 };

#define SEGMENT(id, direction) "{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":\"" direction \
	"\",\"data_location_client\":\"" id "\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":[1024]}}"
/* out = in + in */
static const char job_text[] = "{\"version\":1,\"manifest_id\":\"bench\",\"segments\":[" SEGMENT("in", "INPUT") ","
	SEGMENT("out", "OUTPUT") "],\"operations\":[{\"gpu_operation_id\":\"DOUBLE\",\"kernel\":\"vector_add\",\"arguments\":"
	"{\"a\":\"in\",\"b\":\"in\",\"output\":\"out\"}}]}";

/* ---- the worker, in the verb `open` of another sgpu-bench ---- */
static int serve_ring(struct sgpu_secure *context, struct sgpu_error *error)
{
	const struct sgpu_remote_ring ring = { .memory = MEMORY_FD, .area = AREA_FD, .bell = STDIN_FILENO };
	struct sgpu_remote_service *service = NULL;
	int rc = sgpu_remote_service_create(context, 0, NULL, &ring, &service, error);

	rc = rc == SGPU_OK ? sgpu_remote_service_run(service, error) : rc;
	sgpu_remote_service_free(&service);
	return rc;
}

int bench_serve_session(const char *selector, bool over_ring, struct sgpu_error *error)
{
	struct sgpu_secure *context = NULL;
	struct sgpu_device *device = NULL;
	int rc = sgpu_device_open(selector, NULL, &device, error);

	rc = rc ? rc : sgpu_secure_create(device, NULL, &context, error);
	if (rc == SGPU_OK) {
		rc = over_ring ? serve_ring(context, error) :
				 sgpu_remote_serve(context, 0, NULL, STDIN_FILENO, STDOUT_FILENO, error);
	}
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return rc;
}

/* ---- this side ---- */
struct side {
	pid_t child;                   /* 0: there is none */
	struct sgpu_pipe pipe;
	struct sgpu_remote_ring ring;
	struct sgpu_remote *remote;    /* NULL: bare calls */
	uint32_t job, buffer;
	/* of bare calls */
	struct sgpu_device *device;
	struct sgpu_stream *stream;
	void *local_job;
	sgpu_devptr memory;
	float *in, *out;               /* 1024 each; of bare calls: pinned */
};

static int start_ring(struct side *s, const struct sgpu_bench *bench, struct sgpu_error *error)
{
	extern char **environ;
	const char *const arguments[] = { "sgpu-bench", "open", "--device", bench->info.selector, "--serve", "ring", NULL };
	posix_spawn_file_actions_t actions;
	int bells[2], rc = sgpu_remote_ring_create(&s->ring.memory, &s->ring.area, error);

	if (rc < 0) {
		return rc;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells) != 0) {
		return sgpu_fail_errno(error, "cannot make a pair of sockets");
	}
	s->ring.bell = bells[0];
	/* They may be descriptors that the child has for something else. */
	const int memory = dup(s->ring.memory), area = dup(s->ring.area);

	rc = memory < 0 || area < 0 ? errno : posix_spawn_file_actions_init(&actions);
	if (rc == 0) {
		const int from[] = { memory, area }, to[] = { MEMORY_FD, AREA_FD };

		rc = posix_spawn_file_actions_adddup2(&actions, bells[1], STDIN_FILENO);
		for (int i = 0; rc == 0 && i < 2; i++) {
			rc = posix_spawn_file_actions_adddup2(&actions, from[i], 10 + i);
		}
		for (int i = 0; rc == 0 && i < 2; i++) {
			rc = posix_spawn_file_actions_adddup2(&actions, 10 + i, to[i]);
			rc = rc ? rc : posix_spawn_file_actions_addclose(&actions, 10 + i);
		}
		rc = rc ? rc : posix_spawn(&s->child, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)arguments,
					   environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(memory);
	close(area);
	close(bells[1]);
	return rc ? sgpu_fail(error, SGPU_ESYSTEM, "cannot start another sgpu-bench: %s", strerror(rc)) : SGPU_OK;
}

static int prepare_remote(struct side *s, struct sgpu_error *error)
{
	int rc = sgpu_remote_load(s->remote, job_text, sizeof(job_text) - 1, &s->job, error);

	s->in = calloc(2, BYTES);
	if (!s->in) {
		return sgpu_fail_nomem(error);
	}
	s->out = s->in + BYTES / sizeof(float);
	return rc < 0 ? rc : sgpu_remote_alloc(s->remote, (uint64_t)2 * BYTES, &s->buffer, error);
}

static int prepare_bare(struct side *s, struct sgpu_bench *bench, struct sgpu_error *error)
{
	uint64_t bytes = 0;
	void *memory = NULL;
	int rc;

	s->device = bench->device;
	rc = sgpu_host_alloc(s->device, (uint64_t)2 * BYTES, &memory, error);
	s->in = memory;
	s->out = rc == SGPU_OK ? s->in + BYTES / sizeof(float) : NULL;
	rc = rc == SGPU_OK ? sgpu_stream_create(s->device, &s->stream, error) : rc;
	rc = rc == SGPU_OK ? sgpu_device_alloc(s->device, (uint64_t)2 * BYTES, &s->memory, error) : rc;
	return rc < 0 ? rc : sgpu_remote_jobs.load(s->device, job_text, sizeof(job_text) - 1, UINT64_MAX, &s->local_job, &bytes,
						    error);
}

static void end(struct side *s)
{
	if (s->remote) {
		sgpu_remote_close(&s->remote);
		free(s->in);
	} else if (s->device) {
		void *memory = s->in;

		sgpu_stream_free(&s->stream);
		if (s->local_job) {
			sgpu_remote_jobs.free(&s->local_job);
		}
		sgpu_device_free(s->device, &s->memory, (uint64_t)2 * BYTES);
		sgpu_host_free(s->device, &memory, (uint64_t)2 * BYTES);
	}
	for (int i = 0; i < 5; i++) {
		const int fd = ((const int[]){ s->pipe.in, s->pipe.out, s->ring.memory, s->ring.area, s->ring.bell })[i];

		if (fd > 0) {
			close(fd);
		}
	}
	if (s->child > 0) {
		(void)waitpid(s->child, NULL, 0);
	}
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

int bench_session_ring(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const bool served = getenv("SGPU_SOCKET") != NULL;
	struct side sides[SIDES] = { { .child = 0 } };
	struct sgpu_key owner = { 0 };
	struct sgpu_remote_config config = { .owner = &owner };
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);

	rc = rc == SGPU_OK ? prepare_bare(&sides[BARE], bench, error) : rc;
	rc = rc == SGPU_OK ? bench_start(bench, "--serve", "session", &sides[PIPE].child, &sides[PIPE].pipe, error) : rc;
	if (rc == SGPU_OK) {
		config.in = sides[PIPE].pipe.in;
		config.out = sides[PIPE].pipe.out;
		rc = sgpu_remote_open(&config, &sides[PIPE].remote, error);
	}
	rc = rc == SGPU_OK ? start_ring(&sides[RING], bench, error) : rc;
	if (rc == SGPU_OK) {
		config.ring = &sides[RING].ring;
		rc = sgpu_remote_open(&config, &sides[RING].remote, error);
	}
	if (rc == SGPU_OK && served) {
		rc = sgpu_remote_connect(NULL, &owner, NULL, &sides[SERVICE].remote, error);
	}
	for (int i = PIPE; rc == SGPU_OK && i < SERVICE + served; i++) {
		rc = prepare_remote(&sides[i], error);
	}
	rc = rc == SGPU_OK ? measure(bench, sides, SERVICE + served, error) : rc;
	for (int i = 0; i < SIDES; i++) {
		end(&sides[i]);
	}
	sgpu_key_clear(&owner);
	return rc;
}
