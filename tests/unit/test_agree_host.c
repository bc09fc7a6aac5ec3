/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's half of the agreement on a key, compiled for the host: X25519, SHA-256, HMAC, the derivation, against
 * published vectors and libcrypto.
 */
#include <stdint.h>

#include <openssl/evp.h>

#include <crypto/internal.h>
#include <device/cuda/agree_secret.cuh>

#include "unit.h"

static void from_hex(const char *hex, uint8_t *out, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned byte = 0;

		CHECK(sscanf(hex + 2 * i, "%2x", &byte) == 1);
		out[i] = (uint8_t)byte;
	}
}

static int rounds(int many)
{
	return getenv("SGPU_TEST_SMALL") ? many / 20 + 1 : many;
}

UNIT_TEST(x25519_gives_what_rfc_7748_has)
{
	static const char *const vectors[][3] = {
		{ "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
		  "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
		  "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552" },
		{ "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
		  "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
		  "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957" },
	};
	struct sgpu_x25519 work;
	uint8_t scalar[32], point[32], expected[32], got[32];

	for (size_t i = 0; i < 2; i++) {
		from_hex(vectors[i][0], scalar, 32);
		from_hex(vectors[i][1], point, 32);
		from_hex(vectors[i][2], expected, 32);
		CHECK(sgpu_x25519_multiply(&work, got, scalar, point));
		CHECK(memcmp(got, expected, 32) == 0);
	}
}

UNIT_TEST(x25519_a_thousand_times_over_gives_what_rfc_7748_has)
{
	struct sgpu_x25519 work;
	uint8_t k[32] = { 9 }, u[32] = { 9 }, next[32], expected[32];

	for (int i = 0; i < 1000; i++) {
		CHECK(sgpu_x25519_multiply(&work, next, k, u));
		memcpy(u, k, 32);
		memcpy(k, next, 32);
		if (i == 0) {
			from_hex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079", expected, 32);
			CHECK(memcmp(k, expected, 32) == 0);
		}
	}
	from_hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51", expected, 32);
	CHECK(memcmp(k, expected, 32) == 0);
}

UNIT_TEST(x25519_of_random_keys_is_libcryptos)
{
	struct sgpu_x25519 work;
	uint8_t scalar[32], other[32], point[32], expected[32], got[32];

	for (int i = 0; i < rounds(1000); i++) {
		REQUIRE(sgpu_x25519_generate(other, point, NULL) == 0 && sgpu_random(scalar, 32, NULL) == 0);
		REQUIRE(sgpu_x25519(scalar, point, expected, NULL) == 0);
		CHECK(sgpu_x25519_multiply(&work, got, scalar, point));
		CHECK(memcmp(got, expected, 32) == 0);
	}
}

/* Numbers of p and more, and the highest bit, mean what they are modulo p. */
UNIT_TEST(x25519_of_points_that_are_not_reduced_is_libcryptos)
{
	struct sgpu_x25519 work;
	uint8_t scalar[32], point[32], expected[32], got[32];

	for (int i = 0; i < 40; i++) {
		memset(point, 0xff, 32);
		point[0] = (uint8_t)(0xff - i / 2);
		point[31] = i % 2 ? 0xff : 0x7f;
		REQUIRE(sgpu_random(scalar, 32, NULL) == 0);
		if (sgpu_x25519(scalar, point, expected, NULL) == 0) {
			CHECK(sgpu_x25519_multiply(&work, got, scalar, point));
			CHECK(memcmp(got, expected, 32) == 0);
		} else {
			CHECK(!sgpu_x25519_multiply(&work, got, scalar, point));
		}
	}
}

UNIT_TEST(x25519_says_when_the_secret_is_zero)
{
	static const char *const low[] = {
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	};
	static const uint8_t zero[32];
	struct sgpu_agree_work work;
	uint8_t scalar[32], point[32], got[32];

	for (size_t i = 0; i < sizeof(low) / sizeof(*low); i++) {
		from_hex(low[i], point, 32);
		REQUIRE(sgpu_random(scalar, 32, NULL) == 0);
		CHECK(!sgpu_x25519_multiply(&work.x25519, got, scalar, point));
		CHECK(memcmp(got, zero, 32) == 0);
		CHECK(!sgpu_agree_derive(&work, scalar, point, point));
	}
}

