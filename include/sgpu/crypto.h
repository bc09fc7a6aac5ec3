/* SPDX-License-Identifier: Apache-2.0
 *
 * Key derivation, key wrapping, key files, and AES-256-GCM with its providers. Everything except
 * the bulk cipher uses OpenSSL's libcrypto. */
#ifndef SGPU_CRYPTO_H
#define SGPU_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_KEY_SIZE = 32,
	SGPU_NONCE_SIZE = 12,
	SGPU_TAG_SIZE = 16,
	SGPU_SHA256_SIZE = 32,
	SGPU_KID_SIZE = 43, /* characters of an RFC 7638 thumbprint in base64url */
};

/* Fills memory with cryptographically secure random bytes. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_random(void *data, size_t size, struct sgpu_error *error);

/* SHA-256 (FIPS 180-4). */
SGPU_MUST_CHECK int sgpu_sha256(const void *data, size_t size, uint8_t digest[SGPU_SHA256_SIZE],
				struct sgpu_error *error);

/* KangarooTwelve, KT128 (RFC 9861), with a customisation string that may be empty: a digest of any
 * length, of which security against collisions needs 32 bytes. It is a tree, so that large data are
 * hashed by several processors. */
void sgpu_kt128(const void *data, size_t size, const void *custom, size_t custom_size,
		uint8_t *digest, size_t digest_size);
/* The same on the workers of a pool, of which the calling thread holds a token. Errors:
 * SGPU_ENOMEM, SGPU_ECANCELED. */
struct sgpu_pool;
SGPU_MUST_CHECK int sgpu_kt128_shared(struct sgpu_pool *pool, const void *data, size_t size,
				      const void *custom, size_t custom_size, uint8_t *digest,
				      size_t digest_size, struct sgpu_error *error);
/* Piecewise: create, update any number of times, finish once. */
struct sgpu_kt128;
SGPU_MUST_CHECK int sgpu_kt128_create(struct sgpu_kt128 **state, struct sgpu_error *error);
void sgpu_kt128_update(struct sgpu_kt128 *state, const void *data, size_t size);
void sgpu_kt128_finish(struct sgpu_kt128 *state, const void *custom, size_t custom_size,
		       uint8_t *digest, size_t digest_size);
void sgpu_kt128_free(struct sgpu_kt128 **state); /* wipes it */

/* RFC 2104 with SHA-256. */
SGPU_MUST_CHECK int sgpu_hmac_sha256(const uint8_t *key, size_t key_size, const void *data,
				     size_t size, uint8_t mac[SGPU_SHA256_SIZE],
				     struct sgpu_error *error);

/* RFC 5869. salt may be NULL with size 0. `size` is at most 255 digests. */
SGPU_MUST_CHECK int sgpu_hkdf_sha256(const uint8_t *ikm, size_t ikm_size, const void *salt,
				     size_t salt_size, const void *info, size_t info_size,
				     uint8_t *out, size_t size, struct sgpu_error *error);
/* The expand step alone, with SHA-512. */
SGPU_MUST_CHECK int sgpu_hkdf_expand_sha512(const uint8_t *prk, size_t prk_size, const void *info,
					    size_t info_size, uint8_t *out, size_t size,
					    struct sgpu_error *error);

/* ---- AES-256-GCM (SP 800-38D) ---- */
struct sgpu_aead; /* one expanded key, for one thread at a time (sgpu_aead_copy makes another) */

/* name: the provider, "ipsec-mb" if it was built in and the CPU has VAES, or "openssl". NULL takes
 * the provider that the environment variable SGPU_AEAD names, else the fastest. Errors:
 * SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_aead_create(const char *name, const uint8_t key[SGPU_KEY_SIZE],
				     struct sgpu_aead **aead, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_aead_copy(const struct sgpu_aead *aead, struct sgpu_aead **copy,
				   struct sgpu_error *error);
void sgpu_aead_free(struct sgpu_aead **aead);
/* The provider of sgpu_aead_create(NULL, ...), with its variant: "ipsec-mb (VAES, AVX512)". Static.
 */
