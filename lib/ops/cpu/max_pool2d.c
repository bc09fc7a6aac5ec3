/* SPDX-License-Identifier: Apache-2.0
 *
 * max_pool2d: the largest element of each window of an image. max_pool2d_gradient: a window gives
 * its gradient to its largest element.
 */
#include <string.h>

#include "ops/cpu/images.h"

enum { INPUT, OUTPUT, GRADIENT = 1, OUTPUT_INPUT };
enum { SIZE, STRIDE, PADDING, SIZE_MAX_2D = 1024, GRAIN_WORK = 1 << 16 };

#define F32 SGPU_TYPE_BIT(SGPU_F32)

/* clang-format off */
#define WINDOW_PARAMS \
	{ "size", SGPU_PARAM_INTEGER, false, 1, SIZE_MAX_2D, 2, NULL, \
	  "height and width of a window" }, \
	{ "stride", SGPU_PARAM_INTEGER, false, 1, SIZE_MAX_2D, 2, NULL, \
	  "input elements from one window to the next" }, \
	{ "padding", SGPU_PARAM_INTEGER, false, 0, SIZE_MAX_2D - 1, 0, NULL, \
	  "how far windows reach beyond the image" }
/* clang-format on */

/* The pooled output's type; returns false after a diagnostic. */
static bool infer_pooled(const struct sgpu_op_call *call, struct sgpu_op_report *report,
			 struct sgpu_type *output)
{
	uint64_t size = (uint64_t)call->param[SIZE].number,
		 stride = (uint64_t)call->param[STRIDE].number;
	uint64_t padding = (uint64_t)call->param[PADDING].number;

	*output = call->type[INPUT];
	if (padding >= size) {
		sgpu_op_diagnose(report, NULL, "padding", "is %llu, must be below the size %llu",
				 (unsigned long long)padding, (unsigned long long)size);
		return false;
	}
	for (int i = 2; i < 4; i++) {
		uint64_t extent = output->shape[i];

		if (extent == 0 || extent + 2 * padding < size) {
			sgpu_op_diagnose(
				report, "input", NULL,
				"has %llu elements in a direction, too few for a window of "
				"%llu",
				(unsigned long long)extent, (unsigned long long)size);
			return false;
		}
		output->shape[i] = (extent + 2 * padding - size) / stride + 1;
	}
	return true;
}

struct sgpu_pool2d sgpu_pool2d_describe(const struct sgpu_op_call *call)
{
	const uint64_t *shape = call->type[INPUT].shape;
	struct sgpu_pool2d p = {
		.planes = shape[0] * shape[1],
		.height = shape[2],
		.width = shape[3],
		.size = (uint64_t)call->param[SIZE].number,
		.stride = (uint64_t)call->param[STRIDE].number,
		.padding = (uint64_t)call->param[PADDING].number,
	};

	p.out_height = (p.height + 2 * p.padding - p.size) / p.stride + 1;
	p.out_width = (p.width + 2 * p.padding - p.size) / p.stride + 1;
	return p;
}

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	infer_pooled(call, report, &call->type[OUTPUT]);
}

/* An item is a row of the output. */
static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);

	for (uint64_t row = begin; row < end; row++) {
		const float *plane =
			(const float *)call->data[INPUT] + row / p.out_height * p.height * p.width;
		float *output = (float *)call->data[OUTPUT] + row * p.out_width;

		for (uint64_t x = 0; x < p.out_width; x++) {
			output[x] = plane[sgpu_pool2d_place(&p, plane, row % p.out_height, x)];
		}
	}
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);

	return sgpu_ops_for(launch, p.planes * p.out_height,
			    GRAIN_WORK / (p.out_width * p.size * p.size) + 1, body, call);
}

const struct sgpu_op sgpu_op_max_pool2d = {
	.name = "max_pool2d",
	.help = "largest element of each window of an image",
	.args = {
	{ "input", false, F32, 4, 4, "images: [n, channels, height, width]" },
	{ "output", false, F32, 4, 4, "[n, channels, output height, output width]" },
	},
	.params = { WINDOW_PARAMS },
	.infer = infer,
	.cpu = cpu,
};

static void infer_gradient(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	struct sgpu_type pooled;

	if (infer_pooled(call, report, &pooled) &&
	    sgpu_ops_must_be(call, report, GRADIENT, &pooled)) {
		call->type[OUTPUT_INPUT] = call->type[INPUT];
	}
}

/* An item is a plane. Windows come in memory order, in which an element adds its gradients. */
static void gradient_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);

	for (uint64_t i = begin; i < end; i++) {
		const float *plane = (const float *)call->data[INPUT] + i * p.height * p.width;
		const float *gradient =
			(const float *)call->data[GRADIENT] + i * p.out_height * p.out_width;
		float *output = (float *)call->data[OUTPUT_INPUT] + i * p.height * p.width;

		memset(output, 0, p.height * p.width * sizeof(*output));
		for (uint64_t y = 0; y < p.out_height; y++) {
			for (uint64_t x = 0; x < p.out_width; x++) {
				output[sgpu_pool2d_place(&p, plane, y, x)] +=
					gradient[y * p.out_width + x];
			}
		}
	}
}

static int gradient_cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);

	return sgpu_ops_for(launch, p.planes,
			    GRAIN_WORK / (p.out_height * p.out_width * p.size * p.size) + 1,
			    gradient_body, call);
}

const struct sgpu_op sgpu_op_max_pool2d_gradient = {
	.name = "max_pool2d_gradient",
	.help = "gradient of max_pool2d",
	.args = {
	{ "input", false, F32, 4, 4, "what max_pool2d got" },
	{ "gradient", false, F32, 4, 4, "of the loss by what it gave" },
	{ "output", false, F32, 4, 4, "of the loss by input" },
	},
	.params = { WINDOW_PARAMS },
	.infer = infer_gradient,
	.cpu = gradient_cpu,
};
