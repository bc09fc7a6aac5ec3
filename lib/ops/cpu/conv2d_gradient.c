/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_gradient: the gradients of conv2d by its input, weights and bias, on f32.
 *
 * Both are matrix products, of which the right factor is never stored as a whole: blocks of DEPTH
 * rows and LANES columns are gathered into a panel, and every row of the left factor meets the
 * panel. Each sum is made in the order of k.
 */
#include <string.h>

#include "ops/cpu/conv2d.h"

enum { INPUT, WEIGHTS, GRADIENT, OUTPUT_INPUT, OUTPUT_WEIGHTS, OUTPUT_BIAS };
enum { LANES = 16, DEPTH = 64, ROWS = 6, GRAIN = 1 << 10, GRAIN_WORK = 1 << 18 };

/* Stays in registers where the CPU has such vectors, and becomes several smaller ones where not. */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

#define F32 SGPU_TYPE_BIT(SGPU_F32)

static const struct sgpu_op_argument args[] = {
	{ "input", false, F32, 4, 4, "what conv2d got: [n, channels, height, width]" },
	{ "weights", false, F32, 4, 4,
	  "kernels: [output channels, channels, kernel height, kernel width]" },
	{ "gradient", false, F32, 4, 4, "of the loss by what conv2d gave" },
	{ "output_input", true, F32, 4, 4, "of the loss by input" },
	{ "output_weights", true, F32, 4, 4, "of the loss by weights" },
	{ "output_bias", true, F32, 1, 1, "of the loss by the bias" },
	{ .name = NULL },
};

