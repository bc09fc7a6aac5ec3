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

/* The same work without the runner and without protection: pinned memory, buffers that stay, a stream for each batch that
 * is under way. */
struct lane {
	struct sgpu_stream *stream;
	sgpu_devptr memory[VECTORS];
	void *host[VECTORS];
	struct sgpu_op_call call;
	struct sgpu_task tasks[VECTORS + 1];
	bool busy;
};

struct bare {
	struct sgpu_bench *bench;
	const float *inputs;
	uint64_t size;           /* bytes of a vector */
	int batches, count;
	struct lane lanes[APP_LANES];
};

static int begin_bare_batch(struct bare *b, struct lane *lane, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	memset(lane->tasks, 0, sizeof(lane->tasks));
	lane->busy = true;
	for (int k = PRICE; rc == SGPU_OK && k <= YEARS; k++) {
		rc = sgpu_copy_in(lane->stream, lane->memory[k], lane->host[k], b->size, &lane->tasks[k]);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_bench_launch(b->bench, lane->stream, &lane->call, &lane->tasks[VECTORS], error);
	}
	for (int k = CALL; rc == SGPU_OK && k <= PUT; k++) {
		rc = sgpu_copy_out(lane->stream, lane->host[k], lane->memory[k], b->size, &lane->tasks[k]);
	}
	return rc;
}

static int end_bare_batch(struct lane *lane, struct sgpu_error *error)
{
	int rc = sgpu_stream_sync(lane->stream, error);

	lane->busy = false;
	return rc == SGPU_OK ? sgpu_bench_tasks(lane->tasks, VECTORS + 1, error) : rc;
}

static int run_bare(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct bare *b = argument;
	int rc = SGPU_OK;

	(void)ns;
	for (int i = 0; rc == SGPU_OK && i < b->batches + b->count; i++) {
		struct lane *lane = &b->lanes[i % b->count];

		rc = lane->busy ? end_bare_batch(lane, error) : SGPU_OK;
		if (rc == SGPU_OK && i < b->batches) {
			rc = begin_bare_batch(b, lane, error);
		}
	}
	return rc;
}

static int verify_bare(void *argument, struct sgpu_error *error)
{
	struct bare *b = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < b->count && i < b->batches; i++) {
		rc = check_prices(b->inputs, b->lanes[i].host[CALL], b->lanes[i].host[PUT], b->size / sizeof(float), error);
	}
	return rc;
}

static int make_lane(struct bare *b, struct lane *lane, struct sgpu_error *error)
{
	const uint64_t count = b->size / sizeof(float);
	int rc;

	lane->call.op = sgpu_op_find("black_scholes");
	lane->call.param[sgpu_op_param(lane->call.op, "rate")] = (struct sgpu_op_value){ true, rate };
	lane->call.param[sgpu_op_param(lane->call.op, "volatility")] = (struct sgpu_op_value){ true, volatility };
	rc = sgpu_stream_create(b->bench->device, &lane->stream, error);
	for (int k = 0; rc == SGPU_OK && k < VECTORS; k++) {
		rc = sgpu_device_alloc(b->bench->device, b->size, &lane->memory[k], error);
		if (rc == SGPU_OK) {
			rc = sgpu_host_alloc(b->bench->device, b->size, &lane->host[k], error);
		}
		if (rc == SGPU_OK) {
			memcpy(lane->host[k], b->inputs + (k <= YEARS ? k : 0) * count, b->size);
		}
		lane->call.type[k] = (struct sgpu_type){ SGPU_F32, 1, { count, 0, 0, 0 } };
		lane->call.present[k] = true;
		lane->call.data[k] = (void *)(uintptr_t)lane->memory[k];
	}
	return rc;
}

static void free_bare(struct bare *b)
{
	for (int i = 0; i < b->count; i++) {
		struct lane *lane = &b->lanes[i];

		sgpu_stream_free(&lane->stream);
		for (int k = 0; k < VECTORS; k++) {
			sgpu_device_free(b->bench->device, &lane->memory[k], b->size);
			sgpu_host_free(b->bench->device, &lane->host[k], b->size);
		}
	}
}

/* What Graviton compares: the application with its whole protection, and without any; and with the runner alone.
 * There are `lanes` of each side. */
static int measure_bare(struct sgpu_bench *bench, struct app_side *unsealed, struct app_side *sealed, int lanes,
			const char *payloads, struct sgpu_error *error)
{
	struct bare bare = { .bench = bench, .inputs = sealed->inputs, .size = sealed->count * sizeof(float),
			     .batches = sealed->batches, .count = lanes };
	int (*const run)(void *, uint64_t *, struct sgpu_error *) = lanes > 1 ? app_run_lanes : app_run_side;
	int (*const verify)(void *, struct sgpu_error *) = lanes > 1 ? app_verify_lanes : app_verify_side;
	const struct sgpu_bench_variant variants[] = {
		{ .name = "bare calls", .run = run_bare, .verify = verify_bare, .argument = &bare },
		{ .name = "unsealed", .run = run, .verify = verify, .argument = unsealed },
		{ .name = "sealed", .run = run, .verify = verify, .argument = sealed },
	};
	const uint64_t bytes = VECTORS * sealed->count * sizeof(float), batches = (uint64_t)sealed->batches;
	const struct sgpu_bench_point point = {
		.parameters = { { "app", "black_scholes", 0 }, { "device", job_device_text(false), 0 },
				{ "payloads", payloads, 0 }, { "against", "bare calls", 0 }, { "batches", NULL, batches },
				{ "at_once", NULL, (uint64_t)lanes }, { "batch_bytes", NULL, bytes } },
		.bytes = batches * bytes, .operations = batches, .bytes_formula = "batches * batch_bytes",
	};
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < lanes; i++) {
		rc = make_lane(&bare, &bare.lanes[i], error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
	}
	free_bare(&bare);
	return rc;
}

/* Several batches under way at once, which a runner that stays is for. */
static int measure_lanes(struct sgpu_bench *bench, const struct app_side *model, uint64_t count, const float *inputs,
			 struct sgpu_error *error)
{
	struct app_side *lanes = calloc((size_t)SIDES * APP_LANES, sizeof(*lanes));
	int rc = lanes ? SGPU_OK : sgpu_fail_nomem(error);

	for (int i = 0; rc == SGPU_OK && i < SIDES * APP_LANES; i++) {
		lanes[i] = (struct app_side){ .bench = bench, .place = model->place, .batches = model->batches };
		rc = make_options(&lanes[i], i / APP_LANES == SEALED, true, count, inputs, error);
		lanes[i].output = model->output;
	}
	if (rc == SGPU_OK) {
		rc = measure_bare(bench, &lanes[UNSEALED * APP_LANES], &lanes[SEALED * APP_LANES], APP_LANES,
				  app_payloads_text(true), error);
	}
	for (int i = 0; lanes && i < SIDES * APP_LANES; i++) {
		job_clear(&lanes[i].job);
	}
	free(lanes);
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
			rc = measure_bare(bench, &sides[UNSEALED], &sides[SEALED], 1,
					  app_payloads_text(app_ways[w].staged), error);
		}
		if (rc == SGPU_OK && !app_ways[w].opens && app_ways[w].staged) {
			rc = measure_lanes(bench, &sides[SEALED], count, inputs, error);
		}
	}
	free(inputs);
	return rc;
}
