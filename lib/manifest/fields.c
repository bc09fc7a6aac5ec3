/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading members. On an error, functions here record a diagnostic and carry on.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/reader.h"

enum { REASON_MAX = 256 };

void sgpu_reader_at(struct sgpu_reader *reader, int list, int index)
{
	snprintf(reader->where, SGPU_WHERE_MAX, "/%s/%d", reader->lists[list].key, index);
}

char *sgpu_reader_enter(struct sgpu_reader *reader, const char *format, ...)
{
	char *end = reader->where + strlen(reader->where);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(end, SGPU_WHERE_MAX - (size_t)(end - reader->where), format, arguments);
	va_end(arguments);
	return end;
}

bool sgpu_reader_report(struct sgpu_reader *reader, const char *field, const char *hint,
			const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	sgpu_diagnostic_addv(reader->diagnostics, reader->where, field, hint, format, arguments);
	va_end(arguments);
	return false;
}

const char *sgpu_reader_hint(const char *name, const char *const *names, char hint[SGPU_HINT_MAX])
{
	/* The nearest type by its letters may have another size or sign. */
	const bool types = names[0] && sgpu_dtype_parse(names[0]) != SGPU_NONE;
	const char *nearest = types ? NULL : sgpu_nearest_name(name, names);

	if (!nearest) {
		return NULL;
	}
	snprintf(hint, SGPU_HINT_MAX, "did you mean '%s'?", nearest);
	return hint;
}

const char *sgpu_reader_number(double number, char text[SGPU_NUMBER_TEXT_MAX])
{
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, SGPU_NUMBER_TEXT_MAX, "%.*g", digits, number);
		if (strtod(text, NULL) == number) {
			break;
		}
	}
	return text;
}

/* Returns the number, or else what kind of value this is. */
static const char *describe(const json_t *value, char text[SGPU_NUMBER_TEXT_MAX])
{
	static const char *const kinds[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",	     [JSON_NULL] = "null",
	};

	if (json_is_integer(value)) {
		snprintf(text, SGPU_NUMBER_TEXT_MAX, "%" JSON_INTEGER_FORMAT,
			 json_integer_value(value));
		return text;
	}
	return json_is_real(value) ? sgpu_reader_number(json_real_value(value), text)
				   : kinds[json_typeof(value)];
}

bool sgpu_reader_refuse(struct sgpu_reader *reader, const char *field, const char *hint,
			const json_t *value, const char *format, ...)
{
	char text[SGPU_NUMBER_TEXT_MAX], what[REASON_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	return json_is_string(value) ? sgpu_reader_report(reader, field, hint, "'%s' %s",
							  json_string_value(value), what)
				     : sgpu_reader_report(reader, field, hint, "%s %s",
							  describe(value, text), what);
}

bool sgpu_reader_fields(struct sgpu_reader *reader, json_t *object, const char *const *names,
			int required, json_t **values)
{
	char hint[SGPU_HINT_MAX];
	const char *key;
	json_t *value;

	for (int i = 0; names[i]; i++) {
		values[i] = NULL;
	}
	if (!json_is_object(object)) {
		return sgpu_reader_refuse(reader, NULL, NULL, object, "is not an object");
	}
	json_object_foreach (object, key, value) {
		int i = 0;

		while (names[i] && strcmp(names[i], key) != 0) {
			i++;
		}
		if (names[i]) {
			values[i] = value;
		} else {
			sgpu_reader_report(reader, key, sgpu_reader_hint(key, names, hint),
					   "unknown field '%s'", key);
		}
	}
	for (int i = 0; i < required; i++) {
		if (!values[i]) {
			sgpu_reader_report(reader, NULL, NULL, "missing field '%s'", names[i]);
		}
	}
	return true;
}

const char *sgpu_reader_string(struct sgpu_reader *reader, const char *field, const json_t *value)
{
	const char *string = json_string_value(value);

	if (!value) {
		return NULL;
	}
	if (!string) {
		sgpu_reader_refuse(reader, field, NULL, value, "is not a string");
		return NULL;
	}
	if (strlen(string) != json_string_length(value)) {
		sgpu_reader_report(reader, field, NULL, "the string holds a NUL character");
		return NULL;
	}
	return string;
}

size_t sgpu_id_length(const char *id)
{
	static const char any[] =
		".-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
	const size_t length = strspn(id, any);

	return id[length] || *id == '.' || *id == '-' ? 0 : length;
}

const char *sgpu_reader_id(struct sgpu_reader *reader, const char *field, const json_t *value)
{
	const char *id = sgpu_reader_string(reader, field, value);
	const size_t length = id ? sgpu_id_length(id) : 0;

	if (id && (!length || length > SGPU_ID_MAX)) {
		sgpu_reader_refuse(reader, field, NULL, value,
				   "is not an id: 1 to %d letters, digits, '_', and after the "
				   "first '.' and '-'",
				   (int)SGPU_ID_MAX);
		return NULL;
	}
	return id;
}

/* Whether a number is whole, 2^53 or more in magnitude, and below 1e21, so that canonical form has
 * no exponent: readers of canonical JSON would refuse it. */
bool sgpu_reader_too_large(const json_t *number)
{
	double real = fabs(json_real_value(number));
	json_int_t integer = json_integer_value(number);

	return integer >= (json_int_t)SGPU_JSON_INTEGER_MAX ||
	       integer <= -(json_int_t)SGPU_JSON_INTEGER_MAX ||
	       (real >= (double)SGPU_JSON_INTEGER_MAX && real < 1e21);
}

bool sgpu_reader_u64(struct sgpu_reader *reader, const char *field, const json_t *value,
		     uint64_t *number)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) >= SGPU_JSON_INTEGER_MAX) {
		return sgpu_reader_refuse(reader, field, NULL, value,
					  "is not a whole number from 0, or is not below 2^53");
	}
	*number = (uint64_t)json_integer_value(value);
	return true;
}

