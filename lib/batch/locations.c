/* SPDX-License-Identifier: Apache-2.0
 *
 * locations.json: where payloads lie that are not in the stream. Nothing authenticates it, since
 * whoever carries a batch may write it anew; what a location points at is bound by its seal or its
 * digest.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "index.h"

static const char where[] = "locations.json";

const char *const sgpu_location_words[] = {
	[SGPU_LOCATION_INLINE] = "inline",
	[SGPU_LOCATION_FILE] = "file",
	[SGPU_LOCATION_REGION] = "handle",
	[SGPU_LOCATION_LEASE] = "lease",
};

enum { HANDLE_MAX = 5 + SGPU_REGION_ID_TEXT + 2 * 21 + 1 };

static void handle_text(const char *id, uint64_t offset, uint64_t size, char text[HANDLE_MAX])
{
	snprintf(text, HANDLE_MAX, "sgpu:%s:%" PRIu64 ":%" PRIu64, id, offset, size);
}

/* ---- reading ---- */
/* A handle has only one text: it is written again and compared. */
static int parse_handle(const char *text, const char *place, uint64_t payload,
			struct sgpu_location *location, struct sgpu_error *error)
{
	char again[HANDLE_MAX];
	uint64_t size = 0;

	if (sscanf(text, "sgpu:%32[0-9a-f]:%" SCNu64 ":%" SCNu64, location->region,
		   &location->offset, &size) == 3) {
		handle_text(location->region, location->offset, size, again);
	}
	if (strlen(location->region) != SGPU_REGION_ID_TEXT || strcmp(text, again) != 0) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: '%.100s' is not a handle, sgpu:ID:OFFSET:SIZE", place, text);
	}
	return size >= payload ? 0
			       : sgpu_fail(error, SGPU_EINVALID,
					   "%s: the handle has %llu bytes, the payload %llu", place,
					   (unsigned long long)size, (unsigned long long)payload);
}

static int parse_location(const json_t *entry, const char *place, uint64_t payload,
			  struct sgpu_location *location, struct sgpu_error *error)
{
	static const char *const of_file[] = { "segment_id", "file", "offset", NULL };
	const char *members[] = { "segment_id", NULL, NULL }, *text = NULL;
	int kind = SGPU_LOCATION_FILE;

	while (kind <= SGPU_LOCATION_LEASE && !json_object_get(entry, sgpu_location_words[kind])) {
		kind++;
	}
	if (kind > SGPU_LOCATION_LEASE) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: none of file, handle, lease", place);
	}
	location->kind = (enum sgpu_location_kind)kind;
	members[1] = sgpu_location_words[kind];
	int rc =
		sgpu_json_only(entry, place, kind == SGPU_LOCATION_FILE ? of_file : members, error);
	rc = rc ? rc : sgpu_json_string(entry, place, members[1], &text, error);
	if (rc || kind != SGPU_LOCATION_FILE) {
		return rc ? rc : parse_handle(text, place, payload, location, error);
	}
	if (!text[0] || strlen(text) > SGPU_FILE_PATH_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: the path is not 1 to %d bytes long",
				 place, SGPU_FILE_PATH_MAX);
	}
	location->file = strdup(text);
	return location->file ? sgpu_json_u64(entry, place, "offset", &location->offset, error)
			      : sgpu_fail_nomem(error);
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
	if (s->location.offset >= SGPU_JSON_INTEGER_MAX ||
	    !sgpu_add_u64(s->location.offset, sgpu_batch_payload_size(batch, segment), &end) ||
	    end > INT64_MAX) {
		return sgpu_segment_fail(s, SGPU_EINVALID, ": offset and size do not fit", error);
	}
	return 0;
}

/* Entries are in the order of the index, so none is there twice. *next: the first segment that may
 * still come. */
