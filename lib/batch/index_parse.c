/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses an index. An index has only one text: the parsed index is compared with the text that the
 * writer makes of it, so no member, value or form is accepted that the writer would not write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "index.h"

/* Copies a string; sgpu_batch_check limits its length. */
static int copy_string(const json_t *object, const char *where, const char *key, char **copy,
		       struct sgpu_error *error)
{
	const char *value = NULL;
	const int rc = sgpu_json_string(object, where, key, &value, error);

	*copy = rc ? NULL : strdup(value);
	return rc || *copy ? rc : sgpu_fail_nomem(error);
}

/* Reads a string that must be `no` or `yes`. */
static int choose(const json_t *object, const char *where, const char *key, const char *no,
		  const char *yes, bool *chosen, struct sgpu_error *error)
{
	const char *value = NULL;
	const int rc = sgpu_json_string(object, where, key, &value, error);
	if (rc) {
		return rc;
	}
	*chosen = !strcmp(value, yes);
	if (!*chosen && strcmp(value, no)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s/%s: '%.64s' is not one of %s, %s", where,
				 key, value, no, yes);
	}
	return 0;
}

static int parse_location(const json_t *segment, const char *where, struct sgpu_location *location,
			  struct sgpu_error *error)
{
	const json_t *json = json_object_get(segment, "location");
	char place[SGPU_WHERE_MAX + 16];
	const char *word, *id = NULL;
	int kind = SGPU_LOCATION_INLINE, rc;

	if (!json) {
		return 0;
	}
	snprintf(place, sizeof(place), "%s/location", where);
	while (kind <= SGPU_LOCATION_LEASE && !json_object_get(json, sgpu_location_words[kind])) {
		kind++;
	}
	if (kind > SGPU_LOCATION_LEASE) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: none of inline, region, lease, file",
				 place);
	}
	location->kind = (enum sgpu_location_kind)kind;
	if (kind == SGPU_LOCATION_INLINE) {
		return 0;
	}
	word = sgpu_location_words[kind];
	rc = kind == SGPU_LOCATION_FILE ? copy_string(json, place, word, &location->file, error)
					: sgpu_json_string(json, place, word, &id, error);
	if (!rc && id && strlen(id) != SGPU_REGION_ID_TEXT) {
		return sgpu_fail(error, SGPU_EINVALID, "%s/%s: '%.64s' is not a %s id", place, word,
				 id, word);
	}
	if (!rc && id) {
		memcpy(location->region, id, SGPU_REGION_ID_TEXT);
	}
	return rc ? rc : sgpu_json_u64(json, place, "offset", &location->offset, error);
}

static int parse_failure(const json_t *segment, const char *where, struct sgpu_batch_segment *s,
			 struct sgpu_error *error)
{
	char place[SGPU_WHERE_MAX + 16];
	snprintf(place, sizeof(place), "%s/error", where);
	const json_t *json = json_object_get(segment, "error");
	if (!json_is_object(json)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: missing, or not an object", place);
	}
	const char *name = NULL;
	const int rc = sgpu_json_string(json, place, "code", &name, error);
	if (rc) {
		return rc;
	}
	s->status = sgpu_error_by_name(name);
	if (s->status == SGPU_OK ||
	    strcmp(name, sgpu_error_name(s->status))) { /* unknown names give EINVALID */
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s/code: '%.40s' is not the name of an error", place, name);
	}
	return copy_string(json, place, "text", &s->error_text, error);
}

static int parse_status(const json_t *json, const char *where, struct sgpu_batch_segment *s,
			struct sgpu_error *error)
{
	bool failed = false;
	const int rc = choose(json, where, "status", "OK", "FAILED", &failed, error);
	return rc || !failed ? rc : parse_failure(json, where, s, error);
}

static int parse_segment(const json_t *json, const char *where, bool response,
			 struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	static const char *const keys[] = { "segment_id",
					    "status",
					    "masking_level",
					    "size",
					    "actual_output_data_size_bytes",
					    "sealed_size",
					    "location",
					    "kt128",
					    "error",
					    NULL };
	bool masked = false;
	int rc = sgpu_json_only(json, where, keys, error);
	rc = rc ? rc : copy_string(json, where, "segment_id", &s->id, error);
	if (!rc) {
		rc = choose(json, where, "masking_level", "MASKING_NONE", "MASKING_AES_GCM",
			    &masked, error);
		s->masking = masked ? SGPU_MASKING_AES_GCM : SGPU_MASKING_NONE;
	}
	rc = rc		? rc
	     : response ? sgpu_json_u64(json, where, "actual_output_data_size_bytes",
					&s->actual_size, error)
			: sgpu_json_u64(json, where, "size", &s->size, error);
	if (!rc && json_object_get(json, "sealed_size")) {
		s->sealed = true;
		rc = sgpu_json_u64(json, where, "sealed_size", &s->sealed_size, error);
	}
	rc = rc ? rc : parse_location(json, where, &s->location, error);
	if (!rc && json_object_get(json, "kt128")) {
		s->has_kt128 = true;
		rc = sgpu_json_bytes(json, where, "kt128", s->kt128, sizeof(s->kt128), error);
	}
	if (!rc && response) {
		rc = parse_status(json, where, s, error);
	}
	return rc;
}

/* Parses one segment at a time: the JSON tree of all segments would take ten times the memory of
 * their text. */
