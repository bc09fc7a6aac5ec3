/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d: convolution of images, as neural networks mean it (correlation: the kernel is not
 * flipped), on f32, and conv2d_gradient: its gradients by input, weights and bias.
 *
 * All are matrix products whose right factor is never stored: LANES elements of one of its rows are
 * gathered, and every element of a column of the left factor is multiplied by them. Each sum is
 * made in the order of k. Every element of conv2d's output starts with its bias and adds input *
 * weight in the order channel, row, column of the kernel; the padding counts as 0.
 */
#include <string.h>

#include "ops/cpu/math64.h"
#include "ops/cpu/images.h"

enum { INPUT, WEIGHTS, BIAS, OUTPUT };
enum { GRADIENT = 2, OUTPUT_INPUT, OUTPUT_WEIGHTS, OUTPUT_BIAS };
enum { STRIDE, PADDING, DILATION, ACTIVATION };
enum {
	STEP_MAX = SGPU_CONV2D_STEP_MAX,
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

/* The output's extent along one dimension, or 0 when the kernel does not fit. */
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

/* Checks weights against input, and gives the shape of conv2d's output; returns false after it
 * reported a diagnostic. */
static bool infer_shape(const struct sgpu_op_call *call, struct sgpu_op_report *report,
			struct sgpu_type *output)
{
	const struct sgpu_type *input = &call->type[INPUT], *weights = &call->type[WEIGHTS];
	uint64_t shape[4] = { input->shape[0], weights->shape[0], extent(call, 2),
			      extent(call, 3) };
	bool right = true;

