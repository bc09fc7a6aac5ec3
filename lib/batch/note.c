/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner's note: where the outputs go on the owner's side, which is no business of the host or
 * the runner. It travels sealed in a sealed batch, comes back with the response as it is, and is
 * JSON: {"version", "outputs": [{"segment_id", "path"}]}, in the order of the manifest.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "batch/batch.h"
#include "crypto/crypto.h"
#include "index.h"

static const char where[] = "note";

/* ---- writing ---- */
struct outputs {
	const struct sgpu_manifest *manifest;
	int next; /* segment */
};

static bool has_path(const struct sgpu_segment *s)
{
	return sgpu_segment_is_output(s) && s->location && strcmp(s->location, "-") != 0 &&
	       strcmp(s->location, s->id) != 0;
}

static json_t *output_json(void *argument, size_t number)
{
	struct outputs *outputs = argument;
	const struct sgpu_segment *s;

	(void)number; /* outputs are asked for in order */
	while (!has_path(&outputs->manifest->segments[outputs->next])) {
		outputs->next++;
	}
	s = &outputs->manifest->segments[outputs->next++];
	return json_pack("{s:s, s:s}", "segment_id", s->id, "path", s->location);
}

int sgpu_batch_make_note(struct sgpu_batch *batch, const struct sgpu_manifest *manifest,
			 struct sgpu_error *error)
{
	struct outputs outputs = { .manifest = manifest };
	struct sgpu_json_items list = { "outputs", 0, output_json, &outputs };
	json_t *json;
	int rc;

	for (int i = 0; i < manifest->segment_count; i++) {
		list.count += has_path(&manifest->segments[i]);
	}
	if (list.count == 0) {
		return 0;
	}
	json = json_pack("{s:i, s:[]}", "version", SGPU_BATCH_VERSION, "outputs");
	rc = json ? sgpu_json_canonical_items(json, &list, 1, &batch->note, &batch->note_size,
					      error)
		  : sgpu_fail_nomem(error);
	json_decref(json);
	if (!rc && batch->note_size > SGPU_NOTE_MAX) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the outputs' paths are longer together than %d bytes",
			       SGPU_NOTE_MAX);
	}
	return rc;
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
		: sgpu_seal_memory(key, context, sizeof(context), NULL, batch->note,
				   batch->note_size, sealed, error);
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
static bool has_control(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f) {
			return true;
		}
	}
	return false;
}

static int take_path(const struct sgpu_json_part *part, size_t number,
		     const struct sgpu_batch *batch, int *next, char **paths,
		     struct sgpu_error *error)
{
	static const char *const members[] = { "segment_id", "path", NULL };
	char place[SGPU_WHERE_MAX], normal[SGPU_LOCATION_MAX + 1];
	const char *id = NULL, *path = NULL;
	struct sgpu_error fault = { 0 };
	json_t *json = NULL;

	snprintf(place, sizeof(place), "%s: /outputs/%zu", where, number);
	int rc = sgpu_json_part_parse(part, NULL, &json, NULL, NULL, &fault);
	rc = rc ? sgpu_fail(error, rc, "%s: %s", place, fault.text)
		: sgpu_json_only(json, place, members, error);
	rc = rc ? rc : sgpu_json_string(json, place, "segment_id", &id, error);
	rc = rc ? rc : sgpu_json_string(json, place, "path", &path, error);
	const int segment = rc ? -1 : sgpu_batch_segment(batch, id);
	if (!rc && segment < *next) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       segment < 0 ? "%s: '%.100s' is not in the index"
					   : "%s: '%.100s' is not in the order of the index",
			       place, id);
	}
	if (!rc && (has_control(path) || !sgpu_location_normal(path, normal) || !*normal)) {
		rc = sgpu_fail(error, SGPU_EPOLICY,
			       "%s: the path leads out of its directory, or "
			       "is none",
			       place);
	}
	if (!rc) {
		paths[segment] = strdup(normal);
		rc = paths[segment] ? 0 : sgpu_fail_nomem(error);
		*next = segment + 1;
	}
	json_decref(json);
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

static int parse_note(const char *text, size_t size, const struct sgpu_batch *batch, char **paths,
		      struct sgpu_error *error)
{
	static const char *const members[] = { "version", "outputs", NULL };
	struct sgpu_json_list list = { .key = "outputs", .count_max = SGPU_MANIFEST_SEGMENTS_MAX };
	struct sgpu_error fault = { 0 };
	uint64_t version = 0;
	json_t *json = NULL;
	int next = 0;
	int rc = sgpu_json_split(text, size, &list, 1, SGPU_INDEX_FRAME_MAX, &json, NULL, NULL,
				 &fault);

	rc = rc ? sgpu_fail(error, rc, "%s: %s", where, fault.text)
		: sgpu_json_only(json, where, members, error);
	rc = rc ? rc : sgpu_json_u64(json, where, "version", &version, error);
	if (!rc &&
	    (version != SGPU_BATCH_VERSION || !json_is_array(json_object_get(json, "outputs")))) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "%s: not of version %d, or /outputs is not an array", where,
			       SGPU_BATCH_VERSION);
	}
	for (size_t i = 0; !rc && i < list.count; i++) {
		rc = take_path(&list.parts[i], i, batch, &next, paths, error);
	}
	json_decref(json);
	sgpu_json_lists_clear(&list, 1);
	return rc;
}

int sgpu_batch_paths(const struct sgpu_batch *batch, const uint8_t *batch_key, char **paths,
		     struct sgpu_error *error)
{
	char *text = NULL;
	uint64_t size = 0;
	int rc = batch->note ? open_note(batch, batch_key, &text, &size, error) : 0;

	rc = rc || !text ? rc : parse_note(text, size, batch, paths, error);
	free(text);
	for (int i = 0; !rc && i < batch->segment_count; i++) {
		if (!paths[i]) {
			paths[i] = strdup(batch->segments[i].id);
			rc = paths[i] ? 0 : sgpu_fail_nomem(error);
		}
	}
	return rc ? rc : check_paths(paths, batch->segment_count, error);
}
