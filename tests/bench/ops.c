/* SPDX-License-Identifier: Apache-2.0
 *
 * How long operations take on a device: `ops [DEVICE [CASE]]` prints, for each case, the median
 * time of a launch among several, and what that is in bytes read and written a second and in
 * multiplications (of those that have matrices).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/device.h>

#include "ops/ops.h"

enum { ROUNDS = 9, REPEAT = 8, INPUTS = 3, PARAMS = 3 };

struct input {
	const char *name;
	enum sgpu_dtype dtype;
	int rank;
	uint64_t shape[SGPU_RANK_MAX];
};

struct entry {
	const char *name, *op; /* or "map: EXPRESSION" of x0 and x1 */
	struct input inputs[INPUTS];
	struct {
		const char *name;
		double value;
	} params[PARAMS];
	double products; /* multiplications, or 0 */
};

static const struct entry entries[] = {
	{ "add",
	  "vector_add",
	  { { "a", SGPU_F32, 1, { 1 << 27 } }, { "b", SGPU_F32, 1, { 1 << 27 } } },
	  { { NULL, 0 } },
	  0 },
	{ "add-u8",
	  "vector_add",
	  { { "a", SGPU_U8, 1, { 1 << 28 } }, { "b", SGPU_U8, 1, { 1 << 28 } } },
	  { { NULL, 0 } },
	  0 },
	{ "cast-f16", "cast", { { "input", SGPU_F32, 1, { 1 << 27 } } }, { { "dtype", 2 } }, 0 },
	{ "scale-u8", "scale", { { "input", SGPU_U8, 1, { 1 << 28 } } }, { { "gain", 0.5 } }, 0 },
	{ "options",
	  "black_scholes",
	  { { "price", SGPU_F32, 1, { 4000000 } },
	    { "strike", SGPU_F32, 1, { 4000000 } },
	    { "years", SGPU_F32, 1, { 4000000 } } },
	  { { "rate", 0.02 }, { "volatility", 0.3 } },
	  0 },
	{ "gemm-1024",
	  "gemm",
	  { { "a", SGPU_F32, 2, { 1024, 1024 } }, { "b", SGPU_F32, 2, { 1024, 1024 } } },
	  { { NULL, 0 } },
	  0x1p30 },
	{ "gemm-1000",
	  "gemm",
	  { { "a", SGPU_F32, 2, { 1000, 1000 } }, { "b", SGPU_F32, 2, { 1000, 1000 } } },
	  { { NULL, 0 } },
	  1e9 },
	{ "gemm-4096",
	  "gemm",
	  { { "a", SGPU_F32, 2, { 4096, 4096 } }, { "b", SGPU_F32, 2, { 4096, 4096 } } },
	  { { NULL, 0 } },
	  0x1p36 },
	{ "gemm-4096-f64",
	  "gemm",
	  { { "a", SGPU_F64, 2, { 4096, 4096 } }, { "b", SGPU_F64, 2, { 4096, 4096 } } },
	  { { NULL, 0 } },
	  0x1p36 },
	{ "gemm-row",
	  "gemm",
	  { { "a", SGPU_F32, 2, { 1, 4096 } }, { "b", SGPU_F32, 2, { 4096, 4096 } } },
	  { { NULL, 0 } },
	  0x1p24 },
	{ "dense-784-128",
	  "dense",
	  { { "input", SGPU_F32, 2, { 10000, 784 } }, { "weights", SGPU_F32, 2, { 784, 128 } } },
	  { { "activation", 4 } },
	  10000.0 * 784 * 128 },
	{ "softmax-10",
	  "softmax",
	  { { "input", SGPU_F32, 2, { 1 << 22, 10 } } },
	  { { NULL, 0 } },
	  0 },
	{ "softmax-4096",
	  "softmax",
	  { { "input", SGPU_F32, 2, { 1 << 14, 4096 } } },
	  { { NULL, 0 } },
	  0 },
	{ "softmax-row",
	  "softmax",
	  { { "input", SGPU_F32, 2, { 1, 1 << 26 } } },
	  { { NULL, 0 } },
	  0 },
	{ "argmax-10",
	  "argmax",
	  { { "input", SGPU_F32, 2, { 1 << 22, 10 } } },
	  { { NULL, 0 } },
	  0 },
	{ "argmax-row",
	  "argmax",
	  { { "input", SGPU_F32, 2, { 1, 1 << 26 } } },
	  { { NULL, 0 } },
	  0 },
	{ "conv2d-64",
	  "conv2d",
	  { { "input", SGPU_F32, 4, { 16, 64, 112, 112 } },
	    { "weights", SGPU_F32, 4, { 64, 64, 3, 3 } } },
	  { { "padding", 1 } },
	  16.0 * 112 * 112 * 64 * 64 * 9 },
	{ "conv2d-8",
	  "conv2d",
	  { { "input", SGPU_F32, 4, { 16, 3, 224, 224 } },
	    { "weights", SGPU_F32, 4, { 8, 3, 5, 5 } } },
	  { { "padding", 2 } },
	  16.0 * 224 * 224 * 8 * 75 },
	{ "nearest-fashion",
	  "nearest",
	  { { "a", SGPU_F32, 2, { 10000, 784 } }, { "b", SGPU_F32, 2, { 60000, 784 } } },
	  { { "k", 5 } },
	  10000.0 * 60000 * 784 },
	{ "nearest-one",
	  "nearest",
	  { { "a", SGPU_F32, 2, { 1, 64 } }, { "b", SGPU_F32, 2, { 10000000, 64 } } },
	  { { "k", 5 } },
	  64e7 },
	{ "sum", "reduce", { { "input", SGPU_F32, 1, { 1 << 28 } } }, { { "operation", 0 } }, 0 },
	{ "sum-axis-0",
	  "reduce",
	  { { "input", SGPU_F32, 2, { 1 << 14, 1 << 14 } } },
	  { { "operation", 0 }, { "axis", 0 } },
	  0 },
	{ "histogram",
	  "histogram",
	  { { "input", SGPU_F32, 1, { 1 << 28 } } },
	  { { "min", 0 }, { "max", 1 } },
	  0 },
	{ "threshold",
	  "threshold",
	  { { "input", SGPU_F32, 1, { 1 << 28 } } },
	  { { "low", 0.5 } },
	  0 },
	{ "indices",
	  "threshold",
	  { { "input", SGPU_F32, 1, { 1 << 28 } } },
	  { { "low", 0.9 }, { "mode", 1 } },
	  0 },
	{ "transpose",
	  "transpose",
	  { { "input", SGPU_F32, 3, { 512, 512, 200 } } },
	  { { NULL, 0 } },
	  0 },
	{ "mean-masked",
	  "reduce",
	  { { "input", SGPU_F32, 1, { 1 << 28 } }, { "mask", SGPU_U8, 1, { 1 << 28 } } },
	  { { "operation", 3 } },
	  0 },
	{ "median",
	  "reduce",
	  { { "input", SGPU_F32, 1, { 1 << 28 } } },
	  { { "operation", 5 } },
	  0 },
	{ "gaussian",
	  "gaussian3d",
	  { { "input", SGPU_F32, 3, { 256, 256, 256 } } },
	  { { "sigma", 2 } },
	  0 },
	{ "morphology",
	  "morphology3d",
	  { { "input", SGPU_U8, 3, { 256, 256, 256 } } },
	  { { "erode", 2 }, { "largest", 1 }, { "dilate", 2 } },
	  0 },
	/* 64 and 512 MiB: a map of three operations takes at most 1.5 times the copy */
	{ "map-copy-64", "copy", { { "input", SGPU_F32, 1, { 1 << 24 } } }, { { NULL, 0 } }, 0 },
	{ "map-three-64",
	  "map: (x0 * 0.5 + 1) * x0",
	  { { "x0", SGPU_F32, 1, { 1 << 24 } } },
	  { { NULL, 0 } },
	  0 },
	{ "map-copy-512", "copy", { { "input", SGPU_F32, 1, { 1 << 27 } } }, { { NULL, 0 } }, 0 },
	{ "map-three-512",
	  "map: (x0 * 0.5 + 1) * x0",
	  { { "x0", SGPU_F32, 1, { 1 << 27 } } },
	  { { NULL, 0 } },
	  0 },
	{ "map-where-512",
	  "map: where((x0 > 0.5) & (x1 > 0), x0 * 0.5, 0)",
	  { { "x0", SGPU_F32, 1, { 1 << 27 } }, { "x1", SGPU_U8, 1, { 1 << 27 } } },
	  { { NULL, 0 } },
	  0 },
	{ "map-sin-64",
	  "map: sin(x0 * 6)",
	  { { "x0", SGPU_F32, 1, { 1 << 24 } } },
	  { { NULL, 0 } },
	  0 },
};

