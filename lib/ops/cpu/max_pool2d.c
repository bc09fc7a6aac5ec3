/* SPDX-License-Identifier: Apache-2.0
 *
 * max_pool2d: the largest element of each window of an image.
 */
#include "ops/cpu/images.h"

enum { INPUT, OUTPUT, SIZE = 0, STRIDE, PADDING, SIZE_MAX_2D = 1024, GRAIN_WORK = 1 << 16 };

#define F32 SGPU_TYPE_BIT(SGPU_F32)

static const struct sgpu_op_argument args[] = {
	{ "input", false, F32, 4, 4, "images: [n, channels, height, width]" },
	{ "output", false, F32, 4, 4, "[n, channels, output height, output width]" },
	{ .name = NULL },
};

const struct sgpu_op_param sgpu_pool2d_params[] = {
	{ .name = "size",
	  .kind = SGPU_PARAM_INTEGER,
	  .min = 1,
	  .max = SIZE_MAX_2D,
	  .standard = 2,
	  .help = "height and width of a window" },
	{ .name = "stride",
	  .kind = SGPU_PARAM_INTEGER,
	  .min = 1,
	  .max = SIZE_MAX_2D,
	  .standard = 2,
	  .help = "input elements from one window to the next" },
	{ .name = "padding",
	  .kind = SGPU_PARAM_INTEGER,
	  .max = SIZE_MAX_2D - 1,
	  .help = "how far windows reach beyond the image" },
	{ .name = NULL },
};

bool sgpu_pool2d_infer(const struct sgpu_op_call *call, struct sgpu_op_report *report,
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
	struct sgpu_type output;

	if (sgpu_pool2d_infer(call, report, &output)) {
		call->type[OUTPUT] = output;
	}
}

/* Items are rows of the output. */
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

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);

	if (p.planes == 0) {
		return 0; /* then the other extents may be anything, and their product 0 */
	}
	return sgpu_ops_for(pool, p.planes * p.out_height,
			    GRAIN_WORK / (p.out_width * p.size * p.size) + 1, body, call, error);
}

const struct sgpu_op sgpu_op_max_pool2d = {
	.name = "max_pool2d",
	.help = "largest element of each window of an image",
	.args = args,
	.params = sgpu_pool2d_params,
	.infer = infer,
	.cpu = cpu,
};
