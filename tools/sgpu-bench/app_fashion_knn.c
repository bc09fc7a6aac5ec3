/* SPDX-License-Identifier: Apache-2.0
 *
 * fashion-knn: the shape of examples/fashion-knn with pictures made here, whose classes are known.
 */
#include "app.h"
#include "cases.h"

enum {
	KNOWN = 10000,
	ASKED = 2000,
	PIXELS = 784,
	CLASSES = 10,
	QUICK = 4 /* so many times fewer of both */
};

struct pictures {
	uint8_t known[KNOWN][PIXELS], asked[ASKED][PIXELS], labels[KNOWN];
	uint64_t known_count, asked_count;
};

static int check_classes(const struct job_side *side, const void *results, uint64_t size,
			 struct sgpu_error *error)
{
	const int32_t *found = results;

	(void)side;
	for (int i = 0; i < (int)(size / sizeof(*found)); i++) {
		if (found[i] != i % CLASSES) {
			return sgpu_fail(error, SGPU_EDIFFERS,
					 "picture %d is taken for class %d, not %d", i,
					 (int)found[i], i % CLASSES);
		}
	}
	return SGPU_OK;
}

static void add(struct job *job, const struct job_side *side)
{
	const struct pictures *pictures = side->data;
	const uint64_t known = pictures->known_count, asked = pictures->asked_count;
	const struct job_type between = { NULL, { 0 } };

	job_segment(job, JOB_INPUT, "known", (struct job_type){ "u8", { known, PIXELS } },
		    pictures->known);
	job_segment(job, JOB_INPUT, "labels", (struct job_type){ "u8", { known } },
		    pictures->labels);
	job_segment(job, JOB_INPUT, "asked", (struct job_type){ "u8", { asked, PIXELS } },
		    pictures->asked);
	job_segment(job, JOB_BETWEEN, "known_rows", between, NULL);
	job_segment(job, JOB_BETWEEN, "asked_rows", between, NULL);
	job_segment(job, JOB_OUTPUT, "found", (struct job_type){ "i32", { asked } }, NULL);
	job_operation(job, "CONVERT_KNOWN", "cast",
		      json_pack("{s:s, s:s}", "input", "known", "output", "known_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(job, "CONVERT_ASKED", "cast",
		      json_pack("{s:s, s:s}", "input", "asked", "output", "asked_rows"),
		      json_pack("{s:s}", "dtype", "f32"), NULL);
	job_operation(job, "CLASSIFY", "nearest",
		      json_pack("{s:s, s:s, s:s, s:s}", "a", "asked_rows", "b", "known_rows",
				"labels", "labels", "output", "found"),
		      json_pack("{s:i}", "k", 5), NULL);
}

int app_fashion_knn(struct sgpu_bench *bench, struct app *app, struct sgpu_error *error)
{
	void *memory = NULL;
	struct pictures *pictures;
	int rc = sgpu_bench_new(bench, sizeof(*pictures), &memory, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	pictures = memory;
	pictures->known_count = bench->options.quick ? KNOWN / QUICK : KNOWN;
	pictures->asked_count = bench->options.quick ? ASKED / QUICK : ASKED;
	*app = (struct app){
		.name = "fashion-knn",
		.side = { .batches = 1, .add = add, .check = check_classes, .data = pictures }
	};
	app->batch_bytes = pictures->known_count * (PIXELS + 1) +
			   pictures->asked_count * (PIXELS + sizeof(int32_t));
	for (uint64_t i = 0; i < pictures->known_count; i++) {
		pictures->labels[i] = (uint8_t)(i % CLASSES);
		bench_draw(pictures->known[i], i % CLASSES, i);
	}
	for (uint64_t i = 0; i < pictures->asked_count; i++) {
		bench_draw(pictures->asked[i], i % CLASSES, KNOWN + i);
	}
	return SGPU_OK;
}
