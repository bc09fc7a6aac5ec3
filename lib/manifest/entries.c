/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments and operations. With SGPU_MANIFEST_UNHASHED, only one has its tree in memory at a time,
 * since trees take ten times the memory of the text. The manifest keeps copies of a few names.
 */
#include <stdlib.h>
#include <string.h>

#include "manifest/reader.h"

int sgpu_reader_frame(struct sgpu_reader *reader, const char *text, size_t size, size_t *position,
		      struct sgpu_error *error)
{
	const bool whole = !(reader->options & SGPU_MANIFEST_UNHASHED);
	json_t **frame = &reader->manifest->json, *value;

	reader->lists[SGPU_LIST_SEGMENTS] =
		(struct sgpu_json_list){ .key = "segments",
					 .count_max = SGPU_MANIFEST_SEGMENTS_MAX };
	reader->lists[SGPU_LIST_OPERATIONS] =
		(struct sgpu_json_list){ .key = "operations",
					 .count_max = SGPU_MANIFEST_OPERATIONS_MAX };
	/* Each name is kept once, and takes more bytes in the document, where it has quotes. */
	reader->room = size + 1;
	reader->manifest->texts = malloc(reader->room);
	int rc = reader->manifest->texts ? sgpu_json_frame(text, size, reader->lists,
							   SGPU_ARRAY_LENGTH(reader->lists), 0,
							   frame, position, error)
					 : sgpu_fail_nomem(error);
	for (size_t list = 0; !rc && list < SGPU_ARRAY_LENGTH(reader->lists); list++) {
		struct sgpu_json_list entries = reader->lists[list];
		json_t *array = json_object_get(*frame, entries.key);

		for (size_t i = 0; !rc && i < entries.count; i++) {
			const size_t at = (size_t)(entries.at - text);

			rc = sgpu_json_next(&entries, &value, position, error);
			*position += at;
			if (!rc && whole && json_array_append(array, value) < 0) {
				rc = sgpu_fail_nomem(error);
			}
			json_decref(value);
		}
	}
	return rc;
}

json_t *sgpu_reader_take(struct sgpu_reader *reader, struct sgpu_json_list *entries, int index)
{
	const json_t *array = json_object_get(reader->manifest->json, entries->key);
	json_t *value = json_incref(json_array_get(array, (size_t)index));
	size_t position;

	if (!value && sgpu_json_next(entries, &value, &position, NULL) != SGPU_OK) {
		reader->no_memory = true; /* the only cause left: it was parsed before */
	}
	return value;
}

const char *sgpu_reader_keep(struct sgpu_reader *reader, const char *text)
{
	char *copy = reader->manifest->texts + reader->kept;
	const size_t size = text ? strlen(text) + 1 : 0;

	if (!text) {
		return NULL;
	}
	if (size > reader->room - reader->kept) {
		reader->no_memory = true;
		return "";
	}
	reader->kept += size;
	return memcpy(copy, text, size);
}

/* A manifest travels without the paths and formats of its author's files, which do not concern
 * those who carry or run it. */
int sgpu_reader_canonical(struct sgpu_reader *reader, struct sgpu_error *error)
{
	struct sgpu_manifest *manifest = reader->manifest;
	json_t *document = json_copy(manifest->json), *segments = json_array(), *segment;
	int rc = json_object_set_new(document, "segments", segments) ? sgpu_fail_nomem(error) : 0;
	size_t i;

	json_array_foreach (json_object_get(manifest->json, "segments"), i, segment) {
		json_t *copy = json_copy(segment);

		(void)json_object_del(copy, "data_location_client");
		(void)json_object_del(copy, "file");
		rc = rc || json_array_append_new(segments, copy) == 0 ? rc : sgpu_fail_nomem(error);
	}
	rc = rc ? rc
		: sgpu_json_canonical(document, &manifest->canonical, &manifest->canonical_size,
				      error);
	json_decref(document);
	return rc;
}
