/* SPDX-License-Identifier: Apache-2.0
 *
 * What a provider of AES-256-GCM fills in: one `const struct` a file, one row in the table of
 * aead.c.
 */
#ifndef SGPU_CRYPTO_AEAD_H
#define SGPU_CRYPTO_AEAD_H

#include <stddef.h>
#include <stdint.h>

#include <sgpu/crypto.h>

struct sgpu_aead_provider {
	const char *name;
	/* Name with variant for people, static memory; NULL where this CPU cannot run it. Called
	 * from any thread. */
	const char *(*describe)(void);
	size_t state_size;
	/* `state` is zeroed memory, aligned to 64 bytes. After a failure, clear is called. All
	 * return 0 or a code. */
	int (*init)(void *state, const uint8_t key[SGPU_KEY_SIZE]);
	int (*copy)(void *state, const void *from);
	void (*clear)(void *state); /* the memory itself is wiped by the caller */
	int (*seal)(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in,
		    size_t size, uint8_t *out, uint8_t tag[SGPU_TAG_SIZE]);
	/* SGPU_EAUTH for a tag that does not match; the caller wipes `out` then. */
	int (*open)(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in,
		    size_t size, uint8_t *out, const uint8_t tag[SGPU_TAG_SIZE]);
};

/* The keystream of AES-256-GCM alone, without a tag: never for data that matter, only to time what
 * each costs. */
SGPU_MUST_CHECK int sgpu_aes_ctr(const uint8_t key[SGPU_KEY_SIZE],
				 const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in,
				 size_t size, uint8_t *out);

extern const struct sgpu_aead_provider sgpu_aead_openssl;
extern const struct sgpu_aead_provider sgpu_aead_ipsec_mb;

#endif
