/* SPDX-License-Identifier: Apache-2.0
 *
 * The sealed segment in memory: lengths, vectors, runs of chunks, and every kind of damage.
 */
#include <sgpu/seal.h>

#include "crypto/crypto.h"
#include "batch/batch.h"
#include "crypto/key.h"
#include "unit.h"
#include "vectors.h"

static const uint8_t key[SGPU_KEY_SIZE] = { 3, 1, 4, 1, 5 };

static uint8_t *pattern(size_t size)
{
	uint8_t *data = malloc(size + 1);

	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 7 + (i >> 8));
	}
	return data;
}

UNIT_TEST(lengths_follow_the_chunks_and_back)
{
	static const struct {
		uint64_t size, sealed;
	} cases[] = {
		{ 0, 72 },
		{ 1, 73 },
		{ 16383, 16455 },
		{ 16384, 56 + 16400 + 16 },
		{ 16385, 56 + 16400 + 17 },
		{ 1 << 20, 56 + 64 * 16400 + 16 },
		{ ((uint64_t)1 << 52) - 1, 56 + (((uint64_t)1 << 38) * 16400) - 1 },
	};
	uint64_t value;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		CHECK(sgpu_sealed_size(cases[i].size, &value) && value == cases[i].sealed);
		CHECK(sgpu_sealed_plaintext_size(cases[i].sealed, &value) &&
		      value == cases[i].size);
	}
	CHECK(!sgpu_sealed_size((uint64_t)1 << 52, &value) &&
	      !sgpu_sealed_size(UINT64_MAX, &value));
	for (uint64_t bad = 0; bad < 72; bad++) {
		CHECK(!sgpu_sealed_plaintext_size(bad, &value));
	}
	for (uint64_t bad = 56 + 16400; bad < 56 + 16400 + 16; bad++) {
		CHECK(!sgpu_sealed_plaintext_size(bad, &value));
	}
	CHECK(!sgpu_sealed_plaintext_size(UINT64_MAX, &value));
	CHECK(!sgpu_sealed_plaintext_size(56 + ((uint64_t)1 << 38) * 16400 + 16, &value));
}

static void check_vector(const char *provider, const json_t *vector)
{
	size_t key_size, context_size, header_size, digest_size;
	size_t size = (size_t)json_integer_value(json_object_get(vector, "size"));
	uint8_t *input_key = vectors_member(vector, "key", &key_size), *data = pattern(size);
	uint8_t *context = vectors_member(vector, "context", &context_size);
	uint8_t *header = vectors_member(vector, "header", &header_size), digest[SGPU_SHA256_SIZE];
	uint8_t *expected = vectors_member(vector, "sealed_sha256", &digest_size);
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead = NULL;
	uint64_t sealed_size = 0;

	CHECK(sgpu_sealed_size(size, &sealed_size));
	uint8_t *sealed = malloc(sealed_size), *back = malloc(size + 1);
	CHECK(sgpu_sealed_keys_open(input_key, context, context_size, header, &keys, NULL) == 0);
	CHECK(sgpu_aead_create(provider, keys.key, &aead, NULL) == 0);
	memcpy(sealed, keys.header, SGPU_SEALED_HEADER);
	CHECK(!memcmp(sealed, header, SGPU_SEALED_HEADER));
	CHECK(sgpu_seal_chunks(aead, &keys, 0, true, data, size, sealed + SGPU_SEALED_HEADER) == 0);
	CHECK(sgpu_sha256(sealed, sealed_size, digest, NULL) == 0 &&
	      !memcmp(digest, expected, sizeof(digest)));
	CHECK(sgpu_open_memory(input_key, context, context_size, sealed, sealed_size, back, NULL) ==
	      0);
	CHECK(!memcmp(back, data, size));
	sgpu_aead_free(&aead);
	free(input_key);
	free(context);
	free(header);
	free(expected);
	free(data);
	free(sealed);
	free(back);
}

