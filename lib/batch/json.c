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

int sgpu_list_open(struct sgpu_list *list, const char *text, size_t size,
		   const struct sgpu_field *fields, size_t count, struct sgpu_error *error)
{
	struct sgpu_error fault = { 0 };
	size_t position;

	list->segment = -1;
	list->entries.count_max = SGPU_MANIFEST_SEGMENTS_MAX;
	list->entries.part_max = SGPU_INDEX_SEGMENT_MAX;
	int rc = sgpu_json_frame(text, size, &list->entries, 1, SGPU_INDEX_FRAME_MAX, &list->frame,
				 &position, &fault);

	if (rc) {
		return sgpu_fail(error, rc, "%s: %s", list->where, fault.text);
	}
	return json_is_array(json_object_get(list->frame, list->entries.key))
		       ? sgpu_fields_read(list->frame, list->where, fields, count, error)
		       : sgpu_fail(error, SGPU_EINVALID, "%s: /%s is not an array", list->where,
				   list->entries.key);
}

void sgpu_list_close(struct sgpu_list *list)
{
	json_decref(list->entry);
	json_decref(list->frame);
}

static int find_segment(struct sgpu_list *list, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = list->batch;
	const char *id = NULL;
	int found = list->segment + 1,
	    rc = sgpu_json_string(list->entry, list->place, "segment_id", &id, error);

	while (!rc && found < batch->segment_count && strcmp(batch->segments[found].id, id) != 0) {
		found++;
	}
	list->segment = found;
	return rc || found < batch->segment_count
		       ? rc
		       : sgpu_fail(error, SGPU_EINVALID,
				   "%s: '%.100s' is not in the rest of the index", list->place, id);
}

bool sgpu_list_next(struct sgpu_list *list, int *rc, struct sgpu_error *error)
{
	struct sgpu_error fault = { 0 };
	size_t position;

	if (*rc || list->number == list->entries.count) {
		return false;
	}
	snprintf(list->place, sizeof(list->place), "%s: /%s/%zu", list->where, list->entries.key,
		 list->number++);
	json_decref(list->entry);
	*rc = sgpu_json_next(&list->entries, &list->entry, &position, &fault);
	*rc = *rc	    ? sgpu_fail(error, *rc, "%s: %s", list->place, fault.text)
	      : list->batch ? find_segment(list, error)
			    : 0;
	return *rc == 0;
}
