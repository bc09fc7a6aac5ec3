/* SPDX-License-Identifier: Apache-2.0
 *
 * session: what a secure context costs beside the plain device: to make one, to send a request as a sealed command group, to
 * get memory from its pool, and to copy.
 */
#include <stdlib.h>

#include <sgpu/secure.h>

#include "cases.h"

enum { LAUNCHES = 256, SMALL = 4096 };

/* One side: the plain device, or the context over it. */
struct side {
	struct sgpu_bench *bench;
	struct sgpu_device *device;
	struct sgpu_secure *context;    /* NULL: the plain side */
	struct sgpu_stream *stream;
	sgpu_devptr memory;             /* for the copies, and what launches name */
	uint64_t size;
	uint8_t *host, *back;           /* for the copies */
	bool to_host;
	struct sgpu_task tasks[LAUNCHES];
};

/* ---- groups ---- */
static int nothing(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	(void)argument;
	return SGPU_OK;
}

/* The host's part: what the caller waits for until the device has the request. */
static int enqueue(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	const struct sgpu_device_range range = { s->memory, SMALL };
	uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK, synced;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		rc = sgpu_device_launch_on(s->stream, nothing, NULL, &range, 1, &s->tasks[i]);
	}
	*ns = sgpu_now_ns() - begin;
	synced = sgpu_stream_sync(s->stream, error);
	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "a launch was refused: %s", sgpu_strerror(rc));
	}
	return synced == SGPU_OK ? sgpu_bench_tasks(s->tasks, LAUNCHES, error) : synced;
}

static int measure_groups(struct side *sides, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = enqueue, .argument = &sides[0] },
		{ .name = "sealed group", .run = enqueue, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "launch", 0 }, { "launches", NULL, LAUNCHES } },
						.operations = LAUNCHES };

	return sgpu_bench_measure(sides[0].bench, &point, variants, 2, error);
}

/* ---- memory ---- */
static int get_memory(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	sgpu_devptr memory = 0;
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_device_alloc(s->device, s->size, &memory, error);

	sgpu_device_free(s->device, &memory, s->size);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int measure_memory(struct side *sides, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = get_memory, .argument = &sides[0] },
		{ .name = "secure pool", .run = get_memory, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "memory", 0 }, { "size_bytes", NULL, size } } };

	sides[0].size = sides[1].size = size;
	return sgpu_bench_measure(sides[0].bench, &point, variants, 2, error);
}

/* ---- copies ---- */
static int copy(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	struct sgpu_task task = { 0 };
	int rc, synced;

	(void)ns;
	if (s->context) {
		return sgpu_secure_memcpy(s->context, s->to_host ? s->back : s->host, s->memory, s->size,
					  s->to_host ? SGPU_SECURE_TO_HOST : SGPU_SECURE_TO_DEVICE, error);
	}
	rc = s->to_host ? sgpu_copy_out(s->stream, s->back, s->memory, s->size, &task) :
			  sgpu_copy_in(s->stream, s->memory, s->host, s->size, &task);
	synced = sgpu_stream_sync(s->stream, error);
	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "%s", sgpu_strerror(rc));
	}
	return synced == SGPU_OK ? sgpu_bench_tasks(&task, 1, error) : synced;
}

static int spoil(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)error;
	if (s->to_host) {
		sgpu_bench_fill(s->back, s->size, 2);
	}
	return SGPU_OK;
}

static int verify_copy(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	struct sgpu_task task = { 0 };
	uint64_t wrong;
	int rc = SGPU_OK;

	if (!s->to_host) {
		rc = sgpu_copy_out(s->stream, s->back, s->memory, s->size, &task);
		if (rc == SGPU_OK) {
			rc = sgpu_stream_sync(s->stream, error);
		}
		rc = rc == SGPU_OK ? sgpu_bench_tasks(&task, 1, error) : rc;
	}
	wrong = rc == SGPU_OK ? sgpu_bench_check(s->back, s->size, 1) : s->size;
	return rc != SGPU_OK || wrong == s->size ? rc :
	       sgpu_fail(error, SGPU_EDIFFERS, "byte %llu of the copy is wrong", (unsigned long long)wrong);
}