static int parse_entry(const struct sgpu_json_part *part, size_t number, struct sgpu_batch *batch,
		       int *next, struct sgpu_error *error)
{
	char place[SGPU_WHERE_MAX];
	json_t *entry = NULL;
	const char *id = NULL;
	struct sgpu_error fault = { 0 };

	snprintf(place, sizeof(place), "%s: /locations/%zu", where, number);
	int rc = sgpu_json_part_parse(part, NULL, &entry, NULL, NULL, &fault);
	rc = rc ? sgpu_fail(error, rc, "%s: %s", place, fault.text)
		: sgpu_json_string(entry, place, "segment_id", &id, error);
	const int segment = rc ? -1 : sgpu_batch_segment(batch, id);
	if (!rc && segment < *next) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       segment < 0 ? "%s: '%.100s' is not in the index"
					   : "%s: '%.100s' is not in the order of the index",
			       place, id);
	}
	if (!rc) {
		rc = parse_location(entry, place, sgpu_batch_payload_size(batch, segment),
				    &batch->segments[segment].location, error);
		rc = rc ? rc : check_location(batch, segment, error);
		*next = segment + 1;
	}
	json_decref(entry);
	return rc;
}

int sgpu_locations_parse(const char *text, size_t size, struct sgpu_batch *batch,
			 struct sgpu_error *error)
{
	static const char *const members[] = { "locations", NULL };
	struct sgpu_json_list list = { .key = "locations",
				       .count_max = SGPU_MANIFEST_SEGMENTS_MAX,
				       .part_max = SGPU_INDEX_SEGMENT_MAX };
	struct sgpu_error fault = { 0 };
	json_t *json = NULL;
	int next = 0;
	int rc = sgpu_json_split(text, size, &list, 1, SGPU_INDEX_FRAME_MAX, &json, NULL, NULL,
				 &fault);

	rc = rc ? sgpu_fail(error, rc, "%s: %s", where, fault.text)
		: sgpu_json_only(json, where, members, error);
	if (!rc && (!json_is_array(json_object_get(json, "locations")) || list.count == 0)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: /locations is not an array, or empty",
			       where);
	}
	for (size_t i = 0; !rc && i < list.count; i++) {
		rc = parse_entry(&list.parts[i], i, batch, &next, error);
	}
	json_decref(json);
	sgpu_json_lists_clear(&list, 1);
	return rc;
}

/* ---- writing ---- */
json_t *sgpu_location_json(const struct sgpu_location *location, uint64_t size)
{
	const char *word = sgpu_location_words[location->kind];
	char handle[HANDLE_MAX];

	if (location->kind <= SGPU_LOCATION_INLINE) {
		return word ? json_pack("{s:b}", word, 1) : json_null();
	}
	if (location->kind == SGPU_LOCATION_FILE) {
		return json_pack("{s:s, s:I}", word, location->file, "offset",
				 (json_int_t)location->offset);
	}
	handle_text(location->region, location->offset, size, handle);
	return json_pack("{s:s}", word, handle);
}

/* Entries are made when they are written. */
struct entries {
	const struct sgpu_batch *batch;
	int next; /* segment */
};

static bool lies_elsewhere(const struct sgpu_batch *batch, int segment)
{
	return batch->segments[segment].location.kind > SGPU_LOCATION_INLINE;
}

static json_t *entry_json(void *argument, size_t number)
{
	struct entries *entries = argument;
	json_t *json;

	(void)number; /* entries are asked for in order */
	while (!lies_elsewhere(entries->batch, entries->next)) {
		entries->next++;
	}
	const struct sgpu_batch_segment *s = &entries->batch->segments[entries->next];
	json = sgpu_location_json(&s->location,
				  sgpu_batch_payload_size(entries->batch, entries->next++));
	if (json && json_object_set_new(json, "segment_id", json_string(s->id)) != 0) {
		json_decref(json);
		json = NULL;
	}
	return json;
}

int sgpu_locations_text(const struct sgpu_batch *batch, char **text, size_t *size,
			struct sgpu_error *error)
{
	struct entries entries = { .batch = batch };
	struct sgpu_json_items list = { "locations", 0, entry_json, &entries };
	json_t *json;
	int rc;

	*text = NULL;
	for (int i = 0; i < batch->segment_count; i++) {
		list.count += lies_elsewhere(batch, i);
	}
	if (list.count == 0) {
		return 0;
	}
	json = json_pack("{s:[]}", "locations");
	rc = json ? sgpu_json_canonical_items(json, &list, 1, text, size, error)
		  : sgpu_fail_nomem(error);
	json_decref(json);
	return rc;
}
