/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d: convolution of images in f32, as neural networks mean it (correlation: the kernel is not
 * flipped), and conv2d_gradient: its gradients by input, weights and bias.
 *
 * All are matrix products whose right factor is never stored (images.h): LANES elements of one of
 * its rows are gathered, and multiplied by every element of a column of the left factor. Sums have
 * the order of k. An element of conv2d's output starts with its bias and adds input * weight in the
 * order channel, row, column of the kernel; padding counts as 0.
 */
#include "ops/cpu/math64.h"
#include "ops/cpu/images.h"

enum { INPUT, WEIGHTS, BIAS, OUTPUT };
enum { GRADIENT = 2, OUTPUT_INPUT, OUTPUT_WEIGHTS, OUTPUT_BIAS };
enum { STRIDE, PADDING, DILATION, ACTIVATION };
enum {
	STEP_MAX = 1024,
	PARTS_MAX = 64, /* into which a gradient cuts its images */
	LANES = 16,
	GRAIN = 1 << 10,
	GRAIN_WORK = 1 << 18,
};

#define F32 SGPU_TYPE_BIT(SGPU_F32)

/* clang-format off */
#define STEP_PARAMS \
	{ "stride", SGPU_PARAM_INTEGER, false, 1, STEP_MAX, 1, NULL, \
	  "input elements from one output to the next" }, \
	{ "padding", SGPU_PARAM_INTEGER, false, 0, STEP_MAX, 0, NULL, \
	  "zeros around the image on each side" }, \
	{ "dilation", SGPU_PARAM_INTEGER, false, 1, STEP_MAX, 1, NULL, \
	  "input elements from one weight to the next" }
/* clang-format on */

struct shape {
	uint64_t images, channels, height, width, pixels; /* of the input */
	uint64_t outputs, out_height, out_width, out_pixels;
	uint64_t kernel_height, kernel_width, kernel;
	int64_t stride, padding, dilation;
};

/* The output's extent along one dimension; 0 if the kernel does not fit. */
static uint64_t extent(const struct sgpu_op_call *call, int dimension)
{
	uint64_t stride = (uint64_t)call->param[STRIDE].number,
		 dilation = (uint64_t)call->param[DILATION].number;
	uint64_t kernel = call->type[WEIGHTS].shape[dimension], reach, padded;

	if (kernel == 0 || !sgpu_mul_u64(kernel - 1, dilation, &reach)) {
		return 0;
	}
	padded = call->type[INPUT].shape[dimension] + 2 * (uint64_t)call->param[PADDING].number;
	return padded > reach ? (padded - reach - 1) / stride + 1 : 0;
}

/* Checks weights against input, and gives the output's shape; returns false after a diagnostic. */
static bool infer_shape(const struct sgpu_op_call *call, struct sgpu_op_report *report,
			struct sgpu_type *output)
{
	const struct sgpu_type *input = &call->type[INPUT], *weights = &call->type[WEIGHTS];
	uint64_t shape[4] = { input->shape[0], weights->shape[0], extent(call, 2),
			      extent(call, 3) };
	bool right = sgpu_ops_same_extent(call, report, INPUT, 1, WEIGHTS, 1);

	if (shape[2] == 0 || shape[3] == 0) {
		sgpu_op_diagnose(report, "weights", NULL,
				 "a kernel of %llu x %llu does not fit into the padded image",
				 (unsigned long long)weights->shape[2],
				 (unsigned long long)weights->shape[3]);
		right = false;
	}
	*output = sgpu_ops_type(SGPU_F32, 4, shape);
	return right;
}

static struct shape describe(const struct sgpu_op_call *call, int output)
{
	static const uint64_t smallest[4] = { 1, 1, 1, 1 };
	const uint64_t *in = call->type[INPUT].shape, *out = call->type[output].shape;
	/* Without weights, memory does not bound a kernel's extents, whose product may be 0 modulo
	 * 2^64. */
	const uint64_t *kernel =
		sgpu_ops_count(&call->type[WEIGHTS]) ? call->type[WEIGHTS].shape : smallest;