UNIT_TEST(the_vectors_of_the_python_implementation_match_with_every_provider)
{
	size_t i;
	json_t *vector, *root = json_load_file("tests/vectors/sealed.json", 0, NULL);

	if (!root) {
		SKIP("tests/vectors/sealed.json: not run in the source tree");
	}
	json_array_foreach (json_object_get(root, "vectors"), i, vector) {
		for (const char *const *name = sgpu_aead_providers(); *name; name++) {
			check_vector(*name, vector);
		}
	}
	CHECK(i == 12);
	json_decref(root);
}

UNIT_TEST(no_two_seals_are_alike)
{
	uint8_t a[80], b[80];

	CHECK(sgpu_seal_memory(key, "c", 1, "12345678", 8, a, NULL) == 0);
	CHECK(sgpu_seal_memory(key, "c", 1, "12345678", 8, b, NULL) == 0);
	CHECK(memcmp(a, b, SGPU_SALT_SIZE) && memcmp(a + 24, b + 24, 32) &&
	      memcmp(a + 56, b + 56, 24));
}

UNIT_TEST(runs_of_chunks_may_be_sealed_and_opened_in_any_order)
{
	enum { CHUNKS = 5, SIZE = CHUNKS * SGPU_CHUNK + 100 };
	uint8_t *data = pattern(SIZE), *sealed = malloc(SIZE + 16 * (CHUNKS + 1)),
		*back = malloc(SIZE);
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead = NULL;
	uint64_t bad = 99;

	REQUIRE(sgpu_sealed_keys_new(key, NULL, 0, &keys, NULL) == 0);
	REQUIRE(sgpu_aead_create(NULL, keys.key, &aead, NULL) == 0);
	CHECK(sgpu_seal_chunks(aead, &keys, 3, true, data + 3 * SGPU_CHUNK, SIZE - 3 * SGPU_CHUNK,
			       sealed + 3 * SGPU_SEALED_CHUNK) == 0);
	CHECK(sgpu_seal_chunks(aead, &keys, 0, false, data, 3 * SGPU_CHUNK, sealed) == 0);
	CHECK(sgpu_seal_chunks(aead, &keys, 0, false, data, 100, sealed) == SGPU_EUSAGE);
	CHECK(sgpu_open_chunks(aead, &keys, 2, true, sealed + 2 * SGPU_SEALED_CHUNK,
			       3 * SGPU_SEALED_CHUNK + 116, back + 2 * SGPU_CHUNK, &bad) == 0);
	CHECK(sgpu_open_chunks(aead, &keys, 0, false, sealed, 2 * SGPU_SEALED_CHUNK, back, &bad) ==
	      0);
	CHECK(!memcmp(back, data, SIZE) && bad == 99);
	/* The wrong place, the end mark where none may be, none where one must be. */
	CHECK(sgpu_open_chunks(aead, &keys, 1, false, sealed, SGPU_SEALED_CHUNK, back, &bad) ==
		      SGPU_EAUTH &&
	      bad == 1);
	CHECK(sgpu_open_chunks(aead, &keys, 5, false, sealed + 5 * SGPU_SEALED_CHUNK, 116, back,
			       &bad) == SGPU_EAUTH);
	CHECK(bad == 5);
	CHECK(sgpu_open_chunks(aead, &keys, 0, true, sealed, 2 * SGPU_SEALED_CHUNK, back, &bad) ==
		      SGPU_EAUTH &&
	      bad == 2);
	sgpu_aead_free(&aead);
	free(data);
	free(sealed);
	free(back);
}