UNIT_TEST(sha256_of_every_length_is_libcryptos)
{
	struct sgpu_sha sha;
	uint8_t data[300], expected[32], got[32];

	REQUIRE(sgpu_random(data, sizeof(data), NULL) == 0);
	for (uint32_t size = 0; size <= sizeof(data); size++) {
		REQUIRE(sgpu_sha256(data, size, expected, NULL) == 0);
		sgpu_sha_begin(&sha);
		sgpu_sha_update(&sha, data, size / 3);
		sgpu_sha_update(&sha, data + size / 3, size - size / 3);
		sgpu_sha_end(&sha, got);
		CHECK(memcmp(got, expected, 32) == 0);
	}
}

UNIT_TEST(hmac_is_libcryptos)
{
	struct sgpu_hmac hmac;
	uint8_t key[64], data[200], expected[32], got[32];

	REQUIRE(sgpu_random(data, sizeof(data), NULL) == 0 && sgpu_random(key, sizeof(key), NULL) == 0);
	for (uint32_t size = 1; size <= 64; size++) {
		REQUIRE(sgpu_hmac_sha256(key, size, data, 3 * size, expected, NULL) == 0);
		sgpu_hmac_begin(&hmac, key, size);
		sgpu_hmac_update(&hmac, data, 3 * size);
		sgpu_hmac_end(&hmac, got);
		CHECK(memcmp(got, expected, 32) == 0);
	}
}

UNIT_TEST(both_halves_derive_the_same)
{
	struct sgpu_agree_work work;
	uint8_t random[32], digests[7 * 32], device_private[32], device_public[32];
	uint8_t host_private[32], both[64], shared[32], out[64], expected[32];

	for (int i = 0; i < rounds(200); i++) {
		REQUIRE(sgpu_random(random, 32, NULL) == 0 && sgpu_random(digests, sizeof(digests), NULL) == 0);
		REQUIRE(sgpu_x25519_generate(host_private, both, NULL) == 0);
		sgpu_agree_make(&work, random, digests, 7, device_private, device_public);
		REQUIRE(sgpu_x25519_public(device_private, expected, NULL) == 0);
		CHECK(memcmp(device_public, expected, 32) == 0);
		memcpy(both + 32, device_public, 32);
		REQUIRE(sgpu_x25519(host_private, device_public, shared, NULL) == 0);
		REQUIRE(sgpu_hkdf_sha256(shared, 32, SGPU_AGREE_SALT, strlen(SGPU_AGREE_SALT), both, 64, out, 64, NULL) == 0);
		CHECK(sgpu_agree_derive(&work, device_private, both, device_public));
		CHECK(memcmp(work.out, out, 64) == 0);
	}
}

UNIT_TEST(the_private_key_is_a_digest_of_all_that_was_gathered)
{
	struct sgpu_agree_work work;
	uint8_t whole[22 + 32 + 3 * 32], private_key[32], public_key[32], expected[32];

	REQUIRE(sgpu_random(whole, sizeof(whole), NULL) == 0);
	memcpy(whole, SGPU_AGREE_ENTROPY, 22);
	sgpu_agree_make(&work, whole + 22, whole + 54, 3, private_key, public_key);
	REQUIRE(sgpu_sha256(whole, sizeof(whole), expected, NULL) == 0);
	CHECK(memcmp(private_key, expected, 32) == 0);
}

int main(void)
{
	UNIT_RUN(x25519_gives_what_rfc_7748_has);
	UNIT_RUN(x25519_a_thousand_times_over_gives_what_rfc_7748_has);
	UNIT_RUN(x25519_of_random_keys_is_libcryptos);
	UNIT_RUN(x25519_of_points_that_are_not_reduced_is_libcryptos);
	UNIT_RUN(x25519_says_when_the_secret_is_zero);
	UNIT_RUN(sha256_of_every_length_is_libcryptos);
	UNIT_RUN(hmac_is_libcryptos);
	UNIT_RUN(both_halves_derive_the_same);
	UNIT_RUN(the_private_key_is_a_digest_of_all_that_was_gathered);
	return unit_done();
}
