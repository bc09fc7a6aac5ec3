/* SPDX-License-Identifier: Apache-2.0
 *
 * The index, batch.json or response.json: its rules that need no manifest, its parser, and its
 * writer. Its digest is in seal.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "index.h"
#include "manifest/manifest.h"

/* ---- rules that need no manifest ---- */
/* Checks the members that say how a payload is sealed, if it is. */
static int check_masking(const struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	uint64_t sealed_size = 0;
	const bool masked = s->masking == SGPU_MASKING_AES_GCM;

	if (s->size >= SGPU_JSON_INTEGER_MAX ||
	    (masked && !sgpu_sealed_size(s->size, &sealed_size))) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is too large", error);
	}
	if (s->sealed && (!masked || s->sealed_size != sealed_size)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "segment '%s': the sealed size %llu does not belong to size %llu",
				 s->id, (unsigned long long)s->sealed_size,
				 (unsigned long long)s->size);
	}
	if (masked && s->has_kt128) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is MASKING_AES_GCM and has a kt128",
					 error);
	}
	return 0;
}

static int check_output(const struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	const bool masked = s->masking == SGPU_MASKING_AES_GCM;

	if (s->status == SGPU_OK) {
		return (masked ? s->sealed : s->has_kt128)
			       ? 0
			       : sgpu_segment_fail(s, masked ? SGPU_EPOLICY : SGPU_EINVALID,
						   " has neither a sealed_size nor a kt128", error);
	}
	if (strlen(s->error_text) >= SGPU_ERROR_TEXT_MAX) {
		return sgpu_segment_fail(s, SGPU_EINVALID, ": the error's text is too long", error);
	}
	return s->sealed || s->has_kt128 || s->size
		       ? sgpu_segment_fail(s, SGPU_EINVALID, " has failed and has a payload", error)
		       : 0;
}

static int check_segment(const struct sgpu_batch *batch, const struct sgpu_batch_segment *s,
			 struct sgpu_error *error)
{
	const size_t id_length = sgpu_id_length(s->id);

	if (!id_length || id_length > SGPU_ID_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%.100s' is not a segment id", s->id);
	}
	int rc = check_masking(s, error);
	rc = rc || !batch->response ? rc : check_output(s, error);
	if (!rc && s->sealed && !batch->recipients) {
		rc = sgpu_segment_fail(s, SGPU_EINVALID,
				       " is sealed, and seal.json has no recipients", error);
	}
	return rc;
}

static int check_timings(json_t *timings, struct sgpu_error *error)
{
	const char *key = NULL;
	json_t *value = NULL;
	json_object_foreach (timings, key, value) {
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

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No id may be there twice. */
static int check_ids(const struct sgpu_batch *batch, struct sgpu_error *error)
{
	const size_t count = (size_t)batch->segment_count;
	const char **ids = malloc((count + 1) * sizeof(*ids));
	int rc = ids ? SGPU_OK : sgpu_fail_nomem(error);

	for (size_t i = 0; ids && i < count; i++) {
		ids[i] = batch->segments[i].id;
	}
	if (ids) {
		qsort(ids, count, sizeof(*ids), compare_ids);
	}
	for (size_t i = 1; !rc && i < count; i++) {
		if (strcmp(ids[i - 1], ids[i]) == 0) {
			rc = sgpu_fail(error, SGPU_EINVALID, "segment '%s' is there twice", ids[i]);
		}
	}
	free(ids);
	return rc;
}

static const char *status_of(const struct sgpu_batch *batch)
{
	int failed = 0;

	for (int i = 0; i < batch->segment_count; i++) {
		failed += batch->segments[i].status != SGPU_OK;
	}
	return failed == 0 ? "OK" : failed < batch->segment_count ? "SOME_FAILED" : "ALL_FAILED";
}

/* ---- reading ---- */
/* Whether a text is `yes`; it must be `no` or `yes`. */
static int choose(const char *value, const char *where, const char *key, const char *no,
		  const char *yes, bool *chosen, struct sgpu_error *error)
{
	*chosen = !strcmp(value, yes);
	return *chosen || !strcmp(value, no)
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID, "%s/%s: '%.64s' is not one of %s, %s",
				   where, key, value, no, yes);
}

static int parse_status(const char *status, const json_t *failure, const char *where,
			struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	const char *name = NULL, *text = NULL;
	const struct sgpu_field fields[] = { { "code", SGPU_FIELD_TEXT, .to = &name },
					     { "text", SGPU_FIELD_TEXT, .to = &text } };
	char place[SGPU_WHERE_MAX + 16];
	bool failed = false;
	int rc = choose(status, where, "status", "OK", "FAILED", &failed, error);

	if (!rc && !failed && failure) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: OK, and has an error", where);
	}
	if (rc || !failed) {
		return rc;
	}
	snprintf(place, sizeof(place), "%s/error", where);
	rc = sgpu_fields_read(failure, place, fields, SGPU_ARRAY_LENGTH(fields), error);
	if (rc) {
		return rc;
	}
	s->status = sgpu_error_by_name(name);
	if (s->status == SGPU_OK ||
	    strcmp(name, sgpu_error_name(s->status))) { /* unknown names give EINVALID */
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s/code: '%.40s' is not the name of an error", place, name);
	}
	s->error_text = strdup(text);
	return s->error_text ? 0 : sgpu_fail_nomem(error);
}

