/* SPDX-License-Identifier: Apache-2.0
 *
 * session: what a secure context costs beside the plain device: to open it, to get memory from its
 * pool and to give it back, and to load a module; what a sealed command group costs by itself; and
 * what an operation or a launch costs that comes from another process.
 */
#include <stdio.h>
#include <string.h>

#include <sgpu/session.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "remote/client.h"
#include "remote/job.h"
#include "secure/secure.h"

#include "job.h"
#include "cases.h"
#include "setup.h"

/* ---- opening: in a process of its own, and in this one, whose device is open already ---- */
struct opening {
	struct sgpu_bench *bench;
	bool secure, ends; /* ends: the time of closing counts */
};

int bench_open(const char *selector, unsigned jobs, bool secure, uint64_t ns[2],
	       struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = jobs, .bare_keys = true };
	struct sgpu_device *device = NULL;
	struct sgpu_secure *context = NULL;
	struct sgpu_stream *stream = NULL;
	const uint64_t begin = sgpu_now_ns();
	int rc = sgpu_device_open(selector, &config, &device, error);

	if (rc == SGPU_OK && secure) {
		rc = sgpu_secure_create(device, NULL, &context, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_create(context ? sgpu_secure_device(context) : device, &stream,
					error);
	}
	ns[0] = sgpu_now_ns() - begin;
	sgpu_stream_free(&stream);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	ns[1] = sgpu_now_ns() - begin - ns[0];
	return rc;
}

static int open_here(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct opening *o = argument;
	const struct sgpu_bench *bench = o->bench;
	uint64_t both[2];
	int rc = bench_open(bench->info.selector, bench->options.jobs, o->secure, both, error);

	*ns = both[o->ends];
	return rc;
}

/* The verb `open` says how long it took. */
static int open_in_process(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct opening *o = argument;
	const size_t mark = sgpu_bench_mark(o->bench);
	unsigned long long opening = 0, closing;
	int ends[2];
	char text[64];
	size_t got = 0;
	int rc = bench_start_pipe(o->bench, o->secure ? "--secure" : NULL, NULL, ends, error);

	rc = rc ? rc : sgpu_read(ends[0], "sgpu-bench open", text, sizeof(text) - 1, &got, error);
	sgpu_bench_release(o->bench, mark);
	text[got] = '\0';
	if (rc == SGPU_OK && sscanf(text, "%llu %llu", &opening, &closing) != 2) {
		rc = sgpu_fail(error, SGPU_EDEVICE,
			       "'sgpu-bench open' did not say how long it took");
	}
	*ns = o->ends ? closing : opening;
	return rc;
}

static int measure_openings(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct {
		const char *what;
		int (*run)(void *argument, uint64_t *ns, struct sgpu_error *error);
		bool ends;
	} points[] = { { "first of a process", open_in_process, false },
		       { "last of a process", open_in_process, true },
		       { "create", open_here, false } };
	int rc = SGPU_OK;

	for (size_t p = 0; rc == SGPU_OK && p < SGPU_ARRAY_LENGTH(points); p++) {
		struct opening plain = { bench, false, points[p].ends },
			       secure = { bench, true, points[p].ends };
		const struct sgpu_bench_variant variants[] = {
			BENCH_RUN("plain", NULL, points[p].run, NULL, &plain),
			BENCH_RUN("secure", NULL, points[p].run, NULL, &secure),
		};
		const struct sgpu_bench_point point = { .parameters = {
								{ "what", points[p].what, 0 } } };

		rc = sgpu_bench_measure(bench, &point, variants, 2, error);
	}
	return rc;
}

/* ---- command groups: sealed, sent, their number compared, opened, and nothing done with them ----
 */
enum { GROUPS = 256, BIG_PAGES = 2, FILLER = 0x5a };

struct sender {
	struct bench_channel *channel;
	size_t size; /* of the items */
	uint8_t items[SGPU_GROUP_MAX - SGPU_TAG_SIZE], group[SGPU_GROUP_MAX],
		opened[SGPU_GROUP_MAX];
};

