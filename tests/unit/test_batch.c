/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches and responses: index, head, payloads, recipients, MAC, segment keys.
 */
#include "tar_header.h"
#include "batch_harness.h"

UNIT_TEST(batches_and_responses_come_back)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *packed = packed_batch(), *sealed = sealed_batch(&key),
			  *answer = response(&key);
	CHECK(round_trip(packed) == 0);
	CHECK(round_trip(sealed) == 0);
	CHECK(round_trip(answer) == 0);
	CHECK(sgpu_batch_segment(packed, "sum") == 2 && sgpu_batch_segment(packed, "none") == -1);
	sgpu_batch_free(&packed);
	sgpu_batch_free(&sealed);
	sgpu_batch_free(&answer);
	CHECK(!answer);
	sgpu_batch_free(&answer);
}

UNIT_TEST(directions_come_from_the_manifest)
{
	struct sgpu_batch *packed = packed_batch(), *read = NULL;
	REQUIRE(read_archive(archive(packed), false, &read) == 0);
	CHECK(read->segments[0].input && !read->segments[0].output);
	CHECK(!read->segments[2].input && read->segments[2].output);
	CHECK(sgpu_batch_segment(read, "public") == 1 && sgpu_batch_segment(read, "nothing") == -1);
	sgpu_batch_free(&packed);
	sgpu_batch_free(&read);
}

UNIT_TEST(a_response_is_not_a_batch)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *answer = response(&key), *read = NULL;
	CHECK(read_archive(archive(answer), false, &read) == SGPU_EINVALID && !read);
	CHECK(strstr(error.text, "response") != NULL);
	struct sgpu_tar_reader *reader = NULL;
	const int fd = archive(answer);
	REQUIRE(sgpu_tar_open(fd, "b", &reader, &error) == 0);
	CHECK(sgpu_batch_read(reader, SGPU_READ_EITHER, &read, &error) == 0 && read &&
	      read->response);
	sgpu_tar_close(&reader);
	close(fd);
	sgpu_batch_free(&read);
	sgpu_batch_free(&answer);
}

/* ---- the head against the manifest: each change to a good batch, and what it must give ---- */
static int head_code(struct sgpu_batch *batch)
{
	const int code = round_trip(batch);
	sgpu_batch_free(&batch);
	return code;
}

UNIT_TEST(index_and_manifest_must_agree)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *b = packed_batch();
	strcpy(b->segments[1].id, "secreT");
	CHECK(head_code(b) == SGPU_EINVALID);
	b = packed_batch();
	b->segments[0].masking = SGPU_MASKING_NONE; /* HIGH, relabelled */
	b->segments[0].has_kt128 = true;
	CHECK(head_code(b) == SGPU_EPOLICY);
	b = packed_batch();
	b->segments[1].masking = SGPU_MASKING_AES_GCM;
	b->segments[1].has_kt128 = false;
	b->segments[1].location.kind = SGPU_LOCATION_NONE;
	CHECK(head_code(b) == SGPU_EINVALID);
	b = packed_batch();
	b->segments[1].location.kind = SGPU_LOCATION_NONE;
	CHECK(head_code(b) == SGPU_EINVALID);
	b = packed_batch();
	free(b->segments[--b->segment_count].id);
	CHECK(head_code(b) == SGPU_EINVALID);
	for (int i = 0; i < SGPU_SHA256_SIZE;
	     i += SGPU_SHA256_SIZE - 1) { /* the first byte, and the last */
		b = packed_batch();
		b->manifest_sha256[i] ^= 1;
		CHECK(head_code(b) == SGPU_EAUTH);
	}
	b = sealed_batch(&key);
	b->segments[0].sealed = false;
	b->segments[0].location.kind = SGPU_LOCATION_FILE;
	b->segments[0].location.file = strdup("x");
	sign(b, &key);
	CHECK(head_code(b) == SGPU_EPOLICY);
	b = packed_batch(); /* as if nothing in it were to be sealed */
	b->packed = false;
	CHECK(head_code(b) == SGPU_EPOLICY);
	b = packed_batch(); /* a secret would travel */
	free(b->segments[0].location.file);
	b->segments[0].location = (struct sgpu_location){ .kind = SGPU_LOCATION_INLINE };
	CHECK(head_code(b) == SGPU_EPOLICY);
}

