/* SPDX-License-Identifier: Apache-2.0
 *
 * session: what a secure context costs compared with the plain device: opening it, allocating and
 * freeing memory of its pool, loading a module; what a sealed command group costs; and what a
 * launch costs that another process requests.
 */
#include <string.h>
#include <sys/wait.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "channel/channel.h"

#include "cases.h"
#include "sizes.h"

/* ---- opening: in a process of its own, and in this one, whose device is open already ---- */
struct opening {
	struct sgpu_bench *bench;
	bool ends; /* the time of closing counts */
};

int bench_open(const char *selector, unsigned jobs, bool secure, uint64_t ns[2],
	       struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = jobs };
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

static int open_here(void *argument, struct sgpu_error *error)
{
	const struct opening *o = argument;
	struct sgpu_bench *bench = o->bench;
	uint64_t both[2];
	int rc = bench_open(bench->info.selector, bench->options.jobs, bench->variant == 1, both,
			    error);

	bench->ns = both[o->ends];
	return rc;
}

/* "sgpu-bench open" prints its times of opening and closing. */
static int open_in_process(void *argument, struct sgpu_error *error)
{
	const struct opening *o = argument;
	pid_t pid;
	int talk, rc = program_start(WORDS("sgpu-bench", "open", "--json", "--device",
					   o->bench->info.selector,
					   o->bench->variant == 1 ? "--secure" : NULL),
				     NULL, &talk, &pid, error);
	json_t *times = json_loadfd(talk, 0, NULL);
	json_int_t ns =
		json_integer_value(json_object_get(times, o->ends ? "closing_ns" : "opening_ns"));

	json_decref(times);
	sgpu_close(talk);
	if (pid > 0) {
		(void)waitpid(pid, NULL, 0);
	}
	if (rc == SGPU_OK && ns <= 0) {
		rc = sgpu_fail(error, SGPU_EDEVICE,
			       "'sgpu-bench open' did not say how long it took");
	}
	o->bench->ns = (uint64_t)ns;
	return rc;
}

static int measure_openings(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct {
		const char *what;
		int (*work)(void *argument, struct sgpu_error *error);
		bool ends;
	} points[] = { { "first of a process", open_in_process, false },
		       { "last of a process", open_in_process, true },
		       { "create", open_here, false } };
	int rc = SGPU_OK;

	for (size_t p = 0; rc == SGPU_OK && p < SGPU_ARRAY_LENGTH(points); p++) {
		struct opening opening = { bench, points[p].ends };
		const struct sgpu_bench_variant variants[] = {
			{ "plain", NULL, points[p].work, NULL, &opening },
			{ "secure", NULL, points[p].work, NULL, &opening },
		};
		const struct sgpu_bench_point point = { .parameters = {
								{ "what", points[p].what, 0 } } };

		rc = sgpu_bench_measure(bench, &point, variants, 2, error);
	}
	return rc;
}

/* ---- command groups: sealed, sent, counted and opened ---- */
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
	const void *const mark = bench->kept;
	struct sender s = { .size = 0 };
	const struct sgpu_bench_variant variant = { "sealed group", NULL, send_groups, NULL, &s };
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

/* The first variant is of the plain device, the second of the context over it. */
struct pair {
	struct sgpu_bench *bench;
	struct sgpu_secure *context;
	uint64_t size;	 /* of the point */
	bool gives_back; /* times freeing, not allocating */
};

/* Freed memory is cleared now, not in a sample. */
static int settle(void *argument, struct sgpu_error *error)
{
	return sgpu_device_synchronize(((struct pair *)argument)->bench->device, error);
}

static int get_memory(void *argument, struct sgpu_error *error)
{
	const struct pair *p = argument;
	struct sgpu_device *device =
		p->bench->variant == 0 ? p->bench->device : sgpu_secure_device(p->context);

	return bench_time_memory(p->bench, device, p->size, p->gives_back, error);
}

