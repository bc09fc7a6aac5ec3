/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments and operations of a document. With SGPU_MANIFEST_UNHASHED, only one has its
 * tree in memory at a time, since all trees take ten times the memory of the text. The manifest
 * keeps copies of a few names.
 */
#include <stdlib.h>
#include <string.h>

#include "manifest/reader.h"

enum { TEXTS = 64 << 10 };

struct sgpu_manifest_texts {
	struct sgpu_manifest_texts *next;
	size_t used, size;
	char text[];
};

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
	int rc = sgpu_json_frame(text, size, reader->lists, SGPU_ARRAY_LENGTH(reader->lists), 0,
				 frame, position, error);
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
	struct sgpu_manifest_texts *texts = reader->manifest->texts;
	size_t size = text ? strlen(text) + 1 : 0;
	char *copy;

	if (!text) {
		return NULL;
	}
	if (!texts || texts->size - texts->used < size) {
		const size_t room = size > TEXTS ? size : TEXTS;

		texts = malloc(sizeof(*texts) + room);
		if (!texts) {
			reader->no_memory = true;
			return "";
		}
		*texts = (struct sgpu_manifest_texts){ reader->manifest->texts, 0, room };
		reader->manifest->texts = texts;
	}
	copy = memcpy(texts->text + texts->used, text, size);
	texts->used += size;
	return copy;
}

void sgpu_reader_free_texts(struct sgpu_manifest *manifest)
{
	struct sgpu_manifest_texts *texts;

	while ((texts = manifest->texts)) {
		manifest->texts = texts->next;
		free(texts);
	}
}

/* A manifest travels without the paths and formats of its author's files, which are no business of
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
