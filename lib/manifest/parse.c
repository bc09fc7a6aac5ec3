/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a manifest from text: reads the top level, and calls the other files in order.
 */
#include <stdlib.h>

#include <openssl/evp.h>

#include "base/base.h"
#include "manifest/reader.h"

enum {
	TOP_VERSION,
	TOP_ID,
	TOP_SEGMENTS,
	TOP_OPERATIONS,
	TOP_REQUIRED,
	TOP_ON_FAILURE = TOP_REQUIRED,
	TOP_FIELDS
};
static const char *const top_fields[TOP_FIELDS + 1] = { "version",    "manifest_id", "segments",
							"operations", "on_failure",  NULL };

static const char *const on_failure[] = { "segments", "all", NULL };

static void read_version(struct sgpu_reader *reader, const json_t *value)
{
	if (value &&
	    (!json_is_integer(value) || json_integer_value(value) != SGPU_MANIFEST_VERSION)) {
		sgpu_reader_refuse(reader, "version", NULL, value,
				   "is not a version that this program knows: %d",
				   (int)SGPU_MANIFEST_VERSION);
	}
}

static void read_manifest_id(struct sgpu_reader *reader, const json_t *value)
{
	const char *id = sgpu_reader_string(reader, "manifest_id", value);
	size_t length = 0;

	if (!id) {
		return;
	}
	while (id[length] >= 0x20 && id[length] < 0x7f) {
		length++;
	}
	if (!length || id[length] || length > SGPU_MANIFEST_ID_MAX) {
		sgpu_reader_report(reader, "manifest_id", NULL,
				   "a manifest_id is 1 to %d characters of printable ASCII",
				   (int)SGPU_MANIFEST_ID_MAX);
		return;
	}
	reader->manifest->id = sgpu_reader_keep(reader, id);
}

static void read_array(struct sgpu_reader *reader, int list, json_t *value, int *count)
{
	const char *field = reader->lists[list].key;

	*count = 0;
	if (!value) {
		return;
	}
	if (!json_is_array(value)) {
		sgpu_reader_refuse(reader, field, NULL, value, "is not an array");
		return;
	}
	if (!reader->lists[list].count) {
		sgpu_reader_report(reader, field, NULL, "the array is empty");
	}
	*count = (int)reader->lists[list].count;
}

/* First pass over an array: collects the ids, which the second pass looks up. */
static json_t *read_ids(struct sgpu_reader *reader, int list, int count, const char *field,
			const json_t *others)
{
	struct sgpu_json_list entries = reader->lists[list];
	json_t *ids = json_object();

	for (int i = 0; i < count && ids; i++) {
		json_t *entry = sgpu_reader_take(reader, &entries, i);
		const char *id;

		sgpu_reader_at(reader, list, i);
		id = sgpu_reader_id(reader, field, json_object_get(entry, field));
		if (id && json_object_get(ids, id)) {
			sgpu_reader_report(reader, field, NULL, "'%s' is the id of /%s/%d already",
					   id, entries.key, sgpu_ids_index(ids, id));
			id = NULL;
		}
		if (id && json_object_get(others, id)) {
			sgpu_reader_report(reader, field, NULL,
					   "'%s' is the id of a segment already", id);
		}
		if (id && json_object_set_new_nocheck(ids, id, json_integer(i)) < 0) {
			reader->no_memory = true;
		}
		json_decref(entry);
	}
	reader->no_memory |= !ids;
	return ids;
}

static void read_entries(struct sgpu_reader *reader, int list, int count,
			 void (*read)(struct sgpu_reader *reader, int index, json_t *entry))
{
	struct sgpu_json_list entries = reader->lists[list];

	for (int i = 0; i < count && !reader->no_memory; i++) {
		json_t *entry = sgpu_reader_take(reader, &entries, i);

		if (entry) {
			sgpu_reader_at(reader, list, i);
			read(reader, i, entry);
		}
		json_decref(entry);
	}
}

static bool allocate(struct sgpu_reader *reader)
{
	struct sgpu_manifest *manifest = reader->manifest;

	reader->unsure = calloc((size_t)manifest->segment_count + 1, sizeof(*reader->unsure));
	manifest->segments =
		calloc((size_t)manifest->segment_count + 1, sizeof(*manifest->segments));
	manifest->operations =
		calloc((size_t)manifest->operation_count + 1, sizeof(*manifest->operations));
	if (!reader->unsure || !manifest->segments || !manifest->operations) {
		return false;
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		manifest->segments[i].operation = -1;
		manifest->segments[i].writer = -1;
	}
	return true;
}