static int send_groups(void *argument, struct sgpu_error *error)
{
	struct sender *s = argument;
	const struct bench_channel *channel = s->channel;
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					.via = channel->number,
					.channel = channel->number,
					.submit = { .group = s->group,
						    .size = (uint32_t)s->size + SGPU_TAG_SIZE } };
	struct sgpu_reply reply = { 0 };
	size_t size = 0;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < GROUPS; i++) {
		rc = sgpu_session_seal(channel->session, s->items, s->size, s->group,
				       &command.submit.counter, error);
		if (rc == SGPU_OK &&
		    sgpu_processor_open_group(channel->processor, &command, s->opened, &size,
					      &reply) != SGPU_OK) {
			rc = sgpu_fail(error, SGPU_EDIFFERS, "a group was refused: %s",
				       reply.error.text);
		}
		if (rc == SGPU_OK &&
		    (size != s->size || s->opened[0] != FILLER || s->opened[size - 1] != FILLER)) {
			rc = sgpu_fail(error, SGPU_EDIFFERS,
				       "a group did not arrive as it was sent");
		}
	}
	return rc;
}

static int measure_groups(struct sgpu_bench *bench, struct sgpu_error *error)
{
	/* A launch with one range; the most that fits. */
	static const size_t sizes[] = { 72, SGPU_GROUP_MAX - SGPU_TAG_SIZE };
	const size_t mark = sgpu_bench_mark(bench);
	struct sender s = { .size = 0 };
	const struct sgpu_bench_variant variant =
		BENCH_WORK("sealed group", NULL, send_groups, NULL, &s);
	int rc = bench_new_channel(bench, BIG_PAGES, &s.channel, error);

	memset(s.items, FILLER, sizeof(s.items));
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(sizes); i++) {
		struct sgpu_bench_point point = { .parameters = { { "what", "group", 0 },
								  { "group_bytes", NULL, sizes[i] },
								  { "groups", NULL, GROUPS } },
						  .operations = GROUPS };

		s.size = sizes[i];
		rc = sgpu_bench_measure(bench, &point, &variant, 1, error);
	}
	sgpu_bench_release(bench, mark);
	return rc;
}

/* ---- memory and modules ---- */
/* One side: the plain device, or the context over it. */
struct side {
	struct sgpu_device *under, *device; /* of the two sides the same; of this one */
	struct sgpu_secure *context;	    /* NULL: the plain side */
	uint64_t size;			    /* of the point */
	bool returns;			    /* what counts is that memory is given back */
};

static int measure_sides(struct sgpu_bench *bench, struct side sides[2],
			 const struct sgpu_bench_point *point, struct sgpu_bench_variant plain,
			 const char *secure, struct sgpu_error *error)
{
	struct sgpu_bench_variant variants[] = { plain, plain };

	variants[0].name = "plain";
	variants[1].name = secure;
	variants[0].argument = &sides[0];
	variants[1].argument = &sides[1];
	return sgpu_bench_measure(bench, point, variants, 2, error);
}

/* What was freed before is cleared by now, so that there is no waiting for that. */
static int settle(void *argument, struct sgpu_error *error)
{
	return sgpu_device_synchronize(((struct side *)argument)->under, error);
}

static int get_memory(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	sgpu_devptr memory = 0;
	uint64_t begin = sgpu_now_ns(), middle;
	int rc = sgpu_device_alloc(s->device, s->size, &memory, error);

	middle = sgpu_now_ns();
	sgpu_device_free(s->device, &memory, s->size);
	*ns = s->returns ? sgpu_now_ns() - middle : middle - begin;
	return rc;
}

static int measure_memory(struct sgpu_bench *bench, struct side sides[2], uint64_t size,
			  struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int returns = 0; rc == SGPU_OK && returns < 2; returns++) {
		const struct sgpu_bench_point point = {
			.parameters = { { "what", returns ? "free" : "alloc", 0 },
					{ "size_bytes", NULL, size } },
		};
		const struct sgpu_bench_variant plain = { .prepare = settle, .run = get_memory };

		sides[0].size = sides[1].size = size;
		sides[0].returns = sides[1].returns = returns;
		rc = measure_sides(bench, sides, &point, plain, "secure pool", error);
	}
	return rc;
}

/* The smallest module there is: what is timed is not its translation. */
static const char image[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
			    ".visible .entry nothing() { ret; }\n";

/* Into a context it is brought to protected memory, and measured there first. */
static int load_module(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	struct sgpu_device_module *module = NULL;
	uint8_t digest[SGPU_KT128_SIZE];
	uint64_t begin;
	int rc;

	sgpu_measure_pages(image, sizeof(image), NULL, digest);
	begin = sgpu_now_ns();
	rc = s->context ? sgpu_secure_module_load(s->context, image, sizeof(image), digest, &module,
						  error)
			: sgpu_device_module_load(s->device, image, sizeof(image), &module, error);
	*ns = sgpu_now_ns() - begin;
	sgpu_device_module_free(&module);
	return rc;
}

static int measure_module(struct sgpu_bench *bench, struct side sides[2], struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "what", "module", 0 } } };

	if (strcmp(bench->info.selector, "cpu") == 0) {
		sgpu_bench_waive(bench, &point, NULL,
				 "no GPU: a module of the CPU device is a shared object");
		return SGPU_OK;
	}
	return measure_sides(bench, sides, &point,
			     (struct sgpu_bench_variant){ .run = load_module }, "secure", error);
}

