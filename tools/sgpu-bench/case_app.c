/* SPDX-License-Identifier: Apache-2.0
 *
 * app: whole applications, from the batch to its response: sealed and in a secure context, as
 * sgpu-run runs them, and unsealed on the plain device.
 */
#include <math.h>
#include <string.h>

#include "cases.h"
#include "job.h"

/* ---- what is measured of each application ---- */
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
static int measure_app(struct sgpu_bench *bench, const char *app, uint64_t batch_bytes,
		       const struct job_side *side, struct sgpu_error *error)
{
	const uint64_t batches = (uint64_t)side->batches;
	struct job_side sides[SIDES];
	int rc = SGPU_OK;

	for (const struct way *way = ways; rc == SGPU_OK && way < ways + WAYS; way++) {
		const struct sgpu_bench_point point = {
			.parameters = { { "app", app, 0 },
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

		if (way->at_once && !side->new_bare) {
			continue;
		}
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

static void add_options(struct job *job, const struct job_side *side)
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

static int measure_black_scholes(struct sgpu_bench *bench, struct sgpu_error *error)
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
	return measure_app(bench, "black_scholes", VECTORS * size, &side, error);
}

/* ---- fashion-knn ---- */
/* As examples/fashion-knn, but with generated pictures, whose classes are known. */
enum {
	KNOWN = 10000,
	ASKED = 2000,
	PIXELS = 784,
	CLASSES = 10,
	QUICK = 4 /* divides KNOWN and ASKED */
};

struct pictures {
	uint8_t known[KNOWN][PIXELS], asked[ASKED][PIXELS], labels[KNOWN];
	uint64_t known_count, asked_count;
};

static int check_classes(const struct job_side *side, const void *results, uint64_t size,
			 struct sgpu_error *error)
{
	const int32_t *found = results;

	(void)side;
	for (int i = 0; i < (int)(size / sizeof(*found)); i++) {
		if (found[i] != i % CLASSES) {
			return sgpu_fail(error, SGPU_EDIFFERS,
					 "picture %d is taken for class %d, not %d", i,
					 (int)found[i], i % CLASSES);
		}
	}
	return SGPU_OK;
}

static void add_pictures(struct job *job, const struct job_side *side)
{
	const struct pictures *pictures = side->data;
	const uint64_t known = pictures->known_count, asked = pictures->asked_count;
	const struct job_type between = { NULL, { 0 } };

	job_segment(job, JOB_INPUT, "known", (struct job_type){ "u8", { known, PIXELS } },
		    pictures->known);
	job_segment(job, JOB_INPUT, "labels", (struct job_type){ "u8", { known } },
		    pictures->labels);
	job_segment(job, JOB_INPUT, "asked", (struct job_type){ "u8", { asked, PIXELS } },
		    pictures->asked);
	job_segment(job, JOB_BETWEEN, "known_rows", between, NULL);
	job_segment(job, JOB_BETWEEN, "asked_rows", between, NULL);
	job_segment(job, JOB_OUTPUT, "found", (struct job_type){ "i32", { asked } }, NULL);
	job_operation(job, "CONVERT_KNOWN", "cast",
		      json_pack("{s:s, s:s}", "input", "known", "output", "known_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(job, "CONVERT_ASKED", "cast",
		      json_pack("{s:s, s:s}", "input", "asked", "output", "asked_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(job, "CLASSIFY", "nearest",
		      json_pack("{s:s, s:s, s:s, s:s}", "a", "asked_rows", "b", "known_rows",
				"labels", "labels", "output", "found"),
		      json_pack("{s:i}", "k", 5), NULL);
}

static int measure_fashion_knn(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct job_side side = { .batches = 1, .add = add_pictures, .check = check_classes };
	struct pictures *pictures = sgpu_bench_new(bench, sizeof(*pictures), NULL, error);

	if (!pictures) {
		return SGPU_ENOMEM;
	}
	side.data = pictures;
	pictures->known_count = bench->options.quick ? KNOWN / QUICK : KNOWN;
	pictures->asked_count = bench->options.quick ? ASKED / QUICK : ASKED;
	for (uint64_t i = 0; i < pictures->known_count; i++) {
		pictures->labels[i] = (uint8_t)(i % CLASSES);
		bench_draw(pictures->known[i], i % CLASSES, i);
	}
	for (uint64_t i = 0; i < pictures->asked_count; i++) {
		bench_draw(pictures->asked[i], i % CLASSES, KNOWN + i);
	}
	return measure_app(bench, "fashion-knn",
			   pictures->known_count * (PIXELS + 1) +
				   pictures->asked_count * (PIXELS + sizeof(int32_t)),
			   &side, error);
}

int bench_app(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const int rc = measure_black_scholes(bench, error);

	return rc ? rc : measure_fashion_knn(bench, error);
}