static int copy_both_ways(struct side *sides, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .prepare = spoil, .run = copy, .verify = verify_copy, .argument = &sides[0] },
		{ .name = "secure copy", .prepare = spoil, .run = copy, .verify = verify_copy, .argument = &sides[1] },
	};
	int rc = SGPU_OK;

	for (int out = 0; rc == SGPU_OK && out < 2; out++) {
		const struct sgpu_bench_point point = {
			.parameters = { { "what", "copy", 0 }, { "direction", out ? "d2h" : "h2d", 0 },
					{ "size_bytes", NULL, size } },
			.bytes = size,
		};

		sides[0].to_host = sides[1].to_host = out == 1;
		sides[0].size = sides[1].size = size;
		rc = sgpu_bench_measure(sides[0].bench, &point, variants, 2, error);
	}
	return rc;
}

static int measure_copies(struct side *sides, uint64_t size, struct sgpu_error *error)
{
	uint8_t *host = malloc(size), *back = malloc(size);
	int rc = host && back ? SGPU_OK : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		sgpu_bench_fill(host, size, 1);
	}
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		sides[i].host = host;
		sides[i].back = back;
		sgpu_device_free(sides[i].device, &sides[i].memory, SMALL);
		rc = sgpu_device_alloc(sides[i].device, size, &sides[i].memory, error);
	}
	if (rc == SGPU_OK) {
		rc = copy_both_ways(sides, size, error);
	}
	for (int i = 0; i < 2; i++) {
		sgpu_device_free(sides[i].device, &sides[i].memory, size);
	}
	free(host);
	free(back);
	return rc;
}

/* ---- contexts ---- */
static int make_stream(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	struct sgpu_stream *stream = NULL;
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_stream_create(s->bench->device, &stream, error);

	sgpu_stream_free(&stream);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

/* Beside the one that is there, so that it is the context alone that is timed. */
static int make_context(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	const struct sgpu_secure_config config = { .beside = s->context };
	struct sgpu_secure *context = NULL;
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_secure_create(s->bench->device, &config, &context, error);

	sgpu_secure_destroy(&context);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int measure_contexts(struct side *sides, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain stream", .run = make_stream, .argument = &sides[0] },
		{ .name = "secure context", .run = make_context, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "create", 0 } } };

	return sgpu_bench_measure(sides[0].bench, &point, variants, 2, error);
}

/* ---- the case ---- */
static int measure(struct sgpu_bench *bench, struct side *sides, struct sgpu_error *error)
{
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, SMALL, (uint64_t)64 << 20, sizes), rc = measure_contexts(sides, error);

	if (rc == SGPU_OK) {
		rc = measure_groups(sides, error);
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = measure_memory(sides, sizes[i], error);
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = measure_copies(sides, sizes[i], error);
	}
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	struct sgpu_secure *context = NULL;
	struct side *sides = calloc(2, sizeof(*sides));
	int rc = sides ? sgpu_secure_create(bench->device, NULL, &context, error) : sgpu_fail_nomem(error);

	(void)state;
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		sides[i].bench = bench;
		sides[i].context = i ? context : NULL;
		sides[i].device = i ? sgpu_secure_device(context) : bench->device;
		rc = sgpu_stream_create(sides[i].device, &sides[i].stream, error);
		if (rc == SGPU_OK) {
			rc = sgpu_device_alloc(sides[i].device, SMALL, &sides[i].memory, error);
		}
	}
	if (rc == SGPU_OK) {
		rc = measure(bench, sides, error);
	}
	for (int i = 0; sides && i < 2; i++) {
		if (sides[i].device) {
			sgpu_device_free(sides[i].device, &sides[i].memory, SMALL);
		}
		sgpu_stream_free(&sides[i].stream);
	}
	sgpu_secure_destroy(&context);
	free(sides);
	return rc;
}

const struct sgpu_bench_case case_session = {
	.name = "session",
	.help = "a secure context beside the plain device: made, groups, memory, copies",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