/* ---- work for another process: sessions of programs (sgpu/session.h) over a pipe and over a ring,
 * beside bare calls of the device in this process ----
 * An operation takes 4 KiB to the device, runs a job that was loaded before over them, and takes 4
 * KiB back. A launch runs that job alone, and is waited for: one kernel, and its sealed command. */
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

struct program {
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
	struct program *s = argument;
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
	struct program *s = argument;
	const struct sgpu_remote_range ranges[] = { { s->buffer, 0, BYTES },
						    { s->buffer, BYTES, BYTES } };
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		rc = sgpu_remote_run(s->remote, s->job, ranges, 2, error);
		rc = rc ? rc : sgpu_remote_flush(s->remote, error);
	}
	return rc;
}

/* ---- bare calls ---- */
static int run_bare(void *argument, struct sgpu_error *error)
{
	struct program *s = argument;
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
	struct program *s = argument;

	(void)error;
	for (int i = 0; i < (int)NUMBERS; i++) {
		s->in[i] = (float)i;
		s->in[NUMBERS + i] = -1;
	}
	return SGPU_OK;
}

static int is_doubled(void *argument, struct sgpu_error *error)
{
	const float *out = ((const struct program *)argument)->in + NUMBERS;

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
	struct program *s = argument;
	int rc = spoil(s, error);

	rc = rc ? rc
		: sgpu_remote_copy_in(s->remote, s->buffer, 0, s->in, (uint64_t)2 * BYTES, error);
	return rc ? rc : sgpu_remote_flush(s->remote, error);
}

static int fetch_doubled(void *argument, struct sgpu_error *error)
{
	struct program *s = argument;
	int rc = sgpu_remote_copy_out(s->remote, s->in + NUMBERS, s->buffer, BYTES, BYTES, error);

	return rc ? rc : is_doubled(s, error);
}

/* ---- the points ---- */
static int measure_operations(struct sgpu_bench *bench, struct program sides[SIDES],
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

static int measure_launches(struct sgpu_bench *bench, struct program sides[SIDES],
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

static int open_bare(struct sgpu_bench *bench, struct program *side, struct sgpu_error *error)
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
static int prepare_session(struct sgpu_bench *bench, struct program *side, struct sgpu_error *error)
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
			 struct program sides[SIDES], struct sgpu_error *error)
{
	struct sgpu_remote_config config = { .owner = owner };
	struct sgpu_remote_ring ring;
	struct sgpu_carrier *carrier;
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
		rc = sgpu_carrier_ring(&ring, &carrier, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_remote_open_carrier(carrier, owner, NULL, &sides[RING].remote, error);
	}
	return rc ? rc : prepare_session(bench, &sides[RING], error);
}

static int measure_programs(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(bench);
	struct program sides[SIDES] = { { .in = NULL } };
	struct sgpu_key owner;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);

	rc = rc ? rc : open_bare(bench, &sides[BARE], error);
	rc = rc ? rc : open_sessions(bench, &owner, sides, error);
	sgpu_key_clear(&owner);
	rc = rc ? rc : measure_operations(bench, sides, error);
	rc = rc ? rc : measure_launches(bench, sides, error);
	sgpu_bench_release(bench, mark);
	return rc;
}

/* ---- the case ---- */
BENCH_ENDING(end_context, struct sgpu_secure, sgpu_secure_destroy)

int bench_session(struct sgpu_bench *bench, struct sgpu_error *error)
{
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	const int count = sgpu_bench_sizes(bench, 4096, (uint64_t)64 << 20, sizes);
	struct side sides[2] = { { .under = bench->device, .device = bench->device },
				 { .under = bench->device } };
	int rc = measure_openings(bench, error);

	rc = rc ? rc : measure_groups(bench, error);
	rc = rc ? rc : sgpu_secure_create(bench->device, NULL, &sides[1].context, error);
	rc = rc ? rc : sgpu_bench_keep(bench, end_context, (uintptr_t)sides[1].context, 0, error);
	rc = rc ? rc : measure_programs(bench, error);
	if (rc == SGPU_OK) {
		sides[1].device = sgpu_secure_device(sides[1].context);
		rc = measure_module(bench, sides, error);
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = measure_memory(bench, sides, sizes[i], error);
	}
	return rc;
}
