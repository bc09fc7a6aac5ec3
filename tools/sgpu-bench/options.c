/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that are priced by black_scholes: by jobs, and by direct calls of a device.
 */
#include <math.h>
#include <string.h>

#include "cases.h"
#include "job.h"

enum { PRICE, STRIKE, YEARS, CHECKED = 1000 };
static const double rate = 0.02, volatility = 0.30;

static double normal(double x)
{
	return 0.5 * erfc(-x * M_SQRT1_2);
}

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
		double wanted = i % (count / CHECKED + 1) == 0
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

/* The NVIDIA toolkit's sample has these ranges: price 5 to 30, strike 1 to 100, 0.25 to 10
 * years. */
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

static void options_add(struct bench_job *job, const struct job_side *side)
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

static void describe(const struct job_side *side, struct sgpu_op_call *call)
{
	call->op = sgpu_op_find("black_scholes");
	for (int k = 0; k < OPTIONS_VECTORS; k++) {
		call->type[k] =
			(struct sgpu_type){ SGPU_F32, 1, { side->size / sizeof(float), 0, 0, 0 } };
		call->present[k] = true;
	}
	call->param[sgpu_op_param(call->op, "rate")] = (struct sgpu_op_value){ true, rate };
	call->param[sgpu_op_param(call->op, "volatility")] =
		(struct sgpu_op_value){ true, volatility };
}

int options_check(const struct job_side *side, const void *results, struct sgpu_error *error)
{
	return check_prices(side, results, OPTIONS_OUTPUTS * side->size, error);
}

int options_new(struct sgpu_bench *bench, uint64_t size, struct job_side *side,
		struct sgpu_error *error)
{
	void *inputs = sgpu_bench_new(bench, OPTIONS_INPUTS * size, NULL, error);

	if (!inputs) {
		return SGPU_ENOMEM;
	}
	fill_options(inputs, size / sizeof(float));
	side->add = options_add;
	side->check = check_prices;
	side->data = inputs;
	side->size = size;
	return SGPU_OK;
}

/* ---- direct calls ---- */
enum { LINE = 256, BARE_TASKS = 2 * OPTIONS_VECTORS + 1 };

/* Vectors, the inputs first, and a launch on one stream. */
struct bare {
	struct sgpu_bench *bench;
	const struct job_side *side;
	struct sgpu_stream *stream;
	struct sgpu_op_call call;
	uint8_t *host; /* of the device's pool: all vectors, side->size bytes each */
	sgpu_devptr memory;
	/* All vectors as on the bus, a chunk run each: sealed_size bytes, `stride` bytes apart. */
	uint8_t *sealed_host;
	sgpu_devptr sealed_memory;
	uint64_t sealed_size, stride, chunks;
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead;
	struct sgpu_device_key *key;
	/* copies, then openings and sealings, then the launch */
	struct sgpu_task tasks[BARE_TASKS];
};

static uint64_t place(const struct bare *b, int k)
{
	return (uint64_t)k * b->side->size;
}

static uint64_t sealed_place(const struct bare *b, int k)
{
	return (uint64_t)k * b->stride;
}

static int new_memory(struct bare *b, uint64_t size, uint8_t **host, sgpu_devptr *memory,
		      struct sgpu_error *error)
{
	void *pinned = NULL;
	const int rc = sgpu_bench_new_pinned(b->bench, OPTIONS_VECTORS * size, &pinned, error);

	*host = pinned;
	return rc ? rc
		  : sgpu_bench_new_device_memory(b->bench, OPTIONS_VECTORS * size, memory, error);
}

static int seal_inputs(struct bare *b, struct sgpu_error *error)
{
	const uint8_t secret[SGPU_KEY_SIZE] = { 7 };
	int rc = sgpu_sealed_keys_new(secret, "", 0, &b->keys, error);

	rc = rc ? rc : bench_new_aead(b->bench, NULL, b->keys.key, &b->aead, error);
	rc = rc ? rc : bench_new_device_key(b->bench, b->stream, &b->keys, &b->key, error);
	for (int k = 0; rc == SGPU_OK && k < OPTIONS_INPUTS; k++) {
		rc = sgpu_seal_chunks(b->aead, &b->keys, (uint64_t)k * b->chunks, true,
				      b->host + place(b, k), b->side->size,
				      b->sealed_host + sealed_place(b, k));
	}
	return rc;
}

int bare_new(struct sgpu_bench *bench, const struct job_side *side, struct bare **bare,
	     struct sgpu_error *error)
{
	struct bare *b = *bare = sgpu_bench_new(bench, sizeof(*b), NULL, error);
	int rc;