static int parse_segment(const json_t *json, const char *where, bool response,
			 struct sgpu_batch_segment *s, struct sgpu_error *error)
{
	const char *id = NULL, *masking = NULL, *status = NULL;
	json_t *failure = NULL;
	bool has_header = false, masked = false;
	const struct sgpu_field fields[] = {
		/* only of a batch */
		{ "size", SGPU_FIELD_NUMBER, .to = &s->size },
		{ "header", SGPU_FIELD_BYTES, s->header, sizeof(s->header), &has_header },
		/* of both */
		{ "segment_id", SGPU_FIELD_TEXT, .to = &id },
		{ "masking_level", SGPU_FIELD_TEXT, .to = &masking },
		{ "sealed_size", SGPU_FIELD_NUMBER, &s->sealed_size, 0, &s->sealed },
		{ "kt128", SGPU_FIELD_BYTES, s->kt128, sizeof(s->kt128), &s->has_kt128 },
		/* only of a response */
		{ "status", SGPU_FIELD_TEXT, .to = &status },
		{ "actual_output_data_size_bytes", SGPU_FIELD_NUMBER, .to = &s->size },
		{ "error", SGPU_FIELD_JSON, .to = &failure },
	};
	int rc = response ? sgpu_fields_read(json, where, fields + 2, 7, error)
			  : sgpu_fields_read(json, where, fields, 6, error);

	rc = rc ? rc
		: choose(masking, where, "masking_level", "MASKING_NONE", "MASKING_AES_GCM",
			 &masked, error);
	s->masking = masked ? SGPU_MASKING_AES_GCM : SGPU_MASKING_NONE;
	if (!rc && !response && has_header != s->sealed) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "%s: 'header' and 'sealed_size' are not there together", where);
	}
	rc = rc || !response ? rc : parse_status(status, failure, where, s, error);
	if (rc) {
		return rc;
	}
	s->id = strdup(id);
	return s->id ? 0 : sgpu_fail_nomem(error);
}

/* Reads all but the segments. */
static int parse_frame(const char *text, size_t size, struct sgpu_batch *batch,
		       struct sgpu_list *list, const char **status, struct sgpu_error *error)
{
	const char *alg = NULL, *aead = NULL;
	json_t *segments, *timings = NULL;
	const struct sgpu_field fields[] = {
		/* only of a batch */
		SGPU_BYTES("manifest_sha256", batch->manifest_sha256),
		/* of both */
		{ "alg", SGPU_FIELD_TEXT, .to = &alg },
		{ "aead", SGPU_FIELD_TEXT, .to = &aead },
		{ "segments", SGPU_FIELD_JSON, .to = &segments },
		{ "note_sha256", SGPU_FIELD_BYTES, batch->note_sha256, SGPU_SHA256_SIZE,
		  &batch->has_note },
		/* only of a response */
		{ "batch_status", SGPU_FIELD_TEXT, .to = status },
		{ "timings", SGPU_FIELD_JSON, .to = &timings },
	};
	int rc = batch->response ? sgpu_list_open(list, text, size, fields + 1, 6, error)
				 : sgpu_list_open(list, text, size, fields, 5, error);