static const struct sgpu_op_param params[] = {
	{ .name = "stride",
	  .kind = SGPU_PARAM_INTEGER,
	  .min = 1,
	  .max = SGPU_CONV2D_STEP_MAX,
	  .standard = 1,
	  .help = "that of conv2d" },
	{ .name = "padding",
	  .kind = SGPU_PARAM_INTEGER,
	  .max = SGPU_CONV2D_STEP_MAX,
	  .help = "that of conv2d" },
	{ .name = "dilation",
	  .kind = SGPU_PARAM_INTEGER,
	  .min = 1,
	  .max = SGPU_CONV2D_STEP_MAX,
	  .standard = 1,
	  .help = "that of conv2d" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	char is[SGPU_TYPE_TEXT_MAX], wanted[SGPU_TYPE_TEXT_MAX];
	struct sgpu_type made;

	if (!sgpu_conv2d_infer(call, report, &made)) {
		return;
	}
	if (!sgpu_type_equal(&made, &call->type[GRADIENT])) {
		sgpu_type_text(&call->type[GRADIENT], is);
		sgpu_type_text(&made, wanted);
		sgpu_op_diagnose(report, "gradient", NULL, "is %s, but conv2d makes %s", is,
				 wanted);
	}
	if (!call->present[OUTPUT_INPUT] && !call->present[OUTPUT_WEIGHTS] &&
	    !call->present[OUTPUT_BIAS]) {
		sgpu_op_diagnose(report, NULL, NULL, "one of the outputs must be given");
	}
	call->type[OUTPUT_INPUT] = call->type[INPUT];
	call->type[OUTPUT_WEIGHTS] = call->type[WEIGHTS];
	call->type[OUTPUT_BIAS] = sgpu_ops_type(SGPU_F32, 1, call->type[WEIGHTS].shape);
}

/* A matrix for each part. What does not fit into a number does not fit into memory either. */
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

struct job {
	struct sgpu_conv2d c;
	const float *input, *weights, *gradient;
	float *output_input, *output_weights, *output_bias, *parts;
};

/* ---- the product ---- */
struct panel {
	float row[DEPTH][LANES] __attribute__((aligned(64)));
};

/* Up to ROWS rows of the left factor, whose elements along k are adjacent, and of the result. */
struct strip {
	const float *left;
	float *to;
	uint64_t left_row, to_row; /* elements from one row to the next */
	uint64_t rows, depth, count;
};

SGPU_CLONES_ATTR static void add_products(const struct strip *s, const struct panel *panel)
{
	lanes sums[ROWS] = { { 0 } };
	const float *left[ROWS];

	for (uint64_t r = 0; r < ROWS; r++) {
		left[r] = s->left +
			  (r < s->rows ? r : 0) *
				  s->left_row; /* a row that is not there takes another's place */
		if (r < s->rows) {
			memcpy(&sums[r], s->to + r * s->to_row, s->count * sizeof(float));
		}
	}
	for (uint64_t k = 0; k < s->depth; k++) {
		lanes right = *(const lanes *)panel->row[k];

		for (int r = 0; r < ROWS; r++) {
			sums[r] += left[r][k] * right;
		}
	}
	for (uint64_t r = 0; r < s->rows; r++) {
		memcpy(s->to + r * s->to_row, &sums[r], s->count * sizeof(float));
	}
}

/* All `rows` rows, in strips. */
static void add_panel(struct strip all, uint64_t rows, const struct panel *panel)
{
	for (uint64_t r = 0; r < rows; r += ROWS) {
		all.rows = rows - r < ROWS ? rows - r : ROWS;
		add_products(&all, panel);
		all.left += ROWS * all.left_row;
		all.to += ROWS * all.to_row;
	}
}

static void clear_rows(float *to, uint64_t row, uint64_t rows, uint64_t count)
{
	for (uint64_t r = 0; r < rows; r++) {
		memset(to + r * row, 0, count * sizeof(*to));
	}
}

/* Where the lanes of a panel stand: pixels of an image, or weights of a kernel with the plane of
 * their channel. */
struct stand {
	int64_t y[LANES], x[LANES];
	const float *plane[LANES];
};

/* ---- by input: rows are channels, columns are pixels, k is (output channel, row, column of the
 * kernel) ---- */
/* The element of a plane of the gradient whose window, less the padding, begins at y, x; or 0. */
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

/* The `depth` weights of a kernel from `weight` on, and the elements of the gradient that they
 * connect to pixels. */
static void gather_windows(const struct sgpu_conv2d *c, const float *plane,
			   const struct stand *pixels, uint64_t weight, uint64_t depth,
			   struct panel *panel)
{
	for (uint64_t k = 0; k < depth; k++) {
		int64_t down = (int64_t)((weight + k) / c->kernel_width) * c->dilation - c->padding;
		int64_t across =
			(int64_t)((weight + k) % c->kernel_width) * c->dilation - c->padding;

		for (int i = 0; i < LANES; i++) {
			panel->row[k][i] =
				window_at(c, plane, pixels->y[i] - down, pixels->x[i] - across);
		}
	}
}

static void input_tile(const struct job *job, uint64_t image, uint64_t first, struct panel *panel)
{
	const struct sgpu_conv2d *c = &job->c;
	uint64_t pixels = c->height * c->width, kernel = c->kernel_height * c->kernel_width;
	uint64_t count = pixels - first < LANES ? pixels - first : LANES;
	float *to = job->output_input + image * c->channels * pixels + first;
	struct stand at;

	for (uint64_t i = 0; i < LANES; i++) {
		at.y[i] = (int64_t)((first + i) / c->width);
		at.x[i] = (int64_t)((first + i) % c->width);
	}
	clear_rows(to, pixels, c->channels, count);
	for (uint64_t o = 0; o < c->outputs; o++) {
		const float *plane =
			job->gradient + (image * c->outputs + o) * c->out_height * c->out_width;

		for (uint64_t k = 0; k < kernel; k += DEPTH) {
			struct strip all = { job->weights + o * c->channels * kernel + k,
					     to,
					     kernel,
					     pixels,
					     0,
					     kernel - k < DEPTH ? kernel - k : DEPTH,
					     count };

			gather_windows(c, plane, &at, k, all.depth, panel);
			add_panel(all, c->channels, panel);
		}
	}
}

/* Items are (image, tile of pixels). */
static void input_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t tiles = (job->c.height * job->c.width + LANES - 1) / LANES;
	struct panel panel = { { { 0 } } };

	for (uint64_t i = begin; i < end; i++) {
		input_tile(job, i / tiles, i % tiles * LANES, &panel);
	}
	sgpu_wipe(&panel, sizeof(panel));
}

