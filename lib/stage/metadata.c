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

static bool page_kind(const char *word, enum sgpu_page_kind *kind)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(page_words); i++) {
		if (strcmp(word, page_words[i]) == 0) {
			*kind = (enum sgpu_page_kind)i;
			return true;
		}
	}
	return false;
}

static bool in_range(json_int_t value, json_int_t most)
{
	return value >= 0 && value <= most;
}

static int read_members(json_t *json, struct sgpu_region *region)
{
	const char *id = NULL, *pages = NULL;
	json_int_t version, size, owner, maker, created, expires, node = 0;
	const bool bound = json_object_get(json, "numa_node") != NULL;
	int locked, sealed, keep; /* locked: what the pages say counts */

	if (json_unpack_ex(json, NULL, JSON_STRICT,
			   "{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s?I, s:b, s:b, s:b}",
			   "version", &version, "region", &id, "size", &size, "owner", &owner,
			   "maker", &maker, "created", &created, "expires", &expires, "pages",
			   &pages, "numa_node", &node, "locked", &locked, "sealed", &sealed, "keep",
			   &keep) != 0 ||
	    version != METADATA_VERSION || !sgpu_region_id_valid(id) ||
	    !in_range(size, SGPU_JSON_INTEGER_MAX) || !in_range(owner, UINT32_MAX) ||
	    !in_range(maker, INT32_MAX) || !in_range(created, SGPU_JSON_INTEGER_MAX) ||
	    !in_range(expires, SGPU_JSON_INTEGER_MAX) || expires <= created ||
	    (uint64_t)(expires - created) > SGPU_REGION_LIFE_MAX ||
	    !page_kind(pages, &region->pages) || !in_range(node, 65535)) {
		return SGPU_EPOLICY;
	}
	memcpy(region->id, id, sizeof(region->id));
	region->size = (uint64_t)size;
	region->owner = (uid_t)owner;
	region->maker = (pid_t)maker;
	region->created = created;
	region->expires = expires;
	region->numa_node = bound ? (int)node : -1;
	region->sealed = sealed;
	region->keep = keep;
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
