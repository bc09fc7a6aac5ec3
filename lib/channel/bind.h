/* SPDX-License-Identifier: Apache-2.0
 *
 * Binds a session to the worker that a quote is of. The quote names an X25519 key of the worker.
 * The session draws a secret and seals it to that key; both sides mix it into the keys of groups
 * and answers. So only a process with the private half can open a group of the session, or answer
 * it.
 *
 * A session begins with a hello, which the worker answers by a grant:
 *
 *   owner's public key (32)                                              not bound
 *   owner's public key (32), enc (32), secret with its tag (32 + 16)     bound
 *
 * The secret is sealed with HPKE (base mode): info "sgpu session v1", associated data the owner's
 * public key. Each key of a bound session is HKDF-SHA256 of secret || that key of the channel, with
 * salt SHA-256(hello || grant).
 */
#ifndef SGPU_CHANNEL_BIND_H
#define SGPU_CHANNEL_BIND_H

#include "channel/keys.h"

enum { SGPU_HELLO_SIZE = 32 + 32 + SGPU_KEY_SIZE + SGPU_TAG_SIZE };

/* What the two sides of a bound session have, besides the channel's keys. */
struct sgpu_binding {
	uint8_t hello[SGPU_HELLO_SIZE];
	uint8_t secret[SGPU_KEY_SIZE];
};

/* The session's side: draws the secret and makes the hello. Errors: SGPU_EUSAGE (not a key of
 * X25519), SGPU_EINVALID (of low order). */
SGPU_MUST_CHECK int sgpu_binding_make(const uint8_t owner_key[32], const struct sgpu_key *worker,
				      struct sgpu_binding *binding, struct sgpu_error *error);
/* The worker's: `key` is private. Errors: SGPU_EAUTH: the hello is for another worker, or was
 * altered. */
SGPU_MUST_CHECK int sgpu_binding_open(const struct sgpu_key *key,
				      const uint8_t hello[SGPU_HELLO_SIZE],
				      struct sgpu_binding *binding, struct sgpu_error *error);

/* Replaces the keys of groups and answers, and no others. */
SGPU_MUST_CHECK int sgpu_channel_bind(struct sgpu_channel_keys *keys,
				      const struct sgpu_binding *binding,
				      const struct sgpu_grant *grant, struct sgpu_error *error);
/* Before its first group. Errors: the session is of no use any more. */
SGPU_MUST_CHECK int sgpu_session_bind(struct sgpu_session *session,
				      const struct sgpu_binding *binding,
				      const struct sgpu_grant *grant, struct sgpu_error *error);

#endif
