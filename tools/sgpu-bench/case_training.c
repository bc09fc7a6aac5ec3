/* SPDX-License-Identifier: Apache-2.0
 *
 * training: the networks of examples/fashion-train, each trained for some steps in one batch:
 * pictures and initial parameters go in, losses and final parameters come out, and all else stays
 * on the device. Sealed in a secure context next to unsealed on the plain device. The device stays
 * open.
 */
#include <stdio.h>
#include <string.h>

#include "../../examples/fashion-train/network.h"
#include "cases.h"
#include "cli.h"
#include "job.h"

/* ---- pictures: of Fashion-MNIST (Xiao, Rasul, Vollgraf, 2017) from Debian's package
 * dataset-fashion-mnist, or generated ones ---- */
/* The shell expands the folder inside quotes, where no name can become a command. */
#define UNPACK(file)                                                                         \
	"exec gzip -dcq -- \"${SGPU_FASHION_MNIST:-/usr/share/datasets/fashion-mnist}/" file \
	"\" 2>/dev/null"

/* Reads the first `size` bytes of the items, after checking their header. */
static bool read_items(const char *command, const char *header, size_t header_size, uint8_t *items,
		       size_t size)
{
	uint8_t head[16];
	FILE *from = popen(command, "re");
	/* Bytes 4 to 7, the number of items, are not compared: with too few, fread() fails. */
	bool right = from && fread(head, header_size, 1, from) == 1 &&
		     memcmp(head, header, 4) == 0 &&
		     memcmp(head + 8, header + 8, header_size - 8) == 0 &&
		     fread(items, size, 1, from) == 1;

	if (from) {
		pclose(from); /* gzip ends when the pipe is closed */
	}
	return right;
}

void bench_draw(uint8_t *picture, uint64_t class, uint64_t number)
{
	for (uint64_t i = 0; i < NETWORK_PIXELS; i++) {
		uint64_t shape = (class * NETWORK_PIXELS + i / 4 + 1) * 0x9e3779b97f4a7c15u;
		uint64_t noise = (number * NETWORK_PIXELS + i + 1) * 0xbf58476d1ce4e5b9u;

		picture[i] = (uint8_t)((shape >> 56) / 2 + (noise >> 57));
	}
}

static bool read_pictures(uint8_t *images, uint8_t *labels, size_t count)
{
	bool found =
		read_items(UNPACK("train-images-idx3-ubyte.gz"), "\0\0\10\3----\0\0\0\34\0\0\0\34",
			   16, images, count * NETWORK_PIXELS) &&
		read_items(UNPACK("train-labels-idx1-ubyte.gz"), "\0\0\10\1----", 8, labels, count);

	for (size_t i = 0; found && i < count; i++) {
		found = labels[i] < NETWORK_CLASSES;
	}
	for (size_t i = 0; !found && i < count; i++) {
		labels[i] = (uint8_t)(i % NETWORK_CLASSES);
		bench_draw(images + i * NETWORK_PIXELS, labels[i], i);
	}
	return found;
}

/* ---- networks ---- */
struct trained {
	struct training t;
	uint8_t *images, *labels; /* the test's come last */
	float *values[NETWORK_PARAMETERS_MAX];
	void *first; /* the results of the first sample, which all others must equal */
};

/* Reports the network's loss, which must have decreased, and its accuracy. */
static int judge(const struct trained *d, struct sgpu_error *error)
{
	const uint64_t tested = d->t.network->classifies ? d->t.tested : 0;
	const uint8_t *wanted = d->labels + d->t.steps * d->t.batch;
	const int32_t *classes = d->first; /* empty if it does not classify; the losses follow */
	const float *loss = (const float *)(classes + tested);
	uint64_t right = 0;

	for (uint64_t i = 0; i < tested; i++) {
		right += classes[i] == wanted[i];
	}
	cli_note("training: %s: loss %.6f before, %.6f after %llu steps", d->t.network->name,
		 (double)loss[0], (double)loss[1], (unsigned long long)d->t.steps);
	if (tested > 0) {
		cli_note("training: %s: accuracy %.4f (%llu of %llu)", d->t.network->name,
			 (double)right / (double)tested, (unsigned long long)right,
			 (unsigned long long)tested);
	}
	return loss[1] < loss[0]
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "the loss has gone from %g to %g",
				   (double)loss[0], (double)loss[1]);
}

/* Every training, sealed or not, must give the bytes of the first one. */
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

static void add(struct job *job, const struct job_side *side)
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

/* origin: where the pictures are from. */
static int make_data(struct sgpu_bench *bench, struct trained *d, const char **origin,
		     struct sgpu_error *error)
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
	*origin = read_pictures(d->images, d->labels, count) ? "fashion-mnist" : "made";
	return SGPU_OK;
}

/* As many pictures a step as Graviton took; fewer on the CPU, where a step would take seconds. */
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
	const struct job_side side = {
		.name = "unsealed", .add = add, .check = check_training, .state = &d
	};
	struct job_side sides[] = { side, side };
	struct sgpu_bench_point point = {
		.parameters = { { "network", name, 0 },
				{ "data", NULL, 0 },
				{ "steps", NULL, d.t.steps },
				{ "pictures", NULL, d.t.batch } },
		.operations = d.t.steps,
	};
	const size_t mark = sgpu_bench_mark(bench);
	int rc;

	sides[1].name = "sealed";
	sides[1].sealed = true;
	network_plan(&d.t);
	rc = make_data(bench, &d, &point.parameters[1].text, error);
	rc = rc ? rc : job_measure(bench, &point, sides, 2, error);
	sgpu_bench_release(bench, mark);
	return rc;
}

int bench_training(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const int rc = train(bench, "cnn", error);

	return rc ? rc : train(bench, "autoencoder", error);
}
