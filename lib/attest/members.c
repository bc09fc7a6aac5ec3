/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks JSON objects by tables of their members: types, sizes, what may be missing, and nothing
 * that is not in the table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/internal.h"
#include "attest/members.h"

enum { WHERE_SIZE = 160, TEXT_MAX = 4096 };

static int wrong(const char *where, const char *name, const char *what, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' %s", where, name, what);
}

static int check_bytes(const json_t *value, const char *where, const struct sgpu_member *member,
		       struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	uint8_t *data = NULL;
	size_t size = 0;

	if (!json_is_string(value)) {
		return wrong(where, member->name, "is not a string", error);
	}
	int code = sgpu_decode_base64url(json_string_value(value), json_string_length(value),
					 member->name, &data, &size, &inner);
	free(data);
	if (code) {
		return sgpu_fail(error, code, "%s: %s", where, inner.text);
	}
	return size >= member->min && size <= member->max
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID, "%s: '%s' has %zu bytes, not %zu to %zu",
				   where, member->name, size, member->min, member->max);
}

/* Lower case only, so that the same bytes have one text. */
static int check_hex(const json_t *value, const char *where, const struct sgpu_member *member,
		     struct sgpu_error *error)
{
	const char *text = json_string_value(value);

	return text && strlen(text) == 2 * member->max &&
			       strspn(text, "0123456789abcdef") == 2 * member->max
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID,
				   "%s: '%s' is not %zu digits of lower-case hexadecimal", where,
				   member->name, 2 * member->max);
}

static int check_array(const json_t *value, const char *where, const struct sgpu_member *member,
		       struct sgpu_error *error)
{
	char inner[WHERE_SIZE];
	size_t count = json_array_size(value);

	if (!json_is_array(value) || count < member->min || count > member->max) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is not an array of %zu to %zu",
				 where, member->name, member->min, member->max);
	}
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_array_get(value, i);
		snprintf(inner, sizeof(inner), "%s/%s/%zu", where, member->name, i);
		if (!member->inside &&
		    (!json_is_string(item) || json_string_length(item) > TEXT_MAX)) {
			return sgpu_fail(error, SGPU_EINVALID, "%s is not a string", inner);
		}
		int code =
			member->inside ? sgpu_members_check(item, inner, member->inside, error) : 0;
		if (!code && member->digits) {
			const struct sgpu_member digest = { .name = member->name,
							    .max = member->digits };
			code = check_hex(item, where, &digest, error);
		}
		if (code) {
			return code;
		}
	}
	return 0;
}

static int check_member(const json_t *value, const char *where, const struct sgpu_member *member,
			struct sgpu_error *error)
{
	char inner[WHERE_SIZE];

	switch (member->kind) {
	case SGPU_MEMBER_TEXT:
		return !json_is_string(value) ? wrong(where, member->name, "is not a string", error)
		       : json_string_length(value) < member->min ||
				       json_string_length(value) > member->max
			       ? wrong(where, member->name, "is too short or too long", error)
			       : 0;
	case SGPU_MEMBER_INTEGER:
		return !json_is_integer(value) || json_integer_value(value) < 0 ||
				       (uint64_t)json_integer_value(value) >= SGPU_JSON_INTEGER_MAX
			       ? wrong(where, member->name,
				       "is not a whole number between 0 and 2^53", error)
			       : 0;
	case SGPU_MEMBER_TRUTH:
		return json_is_boolean(value)
			       ? 0
			       : wrong(where, member->name, "is neither true nor false", error);
	case SGPU_MEMBER_BYTES:
		return check_bytes(value, where, member, error);
	case SGPU_MEMBER_LIST:
		if (json_is_string(value)) {
			return strcmp(json_string_value(value), "any")
				       ? wrong(where, member->name, "is neither a list nor \"any\"",
					       error)
				       : 0;
		}
		return check_array(value, where, member, error);
	case SGPU_MEMBER_ARRAY:
		return check_array(value, where, member, error);
	case SGPU_MEMBER_HEX:
		return check_hex(value, where, member, error);
	case SGPU_MEMBER_OBJECT:
	default:
		snprintf(inner, sizeof(inner), "%s/%s", where, member->name);
		return !json_is_object(value)
			       ? wrong(where, member->name, "is not an object", error)
		       : member->inside ? sgpu_members_check(value, inner, member->inside, error)
					: 0;
	}
}

int sgpu_members_check(const json_t *object, const char *where, const struct sgpu_member *members,
		       struct sgpu_error *error)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is not an object", where);
	}
	json_object_foreach ((json_t *)object, key, value) {
		const struct sgpu_member *member = members;
		while (member->name && strcmp(member->name, key)) {
			member++;
		}
		if (!member->name) {
			return sgpu_fail(error, SGPU_EINVALID, "%s: unknown member '%.24s'", where,
					 key);
		}
		int code = check_member(value, where, member, error);
		if (code) {
			return code;
		}
	}
	for (const struct sgpu_member *member = members; member->name; member++) {
		if (!member->optional && !json_object_get(object, member->name)) {
			return wrong(where, member->name, "is missing", error);
		}
	}
	return 0;
}

/* Whether a text is one of a few words. */
int sgpu_members_word(const json_t *object, const char *where, const char *key,
		      const char *const *words, struct sgpu_error *error)
{
	const char *text = json_string_value(json_object_get(object, key));

	for (; *words; words++) {
		if (text && !strcmp(text, *words)) {
			return 0;
		}
	}
	return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is '%.24s', which is none of its words",
			 where, key, text ? text : "");
}