static struct sgpu_device *device;
static struct sgpu_stream *stream;
static struct sgpu_error error;

static void must(int code)
{
	if (code) {
		fprintf(stderr, "ops: %s\n", error.text[0] ? error.text : sgpu_strerror(code));
		exit(3);
	}
}

/* Numbers from 0 to 1; bytes mostly 1, so that a mask has components. */
static void fill(enum sgpu_dtype dtype, void *data, uint64_t bytes)
{
	uint64_t state = 1, size = sgpu_dtype_size(dtype);

	for (uint64_t i = 0; i < bytes / size; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		if (dtype == SGPU_F32) {
			((float *)data)[i] = (float)(state >> 40) * 0x1p-24f;
		} else if (dtype == SGPU_F64) {
			((double *)data)[i] = (double)(state >> 11) * 0x1p-53;
		} else {
			((uint8_t *)data)[i] = state >> 56 > 3;
		}
	}
}

static void on_diagnostic(struct sgpu_op_report *report, const char *argument, const char *param,
			  const char *text)
{
	(void)report;
	fprintf(stderr, "ops: %s%s: %s\n", argument ? argument : "", param ? param : "", text);
	exit(3);
}

static int launch_op(struct sgpu_launch *launch, void *argument)
{
	struct sgpu_op_call *call = argument;
	sgpu_op_fn function = sgpu_device_op(launch->device, call->op->name);

	return sgpu_op_run(call, function, launch);
}

