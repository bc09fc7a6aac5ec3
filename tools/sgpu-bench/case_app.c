/* SPDX-License-Identifier: Apache-2.0
 *
 * app: a whole application, from the batch to its response: sealed and in a secure context, as
 * sgpu-run runs it, and unsealed on the plain device.
 */
#include <math.h>
#include <string.h>

#include "cases.h"
#include "job.h"

/* ---- what is measured ---- */
/* A way to run batches: opens the device for each; stages payloads. Graviton's paper compares with
 * and without protection; against bare calls, several batches also run at a time. */
struct way {
	bool opens, staged;
	int at_once; /* batches at a time; 0: not compared with bare calls */
};
enum { WAYS = 6 };
static const struct way ways[WAYS] = { { false, false, 0 },
				       { false, false, 1 },
				       { false, true, 0 },
				       { false, true, 1 },
				       { false, true, JOB_AT_ONCE_MAX },
				       { true, false, 0 } };

enum { BARE, UNSEALED, SEALED, SIDES };
static const char *const names[SIDES] = { "bare calls", "unsealed", "sealed" };

/* side: the members that all sides have in common. */
static int measure_app(struct sgpu_bench *bench, uint64_t batch_bytes, const struct job_side *side,
		       struct sgpu_error *error)
{
	const uint64_t batches = (uint64_t)side->batches;
	struct job_side sides[SIDES];
	int rc = SGPU_OK;

	for (const struct way *way = ways; rc == SGPU_OK && way < ways + WAYS; way++) {
		const struct sgpu_bench_point point = {
			.parameters = { { "app", "black_scholes", 0 },
					{ "device", way->opens ? "opened for a batch" : "resident",
					  0 },
					{ "payloads", way->staged ? "staged" : "inline", 0 },
					{ "batches", NULL, batches },
					{ "batch_bytes", NULL, batch_bytes },
					{ way->at_once ? "against" : NULL, "bare calls", 0 },
					{ way->at_once ? "at_once" : NULL, NULL,
					  (uint64_t)way->at_once } },
			.bytes = batches * batch_bytes,
			.operations = batches,
		};

		for (int i = 0; i < SIDES; i++) {
			sides[i] = *side;
			sides[i].name = names[i];
			sides[i].sealed = i >= SEALED;
			sides[i].opens = way->opens;
			sides[i].staged = way->staged;
			sides[i].at_once = way->at_once;
		}
		sides[BARE].add = NULL;
		rc = job_measure(bench, &point, &sides[way->at_once ? BARE : UNSEALED],
				 way->at_once ? 3 : 2, error);
	}
	return rc;
}

/* ---- black_scholes ---- */
/* As Graviton ran it (Volos, Vaswani, Bruno, OSDI 2018): batches of 4 million options. */
enum { PRICE, STRIKE, YEARS, INPUTS, VECTORS = 5 };
enum { OPTIONS = 4000000, OPTIONS_QUICK = 250000, BATCHES = 10, BATCHES_QUICK = 2, CHECKED = 1000 };
static const double rate = 0.02, volatility = 0.30;

static double normal(double x)
{
	return 0.5 * erfc(-x * M_SQRT1_2);
}

/* Returns the price of a call by the textbook formula. */
static double call_price(double price, double strike, double years)
{
	double deviation = volatility * sqrt(years);
	double d1 =
		(log(price / strike) + (rate + volatility * volatility / 2) * years) / deviation;

	return price * normal(d1) - strike * exp(-rate * years) * normal(d1 - deviation);
}

/* Checks some calls by the formula, and all puts by put-call parity. */
static int check_prices(const struct job_side *side, const void *results, uint64_t size,
			struct sgpu_error *error)
{
	const uint64_t count = size / sizeof(float) / 2;
	const float *price = side->data, *strike = price + count, *years = strike + count;
	const float *call = results, *put = call + count;

	for (uint64_t i = 0; i < count; i++) {
		double parity = (double)call[i] - price[i] +
				strike[i] * exp(-rate * (double)years[i]) - put[i];
		double wanted = i % (count / CHECKED) == 0
					? call_price(price[i], strike[i], years[i])
					: call[i];

		if (!(fabs(parity) < 1e-3 && fabs(wanted - call[i]) < 1e-3)) {
			return sgpu_fail(error, SGPU_EDIFFERS,
					 "option %llu has the prices %g and %g",
					 (unsigned long long)i, (double)call[i], (double)put[i]);
		}
	}
	return SGPU_OK;
}

/* Fills in options in the ranges of the NVIDIA toolkit's sample: price 5 to 30, strike 1 to 100,
 * 0.25 to 10 years. */
static void fill_options(float *price, uint64_t count)
{
	float *strike = price + count, *years = strike + count;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;

		z ^= z >> 31;
		price[i] = 5.0f + 25.0f * (float)(z & 0xffff) / 65535.0f;
		strike[i] = 1.0f + 99.0f * (float)(z >> 16 & 0xffff) / 65535.0f;
		years[i] = 0.25f + 9.75f * (float)(z >> 32 & 0xffff) / 65535.0f;
	}
}

static void add_options(struct bench_job *job, const struct job_side *side)
{
	const uint64_t count = side->size / sizeof(float);
	const struct job_type type = { "f32", { count } };
	const float *inputs = side->data;

	job_segment(job, JOB_INPUT, "price", type, inputs + PRICE * count);
	job_segment(job, JOB_INPUT, "strike", type, inputs + STRIKE * count);
	job_segment(job, JOB_INPUT, "years", type, inputs + YEARS * count);
	job_segment(job, JOB_OUTPUT, "call", type, NULL);
	job_segment(job, JOB_OUTPUT, "put", type, NULL);
	job_operation(job, "PRICE", "black_scholes",
		      json_pack("{s:s, s:s, s:s, s:s, s:s}", "price", "price", "strike", "strike",
				"years", "years", "output_call", "call", "output_put", "put"),
		      json_pack("{s:f, s:f}", "rate", rate, "volatility", volatility), NULL);
}

static int new_bare(struct sgpu_bench *bench, const struct job_side *side, struct bare **bare,
		    struct sgpu_error *error)
{
	int rc = bare_new(bench, "black_scholes", side->size, bare, error);

	if (rc == SGPU_OK) {
		struct sgpu_op_call *call = &(*bare)->call;

		call->param[sgpu_op_param(call->op, "rate")] = (struct sgpu_op_value){ true, rate };
		call->param[sgpu_op_param(call->op, "volatility")] =
			(struct sgpu_op_value){ true, volatility };
		memcpy((*bare)->host[PRICE], side->data, INPUTS * side->size);
	}
	return rc;
}

int bench_app(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const bool quick = bench->options.quick;
	const uint64_t count = quick ? OPTIONS_QUICK : OPTIONS, size = count * sizeof(float);
	struct job_side side = { .batches = quick ? BATCHES_QUICK : BATCHES,
				 .add = add_options,
				 .new_bare = new_bare,
				 .check = check_prices,
				 .size = size };
	void *inputs = sgpu_bench_new(bench, INPUTS * size, NULL, error);

	if (!inputs) {
		return SGPU_ENOMEM;
	}
	fill_options(inputs, count);
	side.data = inputs;
	return measure_app(bench, VECTORS * size, &side, error);
}