/* ---- by weights and bias: rows are output channels, k is (image of the part, row, column of the
 * output) ---- */
/* Columns from `first` on in planes of the input; the last one, that of the bias, has no plane. */
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

/* What columns meet at `depth` elements of the output from `element` on. skip: elements from the
 * first image on. */
static void gather_images(const struct sgpu_conv2d *c, const struct stand *columns, uint64_t skip,
			  uint64_t element, uint64_t depth, struct panel *panel)
{
	for (uint64_t k = 0; k < depth; k++) {
		int64_t top = (int64_t)((element + k) / c->out_width) * c->stride;
		int64_t left = (int64_t)((element + k) % c->out_width) * c->stride;

		for (int i = 0; i < LANES; i++) {
			int64_t y = top + columns->y[i], x = left + columns->x[i];
			bool inside =
				y >= 0 && x >= 0 && y < (int64_t)c->height && x < (int64_t)c->width;

			panel->row[k][i] =
				!columns->plane[i] ? 1.0f
				: inside ? columns->plane[i][skip + (uint64_t)y * c->width +
							     (uint64_t)x]
					 : 0.0f;
		}
	}
}

static void weights_tile(const struct job *job, uint64_t part, uint64_t first, struct panel *panel)
{
	const struct sgpu_conv2d *c = &job->c;
	const struct stand at = find_columns(job, first);
	uint64_t columns = sgpu_conv2d_columns(c), plane = c->out_height * c->out_width;
	uint64_t count = columns - first < LANES ? columns - first : LANES,
		 each = sgpu_conv2d_part_images(c->images);
	uint64_t end = (part + 1) * each < c->images ? (part + 1) * each : c->images;
	float *to = job->parts + part * c->outputs * columns + first;

	clear_rows(to, columns, c->outputs, count);
	for (uint64_t n = part * each; n < end; n++) {
		for (uint64_t k = 0; k < plane; k += DEPTH) {
			struct strip all = {
				job->gradient + n * c->outputs * plane + k, to,	  plane, columns, 0,
				plane - k < DEPTH ? plane - k : DEPTH,	    count
			};

			gather_images(c, &at, n * c->channels * c->height * c->width, k, all.depth,
				      panel);
			add_panel(all, c->outputs, panel);
		}
	}
}

/* Items are (part, tile of columns). */
static void weights_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t tiles = (sgpu_conv2d_columns(&job->c) + LANES - 1) / LANES;
	struct panel panel = { { { 0 } } };

	for (uint64_t i = begin; i < end; i++) {
		weights_tile(job, i / tiles, i % tiles * LANES, &panel);
	}
	sgpu_wipe(&panel, sizeof(panel));
}

/* Adds the parts, in f64. Items are elements of the matrix. */
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

static uint64_t grain(uint64_t work)
{
	return work < GRAIN_WORK ? GRAIN_WORK / (work + 1) + 1 : 1;
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
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
	int result = 0;

	if (job.output_input) {
		result = sgpu_ops_for(pool, c->images * ((pixels + LANES - 1) / LANES),
				      grain(kernel * c->outputs * c->channels * LANES), input_body,
				      &job, error);
	}
	if (result || (!job.output_weights && !job.output_bias)) {
		return result;
	}
	result =
		sgpu_ops_for(pool, sgpu_conv2d_parts(c->images) * ((columns + LANES - 1) / LANES),
			     grain(sgpu_conv2d_part_images(c->images) * plane * c->outputs * LANES),
			     weights_body, &job, error);
	return result ? result
		      : sgpu_ops_for(pool, c->outputs * columns, GRAIN, finish_body, &job, error);
}

const struct sgpu_op sgpu_op_conv2d_gradient = {
	.name = "conv2d_gradient",
	.help = "gradients of conv2d by input, weights and bias",
	.args = args,
	.params = params,
	.infer = infer,
	.scratch = scratch,
	.cpu = cpu,
};
