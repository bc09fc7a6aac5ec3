/* SPDX-License-Identifier: Apache-2.0
 *
 * The two networks, and their graphs. The segment of a value is called after its layer and step:
 * "x2.7" goes into layer 2 in step 7, "g2.7" is the gradient by it. An output of the job has an id
 * without a dot.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "network.h"

static const struct network networks[] = {
	{ .name = "cnn",
	  .classifies = true,
	  .batch = 200,
	  .tested = 400,
	  .rate = 0.05,
	  .momentum = 0.9,
	  .layers = { { LAYER_CONV, 32, "relu" },
		      { LAYER_POOL, 0, NULL },
		      { LAYER_CONV, 32, "relu" },
		      { LAYER_POOL, 0, NULL },
		      { LAYER_CONV, 64, "relu" },
		      { LAYER_POOL, 0, NULL },
		      { LAYER_FLATTEN, 0, NULL },
		      { LAYER_DENSE, NETWORK_CLASSES, "none" } } },
	{ .name = "autoencoder",
	  .batch = 128,
	  .tested = 256,
	  .rate = 1,
	  .momentum = 0.9,
	  .layers = { { LAYER_DENSE, 1000, "tanh" },
		      { LAYER_DENSE, 500, "tanh" },
		      { LAYER_DENSE, 250, "tanh" },
		      { LAYER_DENSE, 30, "none" },
		      { LAYER_DENSE, 250, "tanh" },
		      { LAYER_DENSE, 500, "tanh" },
		      { LAYER_DENSE, 1000, "tanh" },
		      { LAYER_DENSE, NETWORK_PIXELS, "sigmoid" } } },
};

const struct network *network_find(const char *name)
{
	for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
		if (strcmp(networks[i].name, name) == 0) {
			return &networks[i];
		}
	}
	return NULL;
}

enum { KERNEL = 5, KERNEL_PADDING = 2, POOL = 3, POOL_STRIDE = 2, POOL_PADDING = 1 };

/* ---- shapes and parameters ---- */
static void add_parameters(struct training *t, char kind, int layer, const uint64_t shape[4],
			   double limit)
{
	struct parameters *p = &t->parameters[t->parameter_count++];

	snprintf(p->input, sizeof(p->input), "%c%d.0", kind, layer);
	snprintf(p->output, sizeof(p->output), "%c%d", kind, layer);
	memcpy(p->shape, shape, sizeof(p->shape));
	p->limit = limit;
	p->count = 1;
	for (int i = 0; i < 4 && shape[i]; i++) {
		p->count *= shape[i];
	}
}

/* What a layer makes of an input, and its parameters: weights by the rule of Glorot and Bengio,
 * biases of 0. */
static void plan_layer(struct training *t, int i)
{
	const struct layer *layer = &t->network->layers[i];
	const uint64_t *in = t->shapes[i], outputs = layer->outputs;
	const uint64_t dense[4] = { in[1], outputs }, conv[4] = { outputs, in[1], KERNEL, KERNEL },
		       bias[4] = { outputs };
	uint64_t *out = t->shapes[i + 1], window = layer->kind == LAYER_CONV ? KERNEL * KERNEL : 1;

	memcpy(out, in, sizeof(t->shapes[0]));
	if (layer->kind == LAYER_POOL) {
		out[2] = (in[2] + 2 * POOL_PADDING - POOL) / POOL_STRIDE + 1;
		out[3] = (in[3] + 2 * POOL_PADDING - POOL) / POOL_STRIDE + 1;
	} else if (layer->kind == LAYER_FLATTEN) {
		out[1] = in[1] * in[2] * in[3];
		out[2] = out[3] = 0;
	} else {
		out[1] = outputs;
		add_parameters(t, 'w', i, layer->kind == LAYER_CONV ? conv : dense,
			       sqrt(6.0 / (double)((in[1] + outputs) * window)));
		add_parameters(t, 'b', i, bias, 0);
	}
}

