/* SPDX-License-Identifier: Apache-2.0
 *
 * seal.json, the first member of a batch or a response, and the only one parsed before anything is
 * authenticated: the payload, with the index's digest and the recipients, and the signatures and
 * the MAC over the payload's text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "batch/batch.h"
#include "crypto/crypto.h"
#include "index.h"

static const char where[] = "seal.json", where_payload[] = "seal.json: payload";

/* ---- recipients and signatures ---- */
static int check_recipient(const json_t *recipient, const char *place, struct sgpu_error *error)
{
	uint8_t kid[SGPU_SHA256_SIZE], enc[32], ct[SGPU_HPKE_CT_SIZE];
	const char *kind = NULL;
	int rc = sgpu_json_string(recipient, place, "kind", &kind, error);

	if (rc) {
		return rc;
	}
	const bool is_hpke = !strcmp(kind, SGPU_KIND_HPKE);
	const struct sgpu_field fields[] = {
		{ "kind", SGPU_FIELD_TEXT, .to = &kind },
		SGPU_BYTES("kid", kid),
		{ "ct", SGPU_FIELD_BYTES, ct, is_hpke ? SGPU_HPKE_CT_SIZE : SGPU_A256KW_CT_SIZE,
		  NULL },
		SGPU_BYTES("enc", enc), /* only of HPKE */
	};
	return is_hpke || !strcmp(kind, SGPU_KIND_A256KW)
		       ? sgpu_fields_read(recipient, place, fields, is_hpke ? 4 : 3, error)
		       : sgpu_fail(error, SGPU_EINVALID,
				   "%s/kind: '%.40s' is not one of hpke, a256kw", place, kind);
}

static int check_array(const json_t *array, const char *place, int most, struct sgpu_error *error)
{
	const size_t count = json_array_size(array);

	return count && count <= (size_t)most
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID, "%s is not an array of 1 to %d", place,
				   most);
}

static int check_recipients(const struct sgpu_batch *batch, struct sgpu_error *error)
{
	size_t i;
	json_t *recipient;
	char place[SGPU_WHERE_MAX] = "seal.json: payload: /recipients";
	int rc = check_array(batch->recipients, place, SGPU_RECIPIENTS_MAX, error);

	json_array_foreach (batch->recipients, i, recipient) {
		const char *kid = json_string_value(json_object_get(recipient, "kid"));

		snprintf(place, sizeof(place), "%s: /recipients/%zu", where_payload, i);
		rc = rc ? rc : check_recipient(recipient, place, error);
		if (!rc && sgpu_batch_recipient(batch, kid) != recipient) {
			rc = sgpu_fail(error, SGPU_EINVALID, "recipient '%s' is there twice", kid);
		}
	}
	return rc;
}

/* The rules of seal.json, read or written. */
static int check(const struct sgpu_batch *batch, struct sgpu_error *error)
{
	int rc = batch->recipients ? check_recipients(batch, error) : 0;
	const char *fault = batch->has_mac != (batch->recipients != NULL)
				    ? "mac and recipients are not there together"
			    : batch->signatures && (batch->response || batch->packed)
				    ? "signatures are for sealed batches"
			    : batch->packed && (batch->recipients || batch->counter)
				    ? "a packed batch has neither recipients nor a counter"
			    : batch->counter >= SGPU_JSON_INTEGER_MAX ? "the counter is too large"
								      : NULL;

	if (!rc && batch->signatures) { /* signature.c verifies them */
		rc = check_array(batch->signatures, "seal.json: /signatures", SGPU_SIGNATURES_MAX,
				 error);
	}
	return rc || !fault ? rc : sgpu_fail(error, SGPU_EINVALID, "%s", fault);
}

/* ---- reading ---- */
static int parse_payload(const json_t *payload, struct sgpu_batch *batch, struct sgpu_error *error)
{
	const char *kind = NULL;
	uint64_t version = 0;
	json_t *recipients = NULL;
	int rc = sgpu_json_u64(payload, where_payload, "version", &version, error);

	if (!rc && version != SGPU_BATCH_VERSION) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: version %llu is not %d", where_payload,
			       (unsigned long long)version, SGPU_BATCH_VERSION);
	}
	rc = rc ? rc : sgpu_json_string(payload, where_payload, "kind", &kind, error);
	if (rc) {
		return rc;
	}
	batch->response = !strcmp(kind, "response");
	batch->packed = !strcmp(kind, "packed");
	if (!batch->response && !batch->packed && strcmp(kind, "batch") != 0) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s/kind: '%.40s' is not one of packed, batch, response",
				 where_payload, kind);
	}
	const struct sgpu_field fields[] = {
		/* only of a response */
		SGPU_BYTES("response_id", batch->response_id),
		SGPU_BYTES("identity", batch->identity),
		SGPU_BYTES("manifest_sha256", batch->manifest_sha256),
		/* of both */
		{ "version", SGPU_FIELD_NUMBER, .to = &version },
		{ "kind", SGPU_FIELD_TEXT, .to = &kind },
		SGPU_BYTES("batch_id", batch->id),
		SGPU_BYTES("index_sha256", batch->index_sha256),
		{ "recipients", SGPU_FIELD_JSON, .to = &recipients },
		/* only of a batch */
		{ "counter", SGPU_FIELD_NUMBER, .to = &batch->counter },
	};
	rc = batch->response ? sgpu_fields_read(payload, where_payload, fields, 8, error)
			     : sgpu_fields_read(payload, where_payload, fields + 3, 6, error);
	batch->recipients = json_incref(recipients);
	return rc;
}

