/* SPDX-License-Identifier: Apache-2.0
 *
 * locations.json: where payloads lie that are not in the stream. Nothing authenticates it: whoever
 * carries a batch may write it anew. A seal or a digest binds what a location points at.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "batch.h"
#include "index.h"

static const char where[] = "locations.json";

/* The member of a location that tells its kind. */
static const char *const words[] = {
	[SGPU_LOCATION_INLINE] = "inline",
	[SGPU_LOCATION_FILE] = "file",
	[SGPU_LOCATION_REGION] = "handle",
	[SGPU_LOCATION_LEASE] = "lease",
};

void sgpu_handle_text(const char *id, uint64_t offset, uint64_t size, char text[SGPU_HANDLE_TEXT])
{
	snprintf(text, SGPU_HANDLE_TEXT, "sgpu:%s:%" PRIu64 ":%" PRIu64, id, offset, size);
}

/* ---- reading ---- */
/* A handle has only one text: it is written again and compared. */
int sgpu_handle_parse(const char *text, const char *place, struct sgpu_location *location,
		      uint64_t *size, struct sgpu_error *error)
{
	char again[SGPU_HANDLE_TEXT] = "";

	*location = (struct sgpu_location){ .kind = SGPU_LOCATION_REGION };
	if (sscanf(text, "sgpu:%32[0-9a-f]:%" SCNu64 ":%" SCNu64, location->region,
		   &location->offset, size) == 3) {
		sgpu_handle_text(location->region, location->offset, *size, again);
	}
	return strlen(location->region) == SGPU_REGION_ID_TEXT && strcmp(text, again) == 0
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID,
				   "%s: '%.100s' is not a handle, sgpu:ID:OFFSET:SIZE", place,
				   text);
}

static int parse_handle(const char *text, const char *place, uint64_t payload,
			struct sgpu_location *location, struct sgpu_error *error)
{
	uint64_t size = 0;
	const int rc = sgpu_handle_parse(text, place, location, &size, error);

	return rc || size >= payload
		       ? rc
		       : sgpu_fail(error, SGPU_EINVALID,
				   "%s: the handle has %llu bytes, the payload %llu", place,
				   (unsigned long long)size, (unsigned long long)payload);
}

/* Reads where `seal` will put the sealed payload that is now plaintext in a file. */
static int parse_place(const char *text, const char *place, struct sgpu_batch_segment *segment,
		       struct sgpu_error *error)
{
	struct sgpu_location at;
	int rc;

	if (segment->masking != SGPU_MASKING_AES_GCM) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'at' of a segment that is not HIGH",
				 place);
	}
	rc = parse_handle(text, place, sgpu_segment_masked_size(segment), &at, error);
	return rc ? rc : sgpu_segment_place(segment, &at, error);
}

static int parse_location(const struct sgpu_list *list, struct sgpu_batch_segment *segment,
			  struct sgpu_error *error)
{
	struct sgpu_location *location = &segment->location;
	const char *id = NULL, *text = NULL, *array = NULL, *at = NULL;
	bool has_array = false, has_at = false;
	int kind = SGPU_LOCATION_FILE;

	while (kind <= SGPU_LOCATION_LEASE && !json_object_get(list->entry, words[kind])) {
		kind++;
	}
	if (kind > SGPU_LOCATION_LEASE) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: none of file, handle, lease",
				 list->place);
	}
	const struct sgpu_field fields[] = {
		{ "segment_id", SGPU_FIELD_TEXT, .to = &id },
		{ words[kind], SGPU_FIELD_TEXT, .to = &text },
		/* only of a file */
		{ "offset", SGPU_FIELD_NUMBER, .to = &location->offset },
		/* and only in a packed batch */
		{ "array", SGPU_FIELD_TEXT, &array, 0, &has_array },
		{ "at", SGPU_FIELD_TEXT, &at, 0, &has_at },
	};
	int rc = sgpu_fields_read(list->entry, list->place, fields,
				  kind != SGPU_LOCATION_FILE ? 2
				  : list->batch->packed	     ? 5
							     : 3,
				  error);

	if (!rc && kind != SGPU_LOCATION_FILE) {
		rc = parse_handle(text, list->place,
				  sgpu_batch_payload_size(list->batch, list->segment), location,
				  error);
	}
	location->kind = (enum sgpu_location_kind)kind;
	if (rc || kind != SGPU_LOCATION_FILE) {
		return rc;
	}
	if (!text[0] || strlen(text) > SGPU_FILE_PATH_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: the path is not 1 to %d bytes long",
				 list->place, SGPU_FILE_PATH_MAX);
	}
	location->file = strdup(text);
	location->array = has_array ? strdup(array) : NULL;
	rc = location->file && (location->array || !has_array) ? 0 : sgpu_fail_nomem(error);
	return rc || !has_at ? rc : parse_place(at, list->place, segment, error);
}

static int check_location(const struct sgpu_batch *batch, int segment, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &batch->segments[segment];
	uint64_t end = 0;

	if (batch->response && s->location.kind == SGPU_LOCATION_FILE) {
		return sgpu_segment_fail(s, SGPU_EPOLICY,
					 " of the response is in a file: a response carries its "
					 "payloads, or names regions and leases",
					 error);
	}
	if (s->location.array && s->masking != SGPU_MASKING_AES_GCM) {
		return sgpu_segment_fail(s, SGPU_EINVALID, " is an array's file, and not HIGH",
					 error);
	}
	if (s->location.offset >= SGPU_JSON_INTEGER_MAX ||
	    !sgpu_add_u64(s->location.offset, sgpu_batch_payload_size(batch, segment), &end) ||
	    end > INT64_MAX) {
		return sgpu_segment_fail(s, SGPU_EINVALID, ": offset and size do not fit", error);
	}
	return 0;
}