int sgpu_reader_choice(struct sgpu_reader *reader, const char *field, const json_t *value,
		       const char *const *choices, int otherwise)
{
	const char *string = sgpu_reader_string(reader, field, value);
	char hint[SGPU_HINT_MAX], list[128];
	size_t used = 0;

	if (!string) {
		return otherwise;
	}
	for (int i = 0; choices[i]; i++) {
		if (strcmp(string, choices[i]) == 0) {
			return i;
		}
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
					 choices[i]);
	}
	sgpu_reader_refuse(reader, field, sgpu_reader_hint(string, choices, hint), value,
			   "is not one of %s", list);
	return otherwise;
}

int sgpu_ids_index(const json_t *ids, const char *id)
{
	const json_t *index = json_object_get(ids, id);

	return index ? (int)json_integer_value(index) : -1;
}

int sgpu_reader_reference(struct sgpu_reader *reader, const char *field, const char *id,
			  json_t *ids, const char *what)
{
	int index = id ? sgpu_ids_index(ids, id) : -1;

	if (id && index < 0) {
		sgpu_reader_report(reader, field, NULL, "'%s' is not %s of this manifest", id,
				   what);
		reader->use_unsure = true;
	}
	return index;
}

size_t sgpu_identifier(const char *name)
{
	size_t length =
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

	return name[length] || (*name >= '0' && *name <= '9') ? 0 : length;
}

static void add_dependency(struct sgpu_reader *reader, int of, int on)
{
	if (reader->dependency_count == reader->dependency_capacity) {
		const size_t capacity = 2 * reader->dependency_capacity + 64;
		struct sgpu_dependency *list =
			reallocarray(reader->dependencies, capacity, sizeof(*list));

		if (!list) {
			reader->no_memory = true;
			return;
		}
		reader->dependencies = list;
		reader->dependency_capacity = capacity;
	}
	reader->dependencies[reader->dependency_count++] = (struct sgpu_dependency){ of, on };
}

void sgpu_reader_dependencies(struct sgpu_reader *reader, int of, json_t *value)
{
	const struct sgpu_manifest *manifest = reader->manifest;
	json_t *item;
	size_t i;

	if (value && !json_is_array(value)) {
		sgpu_reader_refuse(reader, "dependencies", NULL, value, "is not an array");
	}
	json_array_foreach (value, i, item) {
		char *end = sgpu_reader_enter(reader, "/dependencies/%zu", i);
		const char *id = sgpu_reader_string(reader, NULL, item);
		const int operation = id ? sgpu_ids_index(manifest->operation_ids, id) : -1,
			  segment = id ? sgpu_ids_index(manifest->segment_ids, id) : -1;

		if (operation >= 0 || segment >= 0) {
			add_dependency(reader, of, operation >= 0 ? ~operation : segment);
		} else if (id) {
			sgpu_reader_refuse(
				reader, NULL, NULL, item,
				"is neither a segment nor an operation of this manifest");
		}
		*end = '\0';
	}
}
