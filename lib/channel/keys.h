/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of a channel, and what is computed with them: for both trusted sides, the processor and the
 * session.
 */
#ifndef SGPU_CHANNEL_KEYS_H
#define SGPU_CHANNEL_KEYS_H

#include <sgpu/channel.h>

enum { SGPU_GRANT_BIND_SIZE = 4 + 4 + SGPU_SHA256_SIZE + 16 };
/* channel || serial || owner_hash || processor, integers little endian. */
void sgpu_grant_bind(const struct sgpu_grant *grant, uint8_t bytes[SGPU_GRANT_BIND_SIZE]);
/* A grant as a message. */
enum { SGPU_GRANT_SIZE = SGPU_GRANT_BIND_SIZE + 32 + SGPU_KEY_SIZE + SGPU_TAG_SIZE };
void sgpu_grant_encode(const struct sgpu_grant *grant, uint8_t bytes[SGPU_GRANT_SIZE]);
void sgpu_grant_decode(const uint8_t bytes[SGPU_GRANT_SIZE], struct sgpu_grant *grant);

/* Derived from the CEK by HKDF-SHA256 with salt = processor. */
struct sgpu_channel_keys {
	uint8_t group[SGPU_KEY_SIZE];	/* info "sgpu channel group": AES-256-GCM of groups */
	uint8_t answer[SGPU_KEY_SIZE];	/* info "sgpu channel answer": AES-256-GCM of answers to
					   groups */
	uint8_t owner[SGPU_KEY_SIZE];	/* info "sgpu channel owner": MACs by the owner: unmapping,
					   destruction */
	uint8_t report[SGPU_KEY_SIZE];	/* info "sgpu channel report": MACs by the processor */
	uint8_t measure[SGPU_KEY_SIZE]; /* info "sgpu channel measure": keyed digests */
};
SGPU_MUST_CHECK int sgpu_channel_derive(const uint8_t cek[SGPU_KEY_SIZE],
					const uint8_t processor[16], struct sgpu_channel_keys *keys,
					struct sgpu_error *error);
/* Nonce of group number `counter` (from 1), and of the answer to it: serial (4, big endian) ||
 * counter (8, big endian). */
void sgpu_group_nonce(uint32_t serial, uint64_t counter, uint8_t nonce[SGPU_NONCE_SIZE]);
/* MACs: KT128 of key || fields, 32 bytes, with a customisation string of their own each. */
void sgpu_mac_unmap(const struct sgpu_channel_keys *keys, uint32_t serial, uint64_t counter,
		    uint64_t va, uint64_t size, uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
void sgpu_mac_destroy(const struct sgpu_channel_keys *keys, uint32_t serial, uint64_t counter,
		      uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
void sgpu_mac_summary(const struct sgpu_channel_keys *keys, const struct sgpu_summary *summary,
		      uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
void sgpu_mac_measurement(const struct sgpu_channel_keys *keys,
			  const struct sgpu_measurement *measurement,
			  uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
/* Covers or uncovers the digest: xor with KT128 of report key, serial and counter, which stand for
 * one report alone. The MAC is over the covered one. */
void sgpu_mask_measurement(const struct sgpu_channel_keys *keys,
			   struct sgpu_measurement *measurement);

/* The keyed digest of CH_MEASURE computed from bytes at hand, to compare. */
void sgpu_session_digest(const struct sgpu_session *session, const void *data, size_t size,
			 uint8_t digest[SGPU_DIGEST_SIZE]);

#endif