	return (struct shape){
		.images = in[0],
		.channels = in[1],
		.height = in[2],
		.width = in[3],
		.pixels = in[2] * in[3],
		.outputs = out[1],
		.out_height = out[2],
		.out_width = out[3],
		.out_pixels = out[2] * out[3],
		.kernel_height = kernel[2],
		.kernel_width = kernel[3],
		.kernel = kernel[2] * kernel[3],
		.stride = (int64_t)call->param[STRIDE].number,
		.padding = (int64_t)call->param[PADDING].number,
		.dilation = (int64_t)call->param[DILATION].number,
	};
}

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type bias = sgpu_ops_type(SGPU_F32, 1, call->type[WEIGHTS].shape);

	infer_shape(call, report, &call->type[OUTPUT]);
	sgpu_ops_must_be(call, report, BIAS, &bias);
}

struct sgpu_conv2d_product sgpu_conv2d_forward(const struct sgpu_op_call *call)
{
	const struct shape s = describe(call, OUTPUT);

	return (struct sgpu_conv2d_product){
		.rows = s.outputs,
		.columns = s.images * s.out_pixels,
		.parts = 1,
		.depth = s.channels * s.kernel,
		.part_depth = s.channels * s.kernel,
		.window = s.kernel,
		.line = s.kernel_width,
		.left = call->data[WEIGHTS],
		.left_plane = s.kernel,
		.left_row = s.channels * s.kernel,
		.right = call->data[INPUT],
		.right_plane = s.pixels,
		.right_cell = s.channels * s.pixels,
		.height = (int64_t)s.height,
		.width = (int64_t)s.width,
		.cells = s.images,
		.cell = s.out_pixels,
		.across = s.out_width,
		.begin = s.stride,
		.offset = -s.padding,
		.step = s.dilation,
		.stride = 1,
		.bias = call->data[BIAS],
		.activation = (int)call->param[ACTIVATION].number,
		.to = call->data[OUTPUT],
		.to_run = s.outputs * s.out_pixels,
		.to_row = s.out_pixels,
		.run = s.out_pixels,
	};
}

/* ---- the product ---- */
/* Adds the product of a column of the left factor, whose elements are `left_row` apart, and `count`
 * elements of the right one's row. */
SGPU_CLONES_ATTR static void add_product(const float *left, uint64_t left_row, uint64_t rows,
					 const float right[LANES], float *to, uint64_t to_row,
					 uint64_t count)
{
	for (uint64_t r = 0; r < rows; r++) {
		for (uint64_t i = 0; i < count; i++) {
			to[r * to_row + i] += left[r * left_row] * right[i];
		}
	}
}

static void tile(const struct sgpu_conv2d_product *p, uint64_t part, uint64_t first, uint64_t count,
		 float right[LANES])
{
	const uint64_t depth = sgpu_ops_min(p->depth - part * p->part_depth, p->part_depth);
	const float *left = p->left + part * p->left_part;
	float *to = p->to + part * p->to_part + first / p->run * p->to_run + first % p->run;
	struct sgpu_conv2d_place place[LANES];
	const float one = 1.0f;

	for (uint64_t i = 0; i < count; i++) {
		place[i] = sgpu_conv2d_place(p, part, first + i);
	}
	for (uint64_t r = 0; r < p->rows; r++) {
		for (uint64_t i = 0; i < count; i++) {
			to[r * p->to_row + i] = p->bias ? p->bias[r] : 0.0f;
		}
	}
	for (uint64_t k = 0; k < depth; k++) {
		uint64_t plane = k / p->window, at = k % p->window;

		for (uint64_t i = 0; i < count; i++) {
			const float *factor = &one;

			if (place[i].plane) {
				factor = sgpu_conv2d_factor(p, &place[i], plane, at / p->line,
							    at % p->line);
			}
			right[i] = factor ? *factor : 0.0f;
		}
		add_product(left + plane * p->left_plane + at, p->left_row, p->rows, right, to,
			    p->to_row, count);
	}
	for (uint64_t r = 0; r < p->rows && p->activation; r++) {
		sgpu_ops_activate_f32(p->activation, to + r * p->to_row, count);
	}
}

