/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes an index, batch.json or response.json, as text.
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

static json_t *segment_json(const struct sgpu_batch *batch, const struct sgpu_batch_segment *s)
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
	if (s->sealed && !batch->response) {
		ok = ok && put(json, "header", sgpu_json_from_bytes(s->header, sizeof(s->header)));
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
	bool failed;
};

static json_t *segment_item(void *argument, size_t i)
{
	struct segments *segments = argument;
	json_t *json = segment_json(segments->batch, &segments->batch->segments[i]);

	segments->failed = segments->failed || !json;
	return json;
}

const char *sgpu_batch_status(const struct sgpu_batch *batch)
{
	int failed = 0;

	for (int i = 0; i < batch->segment_count; i++) {
		failed += batch->segments[i].status != SGPU_OK;
	}
	return failed == 0 ? "OK" : failed < batch->segment_count ? "SOME_FAILED" : "ALL_FAILED";
}

static json_t *frame_json(const struct sgpu_batch *batch)
{
	json_t *index = json_pack("{s:s, s:s, s:[]}", "alg", SGPU_BATCH_ALG, "aead",
				  SGPU_BATCH_AEAD, "segments");
	bool ok;

	if (batch->response) {
		ok = put(index, "batch_status", json_string(sgpu_batch_status(batch))) &&
		     (!batch->timings || json_object_set(index, "timings", batch->timings) == 0);
	} else {
		ok = put(index, "manifest_sha256",
			 sgpu_json_from_bytes(batch->manifest_sha256,
					      sizeof(batch->manifest_sha256)));
	}
	if (ok && batch->has_note) {
		ok = put(index, "note_sha256",
			 sgpu_json_from_bytes(batch->note_sha256, sizeof(batch->note_sha256)));
	}
	if (!ok) {
		json_decref(index);
		index = NULL;
	}
	return index;
}

int sgpu_index_text(const struct sgpu_batch *batch, char **text, size_t *size,
		    struct sgpu_error *error)
{
	struct segments segments = { .batch = batch };
	const struct sgpu_json_items list = { "segments", (size_t)batch->segment_count,
					      segment_item, &segments };
	int *by_id = NULL;
	json_t *index = NULL;
	int rc = sgpu_batch_check(batch, error);

	*text = NULL;
	rc = rc ? rc : sgpu_batch_sort(batch, &by_id, error);
	free(by_id);
	if (rc) {
		return rc;
	}
	index = frame_json(batch);
	rc = index ? sgpu_json_canonical_items(index, &list, 1, text, size, error) : SGPU_ENOMEM;
	json_decref(index);
	if (!index || segments.failed) {
		/* jansson also fails if a string is not UTF-8; only error texts are unchecked. */
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "cannot write the index: out of memory, or text that is not UTF-8");
	} else if (!rc && *size > SGPU_INDEX_SIZE_MAX) {
		rc = sgpu_fail(error, SGPU_EINVALID, "the index is larger than %d bytes",
			       SGPU_INDEX_SIZE_MAX);
	}
	if (rc) {
		free(*text);
		*text = NULL;
	}
	return rc;
}
