/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads index, locations and note: each an object with one long array.
 */
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "index.h"

json_t *sgpu_bytes_json(bool there, const uint8_t *data, size_t size)
{
	return there ? sgpu_json_from_bytes(data, size) : NULL;
}

int sgpu_list_open(const char *text, size_t size, const char *where, const char *key,
		   struct sgpu_list *list, struct sgpu_error *error)
{
	struct sgpu_error fault = { 0 };
	size_t position;

	*list = (struct sgpu_list){ .where = where,
				    .entries = { .key = key,
						 .count_max = SGPU_MANIFEST_SEGMENTS_MAX,
						 .part_max = SGPU_INDEX_SEGMENT_MAX } };
	int rc = sgpu_json_frame(text, size, &list->entries, 1, SGPU_INDEX_FRAME_MAX, &list->frame,
				 &position, &fault);

	if (rc) {
		return sgpu_fail(error, rc, "%s: %s", where, fault.text);
	}
	if (!json_is_array(json_object_get(list->frame, key))) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: /%s is not an array", where, key);
		sgpu_list_close(list);
	}
	return rc;
}

void sgpu_list_close(struct sgpu_list *list)
{
	json_decref(list->entry);
	json_decref(list->frame);
}

int sgpu_list_next(struct sgpu_list *list, struct sgpu_error *error)
{
	struct sgpu_error fault = { 0 };
	size_t position;

	snprintf(list->place, sizeof(list->place), "%s: /%s/%zu", list->where, list->entries.key,
		 list->number++);
	json_decref(list->entry);
	int rc = sgpu_json_next(&list->entries, &list->entry, &position, &fault);
	return rc ? sgpu_fail(error, rc, "%s: %s", list->place, fault.text) : 0;
}

int sgpu_list_segment(const struct sgpu_list *list, const struct sgpu_batch *batch, int *segment,
		      struct sgpu_error *error)
{
	const char *id = NULL;
	int found = *segment + 1,
	    rc = sgpu_json_string(list->entry, list->place, "segment_id", &id, error);

	while (!rc && found < batch->segment_count && strcmp(batch->segments[found].id, id) != 0) {
		found++;
	}
	if (rc || found == batch->segment_count) {
		return rc ? rc
			  : sgpu_fail(error, SGPU_EINVALID,
				      "%s: '%.100s' is not in the rest of the index", list->place,
				      id);
	}
	*segment = found;
	return 0;
}
