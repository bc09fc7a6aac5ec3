/* SPDX-License-Identifier: Apache-2.0
 *
 * training: the networks of examples/fashion-train, each trained for some steps in one batch: pictures and first
 * parameters go in, losses and last parameters come out, and what is between stays on the device. Sealed and in a secure
 * context next to unsealed on the plain device, which stays open.
 */
#include <stdlib.h>
#include <string.h>

#include "../../examples/fashion-train/network.h"
#include "app.h"
#include "cases.h"
#include "cli.h"

struct trained {
	struct training t;
	bool found;                    /* the pictures are Fashion-MNIST's */
	uint8_t *images, *labels;      /* those of the test come last */
	float *values[NETWORK_PARAMETERS_MAX];
	uint8_t *first;                /* the results of the first sample, which all others have to give */
	uint64_t result_size;
};

/* What a response holds, one after the other; results NULL: only counts. Returns the code of the first failure. */
static int read_results(const struct trained *d, struct job *job, uint8_t *results, uint64_t *size,
			struct sgpu_error *error)
{
	struct {
		const char *id;
		uint64_t size;
	} outputs[3 + NETWORK_PARAMETERS_MAX] = { { "before", sizeof(float) }, { "after", sizeof(float) } };
	int count = 2, rc = SGPU_OK;

	if (d->t.network->classifies) {
		outputs[count].id = "classes";
		outputs[count++].size = d->t.tested * sizeof(int32_t);
	}
	for (int i = 0; i < d->t.parameter_count; i++) {
		outputs[count].id = d->t.parameters[i].output;
		outputs[count++].size = d->t.parameters[i].count * sizeof(float);
	}
	*size = 0;
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = results ? job_read(job, outputs[i].id, results + *size, outputs[i].size, error) : SGPU_OK;
		*size += outputs[i].size;
	}
	return rc;
}

/* Tells how good the network has become; it has to be better than at first. */
static int judge(const struct trained *d, struct sgpu_error *error)
{
	const uint8_t *wanted = d->labels + d->t.steps * d->t.batch;
	int32_t class;
	float loss[2];
	uint64_t right = 0;

	memcpy(loss, d->first, sizeof(loss));
	for (uint64_t i = 0; d->t.network->classifies && i < d->t.tested; i++) {
		memcpy(&class, d->first + sizeof(loss) + i * sizeof(class), sizeof(class));
		right += class == wanted[i];
	}
	cli_note("training: %s: loss %.6f before, %.6f after %llu steps", d->t.network->name, (double)loss[0],
		 (double)loss[1], (unsigned long long)d->t.steps);
	if (d->t.network->classifies) {
		cli_note("training: %s: accuracy %.4f (%llu of %llu)", d->t.network->name, (double)right / (double)d->t.tested,
			 (unsigned long long)right, (unsigned long long)d->t.tested);
	}
	return loss[1] < loss[0] ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "the loss has gone from %g to %g", (double)loss[0], (double)loss[1]);
}

/* Every training gives the bytes of the first one, sealed or not. */
static int check_training(struct app_side *s, struct sgpu_error *error)
{
	struct trained *d = s->output;
	uint8_t *results = malloc(d->result_size);
	int rc = results ? read_results(d, &s->job, results, &d->result_size, error) : sgpu_fail_nomem(error);

	if (rc == SGPU_OK && !d->first) {
		d->first = results;
		return judge(d, error);
	}
	if (rc == SGPU_OK && memcmp(results, d->first, d->result_size) != 0) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "two trainings of '%s' differ", d->t.network->name);
	}
	free(results);
	return rc;
}

