/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner's note: where the outputs go on the owner's side and in which format, which is no
 * business of the host or the runner. It is sealed in a sealed batch, comes back with the response
 * as it is, and is JSON: {"version", "outputs": [{"segment_id", "path", "file"}]}, in the order of
 * the manifest.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "batch/batch.h"
#include "crypto/crypto.h"
#include "index.h"
#include "manifest/manifest.h"

static const char where[] = "note";

/* ---- writing ---- */
static bool has_path(const struct sgpu_segment *s)
{
	return sgpu_segment_is_output(s) && s->location && strcmp(s->location, "-") != 0 &&
	       strcmp(s->location, s->id) != 0;
}

int sgpu_batch_make_note(struct sgpu_batch *batch, const struct sgpu_manifest *manifest,
			 json_t *const *files, struct sgpu_error *error)
{
	json_t *outputs = json_array(),
	       *json = json_pack("{s:i, s:o}", "version", SGPU_BATCH_VERSION, "outputs", outputs);
	int rc = json ? 0 : sgpu_fail_nomem(error);

	free(batch->note);
	batch->note = NULL;
	batch->note_size = 0;
	for (int i = 0; !rc && i < manifest->segment_count; i++) {
		const struct sgpu_segment *s = &manifest->segments[i];
		json_t *file = files ? files[i] : NULL;

		if ((has_path(s) || file) &&
		    json_array_append_new(outputs,
					  json_pack("{s:s, s:s*, s:O*}", "segment_id", s->id,
						    "path", has_path(s) ? s->location : NULL,
						    "file", file)) != 0) {
			rc = sgpu_fail_nomem(error);
		}
	}
	if (!rc && json_array_size(outputs) > 0) {
		rc = sgpu_json_canonical(json, &batch->note, &batch->note_size, error);
	}
	json_decref(json);
	return rc || batch->note_size <= SGPU_NOTE_MAX
		       ? rc
		       : sgpu_fail(error, SGPU_EINVALID,
				   "the paths and headers of the outputs have more than %d bytes",
				   SGPU_NOTE_MAX);
}

/* ---- sealing ---- */
enum { CONTEXT_SIZE = sizeof("sgpu v2 note") + SGPU_BATCH_ID_SIZE };

static int note_key(const struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
		    uint8_t key[SGPU_KEY_SIZE], uint8_t context[CONTEXT_SIZE],
		    struct sgpu_error *error)
{
	static const char label[] = "sgpu v2 note"; /* in the context with its NUL */

	memcpy(mempcpy(context, label, sizeof(label)), batch->id, sizeof(batch->id));
	return sgpu_hkdf_sha256(batch_key, SGPU_KEY_SIZE, batch->id, sizeof(batch->id), label,
				sizeof(label) - 1, key, SGPU_KEY_SIZE, error);
}

int sgpu_batch_seal_note(struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
			 struct sgpu_error *error)
{
	uint8_t key[SGPU_KEY_SIZE], context[CONTEXT_SIZE], *sealed = NULL;
	uint64_t size = 0;
	int rc;

	if (!batch->note) {
		return 0;
	}
	if (!sgpu_sealed_size(batch->note_size, &size) || !(sealed = malloc(size))) {
		return sgpu_fail_nomem(error);
	}
	rc = note_key(batch, batch_key, key, context, error);
	rc = rc ? rc
		: sgpu_seal_memory(key, context, sizeof(context), batch->note, batch->note_size,
				   sealed, error);
	sgpu_wipe(key, sizeof(key));
	free(rc ? (char *)sealed : batch->note);
	if (!rc) {
		batch->note = (char *)sealed;
		batch->note_size = size;
	}
	return rc;
}

/* Opens the note. *text: from malloc. batch_key NULL: it is not sealed. */
static int open_note(const struct sgpu_batch *batch, const uint8_t *batch_key, char **text,
		     uint64_t *size, struct sgpu_error *error)
{
	uint8_t key[SGPU_KEY_SIZE], context[CONTEXT_SIZE];
	int rc;

	*size = batch->note_size;
	if (batch_key && !sgpu_sealed_plaintext_size(batch->note_size, size)) {
		return sgpu_fail(error, SGPU_EAUTH, "the note is not sealed");
	}
	*text = malloc(*size + 1);
	if (!*text) {
		return sgpu_fail_nomem(error);
	}
	if (!batch_key) {
		memcpy(*text, batch->note, *size);
		return 0;
	}
	rc = note_key(batch, batch_key, key, context, error);
	rc = rc ? rc
		: sgpu_open_memory(key, context, sizeof(context), (uint8_t *)batch->note,
				   batch->note_size, *text, error);
	sgpu_wipe(key, sizeof(key));
	return rc == SGPU_EKEY || rc == SGPU_EAUTH
		       ? sgpu_fail(error, SGPU_EAUTH, "the note does not open: it was altered")
		       : rc;
}

