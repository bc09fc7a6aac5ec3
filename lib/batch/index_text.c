/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes an index as text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "index.h"

/* Steals `value`. Returns false if it is NULL or memory ran out. */
static bool put(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) == 0;
}

const char *const sgpu_location_words[] = {
	[SGPU_LOCATION_INLINE] = "inline",
	[SGPU_LOCATION_FILE] = "file",
	[SGPU_LOCATION_REGION] = "region",
	[SGPU_LOCATION_LEASE] = "lease",
};

json_t *sgpu_location_json(const struct sgpu_location *location)
{
	const char *word = sgpu_location_words[location->kind];

	if (location->kind <= SGPU_LOCATION_INLINE) {
		return word ? json_pack("{s:b}", word, 1) : json_null();
	}
	return json_pack("{s:s, s:I}", word,
			 location->kind == SGPU_LOCATION_FILE ? location->file : location->region,
			 "offset", (json_int_t)location->offset);
}

static json_t *segment_json(const struct sgpu_batch *batch, const struct sgpu_batch_segment *s,
			    enum sgpu_index_part part)
{
	const json_int_t size = (json_int_t)(batch->response ? s->actual_size : s->size);
	json_t *json =
		json_pack("{s:s, s:s, s:I}", "segment_id", s->id, "masking_level",
			  s->masking == SGPU_MASKING_AES_GCM ? "MASKING_AES_GCM" : "MASKING_NONE",
			  batch->response ? "actual_output_data_size_bytes" : "size", size);
	bool ok = json != NULL;
	if (batch->response) {
		ok = ok && put(json, "status", json_string(s->status == SGPU_OK ? "OK" : "FAILED"));
	}
	if (batch->response && s->status != SGPU_OK) {
		ok = ok && put(json, "error",
			       json_pack("{s:s, s:s}", "code", sgpu_error_name(s->status), "text",
					 s->error_text));
	}
	if (s->sealed) {
		ok = ok && put(json, "sealed_size", json_integer((json_int_t)s->sealed_size));
	}
	if (part == SGPU_INDEX_WHOLE && s->location.kind != SGPU_LOCATION_NONE) {
		ok = ok && put(json, "location", sgpu_location_json(&s->location));
	}
	if (s->has_kt128) {
		ok = ok && put(json, "kt128", sgpu_json_from_bytes(s->kt128, sizeof(s->kt128)));
	}
	if (!ok) {
		json_decref(json);
		json = NULL;
	}
	return json;
}

/* Each segment's JSON is made when it is written. */
struct segments {
	const struct sgpu_batch *batch;
	enum sgpu_index_part part, failed;
};

static json_t *segment_item(void *argument, size_t i)
{
	struct segments *segments = argument;
	json_t *json = segment_json(segments->batch, &segments->batch->segments[i], segments->part);
	segments->failed = segments->failed || !json;
	return json;
}

static const char *batch_status(const struct sgpu_batch *batch)
{
	for (int i = 0; i < batch->segment_count; i++) {
		if (batch->segments[i].status != SGPU_OK) {
			return "SOME_FAILED";
		}
	}
	return "OK";
}

static bool fill(json_t *index, const struct sgpu_batch *batch, enum sgpu_index_part part)
{
	bool ok = put(index, "batch_id", sgpu_json_from_bytes(batch->id, sizeof(batch->id))) &&
		  put(index, "manifest_sha256",
		      sgpu_json_from_bytes(batch->manifest_sha256, sizeof(batch->manifest_sha256)));
	if (batch->response) {
		ok = ok && put(index, "batch_status", json_string(batch_status(batch))) &&
		     put(index, "response_id",
			 sgpu_json_from_bytes(batch->response_id, sizeof(batch->response_id)));
	} else {
		ok = ok && put(index, "counter", json_integer((json_int_t)batch->counter));
	}
	ok = ok && put(index, "segments", json_array());
	if (part != SGPU_INDEX_FOR_IDENTITY && batch->recipients) {
		ok = ok && json_object_set(index, "recipients", batch->recipients) == 0;
	}
	if (part < SGPU_INDEX_FOR_SIGNATURES && batch->signatures) {
		ok = ok && json_object_set(index, "signatures", batch->signatures) == 0;
	}
	if (batch->response && batch->timings) {
		ok = ok && json_object_set(index, "timings", batch->timings) == 0;
	}
	if (part == SGPU_INDEX_WHOLE && batch->has_mac) {
		ok = ok && put(index, "mac", sgpu_json_from_bytes(batch->mac, sizeof(batch->mac)));
	}
	return ok;
}

/* Makes the text or, if `expected` is not NULL, compares it with those *size bytes. */
static int write_index(const struct sgpu_batch *batch, enum sgpu_index_part part,
		       const char *expected, char **text, size_t *size, struct sgpu_error *error)
{
	json_t *index = json_pack("{s:i, s:s, s:s}", "version", SGPU_BATCH_VERSION, "alg",
				  SGPU_BATCH_ALG, "aead", SGPU_BATCH_AEAD);
	int rc = SGPU_ENOMEM;
	struct segments segments = { batch, part, !index || !fill(index, batch, part) };
	const struct sgpu_json_items list = { "segments", (size_t)batch->segment_count,
					      segment_item, &segments };
	if (!segments.failed) {
		rc = expected ? sgpu_json_canonical_compare(index, &list, 1, expected, *size, error)
			      : sgpu_json_canonical_items(index, &list, 1, text, size, error);
	}
	if (segments.failed) {
		/* jansson also fails if a string is not UTF-8; only paths and error texts are
		 * unchecked. */
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "cannot write the index: out of memory, or text that is not UTF-8");
	}
	json_decref(index);
	return rc;
}

int sgpu_batch_canonical(const struct sgpu_batch *batch, enum sgpu_index_part part, char **text,
			 size_t *size, struct sgpu_error *error)
{
	return write_index(batch, part, NULL, text, size, error);
}

int sgpu_batch_check_form(const struct sgpu_batch *batch, const char *text, size_t size,
			  struct sgpu_error *error)
{
	int rc = write_index(batch, SGPU_INDEX_WHOLE, text, NULL, &size, error);
	return rc != SGPU_EDIFFERS ? rc
				   : sgpu_fail(error, SGPU_EINVALID,
					       "%s is not in canonical form, or has a member or "
					       "a value that does not belong "
					       "there",
					       batch->response ? "response.json" : "batch.json");
}

int sgpu_batch_text(const struct sgpu_batch *batch, char **text, size_t *size,
		    struct sgpu_error *error)
{
	int *by_id = NULL;
	int rc = sgpu_batch_check(batch, error);

	rc = rc ? rc : sgpu_batch_sort(batch, &by_id, error);
	free(by_id);
	rc = rc ? rc : sgpu_batch_canonical(batch, SGPU_INDEX_WHOLE, text, size, error);
	if (!rc && *size > SGPU_INDEX_SIZE_MAX) {
		free(*text);
		*text = NULL;
		rc = sgpu_fail(error, SGPU_EINVALID, "the index is larger than %d bytes",
			       SGPU_INDEX_SIZE_MAX);
	}
	return rc;
}
