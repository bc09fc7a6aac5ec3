/* SPDX-License-Identifier: Apache-2.0
 *
 * session: what a secure context costs beside the plain device: to make one, to make a request, to get memory from its pool
 * and to give it back, to load a module, and to copy; and what a request costs that comes from another process.
 */
#include <stdlib.h>

#include <sgpu/secure.h>

#include "cases.h"
#include "memory.h"

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
	bool to_host, gives_back;
	struct sgpu_task tasks[LAUNCHES];
};

/* ---- requests ---- */
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
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < LAUNCHES; i++) {
		rc = sgpu_device_launch_on(s->stream, nothing, NULL, &range, 1, &s->tasks[i]);
	}
	*ns = sgpu_now_ns() - begin;
	return bench_finish(s->stream, rc, s->tasks, LAUNCHES, "launch", error);
}

static int measure_groups(struct side *sides, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = enqueue, .argument = &sides[0] },
		{ .name = "secure", .run = enqueue, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "launch", 0 },
								{ "launches", NULL, LAUNCHES } },
						.operations = LAUNCHES };

	return sgpu_bench_measure(sides[0].bench, &point, variants, 2, error);
}

/* ---- memory ---- */
/* What was freed before is cleared by now, so that there is no waiting for that. */
static int settle(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	return sgpu_device_synchronize(s->bench->device, error);
}

static int get_memory(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	sgpu_devptr memory = 0;
	uint64_t begin = sgpu_now_ns(), middle;
	int rc = sgpu_device_alloc(s->device, s->size, &memory, error);

	middle = sgpu_now_ns();
	sgpu_device_free(s->device, &memory, s->size);
	*ns = s->gives_back ? sgpu_now_ns() - middle : middle - begin;
	return rc;
}

static int measure_memory(struct side *sides, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .prepare = settle, .run = get_memory, .argument = &sides[0] },
		{ .name = "secure pool", .prepare = settle, .run = get_memory, .argument = &sides[1] },
	};
	int rc = SGPU_OK;

	sides[0].size = sides[1].size = size;
	for (int half = 0; rc == SGPU_OK && half < 2; half++) {
		const struct sgpu_bench_point point = { .parameters = { { "what", half ? "free" : "alloc", 0 },
									{ "size_bytes", NULL, size } } };

		sides[0].gives_back = sides[1].gives_back = half == 1;
		rc = sgpu_bench_measure(sides[0].bench, &point, variants, 2, error);
	}
	return rc;
}

/* ---- copies ---- */
static int copy(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)ns;
	if (s->context) {
		return sgpu_secure_memcpy(s->context, s->to_host ? s->back : s->host, s->memory, s->size,
					  s->to_host ? SGPU_SECURE_TO_HOST : SGPU_SECURE_TO_DEVICE, error);
	}
	return s->to_host ? bench_from_device(s->stream, s->back, s->memory, s->size, error) :
	       bench_to_device(s->stream, s->memory, s->host, s->size, error);
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
	int rc = s->to_host ? SGPU_OK : bench_from_device(s->stream, s->back, s->memory, s->size, error);

	return rc == SGPU_OK ? bench_verify(s->back, s->size, 1, error) : rc;
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
	struct sgpu_bench *bench = sides[0].bench;
	const size_t mark = sgpu_bench_mark(bench);
	void *host = NULL, *back = NULL;
	int rc = sgpu_bench_new(bench, size, &host, error);

	rc = rc ? rc : sgpu_bench_new(bench, size, &back, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(host, size, 1);
	}
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		sides[i].host = host;
		sides[i].back = back;
		sgpu_device_free(sides[i].device, &sides[i].memory, SMALL);
		rc = sgpu_device_alloc(sides[i].device, size, &sides[i].memory, error);
	}
	rc = rc ? rc : copy_both_ways(sides, size, error);
	for (int i = 0; i < 2; i++) {
		sgpu_device_free(sides[i].device, &sides[i].memory, size);
	}
	sgpu_bench_release(bench, mark);
	return rc;
}

/* ---- the case ---- */
static int measure(struct sgpu_bench *bench, struct side *sides, struct sgpu_error *error)
{
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, SMALL, (uint64_t)64 << 20, sizes), rc = measure_groups(sides, error);

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = measure_memory(sides, sizes[i], error);
	}
	rc = rc == SGPU_OK ? bench_session_pipe(bench, sides[1].context, error) : rc;
	rc = rc == SGPU_OK ? bench_session_module(bench, sides[1].context, error) : rc;
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = measure_copies(sides, sizes[i], error);
	}
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct sgpu_secure *context = NULL;
	struct side *sides = calloc(2, sizeof(*sides));
	int rc = sides ? bench_session_open(bench, error) : sgpu_fail_nomem(error);

	rc = rc == SGPU_OK ? bench_session_group(bench, error) : rc;
	rc = rc == SGPU_OK ? bench_session_ring(bench, error) : rc;
	rc = rc == SGPU_OK ? sgpu_secure_create(bench->device, NULL, &context, error) : rc;
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		sides[i].bench = bench;
		sides[i].context = i ? context : NULL;
		sides[i].device = i ? sgpu_secure_device(context) : bench->device;
		rc = sgpu_stream_create(sides[i].device, &sides[i].stream, error);
		rc = rc ? rc : sgpu_device_alloc(sides[i].device, SMALL, &sides[i].memory, error);
	}
	rc = rc ? rc : measure(bench, sides, error);
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
	.help = "a secure context beside the plain device: made, groups, programs, memory, modules, copies",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