const char *sgpu_aead_provider(void);
/* NULL-terminated names of the providers in this build that this CPU can run. Static. */
const char *const *sgpu_aead_providers(void);

/* Without associated data; out may equal in. Errors: SGPU_EDEVICE if the provider fails. */
SGPU_MUST_CHECK int sgpu_aead_seal(struct sgpu_aead *aead, const uint8_t nonce[SGPU_NONCE_SIZE],
				   const uint8_t *in, size_t size, uint8_t *out,
				   uint8_t tag[SGPU_TAG_SIZE]);
/* Errors: SGPU_EAUTH if the tag does not match; `out` is then wiped. */
SGPU_MUST_CHECK int sgpu_aead_open(struct sgpu_aead *aead, const uint8_t nonce[SGPU_NONCE_SIZE],
				   const uint8_t *in, size_t size, uint8_t *out,
				   const uint8_t tag[SGPU_TAG_SIZE]);

/* ---- HPKE (RFC 9180) base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM; one message
 * ---- Errors of seal: SGPU_EINVALID for a public key of low order. */
SGPU_MUST_CHECK int sgpu_hpke_seal(const uint8_t public_key[32], const void *info, size_t info_size,
				   const void *aad, size_t aad_size, const uint8_t *plaintext,
				   size_t size, uint8_t enc[32],
				   uint8_t *ciphertext /* size + 16 */, struct sgpu_error *error);
/* key: an X25519 private key with its public half. `size` counts the ciphertext with its tag.
 * Errors: SGPU_EAUTH (wrong key, or altered). */
struct sgpu_key;
SGPU_MUST_CHECK int sgpu_hpke_open(const struct sgpu_key *key, const uint8_t enc[32],
				   const void *info, size_t info_size, const void *aad,
				   size_t aad_size, const uint8_t *ciphertext, size_t size,
				   uint8_t *plaintext /* size - 16 */, struct sgpu_error *error);

/* AES-256 key wrap of 32 bytes (RFC 3394). Unwrap errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_wrap(const uint8_t kek[32], const uint8_t key[32], uint8_t wrapped[40],
			      struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_unwrap(const uint8_t kek[32], const uint8_t wrapped[40], uint8_t key[32],
				struct sgpu_error *error);

/* ---- key files, sgpu-keys(5): JWK (RFC 7517) ---- */
enum sgpu_key_kind { SGPU_KEY_OCT, SGPU_KEY_X25519, SGPU_KEY_X25519_PUBLIC };

struct sgpu_key {
	enum sgpu_key_kind kind;
	uint8_t secret[32];	 /* the oct key, or the X25519 private key; zero in a public key */
	uint8_t public_half[32]; /* the X25519 public key; zero in an oct key */
	char kid[SGPU_KID_SIZE + 1]; /* RFC 7638 thumbprint */
};

/* Makes a new key. kind: SGPU_KEY_OCT or SGPU_KEY_X25519. */
SGPU_MUST_CHECK int sgpu_key_generate(enum sgpu_key_kind kind, struct sgpu_key *key,
				      struct sgpu_error *error);
/* Gives the public half of an X25519 key. Errors: SGPU_EINVALID for an oct key. */
SGPU_MUST_CHECK int sgpu_key_public(const struct sgpu_key *key, struct sgpu_key *public_key,
				    struct sgpu_error *error);
/* Parses JWK text by jansson, which copies what it reads. A program that must leave no secret in
 * freed memory gives jansson a free that wipes (json_set_alloc_funcs) before its first call, as the
 * tools do. A private key with another "x" than its public key is refused. Errors:
 * SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_key_parse(const char *text, size_t size, const char *name,
				   struct sgpu_key *key, struct sgpu_error *error);
/* Reads the key to encrypt with from a file with a JWK or a JWK Set. A secret key must be in a
 * regular file or pipe of this user or root, without rights for others (SGPU_EPOLICY). The path "-"
 * is standard input, "fd:N" a descriptor. */
