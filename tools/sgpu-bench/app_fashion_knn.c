/* SPDX-License-Identifier: Apache-2.0
 *
 * fashion-knn: the shape of examples/fashion-knn with pictures made here, whose classes are known.
 */
#include <stdlib.h>

#include "app.h"

enum { KNOWN = 10000, ASKED = 2000, PIXELS = 784, CLASSES = 10, QUICK = 4 /* so many times fewer of both */ };

struct pictures {
	uint8_t known[KNOWN][PIXELS], asked[ASKED][PIXELS], labels[KNOWN];
	int32_t found[ASKED];
	uint64_t known_count, asked_count;
};

/* A picture of a class: its prototype with some noise, by far nearer to it than to another class's. */
static void draw(uint8_t *picture, int class, uint64_t number)
{
	for (int i = 0; i < PIXELS; i++) {
		uint64_t shape = (uint64_t)(class * PIXELS + i + 1) * 0x9e3779b97f4a7c15u;
		uint64_t noise = (number * PIXELS + (uint64_t)i + 1) * 0xbf58476d1ce4e5b9u;

		picture[i] = (uint8_t)((shape >> 56) / 2 + (noise >> 58));
	}
}

static int check_pictures(struct app_side *s, struct sgpu_error *error)
{
	int32_t *found = s->output;
	int rc = job_read(&s->job, "found", found, s->count * sizeof(*found), error);

	for (int i = 0; rc == SGPU_OK && i < (int)s->count; i++) {
		if (found[i] != i % CLASSES) {
			rc = sgpu_fail(error, SGPU_EDIFFERS, "picture %d is taken for class %d, not %d", i,
				       (int)found[i], i % CLASSES);
		}
	}
	return rc;
}

static int make_pictures(struct app_side *s, bool sealed, bool staged, struct pictures *pictures,
			 struct sgpu_error *error)
{
	const uint64_t known_count = pictures->known_count, asked_count = pictures->asked_count;
	const struct job_type known = { "u8", { known_count, PIXELS } }, asked = { "u8", { asked_count, PIXELS } };
	const struct job_type labels = { "u8", { known_count } };
	int rc = job_begin(&s->job, sealed, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	s->job.staged = staged;
	s->check = check_pictures;
	s->output = pictures->found;
	s->count = asked_count;
	job_input(&s->job, "known", known, pictures->known, known_count * PIXELS);
	job_input(&s->job, "labels", labels, pictures->labels, known_count);
	job_input(&s->job, "asked", asked, pictures->asked, asked_count * PIXELS);
	job_between(&s->job, "known_rows");
	job_between(&s->job, "asked_rows");
	job_output(&s->job, "found", (struct job_type){ "i32", { asked_count } });
	job_operation(&s->job, "CONVERT_KNOWN", "cast",
		      json_pack("{s:s, s:s}", "input", "known", "output", "known_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(&s->job, "CONVERT_ASKED", "cast",
		      json_pack("{s:s, s:s}", "input", "asked", "output", "asked_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(&s->job, "CLASSIFY", "nearest",
		      json_pack("{s:s, s:s, s:s, s:s}", "a", "asked_rows", "b", "known_rows", "labels", "labels",
				"output", "found"),
		      json_pack("{s:i}", "k", 5), NULL);
	return job_finish(&s->job, error);
}

int app_fashion_knn(struct sgpu_bench *bench, struct app_side sides[SIDES], struct sgpu_error *error)
{
	struct pictures *pictures = malloc(sizeof(*pictures));
	uint64_t bytes;
	int rc = SGPU_OK;

	if (!pictures) {
		return sgpu_fail_nomem(error);
	}
	pictures->known_count = bench->options.quick ? KNOWN / QUICK : KNOWN;
	pictures->asked_count = bench->options.quick ? ASKED / QUICK : ASKED;
	bytes = pictures->known_count * (PIXELS + 1) + pictures->asked_count * (PIXELS + sizeof(*pictures->found));
	for (int i = 0; i < (int)pictures->known_count; i++) {
		pictures->labels[i] = (uint8_t)(i % CLASSES);
		draw(pictures->known[i], i % CLASSES, (uint64_t)i);
	}
	for (int i = 0; i < (int)pictures->asked_count; i++) {
		draw(pictures->asked[i], i % CLASSES, (uint64_t)(KNOWN + i));
	}
	for (size_t w = 0; rc == SGPU_OK && w < APP_WAYS; w++) {
		app_clear_sides(sides);
		for (int i = 0; rc == SGPU_OK && i < 2; i++) {
			rc = make_pictures(&sides[i], i == SEALED, app_ways[w].staged, pictures, error);
		}
		if (rc == SGPU_OK) {
			rc = app_measure(bench, "fashion-knn", 1, bytes, sides, &app_ways[w], error);
		}
	}
	free(pictures);
	return rc;
}