static int measure_memory(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct pair *p = argument;
	const struct sgpu_bench_variant variants[] = {
		{ "plain", settle, get_memory, NULL, p },
		{ "secure pool", settle, get_memory, NULL, p },
	};
	int rc = SGPU_OK;

	for (int ends = 0; rc == SGPU_OK && ends < 2; ends++) {
		const struct sgpu_bench_point point = {
			.parameters = { { "what", ends ? "free" : "alloc", 0 },
					{ "size_bytes", NULL, size } },
		};

		p->size = size;
		p->gives_back = ends;
		rc = sgpu_bench_measure(p->bench, &point, variants, 2, error);
	}
	return rc;
}

/* The smallest module, which takes hardly any time to translate. */
static const char image[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
			    ".visible .entry nothing() { ret; }\n";

/* A context first copies the module to protected memory and measures it there. */
static int load_module(void *argument, struct sgpu_error *error)
{
	const struct pair *p = argument;
	struct sgpu_device_module *module = NULL;
	uint8_t digest[SGPU_KT128_SIZE];
	uint64_t begin;
	int rc;

	sgpu_measure_pages(image, sizeof(image), NULL, digest);
	begin = sgpu_now_ns();
	rc = p->bench->variant == 0 ? sgpu_device_module_load(p->bench->device, image,
							      sizeof(image), &module, error)
				    : sgpu_secure_module_load(p->context, image, sizeof(image),
							      digest, &module, error);
	p->bench->ns = sgpu_now_ns() - begin;
	sgpu_device_module_free(&module);
	return rc;
}

static int measure_module(struct pair *p, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "what", "module", 0 } } };
	const struct sgpu_bench_variant variants[] = {
		{ "plain", NULL, load_module, NULL, p },
		{ "secure", NULL, load_module, NULL, p },
	};

	if (strcmp(p->bench->info.selector, "cpu") == 0) {
		sgpu_bench_waive(p->bench, &point, NULL,
				 "no GPU: a module of the CPU device is a shared object");
		return SGPU_OK;
	}
	return sgpu_bench_measure(p->bench, &point, variants, 2, error);
}

/* ---- the launch of a prepared operation by a server over a ring, and here ---- */
enum { LAUNCHES = 64, VECTOR = 1024 };

static int run_launches(void *argument, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		rc = priced_run_alone(argument, error);
	}
	return rc;
}

static int run_bare(void *argument, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		rc = bare_launch(argument, error);
	}
	return rc;
}

static int measure_launches(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const struct sgpu_bench_point launch = { .parameters = { { "what", "launch", 0 },
								 { "launches", NULL, LAUNCHES } },
						 .operations = LAUNCHES };
	const void *const mark = bench->kept;
	struct job_side side = { .sealed = true };
	struct priced *priced = NULL;
	struct bare *bare = NULL;
	int rc = options_new(bench, VECTOR, &side, error);

	rc = rc ? rc : bare_new(bench, &side, &bare, error);
	rc = rc ? rc : priced_new(bench, &side, &priced, error);
	if (rc == SGPU_OK) {
		const struct sgpu_bench_variant launches[] = {
			{ "bare launch", bare_prepare, run_bare, bare_fetch, bare },
			{ "sealed, ring", priced_bring, run_launches, priced_fetch, priced },
		};

		rc = sgpu_bench_measure(bench, &launch, launches, 2, error);
	}
	sgpu_bench_release(bench, mark);
	return rc;
}

SGPU_BENCH_ENDING(end_context, struct sgpu_secure, sgpu_secure_destroy)

int bench_session(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct bench_sizes sizes = { BENCH_SWEEP(4 << 10, 64 << 20), 0, 0, 0 };
	struct pair pair = { .bench = bench };
	int rc = measure_openings(bench, error);

	rc = rc ? rc : measure_groups(bench, error);
	rc = rc ? rc : sgpu_secure_create(bench->device, NULL, &pair.context, error);
	rc = rc ? rc : sgpu_bench_keep(bench, end_context, (uintptr_t)pair.context, 0, error);
	rc = rc ? rc : measure_module(&pair, error);
	rc = rc ? rc : bench_each_size(bench, &sizes, measure_memory, &pair, error);
	return rc ? rc : measure_launches(bench, error); /* which needs other programs */
}
