/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks for pictures of 28 by 28 in grey, and their training as one graph of operations. For
 * this example, and for the case training of sgpu-bench.
 */
#ifndef FASHION_TRAIN_NETWORK_H
#define FASHION_TRAIN_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

enum { NETWORK_SIDE = 28, NETWORK_PIXELS = NETWORK_SIDE * NETWORK_SIDE, NETWORK_CLASSES = 10 };
enum { NETWORK_LAYERS_MAX = 8, NETWORK_PARAMETERS_MAX = 2 * NETWORK_LAYERS_MAX };

enum layer_kind { LAYER_END, LAYER_DENSE, LAYER_CONV, LAYER_POOL, LAYER_FLATTEN };
struct layer {
	enum layer_kind kind;
	uint64_t outputs; /* elements, or channels */
	const char *activation;
};

struct network {
	const char *name;
	struct layer layers[NETWORK_LAYERS_MAX + 1];
	bool classifies; /* by cross entropy; else it gives its input again, by squared error */
	uint64_t batch, tested; /* Graviton's: pictures of a step, and of a test */
	double rate, momentum;
};
/* Returns "cnn" or "autoencoder", or NULL. */
const struct network *network_find(const char *name);

/* Weights or biases of a layer, f32. */
struct parameters {
	char input[16],
		output[16]; /* ids of segments: before the first step, and after the last one */
	uint64_t shape[4], count; /* shape: up to the first 0 */
	double limit;		  /* they start between minus and plus this */
};

/* A training: what the caller sets, and what network_plan finds. */
struct training {
	const struct network *network;
	uint64_t steps, batch, tested;
	const char *level; /* "HIGH" or "LOW", of all segments */
	bool from_files;   /* pictures and labels are windows of the files of the data set */

	struct parameters parameters[NETWORK_PARAMETERS_MAX];
	int parameter_count;
	uint64_t shapes[NETWORK_LAYERS_MAX + 1]
		       [4]; /* before each layer and after the last; index 0: the pictures */
};
void network_plan(struct training *t);

/* Adds segments and operations to the two arrays. Inputs: "images" and "labels" of steps * batch
 * pictures, "test_images" and "test_labels", u8, and the parameters. Outputs: "before" and "after",
 * the mean losses of the first step and of the test; "classes" of the tested pictures; the
 * parameters. Labels and classes only if the network classifies. */
void network_add(const struct training *t, json_t *segments, json_t *operations);
/* The first values of parameters, the same everywhere. */
void network_start(const struct training *t, int parameters, float *values);

#endif
