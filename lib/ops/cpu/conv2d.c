/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d: convolution of images, as neural networks mean it (correlation: the kernel is not
 * flipped), on f32.
 *
 * Every element of the output starts with its bias and adds input * weight in the order channel,
 * row, column of the kernel; the padding counts as 0. A tile of one output row is computed for
 * several output channels at once.
 */
#include <string.h>

#include "ops/cpu/activation.h"
#include "ops/cpu/conv2d.h"

enum { INPUT, WEIGHTS, BIAS, OUTPUT };
enum { STRIDE, PADDING, DILATION, ACTIVATION };
enum {
	STEP_MAX = SGPU_CONV2D_STEP_MAX,
	LANES = 8,
	VECTORS = 2,
	TILE = LANES * VECTORS, /* elements of an output row */
	SPAN_MAX = 256,		/* elements of an input row that a tile meets */
	CHANNELS = 4,		/* output channels at once */
	GRAIN_WORK = 1 << 18,
};

/* Stays in registers where the CPU has such vectors, and becomes several smaller ones where not. */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

#define F32 SGPU_TYPE_BIT(SGPU_F32)

static const struct sgpu_op_argument args[] = {
	{ "input", false, F32, 4, 4, "images: [n, channels, height, width]" },
	{ "weights", false, F32, 4, 4,
	  "kernels: [output channels, channels, kernel height, kernel width]" },
	{ "bias", true, F32, 1, 1, "[output channels]" },
	{ "output", false, F32, 4, 4, "[n, output channels, output height, output width]" },
	{ NULL, false, 0, 0, 0, NULL },
};

static const struct sgpu_op_param params[] = {
	{ "stride", SGPU_PARAM_INTEGER, false, 1, STEP_MAX, 1, NULL,
	  "input elements from one output to the next" },
	{ "padding", SGPU_PARAM_INTEGER, false, 0, STEP_MAX, 0, NULL,
	  "zeros around the image on each side" },
	{ "dilation", SGPU_PARAM_INTEGER, false, 1, STEP_MAX, 1, NULL,
	  "input elements from one weight to the next" },
	{ .name = "activation",
	  .kind = SGPU_PARAM_CHOICE,
	  .choices = sgpu_ops_activations,
	  .standard = SGPU_ACTIVATION_NONE,
	  .help = "applied to every element" },
	{ NULL, SGPU_PARAM_NUMBER, false, 0.0, 0.0, 0.0, NULL, NULL },
};

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

