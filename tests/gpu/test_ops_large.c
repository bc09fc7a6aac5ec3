/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on more elements than 32 bits can count. Everything is made and looked at on the
 * device: inputs are 0 but for some elements near the places where an index would overflow, and
 * outputs are read around them. Runs alone: it takes most of the device's memory.
 */
#include <sgpu/device.h>

#include "ops/ops.h"
#include "unit.h"

enum { SIDE = 65537, SPOTS = 9 }; /* SIDE^2 is 2^32 + 2^17 + 1 */
#define COUNT ((uint64_t)SIDE * SIDE)

/* Elements that are looked at, in an array of COUNT. */
static const uint64_t spots[SPOTS] = {
	0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0x100000000, 0x100000001, COUNT - 1,
};

static struct sgpu_device *device;
static struct sgpu_stream *stream;

struct run {
	struct sgpu_op_call call;
	struct sgpu_op_report report;
	sgpu_devptr memory[SGPU_ARGUMENTS_MAX], scratch;
	uint64_t bytes[SGPU_ARGUMENTS_MAX], scratch_size;
	struct sgpu_error error;
};

static void on_diagnostic(struct sgpu_op_report *report, const char *argument, const char *param,
			  const char *text)
{
	(void)report;
	printf("# diagnostic: %s%s: %s\n", argument ? argument : "", param ? param : "", text);
	unit_bad++;
}

static void begin(struct run *run, const char *name)
{
	memset(run, 0, sizeof(*run));
	run->report.diagnostic = on_diagnostic;
	run->call.op = sgpu_op_find(name);
	for (int i = 0; run->call.op->params[i].name; i++) {
		run->call.param[i].number = run->call.op->params[i].standard;
	}
}

static void end(struct run *run)
{
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		sgpu_device_free(device, &run->memory[i], run->bytes[i]);
	}
	sgpu_device_free(device, &run->scratch, run->scratch_size);
}

/* Memory for an argument whose type is known, cleared. */
static bool place(struct run *run, int i)
{
	if (!sgpu_type_bytes(&run->call.type[i], &run->bytes[i]) ||
	    sgpu_device_alloc(device, run->bytes[i], &run->memory[i], &run->error)) {
		run->bytes[i] = 0;
		return false;
	}
	run->call.data[i] = (void *)(uintptr_t)run->memory[i];
	return sgpu_device_clear(stream, run->memory[i], run->bytes[i], NULL) == 0;
}

static bool input(struct run *run, const char *name, struct sgpu_type type)
{
	int i = sgpu_op_arg(run->call.op, name);

	run->call.type[i] = type;
	run->call.present[i] = true;
	return place(run, i);
}

static void number(struct run *run, const char *name, double value)
{
	int i = sgpu_op_param(run->call.op, name);

	run->call.param[i].given = true;
	run->call.param[i].number = value;
}

/* Infers, and finds memory for the outputs and the scratch. */
static bool ready(struct run *run)
{
	bool good = true;

	for (int i = 0; run->call.op->args[i].name; i++) {
		run->call.present[i] = run->call.present[i] ||
				       strncmp(run->call.op->args[i].name, "output", 6) == 0;
	}
	run->call.op->infer(&run->call, &run->report);
	for (int i = 0; run->call.op->args[i].name; i++) {
		if (strncmp(run->call.op->args[i].name, "output", 6) == 0) {
			good = good && place(run, i);
		}
	}
	run->scratch_size = run->call.op->scratch ? run->call.op->scratch(&run->call) : 0;
	good = good &&
	       sgpu_device_alloc(device, run->scratch_size, &run->scratch, &run->error) == 0;
	run->call.scratch = (void *)(uintptr_t)run->scratch;
	return good;
}

static int launch(struct sgpu_launch *to, void *argument)
{
	struct sgpu_op_call *call = argument;
	sgpu_op_fn function = sgpu_device_op(device, call->op->name);

	return function ? sgpu_op_run(call, function, to)
			: sgpu_fail(to->error, SGPU_EDEVICE, "the device has no '%s'",
				    call->op->name);
}

static bool go(struct run *run)
{
	struct sgpu_task task;

	memset(&task, 0, sizeof(task));
	if (sgpu_device_launch_on(stream, launch, &run->call, NULL, 0, &task) ||
	    sgpu_stream_sync(stream, &run->error) || task.code) {
		printf("# %s: %s%s\n", run->call.op->name, task.error.text, run->error.text);
		return false;
	}
	return true;
}

static void poke(struct run *run, const char *name, uint64_t at, size_t size, const void *value)
{
	CHECK(sgpu_copy_in(stream, run->memory[sgpu_op_arg(run->call.op, name)] + at * size, value,
			   size, NULL) == 0);
	CHECK(sgpu_stream_sync(stream, &run->error) == 0);
}

