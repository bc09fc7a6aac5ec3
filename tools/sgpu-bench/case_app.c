/* SPDX-License-Identifier: Apache-2.0
 *
 * app: whole applications, each sealed and unsealed, from the batch to its response.
 *
 * black_scholes as Graviton ran it (Volos, Vaswani, Bruno, OSDI 2018): batches of 4 million options, one after
 * another. fashion-knn: the shape of examples/fashion-knn with pictures made here, whose classes are known.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/ops.h>

#include "cases.h"
#include "job.h"

enum { UNSEALED, SEALED };

/* One of the two variants of an application. */
struct side {
	struct sgpu_bench *bench;
	struct job job;
	int batches;
	bool opens;              /* opens the device for every batch, as a process of its own would */
	int (*check)(struct side *side, struct sgpu_error *error);
	const void *inputs;      /* of the application, for check */
	uint64_t count;          /* elements of an output */
	void *output;
};

static int run_side(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < s->batches; i++) {
		uint64_t one = 0;

		rc = job_run_on(&s->job, s->bench, s->opens, &one, error);
		*ns += one;
	}
	return rc;
}

static int verify_side(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;

	return s->check(s, error);
}

/* Ways to have a device and to bring payloads. */
static const struct way {
	bool opens, staged;
} ways[] = { { false, false }, { false, true }, { true, false } };

static const char *payloads_text(bool staged)
{
	return staged ? "staged" : "inline";
}

static int measure(struct sgpu_bench *bench, const char *app, int batches, uint64_t batch_bytes, struct side sides[2],
		   const struct way *way, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "unsealed", .run = run_side, .verify = verify_side, .argument = &sides[UNSEALED] },
		{ .name = "sealed", .run = run_side, .verify = verify_side, .argument = &sides[SEALED] },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "app", app, 0 }, { "device", job_device_text(way->opens), 0 },
				{ "payloads", payloads_text(way->staged), 0 }, { "batches", NULL, (uint64_t)batches },
				{ "batch_bytes", NULL, batch_bytes } },
		.bytes = (uint64_t)batches * batch_bytes, .operations = (uint64_t)batches,
	};

	for (int i = 0; i < 2; i++) {
		sides[i].bench = bench;
		sides[i].batches = batches;
		sides[i].opens = way->opens;
	}
	return sgpu_bench_measure(bench, &point, variants, 2, error);
}

static void clear_sides(struct side sides[2])
{
	for (int i = 0; i < 2; i++) {
		job_clear(&sides[i].job);
	}
}

/* ---- black_scholes ---- */
enum { PRICE, STRIKE, YEARS, CALL, PUT, VECTORS };
enum { OPTIONS = 4000000, OPTIONS_QUICK = 250000, BATCHES = 10, BATCHES_QUICK = 2, CHECKED = 1000 };
static const double rate = 0.02, volatility = 0.30;

static double normal(double x)
{
	return 0.5 * erfc(-x * M_SQRT1_2);
}

/* The price of a call, by the formula as the books have it. */
static double call_price(double price, double strike, double years)
{
	double deviation = volatility * sqrt(years);
	double d1 = (log(price / strike) + (rate + volatility * volatility / 2) * years) / deviation;

	return price * normal(d1) - strike * exp(-rate * years) * normal(d1 - deviation);
}

/* Some of the calls by the formula, and all puts by the parity of calls and puts. */
static int check_prices(const float *inputs, const float *call, const float *put, uint64_t count,
			struct sgpu_error *error)
{
	const float *price = inputs, *strike = price + count, *years = strike + count;

	for (uint64_t i = 0; i < count; i++) {
		double parity = (double)call[i] - price[i] + strike[i] * exp(-rate * (double)years[i]) - put[i];
		double wanted = i % (count / CHECKED) == 0 ? call_price(price[i], strike[i], years[i]) : call[i];

		if (!(fabs(parity) < 1e-3 && fabs(wanted - call[i]) < 1e-3)) {
			return sgpu_fail(error, SGPU_EDIFFERS, "option %llu has the prices %g and %g", (unsigned long long)i,
					 (double)call[i], (double)put[i]);
		}
	}
	return SGPU_OK;
}