/* The next to last digit: of the last one, two bits are of no byte. */
static void change_digest(char *text, const char *member)
{
	char *at = strstr(text, member) + strlen(member) + 3 + 41;

	*at = *at == 'A' ? 'B' : 'A';
}

UNIT_TEST(digests_are_compared_to_their_last_byte)
{
	struct sgpu_batch *b = packed_batch();

	b->note = strdup("note");
	b->note_size = 4;
	REQUIRE(round_trip(b) == 0);
	b->index_sha256[SGPU_SHA256_SIZE - 1] ^= 1;
	sgpu_batch_change(b, false);
	CHECK(head_code(b) == SGPU_EAUTH && strstr(error.text, "batch.json is not"));
	b = packed_batch();
	b->note = strdup("note");
	b->note_size = 4;
	REQUIRE(sgpu_seal_json_freeze(b, &error) == 0);
	change_digest(b->index_text, "note_sha256");
	REQUIRE(sgpu_sha256(b->index_text, b->index_size, b->index_sha256, &error) == 0);
	sgpu_batch_change(b, false);
	CHECK(head_code(b) == SGPU_EAUTH && strstr(error.text, "the note is not"));
}

UNIT_TEST(manifests_are_hashed_as_they_lie_and_have_to_be_valid)
{
	static const char *const texts[] = { "{}", "{", "", manifest_source };
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(texts); i++) {
		struct sgpu_batch *b = packed_batch();
		free(b->manifest_text);
		b->manifest_text = strdup(texts[i]);
		b->manifest_size = strlen(texts[i]);
		REQUIRE(sgpu_sha256(texts[i], b->manifest_size, b->manifest_sha256, &error) == 0);
		CHECK(head_code(b) == (texts[i] == manifest_source ? 0 : SGPU_EINVALID));
	}
}

/* ---- payloads ---- */
static int two_payloads(struct sgpu_batch *batch, int first, int second, size_t first_size)
{
	static const uint8_t zeros[128];
	struct sgpu_batch *read = NULL;
	const int order[2] = { first, second };
	const int fd = memfd_create("batch", 0);
	int code = sgpu_batch_write_head(fd, "b", batch, false, &error);
	for (int i = 0; !code && i < 2; i++) {
		if (order[i] < 0) {
			continue;
		}
		char name[128];
		const size_t size =
			i ? (size_t)sgpu_batch_payload_size(batch, order[i]) : first_size;
		snprintf(name, sizeof(name), "segments/%s", batch->segments[order[i]].id);
		if (put_header(fd, name, size, &error) ||
		    sgpu_write(fd, "b", zeros, size, &error) ||
		    sgpu_tar_padding(fd, "b", size, &error)) {
			abort();
		}
	}
	if (code || sgpu_tar_end(fd, "b", &error) || lseek(fd, 0, SEEK_SET)) {
		abort();
	}
	code = read_archive(fd, false, &read);
	sgpu_batch_free(&read);
	return code;
}

UNIT_TEST(payloads_come_once_in_order_and_whole)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *b = sealed_batch(&key);
	CHECK(two_payloads(b, 0, 1, 88) == 0);
	CHECK(two_payloads(b, 1, 0, 16) == SGPU_EINVALID);  /* swapped */
	CHECK(two_payloads(b, 0, 0, 88) == SGPU_EINVALID);  /* repeated */
	CHECK(two_payloads(b, 0, -1, 88) == SGPU_EINVALID); /* missing */
	CHECK(two_payloads(b, -1, 1, 16) == SGPU_EINVALID);
	CHECK(two_payloads(b, 0, 1, 87) == SGPU_EINVALID); /* shorter */
	CHECK(two_payloads(b, 0, 2, 88) == SGPU_EINVALID); /* an output */
	sgpu_batch_free(&b);
}

