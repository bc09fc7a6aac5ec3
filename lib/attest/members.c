/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks JSON from outside by a table of its members: types, sizes, and what may be missing. Other
 * members are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"
#include "base/base.h"

enum { WHERE_SIZE = 256, NAME_MAX_LENGTH = 32 };

/* Returns the last name in a row's path if the rest is `path`, else NULL. */
static const char *name_inside(const struct sgpu_member *row, const char *path)
{
	const size_t length = strlen(path);
	const char *name = row->path + length + (length > 0);

	return !strncmp(row->path, path, length) && (!length || row->path[length] == '/') &&
			       *name && !strchr(name, '/')
		       ? name
		       : NULL;
}

/* Finds a member's row; "*" stands for members without their own row. */
static const struct sgpu_member *find(const struct sgpu_member *table, const char *path,
				      const char *key)
{
	const struct sgpu_member *other = NULL;

	for (; table->path; table++) {
		const char *name = name_inside(table, path);
		if (name && !strcmp(name, key)) {
			return table;
		}
		other = name && !strcmp(name, "*") && strlen(key) <= NAME_MAX_LENGTH ? table
										     : other;
	}
	return other;
}

static bool is_one_of(const char *words, const char *text)
{
	const size_t length = strlen(text);

	while (*words) {
		const size_t word = strcspn(words, " ");
		if (word == length && !strncmp(words, text, length)) {
			return true;
		}
		words += word + (words[word] == ' ');
	}
	return false;
}

static bool has_bytes(const json_t *value, size_t least, size_t most)
{
	uint8_t *data = NULL;
	size_t size = 0;
	int rc = sgpu_base64url_read(json_string_value(value), json_string_length(value), "", &data,
				     &size, NULL);

	free(data);
	return !rc && size >= least && size <= most;
}

static bool fits(const struct sgpu_member *row, const json_t *value)
{
	const char *text = json_string_value(value);
	const size_t length = json_string_length(value), count = json_array_size(value);

	switch (row->kind) {
	case SGPU_MEMBER_TEXT:
		return text && (row->words ? is_one_of(row->words, text)
					   : length >= row->min && length <= row->max);
	case SGPU_MEMBER_BYTES:
		return text && has_bytes(value, row->min, row->max);
	case SGPU_MEMBER_HEX: /* lower case only, so that the same bytes have one text */
		return text && length == 2 * row->max && strspn(text, "0123456789abcdef") == length;
	case SGPU_MEMBER_INTEGER:
		return json_is_integer(value) && json_integer_value(value) >= 0 &&
		       (uint64_t)json_integer_value(value) < SGPU_JSON_INTEGER_MAX;
	case SGPU_MEMBER_TRUTH:
		return json_is_boolean(value);
	case SGPU_MEMBER_TRUTHS:
		return json_is_boolean(value) || json_is_object(value);
	case SGPU_MEMBER_LIST:
		if (text) {
			return !strcmp(text, "any");
		} /* fall through */
	case SGPU_MEMBER_ARRAY:
		return json_is_array(value) && count >= row->min && count <= row->max;
	case SGPU_MEMBER_OBJECT:
		return json_is_object(value) && (!row->max || json_object_size(value) <= row->max);
	default:
		return true;
	}
}

static int refuse(const struct sgpu_member *row, const json_t *value, const char *where,
		  struct sgpu_error *error)
{
	static const char *const kinds[][2] = {
		[SGPU_MEMBER_TEXT] = { "a string", "bytes" },
		[SGPU_MEMBER_BYTES] = { "base64url", "bytes" },
		[SGPU_MEMBER_HEX] = { "lower-case hexadecimal", "bytes" },
		[SGPU_MEMBER_INTEGER] = { "a whole number between 0 and 2^53" },
		[SGPU_MEMBER_TRUTH] = { "true or false" },
		[SGPU_MEMBER_TRUTHS] = { "true, false, or an object" },
		[SGPU_MEMBER_LIST] = { "\"any\" or an array", "items" },
		[SGPU_MEMBER_ARRAY] = { "an array", "items" },
		[SGPU_MEMBER_OBJECT] = { "an object", "members" },
	};
	const char *kind = kinds[row->kind][0];

	return row->words && json_is_string(value)
		       ? sgpu_fail(error, SGPU_EINVALID, "%s is '%.24s', not one of '%s'", where,
				   json_string_value(value), row->words)
	       : row->max ? sgpu_fail(error, SGPU_EINVALID, "%s is not %s of %zu to %zu %s", where,
				      kind, row->kind == SGPU_MEMBER_HEX ? row->max : row->min,
				      row->max, kinds[row->kind][1])
			  : sgpu_fail(error, SGPU_EINVALID, "%s is not %s", where, kind);
}

static int check_inside(const struct sgpu_member *table, const char *path, const json_t *value,
			const char *where, struct sgpu_error *error);

static int check(const struct sgpu_member *table, const struct sgpu_member *row,
		 const json_t *value, const char *where, struct sgpu_error *error)
{
	return !fits(row, value)	      ? refuse(row, value, where, error)
	       : row->kind == SGPU_MEMBER_ANY ? 0
					      : check_inside(table, row->path, value, where, error);
}

static int check_inside(const struct sgpu_member *table, const char *path, const json_t *value,
			const char *where, struct sgpu_error *error)
{
	const struct sgpu_member *item = json_is_array(value) ? find(table, path, "*") : NULL;
	char inner[WHERE_SIZE];
	const char *key;
	json_t *member;
	int rc = 0;

	for (size_t i = 0; item && i < json_array_size(value) && !rc; i++) {
		snprintf(inner, sizeof(inner), "%s/%zu", where, i);
		rc = check(table, item, json_array_get(value, i), inner, error);
	}
	json_object_foreach ((json_t *)value, key, member) {
		const struct sgpu_member *row = find(table, path, key);
		snprintf(inner, sizeof(inner), "%s/%s", where, key);
		rc = rc	   ? rc
		     : row ? check(table, row, member, inner, error)
			   : sgpu_fail(error, SGPU_EINVALID, "%s: unknown member '%.24s'", where,
				       key);
	}
	for (const struct sgpu_member *row = table; row->path && json_is_object(value); row++) {
		const char *name = row->optional ? NULL : name_inside(row, path);
		if (!rc && name && strcmp(name, "*") && !json_object_get(value, name)) {
			rc = sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is missing", where, name);
		}
	}
	return rc;
}

int sgpu_document_parse(const char *text, size_t size, const char *where, json_t **document,
			struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	size_t position;
	int line, column,
		rc = sgpu_json_parse_at(text, size, false, SGPU_JSON_VALUES_MAX, document,
					&position, &inner);

	if (rc) {
		sgpu_json_place(text, position, &line, &column);
		sgpu_fail(error, rc, "%s:%d:%d: %s", where, line, column, inner.text);
	}
	return rc;
}

int sgpu_members_check(const json_t *object, const char *where, const struct sgpu_member *table,
		       struct sgpu_error *error)
{
	return json_is_object(object)
		       ? check_inside(table, "", object, where, error)
		       : sgpu_fail(error, SGPU_EINVALID, "%s is not an object", where);
}

const json_t *sgpu_member_at(const json_t *object, const char *path)
{
	while (object && *path) {
		const size_t length = strcspn(path, "/");
		object = json_is_array(object) ? json_array_get(object, strtoul(path, NULL, 10))
					       : json_object_getn(object, path, length);
		path += length + (path[length] == '/');
	}
	return object;
}
