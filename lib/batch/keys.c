/* SPDX-License-Identifier: Apache-2.0
 *
 * The batch key: wrapped for recipients, and used to derive the MAC of the index and the segments'
 * keys.
 */
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "batch/batch.h"
#include "crypto/crypto.h"
#include "index.h"

static const char hpke_info[] = "sgpu batch v2";

static const char *kid_of(const json_t *recipient)
{
	const char *kid = json_string_value(json_object_get(recipient, "kid"));

	return kid ? kid : "?";
}

const json_t *sgpu_batch_recipient(const struct sgpu_batch *batch, const char *kid)
{
	size_t i;
	json_t *recipient;

	json_array_foreach (batch->recipients, i, recipient) {
		if (!strcmp(kid_of(recipient), kid)) {
			return recipient;
		}
	}
	return NULL;
}

int sgpu_batch_wrap(struct sgpu_batch *batch, const struct sgpu_key *recipient,
		    const uint8_t batch_key[SGPU_KEY_SIZE], struct sgpu_error *error)
{
	if (sgpu_batch_recipient(batch, recipient->kid)) {
		return 0; /* this recipient already has the same batch key */
	}
	if (json_array_size(batch->recipients) >= SGPU_RECIPIENTS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d recipients",
				 SGPU_RECIPIENTS_MAX);
	}
	uint8_t enc[32], ct[SGPU_HPKE_CT_SIZE];
	const bool oct = recipient->kind == SGPU_KEY_OCT;
	if (!oct && recipient->kind != SGPU_KEY_X25519) {
		return sgpu_fail(error, SGPU_EUSAGE, "the key '%s' does not encrypt",
				 recipient->kid);
	}
	const int rc = oct ? sgpu_wrap(recipient->secret, batch_key, ct, error)
			   : sgpu_hpke_seal(recipient->public_half, hpke_info,
					    sizeof(hpke_info) - 1, batch->id, sizeof(batch->id),
					    batch_key, SGPU_KEY_SIZE, enc, ct, error);
	if (rc) {
		return rc;
	}
	sgpu_batch_change(batch, false);
	if (!batch->recipients) {
		batch->recipients = json_array();
	}
	json_t *entry =
		json_pack("{s:s, s:s, s:o, s:o*}", "kind", oct ? SGPU_KIND_A256KW : SGPU_KIND_HPKE,
			  "kid", recipient->kid, "ct",
			  sgpu_json_from_bytes(ct, oct ? SGPU_A256KW_CT_SIZE : SGPU_HPKE_CT_SIZE),
			  "enc", sgpu_bytes_json(!oct, enc, sizeof(enc)));

	return json_array_append_new(batch->recipients, entry) ? sgpu_fail_nomem(error) : 0;
}

static int unwrap_with(const struct sgpu_batch *batch, const json_t *recipient,
		       const struct sgpu_key *key, uint8_t *batch_key, struct sgpu_error *error)
{
	uint8_t enc[32], ct[SGPU_HPKE_CT_SIZE];
	const bool oct = key->kind == SGPU_KEY_OCT;
	int rc = sgpu_json_bytes(recipient, "recipient", "ct", ct,
				 oct ? SGPU_A256KW_CT_SIZE : SGPU_HPKE_CT_SIZE, error);
	if (!rc && !oct) {
		rc = sgpu_json_bytes(recipient, "recipient", "enc", enc, sizeof(enc), error);
	}
	if (rc) {
		return rc;
	}
	rc = oct ? sgpu_unwrap(key->secret, ct, batch_key, error)
		 : sgpu_hpke_open(key, enc, hpke_info, sizeof(hpke_info) - 1, batch->id,
				  sizeof(batch->id), ct, sizeof(ct), batch_key, error);
	if (rc == SGPU_EAUTH) {
		rc = sgpu_fail(error, SGPU_EAUTH,
			       "the batch key for recipient '%s' does not verify", key->kid);
	}
	return rc;
}

