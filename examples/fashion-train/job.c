/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: fashion-train NETWORK LEVEL STEPS
 * Prints a manifest that trains the network (cnn or autoencoder) for some steps on pictures of
 * Fashion-MNIST, all segments of the level (HIGH or LOW) but the first loss, which is HIGH: of a
 * batch without anything HIGH, sgpu-seal warns. Writes the files of the first parameters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

enum { PICTURES = 60000 };

static int write_parameters(const struct training *t)
{
	for (int i = 0; i < t->parameter_count; i++) {
		const struct parameters *p = &t->parameters[i];
		float *values = malloc(p->count * sizeof(*values));
		char name[32];
		FILE *file;
		int wrong;

		snprintf(name, sizeof(name), "%s.f32", p->output);
		file = fopen(name, "w");
		if (!values || !file) {
			perror(name);
			return 3;
		}
		network_start(t, i, values);
		wrong = fwrite(values, sizeof(*values), p->count, file) != p->count;
		wrong |= fclose(file) != 0;
		free(values);
		if (wrong) {
			perror(name);
			return 3;
		}
	}
	return 0;
}

static void hide_first_loss(json_t *segments)
{
	json_t *segment;
	size_t i;

	json_array_foreach (segments, i, segment) {
		if (strcmp(json_string_value(json_object_get(segment, "segment_id")), "before") ==
		    0) {
			json_object_set_new(segment, "sensitivity_level", json_string("HIGH"));
		}
	}
}

int main(int argc, char **argv)
{
	struct training t = { .network = argc > 3 ? network_find(argv[1]) : NULL,
			      .from_files = true };
	json_t *segments, *operations, *manifest;
	int wrong;

	if (!t.network || (strcmp(argv[2], "HIGH") != 0 && strcmp(argv[2], "LOW") != 0)) {
		fprintf(stderr, "usage: fashion-train cnn|autoencoder HIGH|LOW STEPS\n");
		return 2;
	}
	t.level = argv[2];
	t.batch = t.network->batch;
	t.tested = t.network->tested;
	t.steps = strtoull(argv[3], NULL, 10);
	if (t.steps < 1 || t.steps > PICTURES / t.batch) {
		fprintf(stderr, "fashion-train: not that many pictures\n");
		return 2;
	}
	segments = json_array();
	operations = json_array();
	network_plan(&t);
	network_add(&t, segments, operations);
	hide_first_loss(segments);
	manifest = json_pack("{s:i, s:s, s:o, s:o}", "version", 1, "manifest_id", t.network->name,
			     "segments", segments, "operations", operations);
	wrong = !manifest || json_dumpf(manifest, stdout, JSON_COMPACT | JSON_ENSURE_ASCII) != 0 ||
		fflush(stdout) != 0;
	json_decref(manifest);
	if (wrong) {
		perror("fashion-train");
		return 3;
	}
	return write_parameters(&t);
}