	batch->timings = json_incref(timings);
	if (!rc && (strcmp(alg, SGPU_BATCH_ALG) || strcmp(aead, SGPU_BATCH_AEAD))) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "%s: alg '%.64s' and aead '%.64s' are not '%s' and '%s'",
			       list->where, alg, aead, SGPU_BATCH_ALG, SGPU_BATCH_AEAD);
	}
	return rc;
}

int sgpu_index_parse(const char *text, size_t size, struct sgpu_batch *batch,
		     struct sgpu_error *error)
{
	struct sgpu_list list = { .where = sgpu_index_name(batch), .entries.key = "segments" };
	const char *status = NULL;
	int rc = parse_frame(text, size, batch, &list, &status, error);

	batch->segments = calloc(list.entries.count + 1, sizeof(*batch->segments));
	rc = rc || batch->segments ? rc : sgpu_fail_nomem(error);
	while (sgpu_list_next(&list, &rc, error)) {
		struct sgpu_batch_segment *s = &batch->segments[batch->segment_count++];

		rc = parse_segment(list.entry, list.place, batch->response, s, error);
		rc = rc ? rc : check_segment(batch, s, error);
	}
	if (!rc && batch->response && strcmp(status, status_of(batch)) != 0) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: batch_status is '%.40s', and not '%s'",
			       list.where, status, status_of(batch));
	}
	sgpu_list_close(&list);
	rc = rc || !batch->timings ? rc : check_timings(batch->timings, error);
	return rc ? rc : check_ids(batch, error);
}

/* ---- writing ---- */
/* A member for which memory runs out is left out: readers refuse an index without it. */
json_t *sgpu_segment_json(const struct sgpu_batch_segment *s, bool response)
{
	const bool failed = s->status != SGPU_OK;
	json_t *failure = failed ? json_pack("{s:s, s:s}", "code", sgpu_error_name(s->status),
					     "text", s->error_text)
				 : NULL;

	if (failed && !failure) {
		return NULL;
	}
	return json_pack("{s:s, s:s, s:I, s:s*, s:o*, s:o*, s:o*, s:o*}", "segment_id", s->id,
			 "masking_level",
			 s->masking == SGPU_MASKING_AES_GCM ? "MASKING_AES_GCM" : "MASKING_NONE",
			 response ? "actual_output_data_size_bytes" : "size", (json_int_t)s->size,
			 "status",
			 !response ? NULL
			 : failed  ? "FAILED"
				   : "OK",
			 "error", failure, "sealed_size",
			 s->sealed ? json_integer((json_int_t)s->sealed_size) : NULL, "header",
			 sgpu_bytes_json(s->sealed && !response, s->header, sizeof(s->header)),
			 "kt128", sgpu_bytes_json(s->has_kt128, s->kt128, sizeof(s->kt128)));
}

int sgpu_index_text(const struct sgpu_batch *batch, char **text, size_t *size,
		    struct sgpu_error *error)
{
	json_t *segments = json_array();
	json_t *index = json_pack(
		"{s:s, s:s, s:o, s:s*, s:O*, s:o*, s:o*}", "alg", SGPU_BATCH_ALG, "aead",
		SGPU_BATCH_AEAD, "segments", segments, "batch_status",
		batch->response ? status_of(batch) : NULL, "timings", batch->timings,
		"manifest_sha256",
		sgpu_bytes_json(!batch->response, batch->manifest_sha256, SGPU_SHA256_SIZE),
		"note_sha256",
		sgpu_bytes_json(batch->has_note, batch->note_sha256, SGPU_SHA256_SIZE));
	int rc = index ? SGPU_OK : SGPU_ENOMEM;

	for (int i = 0; !rc && i < batch->segment_count; i++) {
		json_t *segment = sgpu_segment_json(&batch->segments[i], batch->response);

		rc = json_array_append_new(segments, segment) ? SGPU_ENOMEM : SGPU_OK;
	}
	rc = rc ? rc : sgpu_json_canonical(index, text, size, error);
	json_decref(index);
	if (rc == SGPU_ENOMEM) {
		return sgpu_fail_nomem(error);
	}
	if (!rc && *size > SGPU_INDEX_SIZE_MAX) {
		free(*text);
		*text = NULL;
		rc = sgpu_fail(error, SGPU_EINVALID, "the index is larger than %d bytes",
			       SGPU_INDEX_SIZE_MAX);
	}
	return rc;
}