static int parse_part(const struct sgpu_json_part *part, const char *where, size_t i, bool response,
		      struct sgpu_batch_segment *segment, struct sgpu_error *error)
{
	char place[SGPU_WHERE_MAX];
	json_t *json = NULL;
	struct sgpu_error fault = { 0 };
	snprintf(place, sizeof(place), "%s: /segments/%zu", where, i);
	int rc = sgpu_json_part_parse(part, NULL, &json, NULL, NULL, &fault);
	if (rc) {
		rc = sgpu_fail(error, rc, "%s: %s", place, fault.text);
	} else {
		rc = parse_segment(json, place, response, segment, error);
	}
	json_decref(json);
	return rc;
}

static int parse_segments(const json_t *index, const struct sgpu_json_list *list, const char *where,
			  struct sgpu_batch *batch, struct sgpu_error *error)
{
	if (!json_is_array(json_object_get(index, "segments"))) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: /segments is not an array of at most %d", where,
				 SGPU_MANIFEST_SEGMENTS_MAX);
	}
	batch->segments = calloc(list->count + 1, sizeof(*batch->segments));
	if (!batch->segments) {
		return sgpu_fail_nomem(error);
	}
	batch->segment_count = (int)list->count;
	int rc = 0;
	for (size_t i = 0; !rc && i < list->count; i++) {
		rc = parse_part(&list->parts[i], where, i, batch->response, &batch->segments[i],
				error);
	}
	return rc;
}

static int parse_constants(const json_t *index, const char *where, struct sgpu_error *error)
{
	uint64_t version = 0;
	int rc = sgpu_json_u64(index, where, "version", &version, error);
	if (!rc && version != SGPU_BATCH_VERSION) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: version %llu is not %d", where,
			       (unsigned long long)version, SGPU_BATCH_VERSION);
	}
	static const char *const names[] = { "alg", "aead" };
	static const char *const values[] = { SGPU_BATCH_ALG, SGPU_BATCH_AEAD };
	for (size_t i = 0; !rc && i < SGPU_ARRAY_LENGTH(names); i++) {
		const char *value = NULL;
		rc = sgpu_json_string(index, where, names[i], &value, error);
		if (!rc && strcmp(value, values[i])) {
			rc = sgpu_fail(error, SGPU_EINVALID, "%s: %s '%.64s' is not '%s'", where,
				       names[i], value, values[i]);
		}
	}
	return rc;
}

static int parse_authentication(const json_t *index, const char *where, struct sgpu_batch *batch,
				struct sgpu_error *error)
{
	/* sgpu_batch_check checks their form, and which of them need a MAC. */
	batch->recipients = json_incref(json_object_get(index, "recipients"));
	batch->signatures = json_incref(json_object_get(index, "signatures"));
	if (!json_object_get(index, "mac")) {
		return 0;
	}
	batch->has_mac = true;
	return sgpu_json_bytes(index, where, "mac", batch->mac, sizeof(batch->mac), error);
}

/* Parses the members that only a batch, or only a response, has. */
static int parse_kind(const json_t *index, const char *where, struct sgpu_batch *batch,
		      struct sgpu_error *error)
{
	if (!batch->response) {
		return sgpu_json_u64(index, where, "counter", &batch->counter, error);
	}
	batch->timings = json_incref(json_object_get(index, "timings"));
	return sgpu_json_bytes(index, where, "response_id", batch->response_id,
			       sizeof(batch->response_id), error);
}

static int parse_index(const json_t *index, const struct sgpu_json_list *list,
		       struct sgpu_batch *batch, struct sgpu_error *error)
{
	const char *where = batch->response ? "response.json" : "batch.json";
	int rc = json_is_object(index)
			 ? 0
			 : sgpu_fail(error, SGPU_EINVALID, "%s: not an object", where);
	rc = rc ? rc : parse_constants(index, where, error);
	rc = rc ? rc
		: sgpu_json_bytes(index, where, "batch_id", batch->id, sizeof(batch->id), error);
	rc = rc ? rc
		: sgpu_json_bytes(index, where, "manifest_sha256", batch->manifest_sha256,
				  sizeof(batch->manifest_sha256), error);
	rc = rc ? rc : parse_segments(index, list, where, batch, error);
	rc = rc ? rc : parse_kind(index, where, batch, error);
	return rc ? rc : parse_authentication(index, where, batch, error);
}

int sgpu_batch_parse(const char *text, size_t size, bool response, struct sgpu_batch **batch,
		     struct sgpu_error *error)
{
	const char *where = response ? "response.json" : "batch.json";
	struct sgpu_json_list list = { .key = "segments",
				       .count_max = SGPU_MANIFEST_SEGMENTS_MAX,
				       .part_max = SGPU_INDEX_SEGMENT_MAX };
	json_t *index = NULL;
	struct sgpu_batch *made = NULL;
	*batch = NULL;
	if (size > SGPU_INDEX_SIZE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is larger than %d bytes", where,
				 SGPU_INDEX_SIZE_MAX);
	}
	struct sgpu_error fault = { 0 };
	int rc = sgpu_json_split(text, size, &list, 1, SGPU_INDEX_FRAME_MAX, &index, NULL, NULL,
				 &fault);
	if (rc) {
		rc = sgpu_fail(error, rc, "%s: %s", where, fault.text);
		goto out;
	}
	made = calloc(1, sizeof(*made));
	if (!made) {
		rc = sgpu_fail_nomem(error);
		goto out;
	}
	made->response = response;
	rc = parse_index(index, &list, made, error);
	rc = rc ? rc : sgpu_batch_check(made, error);
	rc = rc ? rc : sgpu_batch_check_form(made, text, size, error);
	rc = rc ? rc : sgpu_batch_sort(made, &made->by_id, error);
	if (rc) {
		goto out;
	}
	*batch = made;
	made = NULL;
out:
	sgpu_batch_free(&made);
	json_decref(index);
	sgpu_json_lists_clear(&list, 1);
	return rc;
}
