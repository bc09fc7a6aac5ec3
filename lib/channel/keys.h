/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of a channel and computations with them, for both trusted sides.
 */
#ifndef SGPU_CHANNEL_KEYS_H
#define SGPU_CHANNEL_KEYS_H

#include <sgpu/session.h>

#include "channel/channel.h"

enum {
	SGPU_GRANT_BIND_SIZE = 4 + 4 + SGPU_SHA256_SIZE + 16,
	SGPU_GRANT_SIZE = SGPU_GRANT_BIND_SIZE + 32 + SGPU_KEY_SIZE + SGPU_TAG_SIZE
};
_Static_assert(offsetof(struct sgpu_grant, enc) == SGPU_GRANT_BIND_SIZE &&
		       sizeof(struct sgpu_grant) == SGPU_GRANT_SIZE &&
		       __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "sgpu-session(5)");

/* Derived from the CEK by HKDF-SHA256: salt the processor's random number, info "sgpu channel
 * group" and so on. */
struct sgpu_channel_keys {
	uint8_t group[SGPU_KEY_SIZE];	/* AES-256-GCM */
	uint8_t answer[SGPU_KEY_SIZE];	/* to a group; AES-256-GCM */
	uint8_t owner[SGPU_KEY_SIZE];	/* the owner's MACs */
	uint8_t report[SGPU_KEY_SIZE];	/* the processor's MACs */
	uint8_t measure[SGPU_KEY_SIZE]; /* keyed digests */
};
SGPU_MUST_CHECK int sgpu_channel_derive(const uint8_t cek[SGPU_KEY_SIZE],
					const uint8_t processor[16], struct sgpu_channel_keys *keys,
					struct sgpu_error *error);
/* Replaces the ciphers of groups and answers by those of `keys`. *group and *answer may be NULL
 * before, and after an error. */
struct sgpu_aead;
SGPU_MUST_CHECK int sgpu_channel_aeads(const struct sgpu_channel_keys *keys,
				       struct sgpu_aead **group, struct sgpu_aead **answer,
				       struct sgpu_error *error);
/* Nonce of group number `counter` (from 1) and its answer: serial (4, big endian) || counter (8,
 * big endian). */
void sgpu_group_nonce(uint32_t serial, uint64_t counter, uint8_t nonce[SGPU_NONCE_SIZE]);
/* MACs: KT128 of key || fields, each kind with its own customisation string. unmapped: the address
 * and size to unmap; NULL: the channel is destroyed. */
void sgpu_mac_owner(const struct sgpu_channel_keys *keys, uint32_t serial, uint64_t counter,
		    const uint64_t unmapped[2], uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
void sgpu_mac_report(const struct sgpu_channel_keys *keys, enum sgpu_channel_op op,
		     const struct sgpu_report *report, uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
/* Masks or unmasks the digest: XORs it with KT128 of report key, serial and counter, which no two
 * reports share. The MAC covers the masked digest. */
void sgpu_mask_report(const struct sgpu_channel_keys *keys, struct sgpu_report *report);

/* ---- hello.c: how a session begins, sgpu-session(5) ----
 * The runner answers a question by a challenge: its X25519 public key (32) || a nonce (32). The
 * program answers by a hello, the runner by a grant. */
enum { SGPU_CHALLENGE_SIZE = 64, SGPU_HELLO_MAX = 2048 /* bytes */ };

struct sgpu_hello {
	char text[SGPU_HELLO_MAX]; /* a JWS (RFC 7515), as it is sent */
	size_t size;
	uint8_t key[32];	       /* X25519, public; the CEK is sealed to it */
	uint8_t secret[SGPU_KEY_SIZE]; /* sealed to the runner's key in the text */
};

/* The program's side: draws the secret and signs. runner: the key that the program expects. Errors:
 * SGPU_EAUTH (the challenge is another runner's), SGPU_EINVALID (a key of low order). */
SGPU_MUST_CHECK int sgpu_hello_make(const uint8_t challenge[SGPU_CHALLENGE_SIZE],
				    const struct sgpu_key *runner, const uint8_t key[32],
				    const struct sgpu_key *owner, struct sgpu_hello *hello,
				    struct sgpu_error *error);
/* The runner's side: judges the hello, and opens its secret. Errors: SGPU_EPOLICY (the signer is no
 * owner), SGPU_EINVALID and SGPU_EAUTH (it is none, was altered, or answers another challenge). */
SGPU_MUST_CHECK int sgpu_hello_open(const void *text, size_t size, const uint8_t nonce[32],
				    const struct sgpu_session_authority *authority,
				    struct sgpu_hello *hello, struct sgpu_error *error);

/* Mixes the hello into the keys of groups and answers: each becomes HKDF-SHA256 of the hello's
 * secret || the key, with salt SHA-256(hello || grant). */
SGPU_MUST_CHECK int sgpu_channel_bind(struct sgpu_channel_keys *keys,
				      const struct sgpu_hello *hello,
				      const struct sgpu_grant *grant, struct sgpu_error *error);
/* Binds a session, before its first group. After an error the session is of no use. */
SGPU_MUST_CHECK int sgpu_session_bind(struct sgpu_session *session, const struct sgpu_hello *hello,
				      const struct sgpu_grant *grant, struct sgpu_error *error);

#endif