void network_plan(struct training *t)
{
	const uint64_t flat[4] = { t->batch, NETWORK_PIXELS },
		       picture[4] = { t->batch, 1, NETWORK_SIDE, NETWORK_SIDE };

	t->parameter_count = 0;
	memcpy(t->shapes[0], t->network->layers[0].kind == LAYER_CONV ? picture : flat,
	       sizeof(flat));
	for (int i = 0; t->network->layers[i].kind != LAYER_END; i++) {
		plan_layer(t, i);
	}
}

void network_start(const struct training *t, int parameters, float *values)
{
	const struct parameters *p = &t->parameters[parameters];
	uint64_t z = (uint64_t)(parameters + 1) * 0x9e3779b97f4a7c15u;

	for (uint64_t i = 0; i < p->count; i++) {
		z = z * 6364136223846793005u + 1442695040888963407u;
		values[i] = (float)(p->limit * ((double)(z >> 40) / 0x1p23 - 1));
	}
}

/* ---- the graph ---- */
struct builder {
	const struct training *t;
	json_t *segments, *list; /* of operations */
	uint64_t step;
	int operations, names;
	char name[16][16]; /* in turns: an operation has fewer arguments */
};

/* location NULL: an intermediate. shape: up to the first 0. */
static void segment(struct builder *b, const char *id, const char *direction, const char *location,
		    const char *dtype, const uint64_t shape[4])
{
	json_t *one = json_pack("{s:s, s:s, s:s}", "segment_id", id, "sensitivity_level",
				b->t->level, "direction", direction);
	json_t *extents = json_array();

	for (int i = 0; location && i < 4 && shape[i]; i++) {
		json_array_append_new(extents, json_integer((json_int_t)shape[i]));
	}
	if (location) {
		json_object_set_new(one, "data_location_client", json_string(location));
		json_object_set_new(one, "data_type_info",
				    json_pack("{s:s, s:O}", "dtype", dtype, "shape", extents));
	}
	json_decref(extents);
	json_array_append_new(b->segments, one);
}

/* The id of a value in a step. Parameters of the step after the last one are outputs. */
static const char *at_step(struct builder *b, const char *kind, int layer, uint64_t step)
{
	char *name = b->name[b->names++ % 16];
	bool output = step == b->t->steps && (strcmp(kind, "w") == 0 || strcmp(kind, "b") == 0);

	if (output) {
		snprintf(name, sizeof(b->name[0]), "%s%d", kind, layer);
	} else {
		snprintf(name, sizeof(b->name[0]), "%s%d.%llu", kind, layer,
			 (unsigned long long)step);
	}
	return name;
}

static const char *at(struct builder *b, const char *kind, int layer)
{
	return at_step(b, kind, layer, b->step);
}

/* Takes the reference to params. Then arguments and ids, up to NULL; an argument whose id is NULL
 * is left out. */
static void operation(struct builder *b, const char *kernel, json_t *params, ...)
{
	json_t *arguments = json_object();
	const char *argument, *id;
	char name[16];
	va_list list;
	json_t *one;

	va_start(list, params);
	while ((argument = va_arg(list, const char *))) {
		id = va_arg(list, const char *);
		if (id && strncmp(argument, "output", 6) == 0 && strchr(id, '.')) {
			segment(b, id, "INTERMEDIATE", NULL, NULL, NULL);
		}
		if (id) {
			json_object_set_new(arguments, argument, json_string(id));
		}
	}
	va_end(list);
	snprintf(name, sizeof(name), "OP%d", b->operations++);
	one = json_pack("{s:s, s:s, s:o}", "gpu_operation_id", name, "kernel", kernel, "arguments",
			arguments);
	if (params) {
		json_object_set_new(one, "params", params);
	}
	json_array_append_new(b->list, one);
}

static json_t *pool_params(void)
{
	return json_pack("{s:i, s:i, s:i}", "size", POOL, "stride", POOL_STRIDE, "padding",
			 POOL_PADDING);
}

/* A batch of pictures in the shape of a layer's input. */
static json_t *shape_params(const struct builder *b, int layer, uint64_t pictures)
{
	const uint64_t *shape = b->t->shapes[layer];
	json_t *params =
		json_pack("{s:I, s:I}", "dim0", (json_int_t)pictures, "dim1", (json_int_t)shape[1]);

	if (shape[2]) {
		json_object_set_new(params, "dim2", json_integer((json_int_t)shape[2]));
		json_object_set_new(params, "dim3", json_integer((json_int_t)shape[3]));
	}
	return params;
}

