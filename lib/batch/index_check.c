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
	return 0;
}

static int check_output(const struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	if (s->status == SGPU_OK) {
		const bool bound = s->masking == SGPU_MASKING_AES_GCM ? s->sealed : s->has_kt128;
		if (s->error_text) {
			return sgpu_segment_fail(s, SGPU_EINVALID, " is OK and has an error",
						 error);
		}
		return bound ? 0
			     : sgpu_segment_fail(s,
						 s->masking == SGPU_MASKING_NONE ? SGPU_EINVALID
										 : SGPU_EPOLICY,
						 " has neither a sealed_size nor a kt128", error);
	}
	if (s->status != sgpu_error_by_name(sgpu_error_name(s->status))) {
		return sgpu_segment_fail(s, SGPU_EINVALID, ": unknown error code", error);
	}
	if (!s->error_text || strlen(s->error_text) >= SGPU_ERROR_TEXT_MAX) {
		return sgpu_segment_fail(s, SGPU_EINVALID,
					 ": the error's text is missing or too long", error);
	}
	if (s->sealed || s->has_kt128 || s->actual_size) {
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
	int rc = check_masking(s, batch->response ? s->actual_size : s->size, error);
	rc = rc || !batch->response ? rc : check_output(s, error);
	if (!rc && s->sealed && !batch->recipients) {
		rc = sgpu_segment_fail(s, SGPU_EINVALID,
				       " is sealed, and seal.json has no recipients", error);
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

int sgpu_batch_check(const struct sgpu_batch *batch, struct sgpu_error *error)
{
	if (batch->segment_count < 0 || batch->segment_count > SGPU_MANIFEST_SEGMENTS_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "more than %d segments",
				 SGPU_MANIFEST_SEGMENTS_MAX);
	}
	int rc = 0;
	for (int i = 0; !rc && i < batch->segment_count; i++) {
		rc = check_segment(batch, &batch->segments[i], error);
	}
	return rc || !batch->timings ? rc : check_timings(batch->timings, error);
}