	if (!b) {
		return SGPU_ENOMEM;
	}
	b->bench = bench;
	b->side = side;
	b->sealed_size = sgpu_run_sealed_size(side->size, true);
	b->stride = (b->sealed_size + LINE - 1) / LINE * LINE;
	b->chunks = side->size / SGPU_CHUNK + 1;
	rc = sgpu_bench_new_stream(bench, bench->device, &b->stream, error);
	rc = rc ? rc : new_memory(b, side->size, &b->host, &b->memory, error);
	rc = rc ? rc : new_memory(b, b->stride, &b->sealed_host, &b->sealed_memory, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	memcpy(b->host, side->data, OPTIONS_INPUTS * side->size);
	describe(side, &b->call);
	for (int k = 0; k < OPTIONS_VECTORS; k++) {
		b->call.data[k] = (void *)(uintptr_t)(b->memory + place(b, k));
	}
	return seal_inputs(b, error);
}

static void clear_tasks(struct bare *b)
{
	for (int i = 0; i < BARE_TASKS; i++) {
		b->tasks[i] = (struct sgpu_task){ .untimed = true };
	}
}

static int move(struct bare *b, int k)
{
	struct sgpu_task *task = &b->tasks[k], *other = &b->tasks[OPTIONS_VECTORS + k];
	const sgpu_devptr sealed = b->sealed_memory + sealed_place(b, k),
			  plain = b->memory + place(b, k);
	uint8_t *host = b->sealed_host + sealed_place(b, k);
	const uint64_t chunk = (uint64_t)k * b->chunks;
	int rc;

	if (k < OPTIONS_INPUTS) {
		rc = sgpu_copy_in(b->stream, sealed, host, b->sealed_size, task);
		return rc ? rc
			  : sgpu_device_open_chunks(b->stream, b->key, chunk, true, sealed,
						    b->sealed_size, plain, other);
	}
	rc = sgpu_device_seal_chunks(b->stream, b->key, chunk, true, plain, b->side->size, sealed,
				     other);
	return rc ? rc : sgpu_copy_out(b->stream, host, sealed, b->sealed_size, task);
}

int bare_prepare(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	const uint64_t outputs = place(b, OPTIONS_INPUTS);

	clear_tasks(b);
	memset(b->host + outputs, 0xff, OPTIONS_OUTPUTS * b->side->size);
	memset(b->sealed_host + sealed_place(b, OPTIONS_INPUTS), 0xff, OPTIONS_OUTPUTS * b->stride);
	return bench_to_device(b->stream, b->memory, b->host, place(b, OPTIONS_VECTORS), error);
}

static int launch(struct bare *b, struct sgpu_error *error)
{
	return sgpu_bench_launch(b->bench, b->stream, &b->call, &b->tasks[BARE_TASKS - 1], error);
}

int bare_run(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	int rc = SGPU_OK;

	clear_tasks(b);
	for (int k = 0; rc == SGPU_OK && k < OPTIONS_VECTORS; k++) {
		rc = k == OPTIONS_INPUTS ? launch(b, error) : SGPU_OK;
		rc = rc ? rc : move(b, k);
	}
	return bench_finish(b->stream, rc, b->tasks, BARE_TASKS, "run a batch", error);
}

int bare_check(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	uint64_t bad;
	int rc = SGPU_OK;

	for (int k = OPTIONS_INPUTS; rc == SGPU_OK && k < OPTIONS_VECTORS; k++) {
		rc = sgpu_open_chunks(b->aead, &b->keys, (uint64_t)k * b->chunks, true,
				      b->sealed_host + sealed_place(b, k), b->sealed_size,
				      b->host + place(b, k), &bad);
	}
	return rc ? sgpu_fail(error, rc, "what the device sealed does not open")
		  : options_check(b->side, b->host + place(b, OPTIONS_INPUTS), error);
}

int bare_launch(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	const int rc = launch(b, error);

	return bench_finish(b->stream, rc, b->tasks, BARE_TASKS, "launch an operation", error);
}

int bare_fetch(void *bare, struct sgpu_error *error)
{
	struct bare *b = bare;
	const uint64_t outputs = place(b, OPTIONS_INPUTS);
	const int rc = bench_from_device(b->stream, b->host + outputs, b->memory + outputs,
					 OPTIONS_OUTPUTS * b->side->size, error);

	return rc ? rc : options_check(b->side, b->host + outputs, error);
}
