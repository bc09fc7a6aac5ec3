/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's half of the agreement on a key, compiled for the host: X25519, SHA-256, HMAC, the
 * derivation, and the opening of a key that comes sealed, against published vectors and libcrypto.
 */
#include <stdint.h>

#include <openssl/evp.h>

#include <crypto/internal.h>
#include <device/cuda/kernels/agree_secret.cuh>

#include "device_code.h"
#include <device/cuda/kernels/delivery.cuh>

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
	return getenv("SGPU_TEST_SMALL") ? many / 100 + 1 : many;
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
	const int times = getenv("SGPU_TEST_SMALL") ? 1 : 1000;
	struct sgpu_x25519 work;
	uint8_t k[32] = { 9 }, u[32] = { 9 }, next[32], expected[32];

	for (int i = 0; i < times; i++) {
		CHECK(sgpu_x25519_multiply(&work, next, k, u));
		memcpy(u, k, 32);
		memcpy(k, next, 32);
		if (i == 0) {
			from_hex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
				 expected, 32);
			CHECK(memcmp(k, expected, 32) == 0);
		}
	}
	from_hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51", expected, 32);
	CHECK(times < 1000 || memcmp(k, expected, 32) == 0);
}

UNIT_TEST(x25519_of_random_keys_is_libcryptos)
{
	struct sgpu_x25519 work;
	uint8_t scalar[32], other[32], point[32], expected[32], got[32];

	for (int i = 0; i < rounds(1000); i++) {
		REQUIRE(sgpu_raw_generate("X25519", other, point, NULL) == 0 &&
			sgpu_random(scalar, 32, NULL) == 0);
		REQUIRE(sgpu_x25519(scalar, NULL, point, expected, NULL) == 0);
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
		if (sgpu_x25519(scalar, NULL, point, expected, NULL) == 0) {
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

	REQUIRE(sgpu_random(data, sizeof(data), NULL) == 0 &&
		sgpu_random(key, sizeof(key), NULL) == 0);
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
	static const uint8_t base[32] = { 9 };

	for (int i = 0; i < rounds(200); i++) {
		REQUIRE(sgpu_random(random, 32, NULL) == 0 &&
			sgpu_random(digests, sizeof(digests), NULL) == 0);
		REQUIRE(sgpu_raw_generate("X25519", host_private, both, NULL) == 0);
		sgpu_agree_make(&work, random, digests, 7, device_private, device_public);
		REQUIRE(sgpu_x25519(device_private, NULL, base, expected, NULL) == 0);
		CHECK(memcmp(device_public, expected, 32) == 0);
		memcpy(both + 32, device_public, 32);
		REQUIRE(sgpu_x25519(host_private, NULL, device_public, shared, NULL) == 0);
		REQUIRE(sgpu_hkdf_sha256(shared, 32, SGPU_AGREE_SALT, strlen(SGPU_AGREE_SALT), both,
					 64, out, 64, NULL) == 0);
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

/* ---- a key that comes sealed ---- */
static uint32_t t0[256];

static uint32_t times_x(uint32_t a)
{
	return (a << 1 ^ (a & 0x80 ? 0x1b : 0)) & 0xff;
}

/* The S-box as FIPS 197 defines it: the inverse, by trying all, and the affine map. */
static void make_table(void)
{
	for (uint32_t a = 0; a < 256; a++) {
		uint32_t inverse = 0, s = 0;

		for (uint32_t b = 1; a && b < 256; b++) {
			uint32_t product = 0, x = a;

			for (int i = 0; i < 8; i++, x = times_x(x)) {
				product ^= b >> i & 1 ? x : 0;
			}
			inverse = product == 1 ? b : inverse;
		}
		for (int i = 0; i < 8; i++) {
			uint32_t bit = inverse >> i ^ inverse >> (i + 4) % 8 ^
				       inverse >> (i + 5) % 8 ^ inverse >> (i + 6) % 8 ^
				       inverse >> (i + 7) % 8 ^ 0x63 >> i;

			s |= (bit & 1) << i;
		}
		t0[a] = times_x(s) | s << 8 | s << 16 | (times_x(s) ^ s) << 24;
	}
}

UNIT_TEST(aes_256_of_a_block_is_libcryptos)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	uint32_t key[8], round_keys[SGPU_AES_WORDS], block[4], got[4], expected[8];
	int size;

	REQUIRE(context);
	for (int i = 0; i < rounds(500); i++) {
		REQUIRE(sgpu_random(key, sizeof(key), NULL) == 0 &&
			sgpu_random(block, sizeof(block), NULL) == 0);
		REQUIRE(EVP_EncryptInit_ex2(context, EVP_aes_256_ecb(), (uint8_t *)key, NULL,
					    NULL) == 1);
		REQUIRE(EVP_EncryptUpdate(context, (uint8_t *)expected, &size, (uint8_t *)block,
					  16) == 1 &&
			size == 16);
		sgpu_aes_expand(t0, key, round_keys);
		sgpu_aes_encipher(t0, round_keys, block, got);
		CHECK(memcmp(got, expected, 16) == 0);
		sgpu_aes_encipher(t0, round_keys, block, block);
		CHECK(memcmp(block, expected, 16) == 0);
	}
	EVP_CIPHER_CTX_free(context);
}

/* As the threads of the kernel do it together; whether the tag is right. */
static bool receive(const struct sgpu_cuda_delivery *d, const uint32_t *key, uint32_t *out)
{
	uint32_t round_keys[SGPU_AES_WORDS], stream[SGPU_DELIVERY_TERMS][4], tag[4];
	uint4 h, power[SGPU_DELIVERY_TERMS + 1];
	const uint32_t zeros[4] = { 0 };

	sgpu_aes_expand(t0, key, round_keys);
	sgpu_aes_encipher(t0, round_keys, zeros, tag);
	h = make_uint4(tag[0], tag[1], tag[2], tag[3]);
	power[1] = h;
	for (int i = 2; i <= SGPU_DELIVERY_TERMS; i++) {
		power[i] = to_block(multiply(from_block(power[i - 1]), from_block(h)));
	}
	for (int i = 0; i < SGPU_DELIVERY_TERMS; i++) {
		sgpu_delivery_stream(d, t0, round_keys, (uint32_t)i + 1, stream[i]);
	}
	memcpy(tag, stream[0], sizeof(tag));
	for (int i = 0; i < SGPU_DELIVERY_TERMS; i++) {
		uint4 term = sgpu_delivery_term(d, i, power[SGPU_DELIVERY_TERMS - i]);

		tag[0] ^= term.x;
		tag[1] ^= term.y;
		tag[2] ^= term.z;
		tag[3] ^= term.w;
	}
	for (int i = 0; i < SGPU_DELIVERY_WORDS; i++) {
		out[i] = d->words[i] ^ stream[1 + i / 4][i % 4];
	}
	return memcmp(tag, d->tag, sizeof(tag)) == 0;
}

UNIT_TEST(a_delivered_key_is_opened_and_a_changed_one_is_noticed)
{
	for (int i = 0; i < rounds(300); i++) {
		struct sgpu_cuda_delivery d = { .counter = (uint64_t)i * 0x123456789abcdefull };
		uint32_t key[8], bare[SGPU_DELIVERY_WORDS], got[SGPU_DELIVERY_WORDS];
		uint8_t nonce[12] = { 0 };
		struct sgpu_aead *aead = NULL;

		REQUIRE(sgpu_random(key, sizeof(key), NULL) == 0 &&
			sgpu_random(bare, sizeof(bare), NULL) == 0);
		for (int k = 0; k < 8; k++) {
			nonce[11 - k] = (uint8_t)(d.counter >> 8 * k);
		}
		REQUIRE(sgpu_aead_create(NULL, (uint8_t *)key, &aead, NULL) == 0);
		REQUIRE(sgpu_aead_seal(aead, nonce, (uint8_t *)bare, sizeof(bare),
				       (uint8_t *)d.words, (uint8_t *)d.tag) == 0);
		sgpu_aead_free(&aead);
		CHECK(receive(&d, key, got) && memcmp(got, bare, sizeof(bare)) == 0);
		d.words[i % SGPU_DELIVERY_WORDS] ^= 1u << i % 32;
		CHECK(!receive(&d, key, got));
		d.words[i % SGPU_DELIVERY_WORDS] ^= 1u << i % 32;
		d.tag[i % 4] ^= 1u << i % 32;
		CHECK(!receive(&d, key, got));
		d.tag[i % 4] ^= 1u << i % 32;
		d.counter ^= 1;
		CHECK(!receive(&d, key, got));
	}
}

int main(void)
{
	make_table();
	UNIT_RUN(x25519_gives_what_rfc_7748_has);
	UNIT_RUN(x25519_a_thousand_times_over_gives_what_rfc_7748_has);
	UNIT_RUN(x25519_of_random_keys_is_libcryptos);
	UNIT_RUN(x25519_of_points_that_are_not_reduced_is_libcryptos);
	UNIT_RUN(x25519_says_when_the_secret_is_zero);
	UNIT_RUN(sha256_of_every_length_is_libcryptos);
	UNIT_RUN(hmac_is_libcryptos);
	UNIT_RUN(both_halves_derive_the_same);
	UNIT_RUN(the_private_key_is_a_digest_of_all_that_was_gathered);
	UNIT_RUN(aes_256_of_a_block_is_libcryptos);
	UNIT_RUN(a_delivered_key_is_opened_and_a_changed_one_is_noticed);
	return unit_done();
}