static int parse(const json_t *seal, struct sgpu_batch *batch, struct sgpu_error *error)
{
	const char *payload = NULL;
	json_t *json = NULL, *signatures = NULL;
	const struct sgpu_field fields[] = {
		{ "payload", SGPU_FIELD_TEXT, .to = &payload },
		{ "signatures", SGPU_FIELD_JSON, .to = &signatures },
		{ "mac", SGPU_FIELD_BYTES, batch->mac, sizeof(batch->mac), &batch->has_mac },
	};
	int rc = sgpu_fields_read(seal, where, fields, SGPU_ARRAY_LENGTH(fields), error);

	batch->signatures = json_incref(signatures);
	rc = rc ? rc : sgpu_json_decode(payload, strlen(payload), where_payload, &json, error);
	rc = rc ? rc : parse_payload(json, batch, error);
	if (!rc) {
		batch->payload = strdup(payload);
		rc = batch->payload ? 0 : sgpu_fail_nomem(error);
	}
	json_decref(json);
	return rc ? rc : check(batch, error);
}

int sgpu_seal_json_parse(const char *text, size_t size, struct sgpu_batch **batch,
			 struct sgpu_error *error)
{
	json_t *seal = NULL;
	int rc = sgpu_json_parse(text, size, where, &seal, error);

	*batch = rc ? NULL : calloc(1, sizeof(**batch));
	if (!rc) {
		rc = *batch ? parse(seal, *batch, error) : sgpu_fail_nomem(error);
	}
	json_decref(seal);
	if (rc) {
		sgpu_batch_free(batch);
	}
	return rc;
}

/* ---- writing ---- */
/* As in an index, readers refuse a payload without any of its members. */
static json_t *payload_json(const struct sgpu_batch *b)
{
	return json_pack(
		"{s:i, s:s, s:o, s:o, s:O*, s:o*, s:o*, s:o*, s:o*}", "version", SGPU_BATCH_VERSION,
		"kind",
		b->response ? "response"
		: b->packed ? "packed"
			    : "batch",
		"batch_id", sgpu_json_from_bytes(b->id, sizeof(b->id)), "index_sha256",
		sgpu_json_from_bytes(b->index_sha256, sizeof(b->index_sha256)), "recipients",
		b->recipients, "counter", b->response ? NULL : json_integer((json_int_t)b->counter),
		"response_id", sgpu_bytes_json(b->response, b->response_id, sizeof(b->response_id)),
		"identity", sgpu_bytes_json(b->response, b->identity, sizeof(b->identity)),
		"manifest_sha256",
		sgpu_bytes_json(b->response, b->manifest_sha256, sizeof(b->manifest_sha256)));
}

int sgpu_seal_json_freeze(struct sgpu_batch *batch, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	json_t *json;
	int rc = 0;

	if (!batch->index_text) {
		free(batch->payload);
		batch->payload = NULL;
		batch->has_note = batch->note != NULL;
		rc = batch->note
			     ? sgpu_sha256(batch->note, batch->note_size, batch->note_sha256, error)
			     : 0;
		rc = rc ? rc
			: sgpu_index_text(batch, &batch->index_text, &batch->index_size, error);
		rc = rc ? rc
			: sgpu_sha256(batch->index_text, batch->index_size, batch->index_sha256,
				      error);
	}
	if (rc || batch->payload) {
		return rc;
	}
	json = payload_json(batch);
	rc = json ? sgpu_json_canonical(json, &text, &size, error) : sgpu_fail_nomem(error);
	json_decref(json);
	batch->payload = rc ? NULL : malloc(SGPU_BASE64URL_MAX(size));
	if (batch->payload) {
		sgpu_base64url_encode(text, size, batch->payload);
	}
	free(text);
	return rc || batch->payload ? rc : sgpu_fail_nomem(error);
}

int sgpu_seal_json_text(const struct sgpu_batch *batch, char **text, size_t *size,
			struct sgpu_error *error)
{
	json_t *mac = batch->has_mac ? sgpu_json_from_bytes(batch->mac, sizeof(batch->mac)) : NULL;
	json_t *json = json_pack("{s:s, s:O*, s:O*}", "payload", batch->payload, "signatures",
				 batch->signatures, "mac", mac);
	int rc = check(batch, error);

	rc = rc ? rc : json ? sgpu_json_canonical(json, text, size, error) : sgpu_fail_nomem(error);
	json_decref(mac);
	json_decref(json);
	return rc;
}

void sgpu_batch_change(struct sgpu_batch *batch, bool index)
{
	free(batch->payload);
	batch->payload = NULL;
	json_decref(batch->signatures);
	batch->signatures = NULL;
	batch->has_mac = false;
	if (index) {
		free(batch->index_text);
		batch->index_text = NULL;
		batch->index_size = 0;
	}
}
