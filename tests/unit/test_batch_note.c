/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner's note, whose paths are hostile: it opens for its own batch alone, and no path leads
 * out of its directory or stands in the way of another.
 */
#include "batch/batch.h"
#include "batch_harness.h"

static struct sgpu_batch *noted(const char *one, const char *other)
{
	struct sgpu_batch *batch = empty_batch(3);
	char *text = NULL;

	memset(batch_key, 9, sizeof(batch_key));
	batch->segments[0].id = strdup("a");
	batch->segments[1].id = strdup("b");
	batch->segments[2].id = strdup("c");
	if (asprintf(&text,
		     "{\"version\":2,\"outputs\":[{\"segment_id\":\"a\",\"path\":\"%s\"},"
		     "{\"segment_id\":\"c\",\"path\":\"%s\"}]}",
		     one, other) < 0) {
		abort();
	}
	batch->note = text;
	batch->note_size = strlen(text);
	return batch;
}

/* key: for a sealed note; or NULL. The paths of "a" and "c" are compared with `a` and `c`. */
static int paths_of(struct sgpu_batch *batch, const uint8_t *key, const char *a, const char *c)
{
	char *paths[3] = { NULL };
	json_t *files[3] = { NULL };
	const int code = sgpu_batch_paths(batch, key, paths, files, &error);

	CHECK(code || (!strcmp(paths[0], a) && !strcmp(paths[1], "b") && !strcmp(paths[2], c)));
	for (int i = 0; i < 3; i++) {
		free(paths[i]);
		json_decref(files[i]);
	}
	return code;
}

static int plain(const char *one, const char *other, const char *a, const char *c)
{
	struct sgpu_batch *batch = noted(one, other);
	const int code = paths_of(batch, NULL, a, c);

	sgpu_batch_free(&batch);
	return code;
}

UNIT_TEST(paths_are_those_of_the_note_and_else_the_ids)
{
	CHECK(plain("x/y.f32", "z", "x/y.f32", "z") == 0);
	CHECK(plain("./x//y/../y.f32", "x/z", "x/y.f32", "x/z") == 0);
}

UNIT_TEST(paths_that_lead_out_or_are_none_are_refused)
{
	static const char *const bad[] = { "/etc/passwd", "..",	       "../x",
					   "x/../../y",	  "",	       ".",
					   "x/..",	  "a\\u001bb", "a\\nb",
					   "a\\u007fb" };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(plain(bad[i], "z", "", "z") == SGPU_EPOLICY);
		CHECK(plain("z", bad[i], "z", "") == SGPU_EPOLICY);
	}
}

UNIT_TEST(no_output_is_in_the_way_of_another)
{
	CHECK(plain("x", "x", "", "") == SGPU_EPOLICY);
	CHECK(plain("x", "x/y", "", "") == SGPU_EPOLICY &&
	      plain("x/y", "x", "", "") == SGPU_EPOLICY);
	CHECK(plain("b", "z", "", "") == SGPU_EPOLICY); /* the id of one that the note has not */
	CHECK(plain("b/x", "z", "", "") == SGPU_EPOLICY);
	CHECK(plain("x", "x-y", "x", "x-y") == 0 && plain("x/y", "x-y", "x/y", "x-y") == 0);
}

UNIT_TEST(a_sealed_note_opens_for_its_own_batch_alone)
{
	struct sgpu_batch *batch = noted("x", "z");

	REQUIRE(sgpu_batch_seal_note(batch, batch_key, &error) == 0);
	CHECK(!memmem(batch->note, batch->note_size, "path", 4));
	CHECK(paths_of(batch, batch_key, "x", "z") == 0);
	CHECK(paths_of(batch, NULL, "", "") == SGPU_EINVALID);
	batch->id[15] ^= 1;
	CHECK(paths_of(batch, batch_key, "", "") == SGPU_EAUTH);
	batch->id[15] ^= 1;
	batch_key[31] ^= 1;
	CHECK(paths_of(batch, batch_key, "", "") == SGPU_EAUTH);
	batch_key[31] ^= 1;
	for (size_t i = 0; i < batch->note_size; i++) {
		batch->note[i] ^= 1;
		CHECK(paths_of(batch, batch_key, "", "") == SGPU_EAUTH);
		batch->note[i] ^= 1;
	}
	batch->note_size--;
	CHECK(paths_of(batch, batch_key, "", "") == SGPU_EAUTH);
	batch->note_size = 3;
	CHECK(paths_of(batch, batch_key, "", "") == SGPU_EAUTH);
	sgpu_batch_free(&batch);
}

int main(void)
{
	UNIT_RUN(paths_are_those_of_the_note_and_else_the_ids);
	UNIT_RUN(paths_that_lead_out_or_are_none_are_refused);
	UNIT_RUN(no_output_is_in_the_way_of_another);
	UNIT_RUN(a_sealed_note_opens_for_its_own_batch_alone);
	return unit_done();
}