int sgpu_batch_unwrap(const struct sgpu_batch *batch, const struct sgpu_key *keys, int key_count,
		      uint8_t batch_key[SGPU_KEY_SIZE], struct sgpu_error *error)
{
	sgpu_wipe(batch_key, SGPU_KEY_SIZE); /* a failed attempt leaves it so */
	for (int i = 0; i < key_count; i++) {
		const json_t *recipient = sgpu_batch_recipient(batch, keys[i].kid);
		if (recipient && keys[i].secret_known) {
			return unwrap_with(batch, recipient, &keys[i], batch_key, error);
		}
	}
	const char *what = batch->response ? "response" : "batch";
	const size_t others = json_array_size(batch->recipients);

	return others ? sgpu_fail(error, SGPU_EKEY,
				  "none of the keys is a recipient of this %s: it is for %s%s, and "
				  "given %s %s%s",
				  what, kid_of(json_array_get(batch->recipients, 0)),
				  others > 1 ? " and others" : "", key_count == 1 ? "is" : "are",
				  key_count ? keys[0].kid : "none",
				  key_count > 1 ? " and others" : "")
		      : sgpu_fail(error, SGPU_EKEY, "this %s has no recipients: it is not sealed",
				  what);
}

static int compute_mac(const struct sgpu_batch *batch, const uint8_t *batch_key,
		       uint8_t mac[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	const char *info = batch->response ? "sgpu v2 mac response" : "sgpu v2 mac batch";
	uint8_t key[SGPU_KEY_SIZE];
	int rc = sgpu_hkdf_sha256(batch_key, SGPU_KEY_SIZE, batch->id, sizeof(batch->id), info,
				  strlen(info), key, sizeof(key), error);

	rc = rc ? rc
		: sgpu_hmac_sha256(key, sizeof(key), batch->payload, strlen(batch->payload), mac,
				   error);
	sgpu_wipe(key, sizeof(key));
	return rc;
}

int sgpu_batch_sign(struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
		    struct sgpu_error *error)
{
	int rc = sgpu_seal_json_freeze(batch, error);

	rc = rc ? rc : compute_mac(batch, batch_key, batch->mac, error);
	batch->has_mac = rc == 0;
	return rc;
}

int sgpu_batch_verify(const struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
		      struct sgpu_error *error)
{
	uint8_t mac[SGPU_SHA256_SIZE];

	if (!batch->has_mac) {
		return sgpu_fail(error, SGPU_EAUTH, "seal.json has no mac");
	}
	int rc = compute_mac(batch, batch_key, mac, error);
	if (!rc && !sgpu_equal(mac, batch->mac, sizeof(mac))) {
		rc = sgpu_fail(error, SGPU_EAUTH,
			       "the mac of seal.json does not verify: the %s was altered",
			       batch->response ? "response" : "batch");
	}
	/* Wiped, since it is the correct MAC of a text that an attacker may have chosen. */
	sgpu_wipe(mac, sizeof(mac));
	return rc;
}

int sgpu_batch_segment_key(const struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
			   const char *segment_id, const uint8_t response_id[SGPU_RESPONSE_ID_SIZE],
			   uint8_t key[SGPU_KEY_SIZE], uint8_t context[SGPU_SEGMENT_CONTEXT_MAX],
			   size_t *context_size, struct sgpu_error *error)
{
	const size_t length = strlen(segment_id);
	if (!length || length > SGPU_ID_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%.100s' is not a segment id", segment_id);
	}
	uint8_t *at = mempcpy(context, "sgpu v2", 8);
	at = mempcpy(at, batch->id, sizeof(batch->id));
	at = mempcpy(at, batch->manifest_sha256, sizeof(batch->manifest_sha256));
	*at++ = response_id ? 'o' : 'i';
	if (response_id) {
		at = mempcpy(at, response_id, SGPU_RESPONSE_ID_SIZE);
	}
	memcpy(at, segment_id, length);
	*context_size = (size_t)(at - context) + length;
	char info[32 + SGPU_ID_MAX];
	const int info_size = snprintf(info, sizeof(info), "sgpu v2 segment %s %s",
				       response_id ? "out" : "in", segment_id);
	return sgpu_hkdf_sha256(batch_key, SGPU_KEY_SIZE, batch->id, sizeof(batch->id), info,
				(size_t)info_size, key, SGPU_KEY_SIZE, error);
}

int sgpu_batch_draw_header(struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
			   int segment, struct sgpu_error *error)
{
	struct sgpu_batch_segment *s = &batch->segments[segment];
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_sealed_keys keys;
	size_t size = 0;
	int rc = sgpu_batch_segment_key(batch, batch_key, s->id, NULL, key, context, &size, error);

	rc = rc ? rc : sgpu_sealed_keys_new(key, context, size, &keys, error);
	if (!rc) {
		memcpy(s->header, keys.header, sizeof(s->header));
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}