/* The byte code of an expression, for as long as the program runs. */
static const char *compile(const char *expression)
{
	json_t *operation = json_pack("{s:s, s:{s:s}, s:{s:s, s:s, s:s}}", "kernel", "map",
				      "params", "expression", expression, "arguments", "x0", "",
				      "output", "", strstr(expression, "x1") ? "x1" : "output", "");

	must(sgpu_map_compile(operation, &error));
	return json_string_value(json_object_get(json_object_get(operation, "params"), "code"));
}

static void prepare(const struct entry *e, struct sgpu_op_call *call)
{
	struct sgpu_op_report report = { .diagnostic = on_diagnostic };

	memset(call, 0, sizeof(*call));
	call->op = sgpu_op_find(strncmp(e->op, "map:", 4) == 0 ? "map" : e->op);
	for (int i = 0; call->op->params[i].name; i++) {
		call->param[i].number = call->op->params[i].standard;
	}
	call->text = strncmp(e->op, "map:", 4) == 0 ? compile(e->op + 4) : NULL;
	for (int i = 0; i < PARAMS && e->params[i].name; i++) {
		int at = sgpu_op_param(call->op, e->params[i].name);

		call->param[at].given = true;
		call->param[at].number = e->params[i].value;
	}
	for (int i = 0; i < INPUTS && e->inputs[i].name; i++) {
		struct sgpu_type *type = &call->type[sgpu_op_arg(call->op, e->inputs[i].name)];

		type->dtype = e->inputs[i].dtype;
		type->rank = e->inputs[i].rank;
		memcpy(type->shape, e->inputs[i].shape, sizeof(type->shape));
		call->present[sgpu_op_arg(call->op, e->inputs[i].name)] = true;
	}
	for (int i = 0; call->op->args[i].name; i++) {
		call->present[i] =
			call->present[i] || strncmp(call->op->args[i].name, "output", 6) == 0;
	}
	call->op->infer(call, &report);
}

