/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments and operations of a document. Unless SGPU_MANIFEST_WHOLE is set, only one has its tree
 * in memory at a time, since all trees take ten times the memory of the text. The manifest keeps
 * copies of a few names.
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

int sgpu_reader_split(struct sgpu_reader *reader, const char *text, size_t size, json_t **frame,
		      int *line, int *column, struct sgpu_error *error)
{
	const bool whole = reader->options & SGPU_MANIFEST_WHOLE;
	json_t *value;

	reader->lists[SGPU_LIST_SEGMENTS] =
		(struct sgpu_json_list){ .key = "segments",
					 .count_max = SGPU_MANIFEST_SEGMENTS_MAX };
	reader->lists[SGPU_LIST_OPERATIONS] =
		(struct sgpu_json_list){ .key = "operations",
					 .count_max = SGPU_MANIFEST_OPERATIONS_MAX };
	int rc = sgpu_json_split(text, size, reader->lists, SGPU_ARRAY_LENGTH(reader->lists), 0,
				 frame, line, column, error);
	for (size_t list = 0; !rc && list < SGPU_ARRAY_LENGTH(reader->lists); list++) {
		json_t *array = whole ? json_object_get(*frame, reader->lists[list].key) : NULL;

		for (size_t i = 0; !rc && i < reader->lists[list].count; i++) {
			rc = sgpu_json_part_parse(&reader->lists[list].parts[i], text, &value, line,
						  column, error);
			if (!rc && array && json_array_append(array, value) < 0) {
				rc = sgpu_fail_nomem(error);
			}
			json_decref(value);
		}
	}
	if (rc) {
		json_decref(*frame);
		*frame = NULL;
		sgpu_json_lists_clear(reader->lists, SGPU_ARRAY_LENGTH(reader->lists));
	}
	return rc;
}

json_t *sgpu_reader_take(struct sgpu_reader *reader, int list, int index)
{
	const json_t *array = json_object_get(reader->manifest->json, reader->lists[list].key);
	json_t *value = json_incref(json_array_get(array, (size_t)index));

	if (!value && sgpu_json_part_parse(&reader->lists[list].parts[index], NULL, &value, NULL,
					   NULL, NULL) != SGPU_OK) {
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

struct taker {
	struct sgpu_reader *reader;
	int list;
};

/* A manifest travels without the paths and formats of its author's files, which are no business of
 * those who carry or run it. */
static json_t *take_item(void *argument, size_t index)
{
	struct taker *taker = argument;
	json_t *item = sgpu_reader_take(taker->reader, taker->list, (int)index);
	json_t *copy = taker->list == SGPU_LIST_SEGMENTS ? json_copy(item) : json_incref(item);

	json_decref(item);
	if (copy && taker->list == SGPU_LIST_SEGMENTS) {
		(void)json_object_del(copy, "data_location_client");
		(void)json_object_del(copy, "file");
	}
	return copy;
}

int sgpu_reader_canonical(struct sgpu_reader *reader, struct sgpu_error *error)
{
	struct taker takers[] = { { reader, SGPU_LIST_SEGMENTS },
				  { reader, SGPU_LIST_OPERATIONS } };
	struct sgpu_json_items items[SGPU_ARRAY_LENGTH(takers)];

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(items); i++) {
		items[i] = (struct sgpu_json_items){ reader->lists[i].key, reader->lists[i].count,
						     take_item, &takers[i] };
	}
	return sgpu_json_canonical_items(reader->manifest->json, items, SGPU_ARRAY_LENGTH(items),
					 &reader->manifest->canonical,
					 &reader->manifest->canonical_size, error);
}