/* ---- keys ---- */
UNIT_TEST(each_recipient_unwraps_and_nobody_else)
{
	struct sgpu_key oct = key_of(SGPU_KEY_OCT), pair = key_of(SGPU_KEY_X25519),
			other = key_of(SGPU_KEY_OCT);
	struct sgpu_key public_half, foreign = key_of(SGPU_KEY_X25519);
	uint8_t key[SGPU_KEY_SIZE];
	struct sgpu_batch *b = sealed_batch(&oct);
	REQUIRE(sgpu_key_public(&pair, &public_half, &error) == 0);
	CHECK(sgpu_batch_wrap(b, &public_half, batch_key, &error) == 0);
	CHECK(sgpu_batch_wrap(b, &pair, batch_key, &error) == 0); /* the same reader */
	CHECK(json_array_size(b->recipients) == 2);
	CHECK(sgpu_batch_unwrap(b, &oct, 1, key, &error) == 0 &&
	      !memcmp(key, batch_key, sizeof(key)));
	memset(key, 0, sizeof(key));
	CHECK(sgpu_batch_unwrap(b, &pair, 1, key, &error) == 0 &&
	      !memcmp(key, batch_key, sizeof(key)));
	CHECK(sgpu_batch_unwrap(b, &other, 1, key, &error) == SGPU_EKEY);
	CHECK(sgpu_batch_unwrap(b, &foreign, 1, key, &error) == SGPU_EKEY);
	CHECK(sgpu_batch_unwrap(b, &public_half, 1, key, &error) == SGPU_EKEY);
	CHECK(sgpu_batch_unwrap(b, NULL, 0, key, &error) == SGPU_EKEY);
	const struct sgpu_key both[2] = { other, pair };
	CHECK(sgpu_batch_unwrap(b, both, 2, key, &error) == 0);
	b->id[0] ^= 1; /* bound as associated data */
	CHECK(sgpu_batch_unwrap(b, &pair, 1, key, &error) == SGPU_EAUTH);
	b->id[0] ^= 1;
	memcpy(oct.secret, other.secret, sizeof(oct.secret)); /* the right kid, the wrong key */
	CHECK(sgpu_batch_unwrap(b, &oct, 1, key, &error) == SGPU_EAUTH);
	CHECK(!memcmp(key, (uint8_t[SGPU_KEY_SIZE]){ 0 }, sizeof(key)));
	CHECK(sgpu_batch_sign(b, batch_key, &error) == 0 && round_trip(b) == 0);
	sgpu_batch_free(&b);
}

UNIT_TEST(the_mac_covers_all_but_the_locations)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *b = sealed_batch(&key), *read = NULL;
	const size_t length = strlen(b->payload);

	b->segments[1].location =
		(struct sgpu_location){ .kind = SGPU_LOCATION_REGION, .offset = 4096 };
	memset(b->segments[1].location.region, 'a', SGPU_REGION_ID_TEXT);
	REQUIRE(read_archive(archive(b), false, &read) == 0);
	CHECK(sgpu_batch_verify(read, batch_key, &error) == 0);
	sgpu_batch_free(&read);
	for (size_t i = 0; i < length; i++) {
		b->payload[i] ^= 1;
		CHECK(sgpu_batch_verify(b, batch_key, &error) == SGPU_EAUTH);
		b->payload[i] ^= 1;
	}
	for (size_t i = 0; i < SGPU_SHA256_SIZE; i++) {
		b->mac[i] ^= 1;
		CHECK(sgpu_batch_verify(b, batch_key, &error) == SGPU_EAUTH);
		b->mac[i] ^= 1;
	}
	b->id[15] ^= 1; /* the salt of its key */
	CHECK(sgpu_batch_verify(b, batch_key, &error) == SGPU_EAUTH);
	b->id[15] ^= 1;
	CHECK(sgpu_batch_verify(b, batch_key, &error) == 0);
	b->response = true; /* a batch's MAC is no response's */
	CHECK(sgpu_batch_verify(b, batch_key, &error) == SGPU_EAUTH);
	b->response = false;
	batch_key[31] ^= 1;
	CHECK(sgpu_batch_verify(b, batch_key, &error) == SGPU_EAUTH);
	batch_key[31] ^= 1;
	b->has_mac = false;
	CHECK(sgpu_batch_verify(b, batch_key, &error) == SGPU_EAUTH);
	sgpu_batch_free(&b);
}