static int check_options(struct side *s, struct sgpu_error *error)
{
	float *call = s->output, *put = call + s->count;
	int rc = job_read(&s->job, "call", call, s->count * sizeof(float), error);

	if (rc == SGPU_OK) {
		rc = job_read(&s->job, "put", put, s->count * sizeof(float), error);
	}
	return rc == SGPU_OK ? check_prices(s->inputs, call, put, s->count, error) : rc;
}

/* As the sample of NVIDIA's toolkit has them: price 5 to 30, strike 1 to 100, 0.25 to 10 years. */
static void fill_options(float *price, float *strike, float *years, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;

		z ^= z >> 31;
		price[i] = 5.0f + 25.0f * (float)(z & 0xffff) / 65535.0f;
		strike[i] = 1.0f + 99.0f * (float)(z >> 16 & 0xffff) / 65535.0f;
		years[i] = 0.25f + 9.75f * (float)(z >> 32 & 0xffff) / 65535.0f;
	}
}

static int make_options(struct side *s, bool sealed, bool staged, uint64_t count, const float *inputs,
			struct sgpu_error *error)
{
	const struct job_type type = { "f32", { count } };
	const uint64_t size = count * sizeof(float);
	int rc = job_begin(&s->job, sealed, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	s->job.staged = staged;
	s->check = check_options;
	s->inputs = inputs;
	s->count = count;
	job_input(&s->job, "price", type, inputs, size);
	job_input(&s->job, "strike", type, inputs + count, size);
	job_input(&s->job, "years", type, inputs + 2 * count, size);
	job_output(&s->job, "call", type);
	job_output(&s->job, "put", type);
	job_operation(&s->job, "PRICE", "black_scholes",
		      json_pack("{s:s, s:s, s:s, s:s, s:s}", "price", "price", "strike", "strike", "years", "years",
				"output_call", "call", "output_put", "put"),
		      json_pack("{s:f, s:f}", "rate", rate, "volatility", volatility), NULL);
	return job_finish(&s->job, error);
}

/* The same work without the runner and without protection: pinned memory, buffers that stay, one stream. */
struct bare {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	const float *inputs;
	uint64_t size;           /* bytes of a vector */
	int batches;
	sgpu_devptr memory[VECTORS];
	void *host[VECTORS];
	struct sgpu_op_call call;
	struct sgpu_task tasks[VECTORS + 1];
};

static int run_bare_batch(struct bare *b, struct sgpu_error *error)
{
	int rc = SGPU_OK, synced;

	memset(b->tasks, 0, sizeof(b->tasks));
	for (int k = PRICE; rc == SGPU_OK && k <= YEARS; k++) {
		rc = sgpu_copy_in(b->stream, b->memory[k], b->host[k], b->size, &b->tasks[k]);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_bench_launch(b->bench, b->stream, &b->call, &b->tasks[VECTORS], error);
	}
	for (int k = CALL; rc == SGPU_OK && k <= PUT; k++) {
		rc = sgpu_copy_out(b->stream, b->host[k], b->memory[k], b->size, &b->tasks[k]);
	}
	synced = sgpu_stream_sync(b->stream, error);
	rc = rc == SGPU_OK ? synced : rc;
	return rc == SGPU_OK ? sgpu_bench_tasks(b->tasks, VECTORS + 1, error) : rc;
}

static int run_bare(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct bare *b = argument;
	int rc = SGPU_OK;

	(void)ns;
	for (int i = 0; rc == SGPU_OK && i < b->batches; i++) {
		rc = run_bare_batch(b, error);
	}
	return rc;
}

static int verify_bare(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;

	return check_prices(b->inputs, b->host[CALL], b->host[PUT], b->size / sizeof(float), error);
}

static int make_bare(struct sgpu_bench *bench, struct bare *b, const float *inputs, uint64_t count, int batches,
		     struct sgpu_error *error)
{
	int rc;