	if (input->shape[1] != weights->shape[1]) {
		sgpu_op_diagnose(report, "weights", NULL, "has %llu channels, but 'input' has %llu",
				 (unsigned long long)weights->shape[1],
				 (unsigned long long)input->shape[1]);
		right = false;
	}
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

struct sgpu_conv2d sgpu_conv2d_describe(const struct sgpu_op_call *call,
					const struct sgpu_type *output)
{
	static const uint64_t smallest[4] = { 1, 1, 1, 1 };
	const uint64_t *in = call->type[INPUT].shape;
	/* If there are no weights, memory does not bound a kernel's extents, whose product may be 0
	 * modulo 2^64. */
	const uint64_t *kernel =
		sgpu_ops_count(&call->type[WEIGHTS]) ? call->type[WEIGHTS].shape : smallest;

	return (struct sgpu_conv2d){
		.images = in[0],
		.channels = in[1],
		.height = in[2],
		.width = in[3],
		.outputs = output->shape[1],
		.out_height = output->shape[2],
		.out_width = output->shape[3],
		.kernel_height = kernel[2],
		.kernel_width = kernel[3],
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

struct job {
	struct sgpu_conv2d c;
	const float *input, *weights, *bias, *gradient;
	float *output, *output_input, *output_weights, *output_bias, *parts;
	int activation;
	/* Computes columns of the result, from `first` on, for an image or for a part of the
	 * images. */
	void (*tile)(const struct job *job, uint64_t image, uint64_t first, float right[LANES]);
	uint64_t tiles; /* for each image or part */
};

/* ---- the product ---- */
/* Adds the product of a column of the left factor, whose elements are `left_row` apart, and `count`
 * elements of a row of the right one. */
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

static void clear_rows(float *to, uint64_t row, uint64_t rows, uint64_t count)
{
	for (uint64_t r = 0; r < rows; r++) {
		memset(to + r * row, 0, count * sizeof(*to));
	}
}

/* What each lane stands for: a pixel of an image, or a weight of a kernel and the plane
 * of its channel. */
struct stand {
	int64_t y[LANES], x[LANES];
	const float *plane[LANES];
};

/* ---- conv2d: rows are output channels, columns are pixels of the output, k is (channel, row,
 * column of the kernel) ---- */
/* The element at y, x of a plane of the input; 0 in the padding. */
SGPU_INLINE float image_at(const struct sgpu_conv2d *c, const float *plane, int64_t y, int64_t x)
{
	return y >= 0 && x >= 0 && y < (int64_t)c->height && x < (int64_t)c->width
		       ? plane[y * (int64_t)c->width + x]
		       : 0.0f;
}

static void output_tile(const struct job *job, uint64_t image, uint64_t first, float right[LANES])
{
	const struct sgpu_conv2d *c = &job->c;
	uint64_t pixels = c->out_height * c->out_width, window = c->kernel_height * c->kernel_width;
	uint64_t count = sgpu_ops_min(pixels - first, LANES);
	float *to = job->output + image * c->outputs * pixels + first;
	struct stand at;

	for (uint64_t i = 0; i < LANES; i++) {
		at.y[i] = (int64_t)((first + i) / c->out_width) * c->stride - c->padding;
		at.x[i] = (int64_t)((first + i) % c->out_width) * c->stride - c->padding;
	}
	for (uint64_t o = 0; o < c->outputs; o++) {
		for (uint64_t i = 0; i < count; i++) {
			to[o * pixels + i] = job->bias ? job->bias[o] : 0.0f;
		}
	}
	for (uint64_t k = 0; k < c->channels * window; k++) {
		const float *plane =
			job->input + (image * c->channels + k / window) * c->height * c->width;
		int64_t down = (int64_t)(k % window / c->kernel_width) * c->dilation;
		int64_t across = (int64_t)(k % c->kernel_width) * c->dilation;

		for (uint64_t i = 0; i < LANES; i++) {
			right[i] = image_at(c, plane, at.y[i] + down, at.x[i] + across);
		}
		add_product(job->weights + k, c->channels * window, c->outputs, right, to, pixels,
			    count);
	}
	for (uint64_t o = 0; o < c->outputs; o++) {
		sgpu_ops_activate_f32(job->activation, to + o * pixels, count);
	}
}

/* An item is one tile of one image or part. */
static void tile_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	float right[LANES];

	for (uint64_t i = begin; i < end; i++) {
		job->tile(job, i / job->tiles, i % job->tiles * LANES, right);
	}
	sgpu_wipe(right, sizeof(right));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct job job = {
		.c = sgpu_conv2d_describe(call, &call->type[OUTPUT]),
		.input = call->data[INPUT],
		.weights = call->data[WEIGHTS],
		.bias = call->data[BIAS],
		.output = call->data[OUTPUT],
		.activation = (int)call->param[ACTIVATION].number,
	};
	const struct sgpu_conv2d *c = &job.c;

	job.tile = output_tile;
	job.tiles = sgpu_ops_ceil(c->out_height * c->out_width, LANES);
	return sgpu_ops_for(launch, c->images * job.tiles,
			    sgpu_ops_grain(c->channels * c->kernel_height * c->kernel_width *
						   c->outputs * LANES,
					   GRAIN_WORK),
			    tile_body, &job);
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

/* Scratch memory: a matrix for each part; UINT64_MAX if the size overflows. */
static uint64_t scratch(const struct sgpu_op_call *call)
{
	struct sgpu_conv2d c = sgpu_conv2d_describe(call, &call->type[GRADIENT]);
	uint64_t size = sizeof(float);

	if (!call->present[OUTPUT_WEIGHTS] && !call->present[OUTPUT_BIAS]) {
		return 0;
	}
	return sgpu_mul_u64(size, sgpu_conv2d_parts(c.images), &size) &&
			       sgpu_mul_u64(size, c.outputs, &size) &&
			       sgpu_mul_u64(size, sgpu_conv2d_columns(&c), &size)
		       ? size
		       : UINT64_MAX;
}

/* ---- by input: rows are channels, columns are pixels, k is (output channel, row, column of the
 * kernel) ---- */
/* The element of a plane of the gradient whose window begins at y, x of the padded input; 0 if
 * there is none. */
SGPU_INLINE float window_at(const struct sgpu_conv2d *c, const float *plane, int64_t y, int64_t x)
{
	if (y < 0 || x < 0) {
		return 0.0f;
	}
	if (c->stride > 1) {
		if (y % c->stride || x % c->stride) {
			return 0.0f;
		}
		y /= c->stride;
		x /= c->stride;
	}
	return y < (int64_t)c->out_height && x < (int64_t)c->out_width
		       ? plane[y * (int64_t)c->out_width + x]
		       : 0.0f;
}

static void input_tile(const struct job *job, uint64_t image, uint64_t first, float right[LANES])
{
	const struct sgpu_conv2d *c = &job->c;
	uint64_t pixels = c->height * c->width, window = c->kernel_height * c->kernel_width;
	uint64_t count = sgpu_ops_min(pixels - first, LANES);
	float *to = job->output_input + image * c->channels * pixels + first;
	struct stand at;

	for (uint64_t i = 0; i < LANES; i++) {
		at.y[i] = (int64_t)((first + i) / c->width) + c->padding;
		at.x[i] = (int64_t)((first + i) % c->width) + c->padding;
	}
	clear_rows(to, pixels, c->channels, count);
	for (uint64_t k = 0; k < c->outputs * window; k++) {
		const float *plane = job->gradient + (image * c->outputs + k / window) *
							     c->out_height * c->out_width;
		int64_t down = (int64_t)(k % window / c->kernel_width) * c->dilation;
		int64_t across = (int64_t)(k % c->kernel_width) * c->dilation;

		for (uint64_t i = 0; i < LANES; i++) {
			right[i] = window_at(c, plane, at.y[i] - down, at.x[i] - across);
		}
		add_product(job->weights + k / window * c->channels * window + k % window, window,
			    c->channels, right, to, pixels, count);
	}
}

/* ---- by weights and bias: rows are output channels, k is (image of the part, row, column of the
 * output) ---- */
/* Finds the planes of the input for columns from `first` on. The last column, for the bias, has
 * none. */
static struct stand find_columns(const struct job *job, uint64_t first)
{
	const struct sgpu_conv2d *c = &job->c;
	uint64_t kernel = c->kernel_height * c->kernel_width;
	struct stand at;

	for (uint64_t i = 0; i < LANES; i++) {
		uint64_t weight = (first + i) % kernel, channel = (first + i) / kernel;

		at.y[i] = (int64_t)(weight / c->kernel_width) * c->dilation - c->padding;
		at.x[i] = (int64_t)(weight % c->kernel_width) * c->dilation - c->padding;
		at.plane[i] =
			channel < c->channels ? job->input + channel * c->height * c->width : NULL;
	}
	return at;
}

static void weights_tile(const struct job *job, uint64_t part, uint64_t first, float right[LANES])
{
	const struct sgpu_conv2d *c = &job->c;
	const struct stand at = find_columns(job, first);
	uint64_t columns = sgpu_conv2d_columns(c), plane = c->out_height * c->out_width;
	uint64_t count = sgpu_ops_min(columns - first, LANES),
		 each = sgpu_conv2d_part_images(c->images);
	uint64_t end = (part + 1) * each < c->images ? (part + 1) * each : c->images;
	float *to = job->parts + part * c->outputs * columns + first;

	clear_rows(to, columns, c->outputs, count);
	for (uint64_t k = part * each * plane; k < end * plane; k++) {
		uint64_t image = k / plane, element = k % plane,
			 skip = image * c->channels * c->height * c->width;
		int64_t top = (int64_t)(element / c->out_width) * c->stride;
		int64_t left = (int64_t)(element % c->out_width) * c->stride;

		for (uint64_t i = 0; i < LANES; i++) {
			right[i] = at.plane[i] ? image_at(c, at.plane[i] + skip, top + at.y[i],
							  left + at.x[i])
					       : 1.0f;
		}
		add_product(job->gradient + image * c->outputs * plane + element, plane, c->outputs,
			    right, to, columns, count);
	}
}

/* Adds the parts' matrices, in f64. An item is an element of the matrix. */
static void finish_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t columns = sgpu_conv2d_columns(&job->c), elements = job->c.outputs * columns;
	uint64_t parts = sgpu_conv2d_parts(job->c.images);

	for (uint64_t i = begin; i < end; i++) {
		uint64_t row = i / columns, column = i % columns;
		double sum = 0;

		for (uint64_t part = 0; part < parts; part++) {
			sum += (double)job->parts[part * elements + i];
		}
		if (column + 1 < columns && job->output_weights) {
			job->output_weights[row * (columns - 1) + column] = (float)sum;
		} else if (column + 1 == columns && job->output_bias) {
			job->output_bias[row] = (float)sum;
		}
	}
}

static int gradient_cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct job job = {
		.c = sgpu_conv2d_describe(call, &call->type[GRADIENT]),
		.input = call->data[INPUT],
		.weights = call->data[WEIGHTS],
		.gradient = call->data[GRADIENT],
		.parts = call->scratch,
		.output_input = sgpu_conv2d_output(call, OUTPUT_INPUT),
		.output_weights = sgpu_conv2d_output(call, OUTPUT_WEIGHTS),
		.output_bias = sgpu_conv2d_output(call, OUTPUT_BIAS),
	};
	const struct sgpu_conv2d *c = &job.c;
	uint64_t columns = sgpu_conv2d_columns(c), kernel = c->kernel_height * c->kernel_width;
	uint64_t pixels = c->height * c->width, plane = c->out_height * c->out_width;
	int rc = 0;

	if (job.output_input) {
		job.tile = input_tile;
		job.tiles = sgpu_ops_ceil(pixels, LANES);
		rc = sgpu_ops_for(
			launch, c->images * job.tiles,
			sgpu_ops_grain(kernel * c->outputs * c->channels * LANES, GRAIN_WORK),
			tile_body, &job);
	}
	if (rc || (!job.output_weights && !job.output_bias)) {
		return rc;
	}
	job.tile = weights_tile;
	job.tiles = sgpu_ops_ceil(columns, LANES);
	rc = sgpu_ops_for(
		launch, sgpu_conv2d_parts(c->images) * job.tiles,
		sgpu_ops_grain(sgpu_conv2d_part_images(c->images) * plane * c->outputs * LANES,
			       GRAIN_WORK),
		tile_body, &job);
	return rc ? rc : sgpu_ops_for(launch, c->outputs * columns, GRAIN, finish_body, &job);
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
