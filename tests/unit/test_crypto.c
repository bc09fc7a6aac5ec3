/* SPDX-License-Identifier: Apache-2.0
 *
 * Crypto: derivation, wrapping, HPKE round trips, the AEAD interface.
 */
#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "unit.h"
#include "vectors.h"

static int equals_hex(const void *data, const char *hex)
{
	size_t size;
	uint8_t *expected = vectors_hex(hex, &size);
	int same = !memcmp(data, expected, size);

	free(expected);
	return same;
}

UNIT_TEST(hkdf_matches_rfc_5869_and_refuses_too_much)
{
	uint8_t ikm[22], salt[13], info[10], out[42], *large = malloc(255 * 32 + 1);

	memset(ikm, 0x0b, sizeof(ikm));
	for (unsigned i = 0; i < sizeof(salt); i++) {
		salt[i] = (uint8_t)i;
	}
	for (unsigned i = 0; i < sizeof(info); i++) {
		info[i] = (uint8_t)(0xf0 + i);
	}
	CHECK(sgpu_hkdf_sha256(ikm, 22, salt, 13, info, 10, out, 42, NULL) == 0);
	CHECK(equals_hex(out, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf3400"
			      "7208d5b887185865"));
	CHECK(sgpu_hkdf_sha256(ikm, 22, NULL, 0, NULL, 0, out, 42, NULL) == 0);
	CHECK(equals_hex(out, "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d20"
			      "1395faa4b61a96c8"));
	CHECK(sgpu_hkdf_sha256(ikm, 22, NULL, 0, NULL, 0, large, 255 * 32, NULL) == 0);
	CHECK(sgpu_hkdf_sha256(ikm, 22, NULL, 0, NULL, 0, large, 255 * 32 + 1, NULL) ==
	      SGPU_EUSAGE);
	free(large);
}

UNIT_TEST(key_wrap_matches_rfc_3394_and_refuses_any_changed_byte)
{
	uint8_t kek[32], key[32], wrapped[40], back[32];

	for (unsigned i = 0; i < 32; i++) {
		kek[i] = (uint8_t)i;
		key[i] = (uint8_t)(i < 16 ? i * 0x11 : i - 16);
	}
	CHECK(sgpu_wrap(kek, key, wrapped, NULL) == 0);
	CHECK(equals_hex(wrapped, "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43b"
				  "fb988b9b7a02dd21"));
	CHECK(sgpu_unwrap(kek, wrapped, back, NULL) == 0 && !memcmp(back, key, 32));
	for (unsigned i = 0; i < sizeof(wrapped); i++) {
		wrapped[i] ^= 1;
		CHECK(sgpu_unwrap(kek, wrapped, back, NULL) == SGPU_EAUTH);
		wrapped[i] ^= 1;
	}
	kek[0] ^= 1;
	memset(back, 0x55, sizeof(back));
	CHECK(sgpu_unwrap(kek, wrapped, back, NULL) == SGPU_EAUTH);
	CHECK(!memcmp(back, (uint8_t[32]){ 0 }, sizeof(back)));
}

UNIT_TEST(hpke_opens_only_with_the_same_key_info_and_associated_data)
{
	struct sgpu_key key, other;
	uint8_t message[32], enc[32], ct[48], back[32];

	REQUIRE(sgpu_key_generate(SGPU_KEY_X25519, &key, NULL) == 0);
	REQUIRE(sgpu_key_generate(SGPU_KEY_X25519, &other, NULL) == 0);
	REQUIRE(sgpu_random(message, sizeof(message), NULL) == 0);
	REQUIRE(sgpu_hpke_seal(key.public_half, "info", 4, "aad", 3, message, 32, enc, ct, NULL) ==
		0);
	CHECK(sgpu_hpke_open(&key, enc, "info", 4, "aad", 3, ct, 48, back, NULL) == 0);
	CHECK(!memcmp(back, message, 32));
	CHECK(sgpu_hpke_open(&other, enc, "info", 4, "aad", 3, ct, 48, back, NULL) == SGPU_EAUTH);
	CHECK(sgpu_hpke_open(&key, enc, "inf", 3, "aad", 3, ct, 48, back, NULL) == SGPU_EAUTH);
	CHECK(sgpu_hpke_open(&key, enc, "info", 4, "aax", 3, ct, 48, back, NULL) == SGPU_EAUTH);
	CHECK(sgpu_hpke_open(&key, enc, "info", 4, "aad", 3, ct, 15, back, NULL) == SGPU_EAUTH);
	for (unsigned i = 0; i < 48; i++) {
		ct[i] ^= 0x80;
		memset(back, 0x55, sizeof(back));
		CHECK(sgpu_hpke_open(&key, enc, "info", 4, "aad", 3, ct, 48, back, NULL) ==
		      SGPU_EAUTH);
		CHECK(!memcmp(back, (uint8_t[32]){ 0 },
			      sizeof(back))); /* GCM decrypts before it compares */
		ct[i] ^= 0x80;
	}
	sgpu_key_clear(&key);
	CHECK(!memcmp(key.secret, (uint8_t[32]){ 0 }, 32));
}