SGPU_MUST_CHECK int sgpu_key_load(const char *path, struct sgpu_key *key, struct sgpu_error *error);
/* The same for a private key. Errors: SGPU_EKEY for a public half. */
SGPU_MUST_CHECK int sgpu_key_load_private(const char *path, struct sgpu_key *key,
					  struct sgpu_error *error);
/* Wipes the key. */
void sgpu_key_clear(struct sgpu_key *key);

/* ---- keys that sign: Ed25519 (RFC 8032) and ECDSA on P-256 with SHA-256 (FIPS 186-5) ---- */
enum { SGPU_SIGNATURE_SIZE = 64 }; /* of both, as JWS has it: for P-256 r || s */
enum sgpu_signing_kind { SGPU_SIGNING_NONE, SGPU_SIGNING_ED25519, SGPU_SIGNING_P256 };

struct sgpu_signing_key {
	enum sgpu_signing_kind kind;
	bool secret_known; /* the key can sign, not only verify */
	uint8_t secret[32];
	uint8_t public_half[64]; /* Ed25519: 32 bytes and zeros; P-256: x || y */
	char kid[SGPU_KID_SIZE + 1];
};

/* Makes a new Ed25519 key. */
SGPU_MUST_CHECK int sgpu_signing_generate(struct sgpu_signing_key *key, struct sgpu_error *error);
const char *sgpu_signing_name(enum sgpu_signing_kind kind); /* "Ed25519", "P-256", "none" */

/* ---- detached JWS (RFC 7515, appendix F), compact: "HEADER..SIGNATURE" ---- * The header is
 * {"alg","jwk","kid","typ"} in canonical form, with the public key and its thumbprint. The token
 * comes from malloc. */
enum { SGPU_DETACHED_MAX = 1024 };
SGPU_MUST_CHECK int sgpu_detached_sign(const struct sgpu_signing_key *key, const char *typ,
				       const void *payload, size_t size, char **token,
				       struct sgpu_error *error);
/* Gives the key in the header, without verifying the signature. Errors: SGPU_EINVALID for any other
 * form. */
SGPU_MUST_CHECK int sgpu_detached_parse(const char *token, const char *typ,
					struct sgpu_signing_key *key,
					uint8_t signature[SGPU_SIGNATURE_SIZE],
					struct sgpu_error *error);
/* Verifies the signature of the payload with the key in the header. The caller decides whether to
 * trust this key. Errors: SGPU_EINVALID, SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_detached_verify(const char *token, const char *typ, const void *payload,
					 size_t size, struct sgpu_signing_key *key,
					 struct sgpu_error *error);

/* ---- the content of a key file: one JWK or a JWK Set, with at most one key of each use ---- */
struct sgpu_key_set {
	bool has_key; /* there is a key to encrypt with */
	struct sgpu_key key;
	struct sgpu_signing_key signing; /* kind SGPU_SIGNING_NONE: none */
	bool others_write; /* somebody else can write to the file it was loaded from; never of
			      secrets */
};
SGPU_MUST_CHECK int sgpu_key_set_parse(const char *text, size_t size, const char *name,
				       struct sgpu_key_set *set, struct sgpu_error *error);
/* Writes one line with a newline, from malloc; free with sgpu_free_wiped: a JWK Set, or a JWK if
 * there is only one key. */
SGPU_MUST_CHECK int sgpu_key_set_text(const struct sgpu_key_set *set, char **text, size_t *size,
				      struct sgpu_error *error);
/* Takes the public halves; a symmetric key has none and is left out. Errors: SGPU_EINVALID if
 * nothing is left. */
SGPU_MUST_CHECK int sgpu_key_set_public(const struct sgpu_key_set *set,
					struct sgpu_key_set *public_set, struct sgpu_error *error);
/* As sgpu_key_load, for all keys of the file. */
SGPU_MUST_CHECK int sgpu_key_set_load(const char *path, struct sgpu_key_set *set,
				      struct sgpu_error *error);
/* Wipes the set. */
void sgpu_key_set_clear(struct sgpu_key_set *set);

#ifdef __cplusplus
}
#endif
#endif
