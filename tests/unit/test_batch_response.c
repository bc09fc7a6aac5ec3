/* SPDX-License-Identifier: Apache-2.0
 *
 * Responses: what they may say of failures, that they name no files, and that their id is in their
 * MAC.
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
	s->actual_size = 1;
	CHECK(round_trip(answer) == SGPU_EINVALID);
	s->actual_size = 0;
	s->status = -99;
	CHECK(round_trip(answer) == SGPU_EINVALID);
	s->status = SGPU_OK;
	CHECK(round_trip(answer) == SGPU_EINVALID);
	sgpu_batch_free(&answer);
}

/* Who opens a response would read the files that its writer names. */
UNIT_TEST(a_response_names_no_file)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *answer = response(&key), *read = NULL;
	char *text = NULL;
	size_t size = 0;
	REQUIRE(sgpu_batch_text(answer, &text, &size, &error) == 0);
	CHECK(sgpu_batch_parse(text, size, true, &read, &error) == 0);
	sgpu_batch_free(&read);
	char *at = strstr(text, "{\"inline\":true}");
	REQUIRE(at != NULL);
	char changed[4096];
	snprintf(changed, sizeof(changed), "%.*s{\"file\":\"/etc/passwd\",\"offset\":0}%s",
		 (int)(at - text), text, at + strlen("{\"inline\":true}"));
	CHECK(sgpu_batch_parse(changed, strlen(changed), true, &read, &error) == SGPU_EPOLICY &&
	      !read);
	CHECK(strstr(error.text, "'sum'") && strstr(error.text, "file"));
	snprintf(changed, sizeof(changed),
		 "%.*s{\"offset\":0,\"region\":\"0123456789abcdef0123456789abcdef\"}%s",
		 (int)(at - text), text, at + strlen("{\"inline\":true}"));
	CHECK(sgpu_batch_parse(changed, strlen(changed), true, &read, &error) == 0);
	sgpu_batch_free(&read);
	free(text);
	answer->segments[0].location.kind = SGPU_LOCATION_FILE;
	answer->segments[0].location.file = strdup("/etc/passwd");
	CHECK(sgpu_batch_text(answer, &text, &size, &error) ==
	      SGPU_EPOLICY); /* nor is one written */
	sgpu_batch_free(&answer);
}

UNIT_TEST(the_id_of_a_response_is_in_its_mac)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *answer = response(&key);
	CHECK(sgpu_batch_verify(answer, batch_key, &error) == 0);
	answer->response_id[15] ^= 1;
	CHECK(sgpu_batch_verify(answer, batch_key, &error) == SGPU_EAUTH);
	sgpu_batch_free(&answer);
}

/* All its outputs have failed, so nothing in it is sealed: the manifest says that it must have a
 * mac all the same. */
UNIT_TEST(a_response_of_failures_alone_needs_its_mac)
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
	answer->has_mac = false;
	json_decref(answer->recipients);
	answer->recipients = NULL;
	CHECK(round_trip(answer) == SGPU_EPOLICY);
	CHECK(strstr(error.text, "no mac"));
	sgpu_batch_free(&answer);
}

int main(void)
{
	UNIT_RUN(failures_in_a_response_are_strict);
	UNIT_RUN(a_response_names_no_file);
	UNIT_RUN(the_id_of_a_response_is_in_its_mac);
	UNIT_RUN(a_response_of_failures_alone_needs_its_mac);
	return unit_done();
}