/* Memory of an argument, filled when it is an input; its bytes. */
static uint64_t place(struct sgpu_op_call *call, int i, sgpu_devptr *memory)
{
	uint64_t bytes = 0;
	void *data;

	if (call->type[i].dtype == SGPU_NONE || !sgpu_type_bytes(&call->type[i], &bytes)) {
		return 0;
	}
	must(sgpu_device_alloc(device, bytes, memory, &error));
	call->data[i] = (void *)(uintptr_t)*memory;
	if (strncmp(call->op->args[i].name, "output", 6) != 0) {
		data = malloc(bytes);
		must(data ? 0 : SGPU_ENOMEM);
		fill(call->type[i].dtype, data, bytes);
		must(sgpu_copy_in(stream, *memory, data, bytes, NULL));
		must(sgpu_stream_sync(stream, &error));
		free(data);
	}
	return bytes;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void measure(const struct entry *e)
{
	sgpu_devptr memory[SGPU_ARGUMENTS_MAX] = { 0 }, scratch = 0;
	uint64_t bytes[SGPU_ARGUMENTS_MAX] = { 0 }, times[ROUNDS], total = 0, size;
	struct sgpu_op_call call;

	prepare(e, &call);
	for (int i = 0; call.op->args[i].name; i++) {
		bytes[i] = place(&call, i, &memory[i]);
		total += bytes[i];
	}
	size = call.op->scratch ? call.op->scratch(&call) : 0;
	must(sgpu_device_alloc(device, size, &scratch, &error));
	call.scratch = (void *)(uintptr_t)scratch;
	for (int round = -1; round < ROUNDS; round++) { /* the first is not counted */
		struct sgpu_task tasks[REPEAT];
		uint64_t begin = sgpu_now_ns();

		memset(tasks, 0, sizeof(tasks));
		for (int i = 0; i < REPEAT; i++) {
			must(sgpu_device_launch_on(stream, launch_op, &call, NULL, 0, &tasks[i]));
		}
		must(sgpu_stream_sync(stream, &error));
		if (round >= 0) {
			times[round] = (sgpu_now_ns() - begin) / REPEAT;
		}
		for (int i = 0; i < REPEAT; i++) {
			error = tasks[i].error;
			must(tasks[i].code);
		}
	}
	qsort(times, ROUNDS, sizeof(times[0]), by_value);
	printf("%-16s %10.3f ms %8.0f GB/s", e->name, (double)times[ROUNDS / 2] / 1e6,
	       (double)total / (double)times[ROUNDS / 2]);
	if (e->products > 0) {
		printf(" %8.2f T multiplications/s", e->products / (double)times[ROUNDS / 2] / 1e3);
	}
	printf("\n");
	fflush(stdout);
	sgpu_device_free(device, &scratch, size);
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		sgpu_device_free(device, &memory[i], bytes[i]);
	}
}

int main(int argc, char **argv)
{
	must(sgpu_device_open(argc > 1 ? argv[1] : "cuda", NULL, &device, &error));
	must(sgpu_stream_create(device, &stream, &error));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(entries); i++) {
		if (argc < 3 || strstr(entries[i].name, argv[2])) {
			measure(&entries[i]);
		}
	}
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
	return 0;
}