static void read_document(struct sgpu_reader *reader)
{
	struct sgpu_manifest *manifest = reader->manifest;
	json_t *values[TOP_FIELDS];

	if (!sgpu_reader_fields(reader, manifest->json, top_fields, TOP_REQUIRED, values)) {
		reader->no_memory |= !allocate(reader);
		return;
	}
	read_version(reader, values[TOP_VERSION]);
	read_manifest_id(reader, values[TOP_ID]);
	manifest->all_or_nothing = sgpu_reader_choice(reader, "on_failure", values[TOP_ON_FAILURE],
						      on_failure, 0) == 1;
	read_array(reader, SGPU_LIST_SEGMENTS, values[TOP_SEGMENTS], &manifest->segment_count);
	read_array(reader, SGPU_LIST_OPERATIONS, values[TOP_OPERATIONS],
		   &manifest->operation_count);
	reader->no_memory |= !allocate(reader);
	if (reader->no_memory) {
		return;
	}
	manifest->segment_ids =
		read_ids(reader, SGPU_LIST_SEGMENTS, manifest->segment_count, "segment_id", NULL);
	manifest->operation_ids = read_ids(reader, SGPU_LIST_OPERATIONS, manifest->operation_count,
					   "gpu_operation_id", manifest->segment_ids);
	read_entries(reader, SGPU_LIST_OPERATIONS, manifest->operation_count,
		     sgpu_reader_operation);
	read_entries(reader, SGPU_LIST_SEGMENTS, manifest->segment_count, sgpu_reader_segment);
	sgpu_reader_outputs(reader);
	if (!reader->no_memory) {
		sgpu_reader_graph(reader);
	}
	if (!reader->no_memory) {
		sgpu_reader_order(reader);
	}
	if (!reader->no_memory && manifest->order) {
		sgpu_reader_flow(reader);
	}
}

/* Makes the canonical form, which takes time, only if the document is valid. */
static int make_hash(struct sgpu_reader *reader, struct sgpu_error *error)
{
	struct sgpu_manifest *manifest = reader->manifest;
	struct sgpu_error reason = { 0 };
	int rc;

	if (reader->diagnostics->count || reader->options & SGPU_MANIFEST_UNHASHED) {
		return SGPU_OK;
	}
	rc = sgpu_reader_canonical(reader, &reason);
	if (rc == SGPU_EINVALID) {
		sgpu_diagnostic_add(reader->diagnostics, "", reason.hint, "%s", reason.text);
		return SGPU_OK;
	}
	if (rc) {
		return sgpu_fail(error, rc, "%s", reason.text);
	}
	if (!EVP_Digest(manifest->canonical, manifest->canonical_size, manifest->sha256, NULL,
			EVP_sha256(), NULL)) {
		return sgpu_fail_nomem(error);
	}
	return SGPU_OK;
}

static int parse_json(struct sgpu_reader *reader, const char *text, size_t size,
		      struct sgpu_error *error)
{
	struct sgpu_diagnostics *diagnostics = reader->diagnostics;
	struct sgpu_error reason = { 0 };
	size_t position = 0;
	int rc = SGPU_EINVALID;

	if (size > SGPU_MANIFEST_SIZE_MAX) {
		sgpu_fail(&reason, rc, "a manifest of %zu bytes is longer than %d", size,
			  (int)SGPU_MANIFEST_SIZE_MAX);
	} else {
		rc = sgpu_reader_frame(reader, text, size, &position, &reason);
	}
	if (rc == SGPU_EINVALID) {
		sgpu_diagnostic_add(diagnostics, "", reason.hint, "%s", reason.text);
		if (diagnostics->count) {
			struct sgpu_diagnostic *last = &diagnostics->list[diagnostics->count - 1];

			sgpu_json_place(text, position, &last->line, &last->column);
		}
	}
	return rc ? sgpu_fail(error, rc, "%s", reason.text) : SGPU_OK;
}

int sgpu_manifest_parse(const char *text, size_t size, unsigned options,
			struct sgpu_manifest **manifest, struct sgpu_diagnostics *diagnostics,
			struct sgpu_error *error)
{
	struct sgpu_reader reader = { .diagnostics = diagnostics, .options = options };
	int rc;

	*manifest = NULL;
	reader.manifest = calloc(1, sizeof(*reader.manifest));
	reader.outputs = json_object();
	reader.variables = json_object();
	if (!reader.manifest || !reader.outputs || !reader.variables) {
		rc = sgpu_fail_nomem(error);
		goto out;
	}
	rc = parse_json(&reader, text, size, error);
	if (rc) {
		goto out;
	}
	read_document(&reader);
	rc = make_hash(&reader, error);
	if (!rc && (reader.no_memory || diagnostics->out_of_memory)) {
		rc = sgpu_fail_nomem(error);
	}
	if (!rc) {
		*manifest = reader.manifest;
		reader.manifest = NULL;
	}
out:
	free(reader.dependencies);
	free(reader.unsure);
	json_decref(reader.variables);
	json_decref(reader.outputs);
	sgpu_manifest_free(&reader.manifest);
	return rc;
}

void sgpu_manifest_free(struct sgpu_manifest **manifest)
{
	struct sgpu_manifest *m = *manifest;

	if (!m) {
		return;
	}
	for (int i = 0; m->operations && i < m->operation_count; i++) {
		json_decref(m->operations[i].params);
		if (m->operations[i].module) {
			free(m->operations[i].module->params);
			free(m->operations[i].module);
		}
	}
	free(m->readers);
	free(m->before);
	free(m->canonical);
	free(m->order);
	free(m->operations);
	free(m->segments);
	json_decref(m->operation_ids);
	json_decref(m->segment_ids);
	json_decref(m->json);
	free(m->texts);
	free(m);
	*manifest = NULL;
}

int sgpu_manifest_segment(const struct sgpu_manifest *manifest, const char *id)
{
	return sgpu_ids_index(manifest->segment_ids, id);
}
