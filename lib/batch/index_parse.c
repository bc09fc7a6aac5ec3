/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses an index, batch.json or response.json, whose digest seal.json names. Members that do not
 * belong there are refused.
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

static int parse_failure(const json_t *segment, const char *where, struct sgpu_batch_segment *s,
			 struct sgpu_error *error)
{
	char place[SGPU_WHERE_MAX + 16];
	snprintf(place, sizeof(place), "%s/error", where);
	static const char *const members[] = { "code", "text", NULL };
	const json_t *json = json_object_get(segment, "error");
	const char *name = NULL;
	int rc = sgpu_json_only(json, place, members, error);
	rc = rc ? rc : sgpu_json_string(json, place, "code", &name, error);
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
	if (rc || failed) {
		return rc ? rc : parse_failure(json, where, s, error);
	}
	return json_object_get(json, "error")
		       ? sgpu_fail(error, SGPU_EINVALID, "%s: OK, and has an error", where)
		       : 0;
}

static int parse_segment(const json_t *json, const char *where, bool response,
			 struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	static const char *const of_batch[] = { "segment_id",  "masking_level", "size",
						"sealed_size", "header",	"kt128",
						NULL };
	static const char *const of_response[] = { "segment_id",    "status",
						   "masking_level", "actual_output_data_size_bytes",
						   "sealed_size",   "kt128",
						   "error",	    NULL };
	bool masked = false;
	int rc = sgpu_json_only(json, where, response ? of_response : of_batch, error);
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
	if (!rc && !response && s->sealed) {
		rc = sgpu_json_bytes(json, where, "header", s->header, sizeof(s->header), error);
	} else if (!rc && json_object_get(json, "header")) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: a header, and no sealed_size", where);
	}
	if (!rc && json_object_get(json, "kt128")) {
		s->has_kt128 = true;
		rc = sgpu_json_bytes(json, where, "kt128", s->kt128, sizeof(s->kt128), error);
	}
	if (!rc && response) {
		rc = parse_status(json, where, s, error);
	}
	return rc;
}

static int parse_constants(const json_t *index, const char *where, struct sgpu_error *error)
{
	static const char *const names[] = { "alg", "aead" };
	static const char *const values[] = { SGPU_BATCH_ALG, SGPU_BATCH_AEAD };
	int rc = 0;
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

struct reading {
	const char *where;
	struct sgpu_batch *batch;
	json_t *index; /* without its segments */
};

static int take_frame(void *argument, const json_t *index, size_t count, struct sgpu_error *error)
{
	struct reading *reading = argument;
	struct sgpu_batch *batch = reading->batch;
	const char *where = reading->where;
	int rc = parse_constants(index, where, error);

	batch->has_note = json_object_get(index, "note_sha256") != NULL;
	if (!rc && batch->has_note) {
		rc = sgpu_json_bytes(index, where, "note_sha256", batch->note_sha256,
				     sizeof(batch->note_sha256), error);
	}
	if (!rc && !batch->response) {
		rc = sgpu_json_bytes(index, where, "manifest_sha256", batch->manifest_sha256,
				     sizeof(batch->manifest_sha256), error);
	}
	batch->timings = json_incref(json_object_get(index, "timings"));
	reading->index = json_incref((json_t *)(uintptr_t)index);
	batch->segments = rc ? NULL : calloc(count + 1, sizeof(*batch->segments));
	if (!rc && !batch->segments) {
		return sgpu_fail_nomem(error);
	}
	batch->segment_count = rc ? 0 : (int)count;
	return rc;
}

static int take_segment(void *argument, const json_t *entry, size_t number, const char *place,
			struct sgpu_error *error)
{
	struct sgpu_batch *batch = ((struct reading *)argument)->batch;

	return parse_segment(entry, place, batch->response, &batch->segments[number], error);
}

static int check_status(const struct reading *reading, struct sgpu_error *error)
{
	const char *wanted = sgpu_batch_status(reading->batch), *status = NULL;
	int rc = sgpu_json_string(reading->index, reading->where, "batch_status", &status, error);

	return rc || !strcmp(status, wanted)
		       ? rc
		       : sgpu_fail(error, SGPU_EINVALID,
				   "%s: batch_status is '%.40s', and not '%s'", reading->where,
				   status, wanted);
}

int sgpu_index_parse(const char *text, size_t size, struct sgpu_batch *batch,
		     struct sgpu_error *error)
{
	static const char *const of_batch[] = { "manifest_sha256", "note_sha256", "alg", "aead",
						"segments",	   NULL };
	static const char *const of_response[] = { "note_sha256", "alg",     "aead", "batch_status",
						   "segments",	  "timings", NULL };
	struct reading reading = { sgpu_index_name(batch), batch, NULL };
	const struct sgpu_list_form form = { reading.where, "segments",
					     batch->response ? of_response : of_batch, take_frame,
					     take_segment };
	int rc = sgpu_list_parse(&form, text, size, &reading, error);

	rc = rc || !batch->response ? rc : check_status(&reading, error);
	rc = rc ? rc : sgpu_batch_check(batch, error);
	rc = rc ? rc : sgpu_batch_sort(batch, &batch->by_id, error);
	json_decref(reading.index);
	return rc;
}