/* An item is LANES columns of a run of a part. */
static void tile_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_conv2d_product *p = argument;
	uint64_t tiles = sgpu_ops_ceil(p->run, LANES), runs = p->columns / p->run;
	float right[LANES];

	for (uint64_t i = begin; i < end; i++) {
		uint64_t first = i % tiles * LANES;

		tile(p, i / tiles / runs, i / tiles % runs * p->run + first,
		     sgpu_ops_min(p->run - first, LANES), right);
	}
	sgpu_wipe(right, sizeof(right));
}

static int multiply(struct sgpu_conv2d_product product, struct sgpu_launch *launch)
{
	const struct sgpu_conv2d_product *p = &product;

	return p->columns == 0
		       ? 0
		       : sgpu_ops_for(launch,
				      p->parts * (p->columns / p->run) *
					      sgpu_ops_ceil(p->run, LANES),
				      sgpu_ops_grain(p->part_depth * p->rows * LANES, GRAIN_WORK),
				      tile_body, &product);
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return multiply(sgpu_conv2d_forward(call), launch);
}

const struct sgpu_op sgpu_op_conv2d = {
	.name = "conv2d",
	.help = "convolution of images",
	.args = {
	{ "input", false, F32, 4, 4, "images: [n, channels, height, width]" },
	{ "weights", false, F32, 4, 4,
	  "kernels: [output channels, channels, kernel height, kernel width]" },
	{ "bias", true, F32, 1, 1, "[output channels]" },
	{ "output", false, F32, 4, 4, "[n, output channels, output height, output width]" },
	},
	.params = {
	STEP_PARAMS,
	{ "activation", SGPU_PARAM_CHOICE, false, 0, 0, SGPU_ACTIVATION_NONE, sgpu_ops_activations,
	  "applied to every element" },
	},
	.infer = infer,
	.cpu = cpu,
};

/* ---- conv2d_gradient ---- */
static void infer_gradient(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	struct sgpu_type made;

	if (!infer_shape(call, report, &made) || !sgpu_ops_must_be(call, report, GRADIENT, &made)) {
		return;
	}
	call->type[OUTPUT_INPUT] = call->type[INPUT];
	call->type[OUTPUT_WEIGHTS] = call->type[WEIGHTS];
	call->type[OUTPUT_BIAS] = sgpu_ops_type(SGPU_F32, 1, call->type[WEIGHTS].shape);
}

struct sgpu_conv2d_product sgpu_conv2d_by_input(const struct sgpu_op_call *call)
{
	const struct shape s = describe(call, GRADIENT);

	return (struct sgpu_conv2d_product){
		.rows = s.channels,
		.columns = s.images * s.pixels,
		.parts = 1,
		.depth = s.outputs * s.kernel,
		.part_depth = s.outputs * s.kernel,
		.window = s.kernel,
		.line = s.kernel_width,
		.left = call->data[WEIGHTS],
		.left_plane = s.channels * s.kernel,
		.left_row = s.kernel,
		.right = call->data[GRADIENT],
		.right_plane = s.out_pixels,
		.right_cell = s.outputs * s.out_pixels,
		.height = (int64_t)s.out_height,
		.width = (int64_t)s.out_width,
		.cells = s.images,
		.cell = s.pixels,
		.across = s.width,
		.begin = 1,
		.offset = s.padding,
		.step = -s.dilation,
		.stride = s.stride,
		.to = call->data[OUTPUT_INPUT],
		.to_run = s.channels * s.pixels,
		.to_row = s.pixels,
		.run = s.pixels,
	};
}