static int make_side(struct app_side *s, bool sealed, struct trained *d, struct sgpu_error *error)
{
	const uint64_t trained = d->t.steps * d->t.batch;
	int rc = job_begin(&s->job, sealed, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	s->check = check_training;
	s->output = d;
	s->batches = 1;
	d->t.level = sealed ? "HIGH" : "LOW";
	network_add(&d->t, s->job.segments, s->job.operations);
	job_data(&s->job, "images", d->images, trained * NETWORK_PIXELS);
	job_data(&s->job, "test_images", d->images + trained * NETWORK_PIXELS, d->t.tested * NETWORK_PIXELS);
	if (d->t.network->classifies) {
		job_data(&s->job, "labels", d->labels, trained);
		job_data(&s->job, "test_labels", d->labels + trained, d->t.tested);
	}
	for (int i = 0; i < d->t.parameter_count; i++) {
		job_data(&s->job, d->t.parameters[i].input, d->values[i], d->t.parameters[i].count * sizeof(float));
	}
	return job_finish(&s->job, error);
}

static int make_data(struct trained *d, struct sgpu_error *error)
{
	const uint64_t count = d->t.steps * d->t.batch + d->t.tested;

	d->images = malloc(count * NETWORK_PIXELS);
	d->labels = malloc(count);
	if (!d->images || !d->labels) {
		return sgpu_fail_nomem(error);
	}
	d->found = bench_pictures(d->images, d->labels, count);
	for (int i = 0; i < d->t.parameter_count; i++) {
		d->values[i] = malloc(d->t.parameters[i].count * sizeof(float));
		if (!d->values[i]) {
			return sgpu_fail_nomem(error);
		}
		network_start(&d->t, i, d->values[i]);
	}
	return read_results(d, NULL, NULL, &d->result_size, error);
}

static int measure(struct sgpu_bench *bench, struct trained *d, struct app_side sides[SIDES], struct sgpu_error *error)
{
	const struct training *t = &d->t;
	const struct sgpu_bench_variant variants[] = {
		{ .name = "unsealed", .run = app_run_side, .verify = app_verify_side, .argument = &sides[UNSEALED] },
		{ .name = "sealed", .run = app_run_side, .verify = app_verify_side, .argument = &sides[SEALED] },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "network", t->network->name, 0 }, { "data", d->found ? "fashion-mnist" : "made", 0 },
				{ "steps", NULL, t->steps }, { "pictures", NULL, t->batch } },
		.operations = t->steps,
	};
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < SIDES; i++) {
		rc = make_side(&sides[i], i == SEALED, d, error);
	}
	return rc == SGPU_OK ? sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error) : rc;
}

/* As many pictures a step as Graviton took, but on the CPU device, where the first network would need seconds for it. */
static int train(struct sgpu_bench *bench, const char *name, const struct job_place *place, struct sgpu_error *error)
{
	const struct network *network = network_find(name);
	const bool quick = bench->options.quick, gpu = bench->info.opens_on_device;
	struct trained d = { .t = { .network = network, .batch = gpu && !quick ? network->batch : 32,
				    .steps = quick ? 5 : gpu ? 40 : 10, .tested = quick ? 32 : network->tested } };
	struct app_side sides[SIDES] = { { .bench = bench, .place = place }, { .bench = bench, .place = place } };
	int rc;

	network_plan(&d.t);
	rc = make_data(&d, error);
	rc = rc == SGPU_OK ? measure(bench, &d, sides, error) : rc;
	app_clear_sides(sides);
	for (int i = 0; i < NETWORK_PARAMETERS_MAX; i++) {
		free(d.values[i]);
	}
	free(d.images);
	free(d.labels);
	free(d.first);
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	struct job_place place;
	int rc = job_place_open(&place, bench->device, true, error);

	(void)state; /* --size does not count: a network has the size that it has */
	rc = rc == SGPU_OK ? train(bench, "cnn", &place, error) : rc;
	rc = rc == SGPU_OK ? train(bench, "autoencoder", &place, error) : rc;
	job_place_close(&place);
	return rc;
}

const struct sgpu_bench_case case_training = {
	.name = "training",
	.help = "training of a convolutional network and an autoencoder, sealed and unsealed",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
