/* SPDX-License-Identifier: Apache-2.0
 *
 * fashion-knn: the shape of examples/fashion-knn with pictures made here, whose classes are known.
 */
#include "app.h"
#include "cases.h"

enum { KNOWN = 10000, ASKED = 2000, PIXELS = 784, CLASSES = 10, QUICK = 4 /* so many times fewer of both */ };

struct pictures {
	uint8_t known[KNOWN][PIXELS], asked[ASKED][PIXELS], labels[KNOWN];
	int32_t found[ASKED];
	uint64_t known_count, asked_count;
};

static int check_pictures(struct job_side *s, struct sgpu_error *error)
{
	int32_t *found = s->output;
	int rc = job_read(s->job, "found", found, s->count * sizeof(*found), error);

	for (int i = 0; rc == SGPU_OK && i < (int)s->count; i++) {
		if (found[i] != i % CLASSES) {
			rc = sgpu_fail(error, SGPU_EDIFFERS, "picture %d is taken for class %d, not %d", i,
				       (int)found[i], i % CLASSES);
		}
	}
	return rc;
}

static int make_job(const struct app *app, struct job_side *s, bool sealed, bool staged, struct sgpu_error *error)
{
	struct pictures *pictures = app->data;
	const uint64_t known_count = pictures->known_count, asked_count = pictures->asked_count;
	const struct job_type known = { "u8", { known_count, PIXELS } }, asked = { "u8", { asked_count, PIXELS } };
	const struct job_type labels = { "u8", { known_count } };
	int rc = job_new(s->bench, sealed, &s->job, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	s->job->staged = staged;
	s->check = check_pictures;
	s->output = pictures->found;
	s->count = asked_count;
	job_input(s->job, "known", known, pictures->known, known_count * PIXELS);
	job_input(s->job, "labels", labels, pictures->labels, known_count);
	job_input(s->job, "asked", asked, pictures->asked, asked_count * PIXELS);
	job_between(s->job, "known_rows");
	job_between(s->job, "asked_rows");
	job_output(s->job, "found", (struct job_type){ "i32", { asked_count } });
	job_operation(s->job, "CONVERT_KNOWN", "cast",
		      json_pack("{s:s, s:s}", "input", "known", "output", "known_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(s->job, "CONVERT_ASKED", "cast",
		      json_pack("{s:s, s:s}", "input", "asked", "output", "asked_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(s->job, "CLASSIFY", "nearest",
		      json_pack("{s:s, s:s, s:s, s:s}", "a", "asked_rows", "b", "known_rows", "labels", "labels",
				"output", "found"),
		      json_pack("{s:i}", "k", 5), NULL);
	return job_finish(s->job, error);
}

int app_fashion_knn(struct sgpu_bench *bench, const struct job_place *place, struct sgpu_error *error)
{
	struct app app = { .name = "fashion-knn", .batches = 1, .make = make_job };
	struct pictures *pictures;
	int rc = sgpu_bench_new(bench, sizeof(*pictures), &app.data, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	pictures = app.data;
	pictures->known_count = bench->options.quick ? KNOWN / QUICK : KNOWN;
	pictures->asked_count = bench->options.quick ? ASKED / QUICK : ASKED;
	app.batch_bytes = pictures->known_count * (PIXELS + 1) +
			  pictures->asked_count * (PIXELS + sizeof(*pictures->found));
	for (uint64_t i = 0; i < pictures->known_count; i++) {
		pictures->labels[i] = (uint8_t)(i % CLASSES);
		bench_draw(pictures->known[i], i % CLASSES, i);
	}
	for (uint64_t i = 0; i < pictures->asked_count; i++) {
		bench_draw(pictures->asked[i], i % CLASSES, KNOWN + i);
	}
	return app_measure(bench, place, &app, error);
}