UNIT_TEST(any_changed_byte_and_any_other_length_is_refused_and_nothing_remains)
{
	enum { SIZE = 2 * SGPU_CHUNK + 50, SEALED = 56 + SIZE + 48 };
	uint8_t *data = pattern(SIZE), *sealed = malloc(SEALED + 16400),
		*back = malloc(SIZE + SGPU_CHUNK);
	struct sgpu_error error;

	REQUIRE(sgpu_seal_memory(key, NULL, 0, data, SIZE, sealed, NULL) == 0);
	for (size_t at = 0; at < SEALED; at += at < 56 || at > SEALED - 70 ? 1 : 97) {
		sealed[at] ^= 0x10;
		memset(back, 0xee, SIZE);
		int code = sgpu_open_memory(key, NULL, 0, sealed, SEALED, back, &error);
		CHECK(code == (at < 56 ? SGPU_EKEY : SGPU_EAUTH) && error.code == code);
		for (size_t i = 0; i < SIZE; i += 13) {
			CHECK(back[i] == 0);
		}
		sealed[at] ^= 0x10;
	}
	memset(sealed + SEALED, 0, 16400);
	for (size_t size = 0; size < SEALED + 16400;
	     size += size < 80 || size > SEALED - 30 ? 1 : 101) {
		CHECK(sgpu_open_memory(key, NULL, 0, sealed, size, back, NULL) ==
		      (size == SEALED ? 0 : SGPU_EAUTH));
	}
	for (size_t chunks = 0; chunks <= 2; chunks++) {
		CHECK(sgpu_open_memory(key, NULL, 0, sealed, 56 + chunks * 16400, back, NULL) ==
		      SGPU_EAUTH);
	}
	/* Two chunks in each other's place. */
	uint8_t *swap = malloc(16400);
	memcpy(swap, sealed + 56, 16400);
	memcpy(sealed + 56, sealed + 56 + 16400, 16400);
	memcpy(sealed + 56 + 16400, swap, 16400);
	CHECK(sgpu_open_memory(key, NULL, 0, sealed, SEALED, back, &error) == SGPU_EAUTH);
	free(swap);
	free(data);
	free(sealed);
	free(back);
}

UNIT_TEST(another_key_or_context_is_told_from_damage)
{
	uint8_t other[SGPU_KEY_SIZE] = { 9 }, sealed[80], back[8];
	static const uint8_t long_context[SGPU_CONTEXT_MAX + 1];
	static const struct sgpu_sealed_keys none;
	struct sgpu_sealed_keys keys;
	struct sgpu_error error;

	REQUIRE(sgpu_seal_memory(key, "context", 7, "12345678", 8, sealed, NULL) == 0);
	CHECK(sgpu_open_memory(key, "context", 7, sealed, 80, back, NULL) == 0);
	CHECK(sgpu_open_memory(other, "context", 7, sealed, 80, back, &error) == SGPU_EKEY);
	CHECK(strstr(error.text, "key"));
	CHECK(sgpu_sealed_keys_open(other, "context", 7, sealed, &keys, NULL) == SGPU_EKEY &&
	      !memcmp(&keys, &none, sizeof(keys)));
	CHECK(sgpu_open_memory(key, "contexT", 7, sealed, 80, back, NULL) == SGPU_EKEY);
	CHECK(sgpu_open_memory(key, "context", 6, sealed, 80, back, NULL) == SGPU_EKEY);
	CHECK(sgpu_open_memory(key, NULL, 0, sealed, 80, back, NULL) == SGPU_EKEY);
	CHECK(sgpu_seal_memory(key, long_context, SGPU_CONTEXT_MAX, "1", 1, sealed, NULL) == 0);
	CHECK(sgpu_open_memory(key, long_context, SGPU_CONTEXT_MAX, sealed, 73, back, NULL) == 0);
	CHECK(sgpu_seal_memory(key, long_context, SGPU_CONTEXT_MAX + 1, "1", 1, sealed, NULL) ==
	      SGPU_EUSAGE);
}

/* ---- the header of a file that is sealed to a public key ---- */
UNIT_TEST(files_sealed_to_a_public_key_by_the_python_implementation_open)
{
	size_t i;
	json_t *vector, *root = json_load_file("tests/vectors/sealed.json", 0, NULL);

	if (!root) {
		SKIP("tests/vectors/sealed.json: not run in the source tree");
	}
	json_array_foreach (json_object_get(root, "sealed_to"), i, vector) {
		const size_t plain = (size_t)json_integer_value(json_object_get(vector, "size"));
		size_t size = 0, unused = 0;
		uint8_t *private_key = vectors_member(vector, "private", &unused), *back,
			*public_key = vectors_member(vector, "public", &unused), *data,
			*expected = vectors_member(vector, "key", &unused),
			*sealed = vectors_member(vector, "sealed", &size);
		uint8_t file_key[SGPU_KEY_SIZE];
		struct sgpu_key made = { .kind = SGPU_KEY_X25519, .secret_known = true };

		memcpy(made.secret, private_key, sizeof(made.secret));
		memcpy(made.public_half, public_key, 32);
		REQUIRE(sgpu_key_thumbprint(&made, NULL) == 0);
		CHECK(sgpu_sealed_to_open(&made, sealed, size, file_key, NULL) == 0 &&
		      !memcmp(file_key, expected, sizeof(file_key)));
		back = malloc(plain + 1);
		data = pattern(plain);
		CHECK(sgpu_open_memory(file_key, NULL, 0, sealed + SGPU_SEALED_TO,
				       size - SGPU_SEALED_TO, back, NULL) == 0 &&
		      !memcmp(back, data, plain));
		free(private_key);
		free(public_key);
		free(expected);
		free(sealed);
		free(back);
		free(data);
	}
	CHECK(i == 2);
	json_decref(root);
}