UNIT_TEST(there_is_a_most_of_recipients)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *b = sealed_batch(&key);

	for (int i = 1; i <= SGPU_RECIPIENTS_MAX; i++) {
		const struct sgpu_key more = key_of(SGPU_KEY_OCT);
		CHECK(sgpu_batch_wrap(b, &more, batch_key, &error) ==
		      (i < SGPU_RECIPIENTS_MAX ? 0 : SGPU_EUSAGE));
	}
	CHECK(sgpu_batch_sign(b, batch_key, &error) == 0 && round_trip(b) == 0);
	sgpu_batch_free(&b);
}

/* Whatever byte of the archive is changed, either reading or the MAC fails, or the change was to a
 * payload. */
UNIT_TEST(every_changed_byte_is_noticed)
{
	const struct sgpu_key key = key_of(SGPU_KEY_OCT);
	struct sgpu_batch *b = sealed_batch(&key);
	const int fd = archive(b);
	REQUIRE(fd >= 0);
	const off_t end = lseek(fd, 0, SEEK_END);
	const off_t payloads = end - 1024 - 2 * 1024; /* two members of a block each */
	int missed = 0;
	for (off_t at = 0; at < end; at++) {
		struct sgpu_batch *read = NULL;
		uint8_t byte = 0, unwrapped[SGPU_KEY_SIZE];
		REQUIRE(pread(fd, &byte, 1, at) == 1);
		byte ^= 0x20;
		REQUIRE(pwrite(fd, &byte, 1, at) == 1 && lseek(fd, 0, SEEK_SET) == 0);
		int code = read_archive(dup(fd), false, &read);
		code = code ? code : sgpu_batch_unwrap(read, &key, 1, unwrapped, &error);
		code = code ? code : sgpu_batch_verify(read, unwrapped, &error);
		const bool payload =
			at >= payloads && at < end - 1024 && (at - payloads) % 1024 >= 512 &&
			(at - payloads) % 1024 < ((at - payloads) < 1024 ? 512 + 88 : 512 + 16);
		missed += (code == 0) != payload;
		sgpu_batch_free(&read);
		byte ^= 0x20;
		REQUIRE(pwrite(fd, &byte, 1, at) == 1);
	}
	CHECK(missed == 0);
	close(fd);
	sgpu_batch_free(&b);
}

int main(void)
{
	UNIT_RUN(batches_and_responses_come_back);
	UNIT_RUN(directions_come_from_the_manifest);
	UNIT_RUN(a_response_is_not_a_batch);
	UNIT_RUN(index_and_manifest_must_agree);
	UNIT_RUN(digests_are_compared_to_their_last_byte);
	UNIT_RUN(manifests_are_hashed_as_they_lie_and_have_to_be_valid);
	UNIT_RUN(payloads_come_once_in_order_and_whole);
	UNIT_RUN(each_recipient_unwraps_and_nobody_else);
	UNIT_RUN(the_mac_covers_all_but_the_locations);
	UNIT_RUN(there_is_a_most_of_recipients);
	UNIT_RUN(every_changed_byte_is_noticed);
	return unit_done();
}