int sgpu_locations_parse(const char *text, size_t size, struct sgpu_batch *batch,
			 struct sgpu_error *error)
{
	json_t *locations;
	const struct sgpu_field frame = { "locations", SGPU_FIELD_JSON, .to = &locations };
	struct sgpu_list list = { .where = where, .entries.key = frame.key, .batch = batch };
	int rc = sgpu_list_open(&list, text, size, &frame, 1, error);

	if (!rc && !list.entries.count) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: /locations is empty", where);
	}
	while (sgpu_list_next(&list, &rc, error)) {
		rc = parse_location(&list, &batch->segments[list.segment], error);
		rc = rc ? rc : check_location(batch, list.segment, error);
	}
	sgpu_list_close(&list);
	return rc;
}

/* ---- writing ---- */
static json_t *handle_json(const struct sgpu_location *location, uint64_t size)
{
	char handle[SGPU_HANDLE_TEXT];

	sgpu_handle_text(location->region, location->offset, size, handle);
	return json_string(handle);
}

json_t *sgpu_location_json(const struct sgpu_location *location, uint64_t size)
{
	const char *word = words[location->kind];

	if (location->kind <= SGPU_LOCATION_INLINE) {
		return word ? json_pack("{s:b}", word, 1) : json_null();
	}
	return location->kind == SGPU_LOCATION_FILE
		       ? json_pack("{s:s, s:I, s:s*}", word, location->file, "offset",
				   (json_int_t)location->offset, "array", location->array)
		       : json_pack("{s:o}", word, handle_json(location, size));
}

int sgpu_locations_text(const struct sgpu_batch *batch, char **text, size_t *size,
			struct sgpu_error *error)
{
	json_t *list = json_array(), *json = json_pack("{s:o}", "locations", list);
	int rc = json ? 0 : sgpu_fail_nomem(error);

	*text = NULL;
	for (int i = 0; !rc && i < batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &batch->segments[i];
		json_t *entry;

		if (s->location.kind <= SGPU_LOCATION_INLINE && (s->input || !s->place)) {
			continue;
		}
		entry = sgpu_location_json(s->location.kind ? &s->location : s->place,
					   sgpu_batch_payload_size(batch, i));
		if ((batch->packed && s->input && s->place &&
		     json_object_set_new(entry, "at",
					 handle_json(s->place, sgpu_segment_masked_size(s)))) ||
		    json_object_set_new(entry, "segment_id", json_string(s->id)) != 0 ||
		    json_array_append(list, entry) != 0) {
			rc = sgpu_fail_nomem(error);
		}
		json_decref(entry);
	}
	if (!rc && json_array_size(list) > 0) {
		rc = sgpu_json_canonical(json, text, size, error);
	}
	json_decref(json);
	return rc;
}

/* ---- slices that more than one segment would use ---- */
struct use {
	const struct sgpu_location *at;
	uint64_t size;
	const char *id;
	bool written;
};

static int by_place(const void *a, const void *b)
{
	const struct use *left = a, *right = b;
	const int order = strcmp(left->at->region, right->at->region);

	return order ? order
		     : (left->at->offset > right->at->offset) -
			       (left->at->offset < right->at->offset);
}

static void add_use(struct use *uses, size_t *count, const struct sgpu_location *at, uint64_t size,
		    const char *id, bool written)
{
	if (at && at->kind == SGPU_LOCATION_REGION && size > 0) {
		uses[(*count)++] = (struct use){ at, size, id, written };
	}
}

/* Looks for two uses of the same bytes, one of which is written. The uses are sorted. */
static int check_uses(const struct use *uses, size_t count, struct sgpu_error *error)
{
	const struct use *last[2] = { NULL, NULL }; /* that ends last: of all, of the written */

	for (size_t i = 0; i < count; i++) {
		const struct use *use = &uses[i], *before = last[!use->written];

		if (before && strcmp(before->at->region, use->at->region) == 0 &&
		    before->at->offset + before->size > use->at->offset) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "segments '%s' and '%s' would use the same bytes of "
					 "region '%s'",
					 before->id, use->id, use->at->region);
		}
		for (int k = 0; k < 1 + use->written; k++) {
			if (!last[k] || strcmp(last[k]->at->region, use->at->region) != 0 ||
			    last[k]->at->offset + last[k]->size < use->at->offset + use->size) {
				last[k] = use;
			}
		}
	}
	return 0;
}

int sgpu_places_check(const struct sgpu_batch *batch, struct sgpu_error *error)
{
	struct use *uses = calloc(2 * (size_t)batch->segment_count + 1, sizeof(*uses));
	size_t count = 0;
	int rc = uses ? 0 : sgpu_fail_nomem(error);

	for (int i = 0; !rc && i < batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &batch->segments[i];

		add_use(uses, &count, &s->location, sgpu_batch_payload_size(batch, i), s->id,
			false);
		add_use(uses, &count, s->place, sgpu_segment_masked_size(s), s->id, true);
	}
	if (!rc) {
		qsort(uses, count, sizeof(*uses), by_place);
		rc = check_uses(uses, count, error);
	}
	free(uses);
	return rc;
}
