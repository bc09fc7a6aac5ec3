/* SPDX-License-Identifier: Apache-2.0
 *
 * black_scholes as Graviton ran it (Volos, Vaswani, Bruno, OSDI 2018): batches of 4 million options, one after another.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/ops.h>

#include "app.h"

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
			return sgpu_fail(error, SGPU_EDIFFERS, "option %llu has the prices %g and %g",
					 (unsigned long long)i,
					 (double)call[i], (double)put[i]);
		}
	}
	return SGPU_OK;
}

static int check_options(struct app_side *s, struct sgpu_error *error)
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

static int make_options(struct app_side *s, bool sealed, bool staged, uint64_t count, const float *inputs,
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

/* What Graviton compares: the application with its whole protection, and without any; and with the runner alone. */
static int measure_bare(struct sgpu_bench *bench, struct app_side sides[SIDES], bool staged, const float *inputs,
			struct sgpu_error *error)
{
	const struct app_side *sealed = &sides[SEALED];
	struct bare bare;
	const struct sgpu_bench_variant variants[] = {
		{ .name = "bare calls", .run = run_bare, .verify = verify_bare, .argument = &bare },
		{ .name = "unsealed", .run = app_run_side, .verify = app_verify_side, .argument = &sides[UNSEALED] },
		{ .name = "sealed", .run = app_run_side, .verify = app_verify_side, .argument = &sides[SEALED],
		  .reference_ratio = 1.26,
		  .reference = "Graviton, BlackScholes" },
	};
	const uint64_t bytes = VECTORS * sealed->count * sizeof(float), batches = (uint64_t)sealed->batches;
	const struct sgpu_bench_point point = {
		.parameters = { { "app", "black_scholes", 0 }, { "device", job_device_text(false), 0 },
				{ "payloads", app_payloads_text(staged), 0 }, { "against", "bare calls",
									       0 }, { "batches", NULL, batches },
				{ "batch_bytes", NULL, bytes } },
		.bytes = batches * bytes, .operations = batches,
	};
	int rc = make_bare(bench, &bare, inputs, sealed->count, sealed->batches, error);

	if (rc == SGPU_OK) {
		rc = sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
	}
	free_bare(&bare);
	return rc;
}

int app_black_scholes(struct sgpu_bench *bench, struct app_side sides[SIDES], struct sgpu_error *error)
{
	uint64_t count = bench->options.quick ? OPTIONS_QUICK : OPTIONS;
	int batches = bench->options.quick ? BATCHES_QUICK : BATCHES, rc = SGPU_OK;
	float *inputs = malloc(VECTORS * count * sizeof(*inputs));

	if (!inputs) {
		return sgpu_fail_nomem(error);
	}
	fill_options(inputs, inputs + count, inputs + 2 * count, count);
	for (size_t w = 0; rc == SGPU_OK && w < APP_WAYS; w++) {
		app_clear_sides(sides);
		for (int i = 0; rc == SGPU_OK && i < 2; i++) {
			rc = make_options(&sides[i], i == SEALED, app_ways[w].staged, count, inputs, error);
			sides[i].output = inputs + CALL * count;
		}
		if (rc == SGPU_OK) {
			rc = app_measure(bench, "black_scholes", batches, VECTORS * count * sizeof(float), sides,
					 &app_ways[w], error);
		}
		if (rc == SGPU_OK && !app_ways[w].opens) {
			rc = measure_bare(bench, sides, app_ways[w].staged, inputs, error);
		}
	}
	free(inputs);
	return rc;
}
