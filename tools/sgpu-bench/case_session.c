/* SPDX-License-Identifier: Apache-2.0
 *
 * session: what a secure context costs beside the plain device: to make one, to get memory from its
 * pool and to give it back, to load a module, and to copy; and what a request or a launch costs
 * that comes from another process.
 */
#include <string.h>

#include <sgpu/secure.h>

#include "cases.h"
#include "made.h"
#include "memory.h"

enum { SMALL = 4096 };

/* One side: the plain device, or the context over it. */
struct side {
	struct sgpu_bench *bench;
	struct sgpu_device *device;
	struct sgpu_secure *context; /* NULL: the plain side */
	struct sgpu_stream *stream;
	sgpu_devptr memory;   /* for the copies */
	uint8_t *host, *back; /* the same */
	uint64_t size;	      /* of the point */
	bool returns;	      /* memory is given back; data come back to the host */
};

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
	*ns = s->returns ? sgpu_now_ns() - middle : middle - begin;
	return rc;
}

/* ---- copies ---- */
static int copy(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	if (s->context) {
		return sgpu_secure_memcpy(
			s->context, s->returns ? s->back : s->host, s->memory, s->size,
			s->returns ? SGPU_SECURE_TO_HOST : SGPU_SECURE_TO_DEVICE, error);
	}
	return s->returns ? bench_from_device(s->stream, s->back, s->memory, s->size, error)
			  : bench_to_device(s->stream, s->memory, s->host, s->size, error);
}

static int spoil(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)error;
	if (s->returns) {
		sgpu_bench_fill(s->back, s->size, 2);
	}
	return SGPU_OK;
}

static int verify_copy(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	int rc = s->returns ? SGPU_OK
			    : bench_from_device(s->stream, s->back, s->memory, s->size, error);

	return rc == SGPU_OK ? bench_verify(s->back, s->size, 1, error) : rc;
}

/* ---- modules ---- */
/* The smallest module there is: what is timed is not its translation. */
static const char image[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
			    ".visible .entry nothing() { ret; }\n";

/* Into a context it is brought to protected memory, and measured there first. */
static int load_module(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	struct sgpu_device_module *module = NULL;
	uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE];
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

/* ---- points ---- */
static int measure_sides(struct side *sides, const struct sgpu_bench_point *point,
			 struct sgpu_bench_variant plain, const char *secure,
			 struct sgpu_error *error)
{
	struct sgpu_bench_variant variants[] = { plain, plain };

	variants[0].name = "plain";
	variants[1].name = secure;
	variants[0].argument = &sides[0];
	variants[1].argument = &sides[1];
	return sgpu_bench_measure(sides[0].bench, point, variants, 2, error);
}

static int measure_module(struct sgpu_bench *bench, struct side *sides, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "what", "module", 0 } } };

	if (strcmp(bench->info.selector, "cpu") == 0) {
		sgpu_bench_waive(bench, &point, NULL,
				 "no GPU: a module of the CPU device is a shared object");
		return SGPU_OK;
	}
	return measure_sides(sides, &point, (struct sgpu_bench_variant){ .run = load_module },
			     "secure", error);
}

static int measure_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	static const struct {
		const char *what, *direction, *secure;
		struct sgpu_bench_variant work;
		bool returns;
	} points[] = {
		{ "alloc", NULL, "secure pool", { .prepare = settle, .run = get_memory }, false },
		{ "free", NULL, "secure pool", { .prepare = settle, .run = get_memory }, true },
		{ "copy",
		  "h2d",
		  "secure copy",
		  { .prepare = spoil, .work = copy, .verify = verify_copy },
		  false },
		{ "copy",
		  "d2h",
		  "secure copy",
		  { .prepare = spoil, .work = copy, .verify = verify_copy },
		  true },
	};
	struct side *sides = argument;
	int rc = SGPU_OK;

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(points); i++) {
		const char *direction = points[i].direction;
		const struct sgpu_bench_point point = {
			.parameters = { { "what", points[i].what, 0 },
					{ "size_bytes", NULL, size },
					{ direction ? "direction" : NULL, direction, 0 } },
			.bytes = direction ? size : 0,
		};

		sides[0].size = sides[1].size = size;
		sides[0].returns = sides[1].returns = points[i].returns;
		rc = measure_sides(sides, &point, points[i].work, points[i].secure, error);
	}
	return rc;
}

/* ---- the case ---- */
BENCH_ENDING(end_context, struct sgpu_secure, sgpu_secure_destroy)

/* most: bytes of a copy. The memory of the context ends with it. */
static int open_sides(struct sgpu_bench *bench, struct sgpu_secure *context, uint64_t most,
		      struct side *sides, struct sgpu_error *error)
{
	void *host = NULL, *back = NULL;
	int rc = sgpu_bench_new(bench, most, &host, error);

	rc = rc ? rc : sgpu_bench_new(bench, most, &back, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(host, most, 1);
		rc = sgpu_bench_new_device_memory(bench, most, &sides[0].memory, error);
	}
	rc = rc ? rc
		: sgpu_device_alloc(sgpu_secure_device(context), most, &sides[1].memory, error);
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		struct side *s = &sides[i];

		s->bench = bench;
		s->context = i ? context : NULL;
		s->device = i ? sgpu_secure_device(context) : bench->device;
		s->host = host;
		s->back = back;
		rc = sgpu_bench_new_stream(bench, s->device, &s->stream, error);
	}
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	const int count = sgpu_bench_sizes(bench, SMALL, (uint64_t)64 << 20, sizes);
	struct sgpu_secure *context = NULL;
	void *sides = NULL;
	int rc = sgpu_bench_new(bench, 2 * sizeof(struct side), &sides, error);

	rc = rc ? rc : bench_session_open(bench, error);
	rc = rc ? rc : bench_session_group(bench, error);
	rc = rc ? rc : sgpu_secure_create(bench->device, NULL, &context, error);
	rc = rc ? rc : sgpu_bench_keep(bench, end_context, (uintptr_t)context, 0, error);
	rc = rc ? rc : bench_session_remote(bench, context, error);
	rc = rc ? rc
		: open_sides(bench, context, count > 0 ? sizes[count - 1] : SMALL, sides, error);
	rc = rc ? rc : measure_module(bench, sides, error);
	return rc ? rc
		  : bench_each_size(bench, sizes, count, (struct bench_need){ 0 }, measure_size,
				    sides, error);
}

const struct sgpu_bench_case case_session = {
	.name = "session",
	.help = "a secure context beside the plain device: made, groups, programs, memory, "
		"modules, copies",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