struct sgpu_conv2d_product sgpu_conv2d_by_weights(const struct sgpu_op_call *call)
{
	const struct shape s = describe(call, GRADIENT);
	uint64_t each = sgpu_ops_ceil(s.images, PARTS_MAX), columns = s.channels * s.kernel + 1;

	return (struct sgpu_conv2d_product){
		.rows = s.outputs,
		.columns = columns,
		.parts = each ? sgpu_ops_ceil(s.images, each) : 0,
		.depth = s.images * s.out_pixels,
		.part_depth = each * s.out_pixels,
		.window = s.out_pixels,
		.line = s.out_width,
		.left = call->data[GRADIENT],
		.left_part = each * s.outputs * s.out_pixels,
		.left_plane = s.outputs * s.out_pixels,
		.left_row = s.out_pixels,
		.right = call->data[INPUT],
		.right_part = each * s.channels * s.pixels,
		.right_plane = s.channels * s.pixels,
		.right_cell = s.pixels,
		.height = (int64_t)s.height,
		.width = (int64_t)s.width,
		.cells = s.channels,
		.cell = s.kernel,
		.across = s.kernel_width,
		.begin = s.dilation,
		.offset = -s.padding,
		.step = s.stride,
		.stride = 1,
		.to = call->scratch,
		.to_part = s.outputs * columns,
		.to_row = columns,
		.run = columns,
	};
}

/* A matrix for each part; UINT64_MAX if the size overflows. */
static uint64_t scratch(const struct sgpu_op_call *call)
{
	const struct sgpu_conv2d_product p = sgpu_conv2d_by_weights(call);
	uint64_t size = sizeof(float);

	if (!call->present[OUTPUT_WEIGHTS] && !call->present[OUTPUT_BIAS]) {
		return 0;
	}
	return sgpu_mul_u64(size, p.parts, &size) && sgpu_mul_u64(size, p.rows, &size) &&
			       sgpu_mul_u64(size, p.columns, &size)
		       ? size
		       : UINT64_MAX;
}

struct sums {
	struct sgpu_conv2d_product product;
	float *weights, *bias;
};

static void finish_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sums *sums = argument;

	for (uint64_t i = begin; i < end; i++) {
		sgpu_conv2d_add_parts(&sums->product, i, sums->weights, sums->bias);
	}
}

static int gradient_cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sums sums = { sgpu_conv2d_by_weights(call), sgpu_conv2d_output(call, OUTPUT_WEIGHTS),
			     sgpu_conv2d_output(call, OUTPUT_BIAS) };
	int rc = 0;

	if (sgpu_conv2d_output(call, OUTPUT_INPUT)) {
		rc = multiply(sgpu_conv2d_by_input(call), launch);
	}
	if (rc || (!sums.weights && !sums.bias)) {
		return rc;
	}
	rc = multiply(sums.product, launch);
	return rc ? rc : sgpu_ops_for(launch, sums.product.to_part, GRAIN, finish_body, &sums);
}

const struct sgpu_op sgpu_op_conv2d_gradient = {
	.name = "conv2d_gradient",
	.help = "gradients of conv2d by input, weights and bias",
	.args = {
	{ "input", false, F32, 4, 4, "what conv2d got: [n, channels, height, width]" },
	{ "weights", false, F32, 4, 4,
	  "kernels: [output channels, channels, kernel height, kernel width]" },
	{ "gradient", false, F32, 4, 4, "of the loss by what conv2d gave" },
	{ "output_input", true, F32, 4, 4, "of the loss by input" },
	{ "output_weights", true, F32, 4, 4, "of the loss by weights" },
	{ "output_bias", true, F32, 1, 1, "of the loss by the bias" },
	},
	.params = { STEP_PARAMS },
	.infer = infer_gradient,
	.scratch = scratch,
	.cpu = gradient_cpu,
};