	*b = (struct bare){ .bench = bench, .inputs = inputs, .size = count * sizeof(float), .batches = batches };
	b->call.op = sgpu_op_find("black_scholes");
	b->call.param[sgpu_op_param(b->call.op, "rate")] = (struct sgpu_op_value){ true, rate };
	b->call.param[sgpu_op_param(b->call.op, "volatility")] = (struct sgpu_op_value){ true, volatility };
	rc = sgpu_stream_create(bench->device, &b->stream, error);
	for (int k = 0; rc == SGPU_OK && k < VECTORS; k++) {
		rc = sgpu_device_alloc(bench->device, b->size, &b->memory[k], error);
		if (rc == SGPU_OK) {
			rc = sgpu_host_alloc(bench->device, b->size, &b->host[k], error);
		}
		if (rc == SGPU_OK) {
			memcpy(b->host[k], inputs + (k <= YEARS ? k : 0) * count, b->size);
		}
		b->call.type[k] = (struct sgpu_type){ SGPU_F32, 1, { count, 0, 0, 0 } };
		b->call.present[k] = true;
		b->call.data[k] = (void *)(uintptr_t)b->memory[k];
	}
	return rc;
}

static void free_bare(struct bare *b)
{
	sgpu_stream_free(&b->stream);
	for (int k = 0; k < VECTORS; k++) {
		sgpu_device_free(b->bench->device, &b->memory[k], b->size);
		sgpu_host_free(b->bench->device, &b->host[k], b->size);
	}
}

/* What Graviton compares: the application with its whole protection, and without any. */
static int measure_bare(struct sgpu_bench *bench, struct side *sealed, const float *inputs, struct sgpu_error *error)
{
	struct bare bare;
	const struct sgpu_bench_variant variants[] = {
		{ .name = "bare calls", .run = run_bare, .verify = verify_bare, .argument = &bare },
		{ .name = "sealed", .run = run_side, .verify = verify_side, .argument = sealed, .reference_ratio = 1.26,
		  .reference = "Graviton, BlackScholes" },
	};
	const uint64_t bytes = VECTORS * sealed->count * sizeof(float), batches = (uint64_t)sealed->batches;
	const struct sgpu_bench_point point = {
		.parameters = { { "app", "black_scholes", 0 }, { "device", job_device_text(false), 0 },
				{ "payloads", payloads_text(false), 0 }, { "against", "bare calls", 0 }, { "batches", NULL, batches },
				{ "batch_bytes", NULL, bytes } },
		.bytes = batches * bytes, .operations = batches,
	};
	int rc = make_bare(bench, &bare, inputs, sealed->count, sealed->batches, error);

	sealed->opens = false;
	if (rc == SGPU_OK) {
		rc = sgpu_bench_measure(bench, &point, variants, 2, error);
	}
	free_bare(&bare);
	return rc;
}

static int run_options(struct sgpu_bench *bench, struct side sides[2], struct sgpu_error *error)
{
	uint64_t count = bench->options.quick ? OPTIONS_QUICK : OPTIONS;
	int batches = bench->options.quick ? BATCHES_QUICK : BATCHES, rc = SGPU_OK;
	float *inputs = malloc(VECTORS * count * sizeof(*inputs));

	if (!inputs) {
		return sgpu_fail_nomem(error);
	}
	fill_options(inputs, inputs + count, inputs + 2 * count, count);
	for (size_t w = 0; rc == SGPU_OK && w < SGPU_ARRAY_LENGTH(ways); w++) {
		clear_sides(sides);
		for (int i = 0; rc == SGPU_OK && i < 2; i++) {
			rc = make_options(&sides[i], i == SEALED, ways[w].staged, count, inputs, error);
			sides[i].output = inputs + CALL * count;
		}
		if (rc == SGPU_OK) {
			rc = measure(bench, "black_scholes", batches, VECTORS * count * sizeof(float), sides, &ways[w], error);
		}
	}
	if (rc == SGPU_OK) {
		rc = measure_bare(bench, &sides[SEALED], inputs, error);
	}
	free(inputs);
	return rc;
}

/* ---- fashion-knn ---- */
enum { KNOWN = 10000, ASKED = 2000, PIXELS = 784, CLASSES = 10 };

struct pictures {
	uint8_t known[KNOWN][PIXELS], asked[ASKED][PIXELS], labels[KNOWN];
	int32_t found[ASKED];
};

/* A picture of a class: its prototype with some noise, by far nearer to it than to another class's. */
static void draw(uint8_t *picture, int class, uint64_t number)
{
	for (int i = 0; i < PIXELS; i++) {
		uint64_t shape = (uint64_t)(class * PIXELS + i + 1) * 0x9e3779b97f4a7c15u;
		uint64_t noise = (number * PIXELS + (uint64_t)i + 1) * 0xbf58476d1ce4e5b9u;

		picture[i] = (uint8_t)((shape >> 56) / 2 + (noise >> 58));
	}
}

static int check_pictures(struct side *s, struct sgpu_error *error)
{
	int32_t *found = s->output;
	int rc = job_read(&s->job, "found", found, ASKED * sizeof(*found), error);

	for (int i = 0; rc == SGPU_OK && i < ASKED; i++) {
		if (found[i] != i % CLASSES) {
			rc = sgpu_fail(error, SGPU_EDIFFERS, "picture %d is taken for class %d, not %d", i, (int)found[i],
				       i % CLASSES);
		}
	}
	return rc;
}

static int make_pictures(struct side *s, bool sealed, bool staged, struct pictures *pictures,
			 struct sgpu_error *error)
{
	int rc = job_begin(&s->job, sealed, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	s->job.staged = staged;
	s->check = check_pictures;
	s->output = pictures->found;
	job_input(&s->job, "known", (struct job_type){ "u8", { KNOWN, PIXELS } }, pictures->known, sizeof(pictures->known));
	job_input(&s->job, "labels", (struct job_type){ "u8", { KNOWN } }, pictures->labels, sizeof(pictures->labels));
	job_input(&s->job, "asked", (struct job_type){ "u8", { ASKED, PIXELS } }, pictures->asked, sizeof(pictures->asked));
	job_between(&s->job, "known_rows");
	job_between(&s->job, "asked_rows");
	job_output(&s->job, "found", (struct job_type){ "i32", { ASKED } });
	job_operation(&s->job, "CONVERT_KNOWN", "cast", json_pack("{s:s, s:s}", "input", "known", "output", "known_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(&s->job, "CONVERT_ASKED", "cast", json_pack("{s:s, s:s}", "input", "asked", "output", "asked_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(&s->job, "CLASSIFY", "nearest",
		      json_pack("{s:s, s:s, s:s, s:s}", "a", "asked_rows", "b", "known_rows", "labels", "labels", "output",
				"found"), json_pack("{s:i}", "k", 5), NULL);
	return job_finish(&s->job, error);
}

static int run_pictures(struct sgpu_bench *bench, struct side sides[2], struct sgpu_error *error)
{
	struct pictures *pictures = malloc(sizeof(*pictures));
	int rc = SGPU_OK;

	if (!pictures) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < KNOWN; i++) {
		pictures->labels[i] = (uint8_t)(i % CLASSES);
		draw(pictures->known[i], i % CLASSES, (uint64_t)i);
	}
	for (int i = 0; i < ASKED; i++) {
		draw(pictures->asked[i], i % CLASSES, (uint64_t)(KNOWN + i));
	}
	for (size_t w = 0; rc == SGPU_OK && w < SGPU_ARRAY_LENGTH(ways); w++) {
		clear_sides(sides);
		for (int i = 0; rc == SGPU_OK && i < 2; i++) {
			rc = make_pictures(&sides[i], i == SEALED, ways[w].staged, pictures, error);
		}
		if (rc == SGPU_OK) {
			rc = measure(bench, "fashion-knn", 1, sizeof(*pictures), sides, &ways[w], error);
		}
	}
	free(pictures);
	return rc;
}

/* ---- all of it ---- */
static int run_app(struct sgpu_bench *bench, int (*app)(struct sgpu_bench *, struct side *, struct sgpu_error *),
		   struct sgpu_error *error)
{
	struct side *sides = calloc(2, sizeof(*sides));
	int rc = sides ? app(bench, sides, error) : sgpu_fail_nomem(error);

	if (sides) {
		clear_sides(sides);
	}
	free(sides);
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	int rc = run_app(bench, run_options, error);

	(void)state; /* --size does not count: an application has the size that it has */
	return rc == SGPU_OK ? run_app(bench, run_pictures, error) : rc;
}

const struct sgpu_bench_case case_app = {
	.name = "app",
	.help = "whole applications, sealed and unsealed: black_scholes, fashion-knn",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
