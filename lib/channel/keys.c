/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of a channel, and what is computed with them by both trusted sides: nonces, MACs, the mask of a measurement.
 */
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/channel.h>

#include "channel/keys.h"

int sgpu_channel_derive(const uint8_t cek[SGPU_KEY_SIZE], const uint8_t processor[16], struct sgpu_channel_keys *keys,
			struct sgpu_error *error)
{
	const struct {
		const char *info;
		uint8_t *key;
	} parts[] = {
		{ "sgpu channel group", keys->group },
		{ "sgpu channel answer", keys->answer },
		{ "sgpu channel owner", keys->owner },
		{ "sgpu channel report", keys->report },
		{ "sgpu channel measure", keys->measure },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(parts); i++) {
		int rc = sgpu_hkdf_sha256(cek, SGPU_KEY_SIZE, processor, 16, parts[i].info, strlen(parts[i].info),
					  parts[i].key, SGPU_KEY_SIZE, error);
		if (rc != SGPU_OK) {
			sgpu_wipe(keys, sizeof(*keys));
			return rc;
		}
	}
	return SGPU_OK;
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

/* ---- fields under a MAC: a key, and then integers, little endian, and bytes of fixed sizes ---- */
enum { FIELDS_MAX = 160 };
struct fields {
	uint8_t bytes[FIELDS_MAX];
	size_t size;
};

static void add_bytes(struct fields *fields, const void *bytes, size_t size)
{
	memcpy(fields->bytes + fields->size, bytes, size);
	fields->size += size;
}

static void add_u32(struct fields *fields, uint32_t value)
{
	for (int i = 0; i < 4; i++) {
		fields->bytes[fields->size++] = (uint8_t)(value >> 8 * i);
	}
}

static void add_u64(struct fields *fields, uint64_t value)
{
	add_u32(fields, (uint32_t)value);
	add_u32(fields, (uint32_t)(value >> 32));
}

static void finish(struct fields *fields, const char *custom, uint8_t out[SGPU_CHANNEL_MAC_SIZE])
{
	sgpu_kt128(fields->bytes, fields->size, custom, strlen(custom), out, SGPU_CHANNEL_MAC_SIZE);
	sgpu_wipe(fields->bytes, fields->size);
}

void sgpu_mac_unmap(const struct sgpu_channel_keys *keys, uint32_t serial, uint64_t counter, uint64_t va,
		    uint64_t size, uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	struct fields fields;

	fields.size = 0;
	add_bytes(&fields, keys->owner, SGPU_KEY_SIZE);
	add_u32(&fields, serial);
	add_u64(&fields, counter);
	add_u64(&fields, va);
	add_u64(&fields, size);
	finish(&fields, "sgpu channel unmap v1", mac);
}

void sgpu_mac_destroy(const struct sgpu_channel_keys *keys, uint32_t serial, uint64_t counter,
		      uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	struct fields fields;

	fields.size = 0;
	add_bytes(&fields, keys->owner, SGPU_KEY_SIZE);
	add_u32(&fields, serial);
	add_u64(&fields, counter);
	finish(&fields, "sgpu channel destroy v1", mac);
}

void sgpu_mac_summary(const struct sgpu_channel_keys *keys, const struct sgpu_summary *summary,
		      uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	struct fields fields;

	fields.size = 0;
	add_bytes(&fields, keys->report, SGPU_KEY_SIZE);
	add_u32(&fields, summary->channel);
	add_u32(&fields, summary->serial);
	add_u64(&fields, summary->counter);
	add_u64(&fields, summary->va);
	add_u64(&fields, summary->size);
	add_u32(&fields, summary->protected_pages);
	add_u32(&fields, summary->pages);
	add_bytes(&fields, summary->hash, sizeof(summary->hash));
	finish(&fields, "sgpu channel summary v1", mac);
}

void sgpu_mac_measurement(const struct sgpu_channel_keys *keys, const struct sgpu_measurement *measurement,
			  uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	struct fields fields;

	fields.size = 0;
	add_bytes(&fields, keys->report, SGPU_KEY_SIZE);
	add_u32(&fields, measurement->channel);
	add_u32(&fields, measurement->serial);
	add_u64(&fields, measurement->counter);
	add_u64(&fields, measurement->va);
	add_u64(&fields, measurement->size);
	add_u32(&fields, measurement->keyed);
	add_bytes(&fields, measurement->digest, sizeof(measurement->digest));
	finish(&fields, "sgpu channel measurement v1", mac);
}

void sgpu_mask_measurement(const struct sgpu_channel_keys *keys, struct sgpu_measurement *measurement)
{
	uint8_t mask[SGPU_CHANNEL_DIGEST_SIZE];
	struct fields fields;

	_Static_assert(SGPU_CHANNEL_DIGEST_SIZE == SGPU_CHANNEL_MAC_SIZE, "one mask covers a digest");
	fields.size = 0;
	add_bytes(&fields, keys->report, SGPU_KEY_SIZE);
	add_u32(&fields, measurement->serial);
	add_u64(&fields, measurement->counter);
	finish(&fields, "sgpu channel mask v1", mask);
	for (size_t i = 0; i < sizeof(mask); i++) {
		measurement->digest[i] ^= mask[i];
	}
	sgpu_wipe(mask, sizeof(mask));
}
