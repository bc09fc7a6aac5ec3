/* SPDX-License-Identifier: Apache-2.0
 *
 * Responses: what they may say of failures, and that they name no files.
 */
#include "batch_harness.h"

UNIT_TEST(failures_in_a_response_are_strict)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *answer = response(&key);
	struct sgpu_batch_segment *s = &answer->segments[0];
	*s = (struct sgpu_batch_segment){ .id = s->id,
					  .masking = SGPU_MASKING_AES_GCM,
					  .status = SGPU_EAUTH,
					  .error_text = strdup("chunk 3 does not verify") };
	sign(answer, &key);
	CHECK(round_trip(answer) == 0);
	s->size = 1;
	sign(answer, &key);
	CHECK(round_trip(answer) == SGPU_EINVALID);
	s->size = 0;
	s->status = SGPU_OK;
	sign(answer, &key);
	CHECK(round_trip(answer) == SGPU_EPOLICY);
	sgpu_batch_free(&answer);
}

/* Who opens a response would read the files that its writer names. */
UNIT_TEST(a_response_names_no_file)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *answer = response(&key), *read = NULL;
	struct sgpu_location *location = &answer->segments[0].location;

	location->kind = SGPU_LOCATION_REGION;
	memset(location->region, 'a', SGPU_REGION_ID_TEXT);
	CHECK(read_archive(archive(answer), true, &read) == 0 &&
	      read->segments[0].location.kind == SGPU_LOCATION_REGION);
	sgpu_batch_free(&read);
	location->kind = SGPU_LOCATION_FILE;
	location->file = strdup("/etc/passwd");
	CHECK(read_archive(archive(answer), true, &read) == SGPU_EPOLICY && !read);
	CHECK(strstr(error.text, "'sum'") && strstr(error.text, "file"));
	sgpu_batch_free(&answer);
}

UNIT_TEST(a_response_says_what_became_of_all)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *answer = response(&key);

	CHECK(strstr(answer->index_text, "\"batch_status\":\"OK\"") != NULL);
	answer->segments[0] = (struct sgpu_batch_segment){ .id = answer->segments[0].id,
							   .masking = SGPU_MASKING_AES_GCM,
							   .status = SGPU_EAUTH,
							   .error_text = strdup("chunk 3") };
	sign(answer, &key);
	CHECK(strstr(answer->index_text, "\"batch_status\":\"ALL_FAILED\"") != NULL);
	CHECK(round_trip(answer) == 0);
	sgpu_batch_free(&answer);
}

static void *no_memory(size_t size)
{
	(void)size;
	return NULL;
}

UNIT_TEST(an_index_that_lacks_memory_is_not_called_malformed)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *answer = response(&key);
	char *text = NULL;
	size_t size = 0;

	json_set_alloc_funcs(no_memory, free);
	CHECK(sgpu_index_text(answer, &text, &size, &error) == SGPU_ENOMEM && !text);
	json_set_alloc_funcs(malloc, free);
	CHECK(strcmp(error.text, "out of memory") == 0);
	sgpu_batch_free(&answer);
}

int main(void)
{
	UNIT_RUN(failures_in_a_response_are_strict);
	UNIT_RUN(a_response_names_no_file);
	UNIT_RUN(a_response_says_what_became_of_all);
	UNIT_RUN(an_index_that_lacks_memory_is_not_called_malformed);
	return unit_done();
}
