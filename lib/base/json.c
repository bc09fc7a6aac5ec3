/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict JSON parsing and member access over jansson.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/json.h>

enum { DEPTH_MAX = 64 };

/* jansson's own limit is 2048 levels of recursion; ours is checked before it parses. */
static bool too_deep(const char *text, size_t size, size_t *where)
{
	int depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < size; i++) {
		char c = text[i];
		if (in_string) {
			if (c == '\\') {
				i++;
			} else if (c == '"') {
				in_string = false;
			}
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			if (++depth > DEPTH_MAX) {
				*where = i;
				return true;
			}
		} else if (c == '}' || c == ']') {
			depth--;
		}
	}
	return false;
}

static void line_and_column(const char *text, size_t position, int *line, int *column)
{
	*line = 1;
	*column = 1;
	for (size_t i = 0; i < position; i++) {
		if (text[i] == '\n') {
			++*line;
			*column = 1;
		} else {
			++*column;
		}
	}
}

int sgpu_json_parse(const char *text, size_t size, json_t **value, int *line, int *column, struct sgpu_error *error)
{
	int ignored;
	size_t where;
	json_error_t fault;

	line = line ? line : &ignored;
	column = column ? column : &ignored;
	*line = *column = 1;
	if (too_deep(text, size, &where)) {
		line_and_column(text, where, line, column);
		return sgpu_fail(error, SGPU_EINVALID, "nested deeper than %d levels", DEPTH_MAX);
	}
	*value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault);
	if (!*value) {
		*line = fault.line > 0 ? fault.line : 1;
		*column = fault.column > 0 ? fault.column : 1;
		return sgpu_fail(error, SGPU_EINVALID, "%s", fault.text);
	}
	return 0;
}

int sgpu_json_string(const json_t *object, const char *where, const char *key, const char **value,
		     struct sgpu_error *error)
{
	const json_t *member = json_object_get(object, key);

	if (!json_is_string(member)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is %s", where, key,
				 member ? "not a string" : "missing");
	}
	*value = json_string_value(member);
	return 0;
}

int sgpu_json_u64(const json_t *object, const char *where, const char *key, uint64_t *value,
		  struct sgpu_error *error)
{
	const json_t *member = json_object_get(object, key);

	if (!json_is_integer(member)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is %s", where, key,
				 member ? "not a whole number" : "missing");
	}
	json_int_t number = json_integer_value(member);
	if (number < 0 || (uint64_t)number >= SGPU_JSON_INTEGER_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is not between 0 and 2^53", where, key);
	}
	*value = (uint64_t)number;
	return 0;
}

int sgpu_json_bytes(const json_t *object, const char *where, const char *key, void *data, size_t size,
		    struct sgpu_error *error)
{
	const char *text = NULL;
	struct sgpu_error fault;
	int code = sgpu_json_string(object, where, key, &text, error);

	if (!code && sgpu_base64url_decode(text, data, size, &fault)) {
		code = sgpu_fail(error, SGPU_EINVALID, "%s: '%s' %s", where, key, fault.text);
	}
	return code;
}

int sgpu_json_only(const json_t *object, const char *where, const char *const *keys, struct sgpu_error *error)
{
	const char *key;
	json_t *member;

	if (!json_is_object(object)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is not an object", where);
	}
	json_object_foreach((json_t *)object, key, member) {
		const char *const *known = keys;
		while (*known && strcmp(*known, key)) {
			known++;
		}
		if (!*known) {
			return sgpu_fail(error, SGPU_EINVALID, "%s: unknown member '%s'", where, key);
		}
	}
	return 0;
}

json_t *sgpu_json_from_bytes(const void *data, size_t size)
{
	char *text = malloc(SGPU_BASE64URL_MAX(size));
	json_t *value = NULL;

	if (text) {
		sgpu_base64url_encode(data, size, text);
		value = json_string(text);
		free(text);
	}
	return value;
}