static void peek(struct run *run, uint64_t at, size_t size, void *value)
{
	sgpu_devptr output = run->memory[sgpu_op_arg(run->call.op, "output")];

	CHECK(sgpu_copy_out(stream, value, output + at * size, size, NULL) == 0);
	CHECK(sgpu_stream_sync(stream, &run->error) == 0);
}

static float peek_f32(struct run *run, uint64_t at)
{
	float value = 0;

	peek(run, at, sizeof(value), &value);
	return value;
}

static struct sgpu_type type(enum sgpu_dtype dtype, int rank, uint64_t first, uint64_t second)
{
	struct sgpu_type made = { .dtype = dtype, .rank = rank, .shape = { first, second } };

	return made;
}

#define REQUIRE_MEMORY(condition, run)                            \
	do {                                                      \
		if (!(condition)) {                               \
			end(run);                                 \
			SKIP("the device has too little memory"); \
		}                                                 \
	} while (0)

UNIT_TEST(elements_one_by_one)
{
	struct run run;

	begin(&run, "vector_add");
	REQUIRE_MEMORY(input(&run, "a", type(SGPU_U8, 1, COUNT, 0)) &&
			       input(&run, "b", type(SGPU_U8, 1, COUNT, 0)) && ready(&run),
		       &run);
	for (int i = 0; i < SPOTS; i++) {
		uint8_t a = (uint8_t)(i + 1), b = 100;

		poke(&run, "a", spots[i], 1, &a);
		poke(&run, "b", spots[i], 1, &b);
	}
	CHECK(go(&run));
	for (int i = 0; i < SPOTS; i++) {
		uint8_t value = 0;

		peek(&run, spots[i], 1, &value);
		CHECK(value == i + 101);
	}
	end(&run);
}

/* Every element of the product of a column and a row is known. */
UNIT_TEST(products_of_matrices)
{
	float column[SIDE];
	struct run run;

	begin(&run, "gemm");
	REQUIRE_MEMORY(input(&run, "a", type(SGPU_F32, 2, SIDE, 1)) &&
			       input(&run, "b", type(SGPU_F32, 2, 1, SIDE)) && ready(&run),
		       &run);
	for (int i = 0; i < SIDE; i++) {
		column[i] = (float)(i % 1000);
	}
	CHECK(sgpu_copy_in(stream, run.memory[0], column, sizeof(column), NULL) == 0);
	CHECK(sgpu_copy_in(stream, run.memory[1], column, sizeof(column), NULL) == 0);
	CHECK(go(&run));
	for (int i = 0; i < SPOTS; i++) {
		CHECK(peek_f32(&run, spots[i]) ==
		      column[spots[i] / SIDE] * column[spots[i] % SIDE]);
	}
	end(&run);
}

/* Without products no library is asked. */
UNIT_TEST(matrices_that_are_only_scaled)
{
	struct run run;

	begin(&run, "gemm");
	number(&run, "alpha", 0);
	number(&run, "beta", 3);
	REQUIRE_MEMORY(input(&run, "a", type(SGPU_F32, 2, SIDE, 1)) &&
			       input(&run, "b", type(SGPU_F32, 2, 1, SIDE)) &&
			       input(&run, "c", type(SGPU_F32, 2, SIDE, SIDE)) && ready(&run),
		       &run);
	for (int i = 0; i < SPOTS; i++) {
		float value = (float)(i + 1);

		poke(&run, "c", spots[i], sizeof(value), &value);
	}
	CHECK(go(&run));
	for (int i = 0; i < SPOTS; i++) {
		CHECK(peek_f32(&run, spots[i]) == 3.0f * (float)(i + 1));
	}
	CHECK(peek_f32(&run, 0x100000002) == 0);
	end(&run);
}

UNIT_TEST(images)
{
	struct sgpu_type image = { .dtype = SGPU_F32, .rank = 4, .shape = { 1, 1, SIDE, SIDE } };
	struct sgpu_type kernel = { .dtype = SGPU_F32, .rank = 4, .shape = { 1, 1, 1, 1 } };
	struct run run;
	float two = 2;

	begin(&run, "conv2d");
	REQUIRE_MEMORY(input(&run, "input", image) && input(&run, "weights", kernel) && ready(&run),
		       &run);
	poke(&run, "weights", 0, sizeof(two), &two);
	for (int i = 0; i < SPOTS; i++) {
		float value = (float)(i + 1);

		poke(&run, "input", spots[i], sizeof(value), &value);
	}
	CHECK(go(&run));
	for (int i = 0; i < SPOTS; i++) {
		CHECK(peek_f32(&run, spots[i]) == 2.0f * (float)(i + 1));
	}
	CHECK(peek_f32(&run, 0x100000002) == 0);
	end(&run);
}

