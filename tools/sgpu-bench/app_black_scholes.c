/* SPDX-License-Identifier: Apache-2.0
 *
 * black_scholes as Graviton ran it (Volos, Vaswani, Bruno, OSDI 2018): batches of 4 million options, one after another.
 */
#include <math.h>
#include <string.h>

#include <sgpu/ops.h>

#include "app.h"
#include "memory.h"

enum { PRICE, STRIKE, YEARS, CALL, PUT, VECTORS };
enum { LANES = 4 }; /* batches under way at once, where several are */
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

static int check_options(struct job_side *s, struct sgpu_error *error)
{
	float *call = s->output, *put = call + s->count;
	int rc = job_read(s->job, "call", call, s->count * sizeof(float), error);

	if (rc == SGPU_OK) {
		rc = job_read(s->job, "put", put, s->count * sizeof(float), error);
	}
	return rc == SGPU_OK ? check_prices(s->data, call, put, s->count, error) : rc;
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

static int make_job(const struct app *app, struct job_side *s, bool sealed, bool staged, struct sgpu_error *error)
{
	const uint64_t size = app->batch_bytes / VECTORS, count = size / sizeof(float);
	const struct job_type type = { "f32", { count } };
	float *inputs = app->data;
	int rc = job_new(s->bench, sealed, &s->job, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	s->job->staged = staged;
	s->check = check_options;
	s->data = inputs;
	s->count = count;
	s->output = inputs + CALL * count;
	job_input(s->job, "price", type, inputs, size);
	job_input(s->job, "strike", type, inputs + count, size);
	job_input(s->job, "years", type, inputs + 2 * count, size);
	job_output(s->job, "call", type);
	job_output(s->job, "put", type);
	job_operation(s->job, "PRICE", "black_scholes",
		      json_pack("{s:s, s:s, s:s, s:s, s:s}", "price", "price", "strike", "strike", "years", "years",
				"output_call", "call", "output_put", "put"),
		      json_pack("{s:f, s:f}", "rate", rate, "volatility", volatility), NULL);
	return job_finish(s->job, error);
}

/* ---- batches under way at once: one is begun when the oldest has ended ---- */
/* Sides with a job each, of as many batches in all. */
struct jobs {
	struct job_side sides[LANES];
	int batches, count;
};

static int run_jobs(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct jobs *jobs = argument;
	struct sgpu_run *runs[LANES] = { NULL };
	const uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < jobs->batches + jobs->count; i++) {
		struct job_side *s = &jobs->sides[i % jobs->count];

		rc = job_wait(s->job, &runs[i % jobs->count], error);
		if (rc == SGPU_OK && i < jobs->batches) {
			rc = job_submit(s->job, s->place, &runs[i % jobs->count], error);
		}
	}
	for (int i = 0; i < LANES; i++) {
		sgpu_run_free(&runs[i]); /* after a failure, of another batch */
	}
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int verify_jobs(void *argument, struct sgpu_error *error)
{
	struct jobs *jobs = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < jobs->count && i < jobs->batches; i++) {
		rc = check_options(&jobs->sides[i], error);
	}
	return rc;
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
	struct lane lanes[LANES];
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
	lane->busy = false;
	return bench_finish(lane->stream, SGPU_OK, lane->tasks, VECTORS + 1, "run a batch", error);
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
	rc = sgpu_bench_new_stream(b->bench, b->bench->device, &lane->stream, error);
	for (int k = 0; rc == SGPU_OK && k < VECTORS; k++) {
		rc = sgpu_bench_new_device_memory(b->bench, b->size, &lane->memory[k], error);
		rc = rc ? rc : sgpu_bench_new_pinned(b->bench, b->size, &lane->host[k], error);
		if (rc == SGPU_OK) {
			memcpy(lane->host[k], b->inputs + (k <= YEARS ? k : 0) * count, b->size);
		}
		lane->call.type[k] = (struct sgpu_type){ SGPU_F32, 1, { count, 0, 0, 0 } };
		lane->call.present[k] = true;
		lane->call.data[k] = (void *)(uintptr_t)lane->memory[k];
	}
	return rc;
}

/* What Graviton compares: the application with its whole protection, and without any; and with the runner alone. */
static int measure_lanes(struct sgpu_bench *bench, const struct app *app, const struct job_place *place, bool staged,
			 int lanes, struct sgpu_error *error)
{
	struct bare bare = { .bench = bench, .inputs = app->data, .size = app->batch_bytes / VECTORS,
			     .batches = app->batches, .count = lanes };
	struct jobs jobs[] = { { .batches = app->batches, .count = lanes }, { .batches = app->batches, .count = lanes } };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "bare calls", .run = run_bare, .verify = verify_bare, .argument = &bare },
		{ .name = "unsealed", .run = run_jobs, .verify = verify_jobs, .argument = &jobs[0] },
		{ .name = "sealed", .run = run_jobs, .verify = verify_jobs, .argument = &jobs[1] },
	};
	const uint64_t batches = (uint64_t)app->batches;
	const struct sgpu_bench_point point = {
		.parameters = { { "app", app->name, 0 }, { "device", job_device_text(false), 0 },
				{ "payloads", app_payloads_text(staged), 0 }, { "against", "bare calls", 0 },
				{ "batches", NULL, batches }, { "at_once", NULL, (uint64_t)lanes },
				{ "batch_bytes", NULL, app->batch_bytes } },
		.bytes = batches * app->batch_bytes, .operations = batches, .bytes_formula = "batches * batch_bytes",
	};
	const size_t mark = sgpu_bench_mark(bench);
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < lanes; i++) {
		rc = make_lane(&bare, &bare.lanes[i], error);
		for (int sealed = 0; rc == SGPU_OK && sealed < 2; sealed++) {
			jobs[sealed].sides[i] = (struct job_side){ .bench = bench, .place = place };
			rc = app->make(app, &jobs[sealed].sides[i], sealed, staged, error);
		}
	}
	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
	sgpu_bench_release(bench, mark);
	return rc;
}

/* One batch after the other, and several at once, which a runner that stays is for. */
static int measure_bare(struct sgpu_bench *bench, const struct app *app, const struct job_place *place, bool staged,
			struct sgpu_error *error)
{
	int rc = measure_lanes(bench, app, place, staged, 1, error);

	return rc || !staged ? rc : measure_lanes(bench, app, place, staged, LANES, error);
}

int app_black_scholes(struct sgpu_bench *bench, const struct job_place *place, struct sgpu_error *error)
{
	const bool quick = bench->options.quick;
	const uint64_t count = quick ? OPTIONS_QUICK : OPTIONS;
	struct app app = { .name = "black_scholes", .batches = quick ? BATCHES_QUICK : BATCHES,
			   .batch_bytes = VECTORS * count * sizeof(float), .make = make_job, .more = measure_bare };
	int rc = sgpu_bench_new(bench, app.batch_bytes, &app.data, error);
	float *inputs = app.data;

	if (rc != SGPU_OK) {
		return rc;
	}
	fill_options(inputs, inputs + count, inputs + 2 * count, count);
	return app_measure(bench, place, &app, error);
}
