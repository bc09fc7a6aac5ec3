/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a JSON file of a batch that is an object with one long array: index, locations and note.
 */
#include <stdio.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "index.h"

static int take(const struct sgpu_list_form *form, const struct sgpu_json_part *part, size_t number,
		void *argument, struct sgpu_error *error)
{
	char place[SGPU_WHERE_MAX];
	struct sgpu_error fault = { 0 };
	json_t *entry = NULL;

	snprintf(place, sizeof(place), "%s: /%s/%zu", form->where, form->key, number);
	int rc = sgpu_json_part_parse(part, NULL, &entry, NULL, NULL, &fault);
	rc = rc ? sgpu_fail(error, rc, "%s: %s", place, fault.text)
		: form->entry(argument, entry, number, place, error);
	json_decref(entry);
	return rc;
}

int sgpu_list_parse(const struct sgpu_list_form *form, const char *text, size_t size,
		    void *argument, struct sgpu_error *error)
{
	struct sgpu_json_list list = { .key = form->key,
				       .count_max = SGPU_MANIFEST_SEGMENTS_MAX,
				       .part_max = SGPU_INDEX_SEGMENT_MAX };
	struct sgpu_error fault = { 0 };
	json_t *json = NULL;
	int rc = sgpu_json_split(text, size, &list, 1, SGPU_INDEX_FRAME_MAX, &json, NULL, NULL,
				 &fault);

	rc = rc ? sgpu_fail(error, rc, "%s: %s", form->where, fault.text)
		: sgpu_json_only(json, form->where, form->members, error);
	if (!rc && !json_is_array(json_object_get(json, form->key))) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: /%s is not an array", form->where,
			       form->key);
	}
	rc = rc ? rc : form->frame(argument, json, list.count, error);
	for (size_t i = 0; !rc && i < list.count; i++) {
		rc = take(form, &list.parts[i], i, argument, error);
	}
	json_decref(json);
	sgpu_json_lists_clear(&list, 1);
	return rc;
}

int sgpu_list_segment(const struct sgpu_batch *batch, const json_t *entry, const char *place,
		      int *segment, struct sgpu_error *error)
{
	const char *id = NULL;
	int found, rc = sgpu_json_string(entry, place, "segment_id", &id, error);

	if (rc) {
		return rc;
	}
	found = sgpu_batch_segment(batch, id);
	if (found <= *segment) {
		return sgpu_fail(error, SGPU_EINVALID,
				 found < 0 ? "%s: '%.100s' is not in the index"
					   : "%s: '%.100s' is not in the order of the index",
				 place, id);
	}
	*segment = found;
	return 0;
}
