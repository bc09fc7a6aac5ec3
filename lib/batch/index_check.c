/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of an index that do not need the manifest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "crypto/crypto.h"
#include "index.h"
#include "manifest/manifest.h"

static bool place_id_valid(const char id[SGPU_REGION_ID_TEXT + 1])
{
	return strnlen(id, SGPU_REGION_ID_TEXT + 1) == SGPU_REGION_ID_TEXT &&
	       strspn(id, "0123456789abcdef") == SGPU_REGION_ID_TEXT;
}

static int check_location(const struct sgpu_batch_segment *s, uint64_t size,
			  struct sgpu_error *error)
{
	const struct sgpu_location *location = &s->location;
	uint64_t end = 0;
	switch (location->kind) {
	case SGPU_LOCATION_NONE:
	case SGPU_LOCATION_INLINE:
		return 0;
	case SGPU_LOCATION_FILE:
		if (!location->file || !location->file[0] ||
		    strlen(location->file) > SGPU_FILE_PATH_MAX) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "segment '%s': the path is not 1 to %d bytes long", s->id,
					 SGPU_FILE_PATH_MAX);
		}
		break;
	case SGPU_LOCATION_REGION:
	case SGPU_LOCATION_LEASE:
		if (!place_id_valid(location->region)) {
			return sgpu_fail(
				error, SGPU_EINVALID, "segment '%s': '%.32s' is not a %s id", s->id,
				location->region,
				location->kind == SGPU_LOCATION_LEASE ? "lease" : "region");
		}
		break;
	default:
		return sgpu_segment_fail(s, SGPU_EINVALID, ": unknown kind of location", error);
	}
	if (location->offset >= SGPU_JSON_INTEGER_MAX ||
	    !sgpu_add_u64(location->offset, size, &end) || end > INT64_MAX) {
		return sgpu_segment_fail(s, SGPU_EINVALID, ": offset and size do not fit", error);
	}
	return 0;
}

/* Checks the members that say how a payload is sealed, if it is. */
static int check_masking(const struct sgpu_batch_segment *s, uint64_t plaintext,
			 struct sgpu_error *error)
{
	uint64_t sealed_size = 0;
	const bool masked = s->masking == SGPU_MASKING_AES_GCM;
	if (!masked && s->masking != SGPU_MASKING_NONE) {
		return sgpu_segment_fail(s, SGPU_EINVALID, ": unknown masking level", error);
	}
	if (plaintext >= SGPU_JSON_INTEGER_MAX ||
	    (masked && !sgpu_sealed_size(plaintext, &sealed_size))) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is too large", error);
	}
	if (s->sealed && (!masked || s->sealed_size != sealed_size)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "segment '%s': the sealed size %llu does not belong to size %llu",
				 s->id, (unsigned long long)s->sealed_size,
				 (unsigned long long)plaintext);
	}
	if (masked && s->has_kt128) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is MASKING_AES_GCM and has a kt128",
					 error);
	}
	if (masked && !s->sealed && s->location.kind == SGPU_LOCATION_INLINE) {
		return sgpu_segment_fail(s, SGPU_EPOLICY, " is HIGH and would travel unsealed",
					 error);
	}
	return 0;
}

static int check_input(const struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	const enum sgpu_location_kind kind = s->location.kind;
	if (s->sealed && kind == SGPU_LOCATION_NONE) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is sealed and has no location", error);
	}
	if (s->masking == SGPU_MASKING_NONE && !s->has_kt128 &&
	    (kind == SGPU_LOCATION_INLINE || kind == SGPU_LOCATION_FILE)) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " has a payload and no kt128", error);
	}
	return 0;
}

static int check_output(const struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	if (s->status == SGPU_OK) {
		const bool bound = s->masking == SGPU_MASKING_AES_GCM ? s->sealed : s->has_kt128;
		if (s->error_text || s->location.kind == SGPU_LOCATION_NONE) {
			return sgpu_segment_fail(s, SGPU_EINVALID,
						 s->error_text ? " is OK and has an error"
							       : " is OK and has no location",
						 error);
		}
		return bound ? 0
			     : sgpu_segment_fail(s,
						 s->masking == SGPU_MASKING_NONE ? SGPU_EINVALID
										 : SGPU_EPOLICY,
						 " is neither sealed nor has it a kt128", error);
	}
	if (s->status != sgpu_error_by_name(sgpu_error_name(s->status))) {
		return sgpu_segment_fail(s, SGPU_EINVALID, ": unknown error code", error);
	}
	if (!s->error_text || strlen(s->error_text) >= SGPU_ERROR_TEXT_MAX) {
		return sgpu_segment_fail(s, SGPU_EINVALID,
					 ": the error's text is missing or too long", error);
	}
	if (s->sealed || s->has_kt128 || s->actual_size || s->location.kind != SGPU_LOCATION_NONE) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " has failed and has a payload", error);
	}
	return 0;
}

static int check_segment(const struct sgpu_batch *batch, const struct sgpu_batch_segment *s,
			 struct sgpu_error *error)
{
	const size_t id_length = s->id ? sgpu_id_length(s->id) : 0;
	if (!id_length || id_length > SGPU_ID_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%.100s' is not a segment id",
				 s->id ? s->id : "");
	}
	const uint64_t plaintext = batch->response ? s->actual_size : s->size;
	if (batch->response && s->location.kind == SGPU_LOCATION_FILE) {
		return sgpu_segment_fail(s, SGPU_EPOLICY,
					 " of the response is in a file: a response carries its "
					 "payloads, or names regions and leases",
					 error);
	}
	int rc = check_masking(s, plaintext, error);
	rc = rc ? rc : check_location(s, s->sealed ? s->sealed_size : plaintext, error);
	rc = rc ? rc : batch->response ? check_output(s, error) : check_input(s, error);
	if (!rc && s->sealed && !batch->has_mac) {
		rc = sgpu_segment_fail(s, SGPU_EINVALID, " is sealed and the index has no mac",
				       error);
	}
	return rc;
}

