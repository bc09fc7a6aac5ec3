/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata of a region: the first page of its file. A region is one file, so its data and
 * metadata appear and vanish together.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include <stage/region.h>

#include "base/json.h"

enum { METADATA_VERSION = 1 };

static const char *const page_words[] = { "normal", "transparent", "huge" };

const char *sgpu_page_kind_name(enum sgpu_page_kind kind)
{
	static const char *const names[] = { "4 KiB", "transparent huge", "2 MiB huge" };

	return (unsigned)kind < SGPU_ARRAY_LENGTH(names) ? names[kind] : "unknown";
}

bool sgpu_region_id_valid(const char *id)
{
	return strlen(id) == SGPU_REGION_ID_TEXT &&
	       strspn(id, "0123456789abcdef") == SGPU_REGION_ID_TEXT;
}

int sgpu_region_check_id(const char *id, struct sgpu_error *error)
{
	return sgpu_region_id_valid(id)
		       ? SGPU_OK
		       : sgpu_fail(
				 error, SGPU_EINVALID,
				 "'%.64s' is no region: an id is %d lower-case hexadecimal digits",
				 id, SGPU_REGION_ID_TEXT);
}

bool sgpu_region_file_size(uint64_t size, uint64_t page_size, uint64_t *file_size)
{
	if (size > SGPU_JSON_INTEGER_MAX || page_size == 0 || page_size > SGPU_JSON_INTEGER_MAX) {
		return false;
	}
	*file_size = (SGPU_REGION_HEADER + size + page_size - 1) / page_size * page_size;
	return true;
}

int sgpu_region_encode(const struct sgpu_region *region, char page[SGPU_REGION_HEADER],
		       struct sgpu_error *error)
{
	json_t *json;
	char *text = NULL;
	size_t size = 0;
	int code;

	json = json_pack(
		"{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:o*, s:b, s:b, s:b}", "version",
		METADATA_VERSION, "region", region->id, "size", (json_int_t)region->size, "owner",
		(json_int_t)region->owner, "maker", (json_int_t)region->maker, "created",
		(json_int_t)region->created, "expires", (json_int_t)region->expires, "pages",
		page_words[region->pages], "numa_node",
		region->numa_node < 0 ? NULL : json_integer(region->numa_node), "locked",
		region->pages == SGPU_PAGES_HUGE, "sealed", region->sealed, "keep", region->keep);
	if (!json) {
		return sgpu_fail_nomem(error);
	}
	code = sgpu_json_canonical(json, &text, &size, error);
	json_decref(json);
	if (code < 0) {
		return code;
	}
	memset(page, 0, SGPU_REGION_HEADER);
	if (size + 2 > SGPU_REGION_HEADER) {
		code = sgpu_fail(error, SGPU_EINVALID, "the metadata of region '%s' do not fit",
				 region->id);
	} else {
		memcpy(page, text, size);
		page[size] = '\n';
	}
	free(text);
	return code;
}

static int boolean(const json_t *json, const char *key, bool *value)
{
	const json_t *member = json_object_get(json, key);

	*value = json_is_true(member);
	return json_is_boolean(member) ? SGPU_OK : SGPU_EPOLICY;
}

static int number(const json_t *json, const char *key, uint64_t max, uint64_t *value)
{
	int code = sgpu_json_u64(json, "region", key, value, NULL);

	return code < 0 || *value > max ? SGPU_EPOLICY : SGPU_OK;
}

static int page_kind(const char *word, enum sgpu_page_kind *kind)
{
	size_t i;

	for (i = 0; i < SGPU_ARRAY_LENGTH(page_words); i++) {
		if (strcmp(word, page_words[i]) == 0) {
			*kind = (enum sgpu_page_kind)i;
			return SGPU_OK;
		}
	}
	return SGPU_EPOLICY;
}

static int read_members(const json_t *json, struct sgpu_region *region)
{
	static const char *const keys[] = { "version", "region",  "size",  "owner",	"maker",
					    "created", "expires", "pages", "numa_node", "locked",
					    "sealed",  "keep",	  NULL };
	const char *id = NULL, *pages = NULL;
	uint64_t version = 0, owner = 0, maker = 0, created = 0, expires = 0, node = 0;
	bool locked; /* what the pages say counts */
	const bool bound = json_object_get(json, "numa_node") != NULL;

	if (sgpu_json_only(json, "region", keys, NULL) < 0 ||
	    number(json, "version", METADATA_VERSION, &version) < 0 ||
	    version != METADATA_VERSION ||
	    sgpu_json_string(json, "region", "region", &id, NULL) < 0 ||
	    !sgpu_region_id_valid(id) ||
	    number(json, "size", SGPU_JSON_INTEGER_MAX, &region->size) < 0 ||
	    number(json, "owner", UINT32_MAX, &owner) < 0 ||
	    number(json, "maker", INT32_MAX, &maker) < 0 ||
	    number(json, "created", SGPU_JSON_INTEGER_MAX, &created) < 0 ||
	    number(json, "expires", SGPU_JSON_INTEGER_MAX, &expires) < 0 || expires <= created ||
	    expires - created > SGPU_REGION_LIFE_MAX ||
	    sgpu_json_string(json, "region", "pages", &pages, NULL) < 0 ||
	    page_kind(pages, &region->pages) < 0 ||
	    (bound && number(json, "numa_node", 65535, &node) < 0) ||
	    boolean(json, "locked", &locked) < 0 || boolean(json, "sealed", &region->sealed) < 0 ||
	    boolean(json, "keep", &region->keep) < 0) {
		return SGPU_EPOLICY;
	}
	memcpy(region->id, id, sizeof(region->id));
	region->owner = (uid_t)owner;
	region->maker = (pid_t)maker;
	region->created = (int64_t)created;
	region->expires = (int64_t)expires;
	region->numa_node = bound ? (int)node : -1;
	return SGPU_OK;
}

int sgpu_region_decode(const char page[SGPU_REGION_HEADER], struct sgpu_region *region,
		       struct sgpu_error *error)
{
	size_t length = strnlen(page, SGPU_REGION_HEADER), i;
	json_t *json = NULL;
	int code = SGPU_EPOLICY;

	memset(region, 0, sizeof(*region));
	region->fd = -1;
	for (i = length; i < SGPU_REGION_HEADER && page[i] == '\0'; i++) {
	}
	if (length > 1 && length < SGPU_REGION_HEADER && i == SGPU_REGION_HEADER &&
	    page[length - 1] == '\n' &&
	    sgpu_json_parse(page, length - 1, &json, NULL, NULL, NULL) == SGPU_OK &&
	    json_is_object(json)) {
		code = read_members(json, region);
	}
	json_decref(json);
	if (code < 0) {
		return sgpu_fail(error, code, "its metadata are damaged");
	}
	return SGPU_OK;
}
