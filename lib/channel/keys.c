/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of a channel, nonces, MACs, the mask of a measurement, and the binding of a session to its
 * hello.
 */
#include <string.h>

#include <sgpu/base.h>
#include "crypto/crypto.h"
#include "channel/channel.h"

#include "channel/keys.h"
#include "channel/wire.h"

int sgpu_channel_derive(const uint8_t cek[SGPU_KEY_SIZE], const uint8_t processor[16],
			struct sgpu_channel_keys *keys, struct sgpu_error *error)
{
	const struct {
		const char *info;
		uint8_t *key;
	} parts[] = {
		{ "sgpu channel group", keys->group },	   { "sgpu channel answer", keys->answer },
		{ "sgpu channel owner", keys->owner },	   { "sgpu channel report", keys->report },
		{ "sgpu channel measure", keys->measure },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(parts); i++) {
		int rc =
			sgpu_hkdf_sha256(cek, SGPU_KEY_SIZE, processor, 16, parts[i].info,
					 strlen(parts[i].info), parts[i].key, SGPU_KEY_SIZE, error);
		if (rc != SGPU_OK) {
			sgpu_wipe(keys, sizeof(*keys));
			return rc;
		}
	}
	return SGPU_OK;
}

int sgpu_channel_aeads(const struct sgpu_channel_keys *keys, struct sgpu_aead **group,
		       struct sgpu_aead **answer, struct sgpu_error *error)
{
	int rc;

	sgpu_aead_free(group);
	sgpu_aead_free(answer);
	rc = sgpu_aead_create(NULL, keys->group, group, error);
	return rc < 0 ? rc : sgpu_aead_create(NULL, keys->answer, answer, error);
}

void sgpu_group_nonce(uint32_t serial, uint64_t counter, uint8_t nonce[SGPU_NONCE_SIZE])
{
	for (int i = 0; i < 4; i++) {
		nonce[i] = (uint8_t)(serial >> (24 - 8 * i));
	}
	for (int i = 0; i < 8; i++) {
		nonce[4 + i] = (uint8_t)(counter >> (56 - 8 * i));
	}
}

/* ---- MACs: fields are little-endian integers and bytes of fixed size ---- */
enum { FIELDS_MAX = 160 };

static void digest_fields(uint8_t fields[FIELDS_MAX], const uint8_t *end, const char *custom,
			  uint8_t out[SGPU_CHANNEL_MAC_SIZE])
{
	sgpu_kt128(fields, (size_t)(end - fields), custom, strlen(custom), out,
		   SGPU_CHANNEL_MAC_SIZE);
	sgpu_wipe(fields, FIELDS_MAX);
}

void sgpu_mac_owner(const struct sgpu_channel_keys *keys, uint32_t serial, uint64_t counter,
		    const uint64_t unmapped[2], uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	uint8_t fields[FIELDS_MAX], *at = sgpu_put_bytes(fields, keys->owner, SGPU_KEY_SIZE);

	at = sgpu_put_u64(sgpu_put_u32(at, serial), counter);
	if (unmapped) {
		at = sgpu_put_u64(sgpu_put_u64(at, unmapped[0]), unmapped[1]);
	}
	digest_fields(fields, at, unmapped ? "sgpu channel unmap v1" : "sgpu channel destroy v1",
		      mac);
}

_Static_assert(offsetof(struct sgpu_report, mac) == 2 * 4 + 3 * 8 + 4 + SGPU_KT128_SIZE,
	       "a report lies in memory as its MAC covers it, without gaps");

void sgpu_mac_report(const struct sgpu_channel_keys *keys, enum sgpu_channel_op op,
		     const struct sgpu_report *report, uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	uint8_t fields[FIELDS_MAX], *at = sgpu_put_bytes(fields, keys->report, SGPU_KEY_SIZE);

	digest_fields(fields, sgpu_put_bytes(at, report, offsetof(struct sgpu_report, mac)),
		      op == SGPU_CH_PTE ? "sgpu channel summary v1" : "sgpu channel measurement v1",
		      mac);
}

void sgpu_mask_report(const struct sgpu_channel_keys *keys, struct sgpu_report *report)
{
	uint8_t fields[FIELDS_MAX], *at = sgpu_put_bytes(fields, keys->report, SGPU_KEY_SIZE);
	uint8_t mask[SGPU_KT128_SIZE];

	at = sgpu_put_u64(sgpu_put_u32(at, report->serial), report->counter);
	digest_fields(fields, at, "sgpu channel mask v1", mask);
	for (size_t i = 0; i < sizeof(mask); i++) {
		report->digest[i] ^= mask[i];
	}
	sgpu_wipe(mask, sizeof(mask));
}

int sgpu_channel_bind(struct sgpu_channel_keys *keys, const struct sgpu_hello *hello,
		      const struct sgpu_grant *grant, struct sgpu_error *error)
{
	static const char *const infos[] = { "sgpu session group", "sgpu session answer" };
	uint8_t *const bound[] = { keys->group, keys->answer };
	uint8_t transcript[SGPU_HELLO_MAX + SGPU_GRANT_SIZE], salt[SGPU_SHA256_SIZE],
		both[2 * SGPU_KEY_SIZE];
	int rc;

	sgpu_put_bytes(sgpu_put_bytes(transcript, hello->text, hello->size), grant, sizeof(*grant));
	rc = sgpu_sha256(transcript, hello->size + SGPU_GRANT_SIZE, salt, error);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(bound); i++) {
		sgpu_put_bytes(sgpu_put_bytes(both, hello->secret, SGPU_KEY_SIZE), bound[i],
			       SGPU_KEY_SIZE);
		rc = sgpu_hkdf_sha256(both, sizeof(both), salt, sizeof(salt), infos[i],
				      strlen(infos[i]), bound[i], SGPU_KEY_SIZE, error);
	}
	sgpu_wipe(both, sizeof(both));
	return rc;
}