/* ---- reading ---- */
static int take_output(const struct sgpu_list *list, char **path, json_t **file,
		       struct sgpu_error *error)
{
	const int segment = list->segment;
	char normal[SGPU_LOCATION_MAX + 1];
	const char *id = NULL, *text = NULL;
	bool has_path = false;
	const struct sgpu_field fields[] = { { "segment_id", SGPU_FIELD_TEXT, .to = &id },
					     { "path", SGPU_FIELD_TEXT, &text, 0, &has_path },
					     { "file", SGPU_FIELD_JSON, .to = &file[segment] } };
	int rc = sgpu_fields_read(list->entry, list->place, fields, SGPU_ARRAY_LENGTH(fields),
				  error);

	json_incref(file[segment]);
	if (!rc && !has_path && !file[segment]) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: neither 'path' nor 'file' is there",
			       list->place);
	}
	if (rc || !has_path) {
		return rc;
	}
	if (sgpu_has_control(text) || !sgpu_location_normal(text, normal) || !*normal) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "%s: the path leads out of its directory, or is none",
				 list->place);
	}
	path[segment] = strdup(normal);
	return path[segment] ? 0 : sgpu_fail_nomem(error);
}

static int read_note(const struct sgpu_batch *batch, const char *text, size_t size, char **paths,
		     json_t **files, struct sgpu_error *error)
{
	uint64_t version = 0;
	json_t *outputs;
	const struct sgpu_field fields[] = { { "version", SGPU_FIELD_NUMBER, .to = &version },
					     { "outputs", SGPU_FIELD_JSON, .to = &outputs } };
	struct sgpu_list list = { .where = where, .entries.key = "outputs", .batch = batch };
	int rc = sgpu_list_open(&list, text, size, fields, SGPU_ARRAY_LENGTH(fields), error);

	if (!rc && version != SGPU_BATCH_VERSION) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: not of version %d", where,
			       SGPU_BATCH_VERSION);
	}
	while (sgpu_list_next(&list, &rc, error)) {
		rc = take_output(&list, paths, files, error);
	}
	sgpu_list_close(&list);
	return rc;
}

/* Sorts "a/b" before "a-b", so that what lies below a path follows it at once. */
static int compare_paths(const void *one, const void *other)
{
	const unsigned char *a = *(const unsigned char *const *)one,
			    *b = *(const unsigned char *const *)other;

	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (*a == '/' ? 1 : *a ? *a + 1 : 0) - (*b == '/' ? 1 : *b ? *b + 1 : 0);
}

/* No two outputs may have one path, and none may need the path of another as a directory. */
static int check_paths(char *const *paths, int count, struct sgpu_error *error)
{
	char **sorted = malloc(((size_t)count + 1) * sizeof(*sorted));
	int rc = sorted ? 0 : sgpu_fail_nomem(error);

	if (sorted) {
		memcpy(sorted, paths, (size_t)count * sizeof(*sorted));
		qsort(sorted, (size_t)count, sizeof(*sorted), compare_paths);
	}
	for (int i = 1; !rc && i < count; i++) {
		const size_t length = strlen(sorted[i - 1]);

		if (strncmp(sorted[i], sorted[i - 1], length) == 0 &&
		    (sorted[i][length] == '\0' || sorted[i][length] == '/')) {
			rc = sgpu_fail(error, SGPU_EPOLICY,
				       "two outputs go to '%s', or one below the other",
				       sorted[i - 1]);
		}
	}
	free(sorted);
	return rc;
}

int sgpu_batch_paths(const struct sgpu_batch *batch, const uint8_t *batch_key, char **paths,
		     json_t **files, struct sgpu_error *error)
{
	char *text = NULL;
	uint64_t size = 0;
	int rc = batch->note ? open_note(batch, batch_key, &text, &size, error) : 0;

	rc = rc || !text ? rc : read_note(batch, text, size, paths, files, error);
	free(text);
	for (int i = 0; !rc && i < batch->segment_count; i++) {
		if (!paths[i]) {
			paths[i] = strdup(batch->segments[i].id);
			rc = paths[i] ? 0 : sgpu_fail_nomem(error);
		}
	}
	return rc ? rc : check_paths(paths, batch->segment_count, error);
}