UNIT_TEST(rows_of_exponentials)
{
	struct run run;
	float large = 200;

	begin(&run, "softmax");
	REQUIRE_MEMORY(input(&run, "input", type(SGPU_F32, 2, SIDE, SIDE)) && ready(&run), &run);
	poke(&run, "input", COUNT - 1, sizeof(large), &large);
	CHECK(go(&run));
	for (int i = 0; i < SPOTS - 1; i++) {
		float value = peek_f32(&run, spots[i]);

		CHECK(value > 0.999999f / SIDE && value < 1.000001f / SIDE);
	}
	CHECK(peek_f32(&run, COUNT - 1) == 1 && peek_f32(&run, COUNT - 2) < 1e-30f);
	end(&run);
}

UNIT_TEST(rows_and_their_largest)
{
	int32_t places[SIDE];
	struct run run;
	int wrong = 0;

	begin(&run, "argmax");
	REQUIRE_MEMORY(input(&run, "input", type(SGPU_U8, 2, SIDE, SIDE)) && ready(&run), &run);
	for (int i = 0; i < SPOTS; i++) {
		uint8_t value = (uint8_t)(100 - i); /* the first in a row counts */

		poke(&run, "input", spots[i], 1, &value);
	}
	CHECK(go(&run));
	peek(&run, 0, sizeof(places), places);
	for (int row = 0; row < SIDE; row++) {
		int32_t want = 0;

		for (int i = SPOTS - 1; i >= 0; i--) {
			want = spots[i] / SIDE == (uint64_t)row ? (int32_t)(spots[i] % SIDE) : want;
		}
		wrong += places[row] != want;
	}
	CHECK(wrong == 0);
	end(&run);
}

UNIT_TEST(rows_that_become_columns)
{
	struct run run;

	begin(&run, "transpose");
	REQUIRE_MEMORY(input(&run, "input", type(SGPU_U8, 2, SIDE, SIDE)) && ready(&run), &run);
	for (int i = 0; i < SPOTS; i++) {
		uint8_t value = (uint8_t)(i + 1);

		poke(&run, "input", spots[i], 1, &value);
	}
	CHECK(go(&run));
	for (int i = 0; i < SPOTS; i++) {
		uint8_t value = 0;

		peek(&run, spots[i] % SIDE * SIDE + spots[i] / SIDE, 1, &value);
		CHECK(value == i + 1);
	}
	end(&run);
}

/* The elements that are looked at are the only ones that count. */
UNIT_TEST(means_and_medians_of_some)
{
	static const char *const operations[] = { "mean", "std", "percentile" };
	static const double wants[] = { 5, 2.581988897471611, 5 };

	for (int o = 0; o < 3; o++) {
		struct run run;
		double value = 0;

		begin(&run, "reduce");
		for (int k = 0; strcmp(run.call.op->params[0].choices[k], operations[o]) != 0;) {
			number(&run, "operation", ++k);
		}
		REQUIRE_MEMORY(input(&run, "input", type(SGPU_U8, 2, SIDE, SIDE)) &&
				       input(&run, "mask", type(SGPU_U8, 2, SIDE, SIDE)) &&
				       ready(&run),
			       &run);
		for (int i = 0; i < SPOTS; i++) {
			uint8_t element = (uint8_t)(i + 1);

			poke(&run, "input", spots[i], 1, &element);
			poke(&run, "mask", spots[i], 1, &element);
		}
		CHECK(go(&run));
		peek(&run, 0, sizeof(value), &value);
		CHECK(value == wants[o]);
		end(&run);
	}
}

/* Under a checker this would take hours; the operations' other tests have small sizes. */
UNIT_TEST(large_sizes)
{
	SKIP("SGPU_TEST_SMALL is set");
}

int main(void)
{
	struct sgpu_error error = { 0 };
	int result = sgpu_device_open("cuda", NULL, &device, &error);

	if (result == SGPU_EUNAVAILABLE) {
		printf("ok 1 - all of it # skip %s\n1..1\n", error.text);
		return 0;
	}
	if (result || sgpu_stream_create(device, &stream, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	if (getenv("SGPU_TEST_SMALL")) {
		UNIT_RUN(large_sizes);
	} else {
		UNIT_RUN(elements_one_by_one);
		UNIT_RUN(products_of_matrices);
		UNIT_RUN(matrices_that_are_only_scaled);
		UNIT_RUN(images);
		UNIT_RUN(rows_of_exponentials);
		UNIT_RUN(rows_and_their_largest);
		UNIT_RUN(rows_that_become_columns);
		UNIT_RUN(means_and_medians_of_some);
	}
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
	return unit_done();
}
