/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 and SHA-512, and HMAC with them (RFC 2104).
 */
#include <string.h>

/* Through EVP a short MAC takes three times as long, for objects. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

union hash {
	SHA256_CTX sha256;
	SHA512_CTX sha512;
};

static bool begin(union hash *hash, size_t digest_size)
{
	return (digest_size == SGPU_SHA256_SIZE ? SHA256_Init(&hash->sha256)
						: SHA512_Init(&hash->sha512)) == 1;
}

static bool add(union hash *hash, size_t digest_size, const void *data, size_t size)
{
	return size == 0 ||
	       (digest_size == SGPU_SHA256_SIZE ? SHA256_Update(&hash->sha256, data, size)
						: SHA512_Update(&hash->sha512, data, size)) == 1;
}

static bool end(union hash *hash, size_t digest_size, uint8_t *digest)
{
	return (digest_size == SGPU_SHA256_SIZE ? SHA256_Final(digest, &hash->sha256)
						: SHA512_Final(digest, &hash->sha512)) == 1;
}

static int digest_of(size_t digest_size, const void *data, size_t size, uint8_t *digest,
		     struct sgpu_error *error)
{
	union hash hash;
	const bool done = begin(&hash, digest_size) && add(&hash, digest_size, data, size) &&
			  end(&hash, digest_size, digest);

	sgpu_wipe(&hash, sizeof(hash));
	return done ? 0 : sgpu_crypto_fail(error, "SHA-2");
}

int sgpu_hmac_pieces(size_t mac_size, const uint8_t *key, size_t key_size,
		     const struct sgpu_piece *pieces, size_t count, uint8_t *mac,
		     struct sgpu_error *error)
{
	enum { INNER = 0x36, OUTER = 0x5c };
	const size_t block = mac_size == SGPU_SHA256_SIZE ? SHA256_CBLOCK : SHA512_CBLOCK;
	uint8_t pad[SHA512_CBLOCK] = { 0 }, inner[SGPU_SHA512_SIZE];
	union hash hash;
	bool done = true;

	if (key_size > block) {
		done = digest_of(mac_size, key, key_size, pad, error) == 0;
	} else if (key_size > 0) {
		memcpy(pad, key, key_size);
	}
	for (size_t i = 0; i < block; i++) {
		pad[i] ^= INNER;
	}
	done = done && begin(&hash, mac_size) && add(&hash, mac_size, pad, block);
	for (size_t i = 0; i < count; i++) {
		done = done && add(&hash, mac_size, pieces[i].data, pieces[i].size);
	}
	done = done && end(&hash, mac_size, inner);
	for (size_t i = 0; i < block; i++) {
		pad[i] ^= INNER ^ OUTER;
	}
	done = done && begin(&hash, mac_size) && add(&hash, mac_size, pad, block) &&
	       add(&hash, mac_size, inner, mac_size) && end(&hash, mac_size, mac);
	sgpu_wipe(&hash, sizeof(hash));
	sgpu_wipe(pad, sizeof(pad));
	sgpu_wipe(inner, sizeof(inner));
	return done ? 0 : sgpu_crypto_fail(error, "HMAC");
}

int sgpu_hmac_sha256(const uint8_t *key, size_t key_size, const void *data, size_t size,
		     uint8_t mac[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	struct sgpu_piece piece = { .data = data, .size = size };

	return sgpu_hmac_pieces(SGPU_SHA256_SIZE, key, key_size, &piece, 1, mac, error);
}

int sgpu_sha256(const void *data, size_t size, uint8_t digest[SGPU_SHA256_SIZE],
		struct sgpu_error *error)
{
	return digest_of(SGPU_SHA256_SIZE, data, size, digest, error);
}

int sgpu_sha512(const void *data, size_t size, uint8_t digest[SGPU_SHA512_SIZE],
		struct sgpu_error *error)
{
	return digest_of(SGPU_SHA512_SIZE, data, size, digest, error);
}

bool sgpu_equal(const void *a, const void *b, size_t size)
{
	return !size || CRYPTO_memcmp(a, b, size) == 0;
}