UNIT_TEST(hpke_refuses_public_keys_of_low_order)
{
	uint8_t zero[32] = { 0 }, message[32] = { 0 }, enc[32], ct[48];
	struct sgpu_key key;

	CHECK(sgpu_hpke_seal(zero, NULL, 0, NULL, 0, message, 32, enc, ct, NULL) == SGPU_EINVALID);
	REQUIRE(sgpu_key_generate(SGPU_KEY_X25519, &key, NULL) == 0);
	CHECK(sgpu_hpke_open(&key, zero, NULL, 0, NULL, 0, ct, 48, message, NULL) == SGPU_EAUTH);
}

/* Each provider's output is opened by each, in place and apart. */
static void check_pair(const char *sealer, const char *opener, size_t size)
{
	uint8_t key[32] = { 1 }, nonce[12] = { 2 }, tag[16], *data = malloc(size + 1),
		*out = malloc(size + 1);
	struct sgpu_aead *a = NULL, *b = NULL, *copy = NULL;

	REQUIRE(sgpu_aead_create(sealer, key, &a, NULL) == 0 &&
		sgpu_aead_create(opener, key, &b, NULL) == 0);
	REQUIRE(sgpu_aead_copy(b, &copy, NULL) == 0);
	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 7);
	}
	CHECK(sgpu_aead_seal(a, nonce, data, size, out, tag) == 0);
	CHECK(sgpu_aead_open(copy, nonce, out, size, out, tag) == 0);
	CHECK(!memcmp(out, data, size));
	CHECK(sgpu_aead_seal(a, nonce, data, size, out, tag) == 0);
	tag[15] ^= 1;
	CHECK(sgpu_aead_open(b, nonce, out, size, data, tag) == SGPU_EAUTH);
	for (size_t i = 0; i < size; i++) {
		CHECK(data[i] == 0);
	}
	sgpu_aead_free(&a);
	sgpu_aead_free(&b);
	sgpu_aead_free(&copy);
	free(data);
	free(out);
}

UNIT_TEST(every_aead_provider_opens_what_every_other_sealed)
{
	static const size_t sizes[] = { 0, 1, 15, 16, 17, 255, 256, 257, 4095, 16384, 100000 };

	for (const char *const *a = sgpu_aead_providers(); *a; a++) {
		for (const char *const *b = sgpu_aead_providers(); *b; b++) {
			for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
				check_pair(*a, *b, sizes[i]);
			}
		}
	}
}

UNIT_TEST(the_environment_chooses_the_provider_and_an_unknown_one_is_an_error)
{
	uint8_t key[32] = { 0 };
	struct sgpu_aead *aead = NULL;
	struct sgpu_error error = { 0 };

	CHECK(sgpu_aead_create("rot13", key, &aead, &error) == SGPU_EUNAVAILABLE && !aead);
	CHECK(strstr(error.text, "rot13"));
	setenv("SGPU_AEAD", "openssl", 1);
	CHECK(!strcmp(sgpu_aead_provider(), "openssl"));
	setenv("SGPU_AEAD", "rot13", 1);
	CHECK(sgpu_aead_create(NULL, key, &aead, NULL) == SGPU_EUNAVAILABLE);
	unsetenv("SGPU_AEAD");
	CHECK(!strncmp(sgpu_aead_provider(), sgpu_aead_providers()[0],
		       strlen(sgpu_aead_providers()[0])));
}

int main(void)
{
	UNIT_RUN(hkdf_matches_rfc_5869_and_refuses_too_much);
	UNIT_RUN(key_wrap_matches_rfc_3394_and_refuses_any_changed_byte);
	UNIT_RUN(hpke_opens_only_with_the_same_key_info_and_associated_data);
	UNIT_RUN(hpke_refuses_public_keys_of_low_order);
	UNIT_RUN(every_aead_provider_opens_what_every_other_sealed);
	UNIT_RUN(the_environment_chooses_the_provider_and_an_unknown_one_is_an_error);
	return unit_done();
}