static int check_timings(const json_t *timings, struct sgpu_error *error)
{
	const char *key = NULL;
	json_t *value = NULL;
	json_object_foreach ((json_t *)(uintptr_t)timings, key, value) {
		const json_int_t ns = json_integer_value(value);
		if (!json_is_integer(value) || ns < 0 || (uint64_t)ns >= SGPU_JSON_INTEGER_MAX) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "timings: '%.64s' is not a number of nanoseconds", key);
		}
	}
	return json_is_object(timings)
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID, "timings is not an object");
}

static int check_recipient(const json_t *recipient, const char *where, struct sgpu_error *error)
{
	static const char *const hpke[] = { "kind", "kid", "enc", "ct", NULL };
	static const char *const a256kw[] = { "kind", "kid", "ct", NULL };
	uint8_t bytes[SGPU_HPKE_CT_SIZE];
	const char *kind = NULL;
	int rc = sgpu_json_string(recipient, where, "kind", &kind, error);
	if (rc) {
		return rc;
	}
	const bool is_hpke = !strcmp(kind, SGPU_KIND_HPKE);
	if (!is_hpke && strcmp(kind, SGPU_KIND_A256KW)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s/kind: '%.40s' is not one of hpke, a256kw", where, kind);
	}
	rc = sgpu_json_only(recipient, where, is_hpke ? hpke : a256kw, error);
	rc = rc ? rc : sgpu_json_bytes(recipient, where, "kid", bytes, SGPU_SHA256_SIZE, error);
	if (!rc && is_hpke) {
		rc = sgpu_json_bytes(recipient, where, "enc", bytes, 32, error);
	}
	rc = rc ? rc
		: sgpu_json_bytes(recipient, where, "ct", bytes,
				  is_hpke ? SGPU_HPKE_CT_SIZE : SGPU_A256KW_CT_SIZE, error);
	return rc;
}

static int check_repeated(const json_t *recipients, size_t last, struct sgpu_error *error)
{
	const char *kid =
		json_string_value(json_object_get(json_array_get(recipients, last), "kid"));
	for (size_t i = 0; i < last; i++) {
		if (!strcmp(json_string_value(
				    json_object_get(json_array_get(recipients, i), "kid")),
			    kid)) {
			return sgpu_fail(error, SGPU_EINVALID, "recipient '%s' is there twice",
					 kid);
		}
	}
	return 0;
}

static int check_recipients(const json_t *recipients, const char *where, struct sgpu_error *error)
{
	const size_t count = json_array_size(recipients);
	if (!json_is_array(recipients) || !count || count > SGPU_RECIPIENTS_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: /recipients is not an array of 1 to %d",
				 where, SGPU_RECIPIENTS_MAX);
	}
	int rc = 0;
	for (size_t i = 0; !rc && i < count; i++) {
		char place[SGPU_WHERE_MAX];
		snprintf(place, sizeof(place), "%s: /recipients/%zu", where, i);
		rc = check_recipient(json_array_get(recipients, i), place, error);
		rc = rc ? rc : check_repeated(recipients, i, error);
	}
	return rc;
}

/* Checks only the form of the array; signature.c verifies signatures. */
static int check_signatures(const json_t *signatures, struct sgpu_error *error)
{
	const size_t count = json_array_size(signatures);
	if (!json_is_array(signatures) || !count || count > SGPU_SIGNATURES_MAX) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "batch.json: /signatures is not an array of 1 to %d",
				 SGPU_SIGNATURES_MAX);
	}
	for (size_t i = 0; i < count; i++) {
		const char *token = json_string_value(json_array_get(signatures, i));
		if (!token || strlen(token) > SGPU_DETACHED_MAX) {
			return sgpu_fail(
				error, SGPU_EINVALID,
				"batch.json: /signatures/%zu is not a text of at most %d bytes", i,
				SGPU_DETACHED_MAX);
		}
	}
	return 0;
}

int sgpu_batch_check(const struct sgpu_batch *batch, struct sgpu_error *error)
{
	if (batch->segment_count < 0 || batch->segment_count > SGPU_MANIFEST_SEGMENTS_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "more than %d segments",
				 SGPU_MANIFEST_SEGMENTS_MAX);
	}
	if (batch->has_mac != (batch->recipients != NULL)) {
		return sgpu_fail(error, SGPU_EINVALID, "mac and recipients are not there together");
	}
	if (batch->signatures && (batch->response || !batch->has_mac)) {
		return sgpu_fail(error, SGPU_EINVALID, "signatures are for sealed batches");
	}
	if (batch->counter >= SGPU_JSON_INTEGER_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "the counter is too large");
	}
	int rc = 0;
	for (int i = 0; !rc && i < batch->segment_count; i++) {
		rc = check_segment(batch, &batch->segments[i], error);
	}
	if (!rc && batch->recipients) {
		rc = check_recipients(batch->recipients,
				      batch->response ? "response.json" : "batch.json", error);
	}
	if (!rc && batch->signatures) {
		rc = check_signatures(batch->signatures, error);
	}
	if (!rc && batch->timings) {
		rc = check_timings(batch->timings, error);
	}
	return rc;
}
