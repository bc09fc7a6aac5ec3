/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of lib/crypto.
 */
#ifndef SGPU_CRYPTO_INTERNAL_H
#define SGPU_CRYPTO_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <openssl/evp.h>

#include "crypto/crypto.h"
#include "crypto/entropy.h"

/* Reports a failed call of libcrypto with its reason and clears its error queue. Returns
 * SGPU_ESYSTEM. */
int sgpu_crypto_fail(struct sgpu_error *error, const char *what);

/* HMAC over several pieces; the size of the MAC selects SHA-256 or SHA-512. */
struct sgpu_piece {
	const void *data;
	size_t size;
};
SGPU_MUST_CHECK int sgpu_hmac_pieces(size_t mac_size, const uint8_t *key, size_t key_size,
				     const struct sgpu_piece *pieces, size_t count, uint8_t *mac,
				     struct sgpu_error *error);

/* ---- hpke.c: AES-256-GCM of one message ---- */
struct sgpu_message_keys {
	uint8_t key[SGPU_KEY_SIZE];
	uint8_t nonce[SGPU_NONCE_SIZE]; /* used once */
};
/* The tag follows the text; `size` does not count it. Messages are keys, so their sizes fit
 * libcrypto's int. Errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_message_crypt(const struct sgpu_message_keys *keys, bool seal,
				       const void *aad, size_t aad_size, const uint8_t *in,
				       size_t size, uint8_t *out, struct sgpu_error *error);

/* ---- x25519.c (RFC 7748) ---- */
/* Makes a pair of keys of the type "X25519" or "Ed25519". */
SGPU_MUST_CHECK int sgpu_raw_generate(const char *type, uint8_t private_key[32],
				      uint8_t public_key[32], struct sgpu_error *error);
/* Errors: SGPU_EAUTH for a point of low order, with which all agreed secrets are equal. */
SGPU_MUST_CHECK int sgpu_x25519_check(const uint8_t public_key[32], struct sgpu_error *error);
/* Computes the shared secret. public_key: the other half of private_key; NULL derives it, which
 * takes longer than the agreement. Errors: SGPU_EAUTH when the secret is all zero (a peer of low
 * order), which RFC 9180 forbids. */
SGPU_MUST_CHECK int sgpu_x25519(const uint8_t private_key[32], const uint8_t *public_key,
				const uint8_t peer[32], uint8_t shared[32],
				struct sgpu_error *error);

/* Makes a key from x || y and its secret, which may be NULL. Returns NULL also for a point that is
 * not on the curve. */
EVP_PKEY *sgpu_p256_key(const uint8_t public_half[64], const uint8_t *secret);

/* ---- sign.c: r || s, each big-endian of `half` bytes, at most 48 ---- */
bool sgpu_ecdsa_sign(EVP_MD_CTX *context, const void *data, size_t size, uint8_t *raw, int half);
/* digest: "SHA256" or "SHA384". */
bool sgpu_ecdsa_verifies(EVP_PKEY *key, const char *digest, const void *data, size_t size,
			 const uint8_t *raw, int half);

/* ---- entropy.c: the tests that sgpu_entropy_judge makes ---- */
/* A count that reaches the cutoff fails. bits: the claimed min-entropy of a sample, more than 0 and
 * at most 8. */
unsigned sgpu_entropy_repetition_cutoff(double bits);
unsigned sgpu_entropy_proportion_cutoff(double bits);
/* A lower bound, at 99 % confidence, of the min-entropy of a sample in bits. */
double sgpu_entropy_estimate(const struct sgpu_entropy_counts *counts);

/* ---- a provider of AES-256-GCM: one constant in a file of its own, and a row in aead.c ---- */
struct sgpu_aead_provider {
	const char *name;
	/* Returns the name with its variant, static; NULL if this CPU cannot run it. Any thread. */
	const char *(*describe)(void);
	size_t state_size;
	/* `state` is zeroed memory, aligned to 64 bytes. If init or copy fails, clear is called.
	 * All functions return 0 or a code. */
	int (*init)(void *state, const uint8_t key[SGPU_KEY_SIZE]);
	int (*copy)(void *state, const void *from);
	void (*clear)(void *state); /* the memory itself is wiped by the caller */
	int (*seal)(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in,
		    size_t size, uint8_t *out, uint8_t tag[SGPU_TAG_SIZE]);
	/* Returns SGPU_EAUTH if the tag does not match; the caller then wipes `out`. */
	int (*open)(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in,
		    size_t size, uint8_t *out, const uint8_t tag[SGPU_TAG_SIZE]);
};

/* aead_openssl.c: for a context that has the key. Errors: SGPU_EAUTH, SGPU_EDEVICE, with
 * libcrypto's queue of errors. */
SGPU_MUST_CHECK int sgpu_gcm_crypt(EVP_CIPHER_CTX *context, const uint8_t nonce[SGPU_NONCE_SIZE],
				   bool seal, const void *aad, size_t aad_size, const uint8_t *in,
				   size_t size, uint8_t *out, uint8_t tag[SGPU_TAG_SIZE]);

extern const struct sgpu_aead_provider sgpu_aead_openssl;
extern const struct sgpu_aead_provider sgpu_aead_ipsec_mb;

/* ---- signature.c ---- */
/* Makes the text to sign, HEADER "." PAYLOAD, in *text from malloc. `payload` is in base64url.
 * Takes over `header`; NULL is SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_jws_text(json_t *header, const char *payload, char **text,
				  struct sgpu_error *error);

#endif
