/* SPDX-License-Identifier: Apache-2.0
 *
 * training: the networks of examples/fashion-train, each trained for some steps in one batch: made
 * pictures and initial parameters go in, losses and final parameters come out, and all else stays
 * on the device. Sealed in a secure context next to unsealed on the plain device. The device stays
 * open.
 */
#include <string.h>

#include "../../examples/fashion-train/network.h"
#include "cases.h"
#include "cli.h"
#include "job.h"

/* A class's prototype with some noise. */
static void draw(uint8_t *picture, uint64_t class, uint64_t number)
{
	for (uint64_t i = 0; i < NETWORK_PIXELS; i++) {
		uint64_t shape = (class * NETWORK_PIXELS + i / 4 + 1) * 0x9e3779b97f4a7c15u;
		uint64_t noise = (number * NETWORK_PIXELS + i + 1) * 0xbf58476d1ce4e5b9u;

		picture[i] = (uint8_t)((shape >> 56) / 2 + (noise >> 57));
	}
}

/* ---- networks ---- */
struct trained {
	struct training t;
	uint8_t *images, *labels; /* the test's come last */
	float *values[NETWORK_PARAMETERS_MAX];
	void *first; /* the first sample's results */
};

static int judge(const struct trained *d, struct sgpu_error *error)
{
	/* Classes of pictures come first, if the network classifies. */
	const uint64_t classes = d->t.network->classifies ? d->t.tested : 0;
	const float *loss = (const float *)((const int32_t *)d->first + classes);

	cli_note("training: %s: loss %.6f before, %.6f after %llu steps", d->t.network->name,
		 (double)loss[0], (double)loss[1], (unsigned long long)d->t.steps);
	return loss[1] < loss[0]
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "the loss has gone from %g to %g",
				   (double)loss[0], (double)loss[1]);
}

/* All trainings, sealed or not, must give the same bytes. */
static int check_training(const struct job_side *s, const void *results, uint64_t size,
			  struct sgpu_error *error)
{
	struct trained *d = s->state;

	if (!d->first) {
		d->first = sgpu_bench_new(s->bench, size, NULL, error);
		if (!d->first) {
			return SGPU_ENOMEM;
		}
		memcpy(d->first, results, size);
		return judge(d, error);
	}
	return memcmp(results, d->first, size) == 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "two trainings of '%s' differ",
				   d->t.network->name);
}

static void add(struct bench_job *job, const struct job_side *side)
{
	struct trained *d = side->state;
	const uint64_t trained = d->t.steps * d->t.batch;

	d->t.level = side->sealed ? "HIGH" : "LOW";
	network_add(&d->t, job->segments, job->operations);
	job_data(job, "images", d->images);
	job_data(job, "test_images", d->images + trained * NETWORK_PIXELS);
	if (d->t.network->classifies) {
		job_data(job, "labels", d->labels);
		job_data(job, "test_labels", d->labels + trained);
	}
	for (int i = 0; i < d->t.parameter_count; i++) {
		job_data(job, d->t.parameters[i].input, d->values[i]);
	}
}

static int make_data(struct sgpu_bench *bench, struct trained *d, struct sgpu_error *error)
{
	const uint64_t count = d->t.steps * d->t.batch + d->t.tested;

	d->images = sgpu_bench_new(bench, count * (NETWORK_PIXELS + 1), NULL, error);
	if (!d->images) {
		return SGPU_ENOMEM;
	}
	for (int i = 0; i < d->t.parameter_count; i++) {
		d->values[i] = sgpu_bench_new(bench, d->t.parameters[i].count * sizeof(float), NULL,
					      error);
		if (!d->values[i]) {
			return SGPU_ENOMEM;
		}
		network_start(&d->t, i, d->values[i]);
	}
	d->labels = d->images + count * NETWORK_PIXELS;
	for (uint64_t i = 0; i < count; i++) {
		d->labels[i] = (uint8_t)(i % NETWORK_CLASSES);
		draw(d->images + i * NETWORK_PIXELS, d->labels[i], i);
	}
	return SGPU_OK;
}

/* Pictures a step: as many as Graviton took; fewer on the CPU, where a step would take seconds. */
static int train(struct sgpu_bench *bench, const char *name, struct sgpu_error *error)
{
	const struct network *network = network_find(name);
	const bool quick = bench->options.quick, gpu = bench->info.opens_on_device;
	struct trained d = { .t = { .network = network,
				    .batch = gpu && !quick ? network->batch : 32,
				    .steps = quick ? 5
					     : gpu ? 40
						   : 10,
				    .tested = quick ? 32 : network->tested } };
	const struct job_side side = { .add = add, .check = check_training, .state = &d };
	const struct sgpu_bench_point point = {
		.parameters = { { "network", name, 0 },
				{ "steps", NULL, d.t.steps },
				{ "pictures", NULL, d.t.batch } },
		.operations = d.t.steps,
	};
	int rc;

	network_plan(&d.t);
	rc = make_data(bench, &d, error);
	return rc ? rc : job_measure_here(bench, &point, &side, error);
}

int bench_training(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const int rc = train(bench, "cnn", error);

	return rc ? rc : train(bench, "autoencoder", error);
}