/* From "x0" to what the last layer gives; returns its index. */
static int add_forward(struct builder *b, uint64_t pictures)
{
	const struct layer *layer = b->t->network->layers;
	int i;

	for (i = 0; layer[i].kind != LAYER_END; i++) {
		if (layer[i].kind == LAYER_POOL) {
			operation(b, "max_pool2d", pool_params(), "input", at(b, "x", i), "output",
				  at(b, "x", i + 1), NULL);
		} else if (layer[i].kind == LAYER_FLATTEN) {
			operation(b, "reshape", shape_params(b, i + 1, pictures), "input",
				  at(b, "x", i), "output", at(b, "x", i + 1), NULL);
		} else {
			json_t *params = json_pack("{s:s}", "activation", layer[i].activation);

			if (layer[i].kind == LAYER_CONV) {
				json_object_set_new(params, "padding",
						    json_integer(KERNEL_PADDING));
			}
			operation(b, layer[i].kind == LAYER_CONV ? "conv2d" : "dense", params,
				  "input", at(b, "x", i), "weights", at(b, "w", i), "bias",
				  at(b, "b", i), "output", at(b, "x", i + 1), NULL);
		}
	}
	return i;
}

/* The loss of each picture, its mean if `mean` names an output, and the gradient if `gradient` is
 * given. */
static void add_loss(struct builder *b, int last, const char *labels, const char *gradient,
		     const char *mean)
{
	const char *losses = mean ? at(b, "loss", 0) : NULL;

	if (b->t->network->classifies) {
		operation(b, "cross_entropy", NULL, "input", at(b, "x", last), "labels", labels,
			  "output_loss", losses, "output_gradient", gradient, NULL);
	} else {
		operation(b, "squared_error", NULL, "input", at(b, "x", last), "target",
			  at(b, "x", 0), "output_loss", losses, "output_gradient", gradient, NULL);
	}
	if (mean) {
		operation(b, "reduce", json_pack("{s:s}", "operation", "mean"), "input", losses,
			  "output", mean, NULL);
	}
}

static void add_update(struct builder *b, const char *kind, const char *velocity,
		       const char *gradient, int layer)
{
	const struct network *n = b->t->network;

	operation(b, "sgd", json_pack("{s:f, s:f}", "rate", n->rate, "momentum", n->momentum),
		  "weights", at(b, kind, layer), "gradient", at(b, gradient, layer), "velocity",
		  b->step ? at(b, velocity, layer) : NULL, "output",
		  at_step(b, kind, layer, b->step + 1), "output_velocity",
		  b->step + 1 < b->t->steps ? at_step(b, velocity, layer, b->step + 1) : NULL,
		  NULL);
}

/* The gradients by the parameters of a layer, "wg" and "bg", and by its input, from the gradient by
 * its output. */
static void add_backward(struct builder *b, int i)
{
	const struct layer *layer = &b->t->network->layers[i];
	const char *gradient = at(b, "g", i + 1), *by_input = i ? at(b, "g", i) : NULL;

	if (layer->kind == LAYER_POOL) {
		operation(b, "max_pool2d_gradient", pool_params(), "input", at(b, "x", i),
			  "gradient", gradient, "output", by_input, NULL);
		return;
	}
	if (layer->kind == LAYER_FLATTEN) {
		operation(b, "reshape", shape_params(b, i, b->t->batch), "input", gradient,
			  "output", by_input, NULL);
		return;
	}
	if (strcmp(layer->activation, "none") != 0) {
		operation(b, "activation_gradient",
			  json_pack("{s:s}", "activation", layer->activation), "activated",
			  at(b, "x", i + 1), "gradient", gradient, "output", at(b, "d", i), NULL);
		gradient = at(b, "d", i);
	}
	if (layer->kind == LAYER_CONV) {
		operation(b, "conv2d_gradient", json_pack("{s:i}", "padding", KERNEL_PADDING),
			  "input", at(b, "x", i), "weights", at(b, "w", i), "gradient", gradient,
			  "output_input", by_input, "output_weights", at(b, "wg", i), "output_bias",
			  at(b, "bg", i), NULL);
	} else {
		operation(b, "gemm", json_pack("{s:b}", "transpose_a", 1), "a", at(b, "x", i), "b",
			  gradient, "output", at(b, "wg", i), NULL);
		operation(b, "reduce", json_pack("{s:s, s:i}", "operation", "sum", "axis", 0),
			  "input", gradient, "output", at(b, "bg", i), NULL);
		if (by_input) {
			operation(b, "gemm", json_pack("{s:b}", "transpose_b", 1), "a", gradient,
				  "b", at(b, "w", i), "output", by_input, NULL);
		}
	}
	add_update(b, "w", "wv", "wg", i);
	add_update(b, "b", "bv", "bg", i);
}