bool sgpu_conv2d_infer(const struct sgpu_op_call *call, struct sgpu_op_report *report,
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
	/* Where there are no weights, no memory bounds a kernel's extents, whose product may be 0
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
	const struct sgpu_type *weights = &call->type[WEIGHTS];

	sgpu_conv2d_infer(call, report, &call->type[OUTPUT]);
	if (call->present[BIAS] && call->type[BIAS].dtype == SGPU_NONE) {
		call->type[BIAS] = sgpu_ops_type(SGPU_F32, 1, &weights->shape[0]);
	}
	if (call->present[BIAS] && call->type[BIAS].shape[0] != weights->shape[0]) {
		sgpu_op_diagnose(report, "bias", NULL,
				 "has %llu elements, but 'weights' has %llu output channels",
				 (unsigned long long)call->type[BIAS].shape[0],
				 (unsigned long long)weights->shape[0]);
	}
}

struct job {
	struct sgpu_conv2d c;
	const float *input, *weights, *bias;
	float *output;
	int activation;
};

/* A tile under work: `lines` output channels from `first` on, `count` elements of the output row
 * `row` from `x` on. */
struct tile {
	uint64_t image, first, lines, row, x, count;
};

/* `count` elements of an input row, `stride` apart, from the column `from` on; 0 outside. A row of
 * NULL is outside. */
SGPU_INLINE const float *gather(const struct job *job, const float *row, int64_t from,
				int64_t count, int64_t stride, float *buffer)
{
	for (int64_t i = 0; i < count; i++) {
		int64_t at = from + i * stride;

		buffer[i] = row && at >= 0 && at < (int64_t)job->c.width ? row[at] : 0.0f;
	}
	return buffer;
}

/* What all columns of the kernel meet in one row, when it is adjacent: in place, or copied to the
 * buffer. */
SGPU_INLINE const float *row_window(const struct job *job, const float *row, int64_t from,
				    float *buffer)
{
	uint64_t span = TILE + (job->c.kernel_width - 1) * (uint64_t)job->c.dilation;

	if (job->c.stride != 1 || span > SPAN_MAX) {
		return NULL;
	}
	if (row && from >= 0 && (uint64_t)from + span <= job->c.width) {
		return row + from;
	}
	return gather(job, row, from, (int64_t)span, 1, buffer);
}

/* Adds one weight of each channel times a tile of the input. */
SGPU_INLINE void add_products(lanes sums[CHANNELS][VECTORS], const float *in, const float *weights,
			      uint64_t line)
{
	for (int v = 0; v < VECTORS; v++) {
		lanes values;

		memcpy(&values, in + v * LANES, sizeof(values));
		for (uint64_t o = 0; o < CHANNELS; o++) {
			sums[o][v] += values * weights[o * line];
		}
	}
}

/* `line`: weights from one output channel to the next; 0 computes one channel as often as the loop
 * does four. */
SGPU_CLONES_ATTR static void accumulate(const struct job *job, const struct tile *t, uint64_t line,
					float results[CHANNELS][TILE], float *buffer)
{
	const float *weights = job->weights + t->first * job->c.channels * job->c.kernel_height *
						      job->c.kernel_width;
	int64_t from = (int64_t)t->x * job->c.stride - job->c.padding;
	lanes sums[CHANNELS][VECTORS];

	memcpy(sums, results, sizeof(sums));
	for (uint64_t c = 0; c < job->c.channels; c++) {
		const float *image = job->input + (t->image * job->c.channels + c) * job->c.height *
							  job->c.width;

		for (uint64_t ky = 0; ky < job->c.kernel_height; ky++) {
			int64_t y = (int64_t)t->row * job->c.stride - job->c.padding +
				    (int64_t)ky * job->c.dilation;
			const float *row = y >= 0 && y < (int64_t)job->c.height
						   ? image + y * (int64_t)job->c.width
						   : NULL;
			const float *window = row_window(job, row, from, buffer);

			for (uint64_t kx = 0; kx < job->c.kernel_width; kx++) {
				int64_t shift = (int64_t)kx * job->c.dilation;
				const float *in = window ? window + shift
							 : gather(job, row, from + shift, TILE,
								  job->c.stride, buffer);

				add_products(sums, in, weights++, line);
			}
		}
	}
	memcpy(results, sums, sizeof(sums));
}

static void compute(const struct job *job, const struct tile *t, float results[CHANNELS][TILE],
		    float *buffer)
{
	uint64_t line = t->lines == CHANNELS
				? job->c.channels * job->c.kernel_height * job->c.kernel_width
				: 0;

	for (uint64_t o = 0; o < CHANNELS; o++) {
		float bias = job->bias && o < t->lines ? job->bias[t->first + o] : 0.0f;

		for (int i = 0; i < TILE; i++) {
			results[o][i] = bias;
		}
	}
	accumulate(job, t, line, results, buffer);
	for (uint64_t o = 0; o < t->lines; o++) {
		uint64_t plane = t->image * job->c.outputs + t->first + o;

		sgpu_ops_activate_f32(job->activation, results[o], t->count);
		memcpy(job->output + (plane * job->c.out_height + t->row) * job->c.out_width + t->x,
		       results[o], t->count * sizeof(float));
	}
}

/* Items are (image, group of output channels, output row). A group that is not full goes channel by
 * channel. */
static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t groups = (job->c.outputs + CHANNELS - 1) / CHANNELS;
	float results[CHANNELS][TILE], buffer[SPAN_MAX];

	for (uint64_t item = begin; item < end; item++) {
		uint64_t group = item / job->c.out_height % groups, first = group * CHANNELS;
		uint64_t left = job->c.outputs - first, step = left < CHANNELS ? 1 : CHANNELS;
		struct tile t = { .image = item / job->c.out_height / groups,
				  .row = item % job->c.out_height };

		for (t.first = first; t.first < first + (left < CHANNELS ? left : CHANNELS);
		     t.first += step) {
			t.lines = step;
			for (t.x = 0; t.x < job->c.out_width; t.x += TILE) {
				t.count = job->c.out_width - t.x < TILE ? job->c.out_width - t.x
									: TILE;
				compute(job, &t, results, buffer);
			}
		}
	}
	sgpu_wipe(results, sizeof(results));
	sgpu_wipe(buffer, sizeof(buffer));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
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
	uint64_t work =
		c->channels * c->kernel_height * c->kernel_width * CHANNELS * c->out_width + 1;

	return sgpu_ops_for(pool,
			    c->images * ((c->outputs + CHANNELS - 1) / CHANNELS) * c->out_height,
			    work < GRAIN_WORK ? GRAIN_WORK / work + 1 : 1, body, &job, error);
}

const struct sgpu_op sgpu_op_conv2d = {
	.name = "conv2d",
	.help = "convolution of images",
	.args = args,
	.params = params,
	.infer = infer,
	.cpu = cpu,
};
