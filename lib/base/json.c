/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict JSON parsing and member access over jansson.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"

enum { DEPTH_MAX = 64 };

/* Bounds the cost of a tree before it is allocated: jansson takes 224 bytes for "{}", and accepts
 * 2048 levels of nesting. */
static int check_cost(const char *text, size_t size, size_t values_max, size_t *where,
		      struct sgpu_error *error)
{
	size_t values = 1;
	int depth = 0;

	for (const char *at = text, *end = text + size; at < end;) {
		const bool opens = *at == '{' || *at == '[';

		*where = (size_t)(at - text);
		values += opens || *at == ',';
		depth += opens - (*at == '}' || *at == ']');
		at = *at == '"' ? sgpu_json_string_end(at, end) : at + 1;
		if (depth > DEPTH_MAX) {
			return sgpu_fail(error, SGPU_EINVALID, "nested deeper than %d levels",
					 DEPTH_MAX);
		}
		if (values > values_max) {
			return sgpu_fail(error, SGPU_EINVALID, "more than %zu values", values_max);
		}
	}
	return SGPU_OK;
}

void sgpu_json_place(const char *text, size_t position, int *line, int *column)
{
	*line = 1;
	*column = 1;
	for (size_t i = 0; i < position; i++) {
		if (text[i] == '\n') {
			++*line;
			*column = 1;
		} else {
			*column += ((unsigned char)text[i] & 0xc0) != 0x80;
		}
	}
}

/* Reports a fault, quoting at most one punctuation mark: the text may be part of a secret. */
static int fail_parse(enum json_error_code why, const char *text, size_t position, size_t size,
		      struct sgpu_error *error)
{
	static const char *const words[] = {
		[json_error_invalid_utf8] = "the text is not UTF-8",
		[json_error_premature_end_of_input] = "the text ends before its JSON does",
		[json_error_end_of_input_expected] = "more text follows where the JSON has ended",
		[json_error_null_character] = "\\u0000 is not allowed in a text",
		[json_error_null_byte_in_key] = "\\u0000 is not allowed in a name",
		[json_error_duplicate_key] = "an object has this name twice",
		[json_error_numeric_overflow] = "the number is too large",
	};

	if ((size_t)why < SGPU_ARRAY_LENGTH(words) && words[why]) {
		return sgpu_fail(error, SGPU_EINVALID, "%s", words[why]);
	}
	if (position < size && ispunct((unsigned char)text[position]) && text[position] != '"') {
		return sgpu_fail(error, SGPU_EINVALID, "JSON has no '%c' at this place",
				 text[position]);
	}
	return sgpu_fail(error, SGPU_EINVALID,
			 size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0
				 ? "a byte order mark stands before the JSON"
				 : "what is here is not JSON");
}

int sgpu_json_parse_at(const char *text, size_t size, bool any, size_t values_max, json_t **value,
		       size_t *position, struct sgpu_error *error)
{
	json_error_t fault;

	*value = NULL;
	*position = 0;
	if (check_cost(text, size, values_max, position, error) != SGPU_OK) {
		return SGPU_EINVALID;
	}
	*value = json_loadb(text, size, JSON_REJECT_DUPLICATES | (any ? JSON_DECODE_ANY : 0),
			    &fault);
	if (!*value) {
		/* jansson states the number of bytes read; the fault is in the last one. */
		*position = fault.position > 0 ? (size_t)fault.position - 1 : 0;
		*position = *position < size ? *position : size;
		fail_parse(json_error_code(&fault), text, *position, size, error);
		/* jansson's message quotes the text, which may be secret. */
		sgpu_wipe(&fault, sizeof(fault));
		return SGPU_EINVALID;
	}
	return SGPU_OK;
}

int sgpu_json_parse(const char *text, size_t size, const char *where, json_t **value,
		    struct sgpu_error *error)
{
	struct sgpu_error fault = { 0 };
	size_t position;
	int rc = sgpu_json_parse_at(text, size, false, SGPU_JSON_VALUES_MAX, value, &position,
				    where ? &fault : error);

	return rc && where ? sgpu_fail(error, rc, "%s: %s", where, fault.text) : rc;
}

int sgpu_json_decode(const char *text, size_t length, const char *where, json_t **value,
		     struct sgpu_error *error)
{
	uint8_t *decoded = NULL;
	size_t size = 0;
	int rc = sgpu_base64url_read(text, length, where, &decoded, &size, error);

	*value = NULL;
	rc = rc ? rc : sgpu_json_parse((char *)decoded, size, where, value, error);
	free(decoded);
	return rc;
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
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is not between 0 and 2^53", where,
				 key);
	}
	*value = (uint64_t)number;
	return 0;
}

int sgpu_json_bytes(const json_t *object, const char *where, const char *key, void *data,
		    size_t size, struct sgpu_error *error)
{
	const char *text = NULL;
	struct sgpu_error fault;
	int rc = sgpu_json_string(object, where, key, &text, error);

	if (!rc && sgpu_base64url_decode(text, data, size, &fault)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: '%s' %s", where, key, fault.text);
	}
	return rc;
}

static int read_field(const json_t *object, const char *where, const struct sgpu_field *field,
		      struct sgpu_error *error)
{
	switch (field->kind) {
	case SGPU_FIELD_TEXT:
		return sgpu_json_string(object, where, field->key, field->to, error);
	case SGPU_FIELD_NUMBER:
		return sgpu_json_u64(object, where, field->key, field->to, error);
	case SGPU_FIELD_BYTES:
		return sgpu_json_bytes(object, where, field->key, field->to, field->size, error);
	default:
		*(json_t **)field->to = json_object_get(object, field->key);
		return 0;
	}
}

int sgpu_fields_read(const json_t *object, const char *where, const struct sgpu_field *fields,
		     size_t count, struct sgpu_error *error)
{
	const char *key;
	json_t *member;
	int rc = 0;

	if (!json_is_object(object)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is not an object", where);
	}
	json_object_foreach ((json_t *)(uintptr_t)object, key, member) {
		size_t i = 0;

		while (i < count && strcmp(key, fields[i].key) != 0) {
			i++;
		}
		if (i == count) {
			return sgpu_fail(error, SGPU_EINVALID, "%s: unknown member '%.40s'", where,
					 key);
		}
	}
	for (size_t i = 0; !rc && i < count; i++) {
		const bool given = json_object_get(object, fields[i].key) != NULL;

		if (fields[i].given) {
			*fields[i].given = given;
		}
		rc = given || !fields[i].given ? read_field(object, where, &fields[i], error) : 0;
	}
	return rc;
}

json_t *sgpu_json_from_bytes(const void *data, size_t size)
{
	json_malloc_t take;
	json_free_t give;
	json_t *value = NULL;

	/* As for trees: where a program ends without memory, no member is left out. */
	json_get_alloc_funcs(&take, &give);
	char *text = take(SGPU_BASE64URL_MAX(size));
	if (text) {
		sgpu_base64url_encode(data, size, text);
		value = json_string(text);
		sgpu_wipe(text, SGPU_BASE64URL_MAX(size));
		give(text);
	}
	return value;
}