/* Pictures or labels: the first ones of a file of the data set, behind its header. */
static void add_items(struct builder *b, const char *id, const char *file, uint64_t header,
		      uint64_t count, const uint64_t item[4])
{
	const uint64_t shape[4] = { count, item[1], item[2], item[3] };

	segment(b, id, "INPUT", file, "u8", shape);
	if (b->t->from_files) {
		json_t *last = json_array_get(b->segments, json_array_size(b->segments) - 1);

		json_object_set_new(json_object_get(last, "data_type_info"), "offset",
				    json_integer((json_int_t)header));
	}
}

static void add_inputs_and_outputs(struct builder *b)
{
	const struct training *t = b->t;
	const uint64_t count = t->steps * t->batch, one[4] = { 1 }, tested[4] = { t->tested },
		       label[4] = { 1 };
	char file[32];

	add_items(b, "images", "train-images", 16, count, t->shapes[0]);
	add_items(b, "test_images", "test-images", 16, t->tested, t->shapes[0]);
	if (t->network->classifies) {
		add_items(b, "labels", "train-labels", 8, count, label);
		add_items(b, "test_labels", "test-labels", 8, t->tested, label);
		segment(b, "classes", "OUTPUT", "classes.i32", "i32", tested);
	}
	segment(b, "before", "OUTPUT", "before.f32", "f32", one);
	segment(b, "after", "OUTPUT", "after.f32", "f32", one);
	for (int i = 0; i < t->parameter_count; i++) {
		const struct parameters *p = &t->parameters[i];

		snprintf(file, sizeof(file), "%s.f32", p->output);
		segment(b, p->input, "INPUT", file, "f32", p->shape);
		segment(b, p->output, "OUTPUT", file, "f32", p->shape);
	}
}

/* A minibatch of the training set. */
static void add_minibatch(struct builder *b)
{
	const json_int_t first = (json_int_t)(b->step * b->t->batch),
			 count = (json_int_t)b->t->batch;

	operation(b, "slice", json_pack("{s:I, s:I}", "first", first, "count", count), "input",
		  "images.f32", "output", at(b, "x", 0), NULL);
	if (b->t->network->classifies) {
		operation(b, "slice", json_pack("{s:I, s:I}", "first", first, "count", count),
			  "input", "labels", "output", at(b, "l", 0), NULL);
	}
}

void network_add(const struct training *t, json_t *segments, json_t *operations)
{
	struct builder b = { .t = t, .segments = segments, .list = operations };
	int last;

	add_inputs_and_outputs(&b);
	operation(&b, "scale", json_pack("{s:f}", "gain", 1 / 255.0), "input", "images", "output",
		  "images.f32", NULL);
	for (; b.step < t->steps; b.step++) {
		add_minibatch(&b);
		last = add_forward(&b, t->batch);
		add_loss(&b, last, at(&b, "l", 0), at(&b, "g", last), b.step ? NULL : "before");
		for (int i = last - 1; i >= 0; i--) {
			add_backward(&b, i);
		}
	}
	operation(&b, "scale", json_pack("{s:f}", "gain", 1 / 255.0), "input", "test_images",
		  "output", at(&b, "x", 0), NULL);
	last = add_forward(&b, t->tested);
	add_loss(&b, last, "test_labels", NULL, "after");
	if (t->network->classifies) {
		operation(&b, "argmax", NULL, "input", at(&b, "x", last), "output", "classes",
			  NULL);
	}
}