UNIT_TEST(a_header_opens_with_its_key_alone_and_no_bit_of_it_may_change)
{
	static const uint8_t none[SGPU_KEY_SIZE];
	uint8_t header[SGPU_SEALED_TO], other[SGPU_SEALED_TO], drawn[SGPU_KEY_SIZE],
		opened[SGPU_KEY_SIZE];
	char kid[SGPU_KID_SIZE + 1];
	struct sgpu_key mine, theirs, shared;

	REQUIRE(!sgpu_key_generate(SGPU_KEY_X25519, &mine, NULL) &&
		!sgpu_key_generate(SGPU_KEY_X25519, &theirs, NULL) &&
		!sgpu_key_generate(SGPU_KEY_OCT, &shared, NULL));
	REQUIRE(sgpu_sealed_to_make(&mine, drawn, other, NULL) == 0);
	REQUIRE(sgpu_sealed_to_make(&mine, drawn, header, NULL) == 0);
	CHECK(memcmp(header + 48, other + 48, 80));
	CHECK(sgpu_sealed_to_kid(header, sizeof(header), kid) && !strcmp(kid, mine.kid));
	CHECK(sgpu_sealed_to_open(&mine, header, sizeof(header), opened, NULL) == 0 &&
	      !memcmp(opened, drawn, sizeof(drawn)));
	CHECK(sgpu_sealed_to_open(&theirs, header, sizeof(header), opened, NULL) == SGPU_EKEY);
	CHECK(sgpu_sealed_to_open(&shared, header, sizeof(header), opened, NULL) == SGPU_EKEY);
	CHECK(sgpu_sealed_to_open(&mine, header, sizeof(header) - 1, opened, NULL) == SGPU_EKEY);
	for (size_t bit = 0; bit < 8 * sizeof(header); bit++) {
		header[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		memcpy(opened, drawn, sizeof(opened));
		CHECK(sgpu_sealed_to_kid(header, sizeof(header), kid) == (bit >= 128));
		CHECK(sgpu_exit_status(sgpu_sealed_to_open(&mine, header, sizeof(header), opened,
							   NULL)) == 4 &&
		      !memcmp(opened, none, sizeof(none)));
		header[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
	/* The name in the header is authenticated, even for a key that would open it. */
	memcpy(mine.kid, theirs.kid, sizeof(mine.kid));
	REQUIRE(sgpu_base64url_decode(theirs.kid, header + 16, 32, NULL) == 0);
	CHECK(sgpu_sealed_to_open(&mine, header, sizeof(header), opened, NULL) == SGPU_EAUTH);
}

int main(void)
{
	UNIT_RUN(lengths_follow_the_chunks_and_back);
	UNIT_RUN(the_vectors_of_the_python_implementation_match_with_every_provider);
	UNIT_RUN(no_two_seals_are_alike);
	UNIT_RUN(runs_of_chunks_may_be_sealed_and_opened_in_any_order);
	UNIT_RUN(any_changed_byte_and_any_other_length_is_refused_and_nothing_remains);
	UNIT_RUN(another_key_or_context_is_told_from_damage);
	UNIT_RUN(files_sealed_to_a_public_key_by_the_python_implementation_open);
	UNIT_RUN(a_header_opens_with_its_key_alone_and_no_bit_of_it_may_change);
	return unit_done();
}
