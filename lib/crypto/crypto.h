/* SPDX-License-Identifier: Apache-2.0
 *
 * Primitives. Everything except the bulk cipher and KT128 uses libcrypto.
 */
#ifndef SGPU_CRYPTO_CRYPTO_H
#define SGPU_CRYPTO_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "host/host.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_random(void *data, size_t size, struct sgpu_error *error);

/* SHA-256 and SHA-512 (FIPS 180-4). */
enum { SGPU_SHA512_SIZE = 64 };
SGPU_MUST_CHECK int sgpu_sha256(const void *data, size_t size, uint8_t digest[SGPU_SHA256_SIZE],
				struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_sha512(const void *data, size_t size, uint8_t digest[SGPU_SHA512_SIZE],
				struct sgpu_error *error);

/* KangarooTwelve, KT128 (RFC 9861), with a customisation string, maybe empty: a digest of any
 * length; resistance to collisions needs 32 bytes. */
void sgpu_kt128(const void *data, size_t size, const void *custom, size_t custom_size,
		uint8_t *digest, size_t digest_size);
/* The same on the workers of a pool, of which the caller holds a token. Errors: SGPU_ENOMEM,
 * SGPU_ECANCELED. */
SGPU_MUST_CHECK int sgpu_kt128_shared(struct sgpu_pool *pool, const void *data, size_t size,
				      const void *custom, size_t custom_size, uint8_t *digest,
				      size_t digest_size, struct sgpu_error *error);
/* HMAC (RFC 2104) with SHA-256. */
SGPU_MUST_CHECK int sgpu_hmac_sha256(const uint8_t *key, size_t key_size, const void *data,
				     size_t size, uint8_t mac[SGPU_SHA256_SIZE],
				     struct sgpu_error *error);

/* HKDF (RFC 5869) with SHA-256. salt may be NULL with size 0. `size` is at most 255 * 32 bytes. */
SGPU_MUST_CHECK int sgpu_hkdf_sha256(const uint8_t *ikm, size_t ikm_size, const void *salt,
				     size_t salt_size, const void *info, size_t info_size,
				     uint8_t *out, size_t size, struct sgpu_error *error);
/* The expand step alone. digest_size: SGPU_SHA256_SIZE, or SGPU_SHA512_SIZE for SHA-512. */
SGPU_MUST_CHECK int sgpu_hkdf_expand(size_t digest_size, const uint8_t *prk, size_t prk_size,
				     const void *info, size_t info_size, uint8_t *out, size_t size,
				     struct sgpu_error *error);

/* ---- AES-256-GCM (SP 800-38D) ---- */
struct sgpu_aead; /* one expanded key, for one thread at a time (sgpu_aead_copy makes another) */

/* Expands a key. name: the provider, "ipsec-mb" if built in and the CPU has VAES, or "openssl";
 * NULL: that of the environment variable SGPU_AEAD, else the fastest. Errors: SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_aead_create(const char *name, const uint8_t key[SGPU_KEY_SIZE],
				     struct sgpu_aead **aead, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_aead_copy(const struct sgpu_aead *aead, struct sgpu_aead **copy,
				   struct sgpu_error *error);
void sgpu_aead_free(struct sgpu_aead **aead);
/* The provider for a NULL name, with its variant: "ipsec-mb (VAES, AVX512)". Static. */
const char *sgpu_aead_provider(void);
/* NULL-terminated names of this build's providers that this CPU can run. Static. */
const char *const *sgpu_aead_providers(void);

/* Encrypts a message without associated data; out may equal in. Errors: SGPU_EDEVICE if the
 * provider fails. */
SGPU_MUST_CHECK int sgpu_aead_seal(struct sgpu_aead *aead, const uint8_t nonce[SGPU_NONCE_SIZE],
				   const uint8_t *in, size_t size, uint8_t *out,
				   uint8_t tag[SGPU_TAG_SIZE]);
/* Errors: SGPU_EAUTH if the tag does not match; `out` is then wiped. */
SGPU_MUST_CHECK int sgpu_aead_open(struct sgpu_aead *aead, const uint8_t nonce[SGPU_NONCE_SIZE],
				   const uint8_t *in, size_t size, uint8_t *out,
				   const uint8_t tag[SGPU_TAG_SIZE]);

/* ---- HPKE (RFC 9180) base mode ----
 * DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM; one message. Errors of seal: SGPU_EINVALID
 * for a public key of low order. */
SGPU_MUST_CHECK int sgpu_hpke_seal(const uint8_t public_key[32], const void *info, size_t info_size,
				   const void *aad, size_t aad_size, const uint8_t *plaintext,
				   size_t size, uint8_t enc[32],
				   uint8_t *ciphertext /* size + 16 */, struct sgpu_error *error);
/* key: an X25519 private key with its public half. `size` counts the ciphertext with its tag.
 * Errors: SGPU_EAUTH (wrong key, or altered). */
SGPU_MUST_CHECK int sgpu_hpke_open(const struct sgpu_key *key, const uint8_t enc[32],
				   const void *info, size_t info_size, const void *aad,
				   size_t aad_size, const uint8_t *ciphertext, size_t size,
				   uint8_t *plaintext /* size - 16 */, struct sgpu_error *error);

/* AES-256 key wrap of 32 bytes (RFC 3394). Unwrap errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_wrap(const uint8_t kek[32], const uint8_t key[32], uint8_t wrapped[40],
			      struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_unwrap(const uint8_t kek[32], const uint8_t wrapped[40], uint8_t key[32],
				struct sgpu_error *error);

/* ---- signatures of a JWS in its general JSON serialization (RFC 7515, 7.2.1) ----
 * An entry is {"protected","signature"}; its header is {"alg","jwk","kid","typ"} in canonical form,
 * with the public key and its thumbprint. `payload` is in base64url, as in the JWS. */
struct json_t;			    /* jansson's */
enum { SGPU_PROTECTED_MAX = 1024 }; /* bytes of "protected" */
SGPU_MUST_CHECK int sgpu_signature_make(const struct sgpu_key *key, const char *typ,
					const char *payload, struct json_t **entry,
					struct sgpu_error *error);
/* Reads the key in the header, without verifying. Errors: SGPU_EINVALID for any other form. */
SGPU_MUST_CHECK int sgpu_signature_key(const struct json_t *entry, const char *typ,
				       struct sgpu_key *key, struct sgpu_error *error);
/* Verifies the signature with the key that sgpu_signature_key() gave. The caller decides whether to
 * trust this key. Errors: SGPU_EINVALID, SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_signature_verify(const struct json_t *entry, const char *payload,
					  const struct sgpu_key *key, struct sgpu_error *error);

/* ---- the measure of memory and of a module's image, sgpu-quote(5) ---- */
/* Pages count from the start of the data; the last may be shorter. The measure is the digest of the
 * list of the pages' digests, so that pages can be digested at the same time. The customisation
 * string of all digests is SGPU_MEASURE_CUSTOM; with a key, a zero byte and the key's SGPU_KEY_SIZE
 * bytes follow. */
#define SGPU_MEASURE_CUSTOM "sgpu measure v1"
enum { SGPU_MEASURE_PAGE = 2 << 20 }; /* bytes */

/* key may be NULL. The second function uses the workers of a pool. Errors: SGPU_ENOMEM,
 * SGPU_ECANCELED. */
void sgpu_measure_pages(const void *data, uint64_t size, const uint8_t *key,
			uint8_t digest[SGPU_KT128_SIZE]);
SGPU_MUST_CHECK int sgpu_measure_pages_shared(struct sgpu_pool *pool, const void *data,
					      uint64_t size, const uint8_t *key,
					      uint8_t digest[SGPU_KT128_SIZE],
					      struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
