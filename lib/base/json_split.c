/* SPDX-License-Identifier: Apache-2.0
 *
 * Long documents, whose arrays are parsed one element at a time. Brackets, quotes and commas
 * delimit elements; parsing decides whether they are valid. If the frame and all elements are
 * valid, so is the document. Also finds where a value lies in the text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { TOKEN_MAX = 512, LISTS_MAX = 2 };

static const char *skip_blanks(const char *text, const char *end)
{
	while (text < end && (*text == ' ' || *text == '\n' || *text == '\t' || *text == '\r')) {
		text++;
	}
	return text;
}

const char *sgpu_json_string_end(const char *text, const char *end)
{
	for (text++; text < end && *text != '"'; text++) {
		text += *text == '\\' && text + 1 < end;
	}
	return text < end ? text + 1 : end;
}

/* Skips an element, to the comma or the closing bracket after it, or to the end. */
static const char *element_end(const char *text, const char *end, char closing)
{
	int depth = 0;

	while (text < end) {
		if (*text == '"') {
			text = sgpu_json_string_end(text, end);
			continue;
		}
		if (!depth && (*text == ',' || *text == closing)) {
			break;
		}
		depth += (*text == '{' || *text == '[') - (*text == '}' || *text == ']');
		text++;
	}
	return text;
}

/* Moves to the next entry of an object or array that `closing` ends. *at: from its opening bracket,
 * or the comma before the entry, to the comma or bracket after it. Returns the key or, in an array,
 * the value, and *value; NULL: none. */
static const char *next_entry(const char **at, const char *end, char closing, const char **value)
{
	const char *entry = *at < end && **at != closing ? skip_blanks(*at + 1, end) : end;

	if (entry == end || *entry == closing) {
		return NULL;
	}
	*value = entry;
	if (closing == '}') {
		*value = skip_blanks(sgpu_json_string_end(entry, end), end); /* the colon */
		*value = skip_blanks(*value + (*value < end), end);
	}
	*at = element_end(*value, end, closing);
	return entry;
}

/* Whether the string that begins at `key` is `name`. jansson decodes keys with escapes. */
static bool is_key(const char *key, const char *end, const char *name)
{
	const size_t size = (size_t)(sgpu_json_string_end(key, end) - key), length = strlen(name);

	if (!memchr(key, '\\', size)) {
		return size == length + 2 && !memcmp(name, key + 1, length);
	}
	json_t *decoded = json_loadb(key, size, JSON_DECODE_ANY, NULL);
	const bool same = decoded && !strcmp(json_string_value(decoded), name);

	json_decref(decoded);
	return same;
}

/* Returns the list that is the member `key`, and was not found before. */
static struct sgpu_json_list *find_list(struct sgpu_json_list *lists, size_t count, const char *key,
					const char *value, const char *end)
{
	for (size_t i = 0; value < end && *value == '[' && i < count; i++) {
		if (!lists[i].at && is_key(key, end, lists[i].key)) {
			return &lists[i];
		}
	}
	return NULL;
}

/* Finds a list's elements from `at` on. *fault: an element that is too long or one too many. */
static int find_elements(struct sgpu_json_list *list, const char *at, const char *end,
			 const char **fault, struct sgpu_error *error)
{
	at = skip_blanks(at, end);
	list->at = list->end = at;
	if (at < end && *at == ']') {
		return SGPU_OK;
	}
	do {
		*fault = skip_blanks(at, end);
		list->end = at = element_end(at, end, ']');
		if (list->count++ == list->count_max) {
			return sgpu_fail(error, SGPU_EINVALID, "there are more than %zu %s",
					 list->count_max, list->key);
		}
		if (list->part_max && (size_t)(at - *fault) > list->part_max) {
			return sgpu_fail(error, SGPU_EINVALID, "an element is too long");
		}
	} while (at < end && *at++ == ',');
	return SGPU_OK;
}

int sgpu_json_frame(const char *text, size_t size, struct sgpu_json_list *lists, size_t list_count,
		    size_t frame_max, json_t **frame, size_t *position, struct sgpu_error *error)
{
	const char *end = text + size, *at = skip_blanks(text, end), *from = text, *key, *value;
	const struct sgpu_json_list *cuts[LISTS_MAX]; /* in the order of the text */
	size_t cut_count = 0, left = size;
	char *copy, *to;

	*frame = NULL;
	at = at < end && *at == '{' ? at : end;
	while ((key = next_entry(&at, end, '}', &value))) {
		struct sgpu_json_list *list = find_list(lists, list_count, key, value, end);

		if (list && find_elements(list, value + 1, end, &value, error) != SGPU_OK) {
			*position = (size_t)(value - text);
			return SGPU_EINVALID;
		}
		if (list) {
			left -= (size_t)(list->end - list->at);
			cuts[cut_count++] = list;
			/* Brackets that do not match would let lists overlap. */
			at = list->end < at ? at : end;
		}
	}
	*position = 0;
	if (frame_max && left > frame_max) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%zu bytes beside the lists, at most %zu are possible", left,
				 frame_max);
	}
	to = copy = malloc(left + 1);
	if (!copy) {
		return sgpu_fail_nomem(error);
	}
	for (size_t i = 0; i < cut_count; i++) {
		to = mempcpy(to, from, (size_t)(cuts[i]->at - from));
		from = cuts[i]->end;
	}
	memcpy(to, from, (size_t)(end - from));
	const int rc =
		sgpu_json_parse_at(copy, left, false, SGPU_JSON_VALUES_MAX, frame, position, error);
	free(copy);
	for (size_t i = 0; i < cut_count; i++) {
		*position += *position < (size_t)(cuts[i]->at - text)
				     ? 0
				     : (size_t)(cuts[i]->end - cuts[i]->at);
	}
	return rc;
}

int sgpu_json_next(struct sgpu_json_list *list, json_t **value, size_t *position,
		   struct sgpu_error *error)
{
	const char *begin = list->at, *end = element_end(begin, list->end, ']');

	list->at = end + (end < list->end);
	return sgpu_json_parse_at(begin, (size_t)(end - begin), true, SGPU_JSON_VALUES_MAX, value,
				  position, error);
}

/* ---- places of values ---- */
/* Reads a pointer's token, from its slash on. Returns the rest, or NULL for a token too long or cut
 * off. */
static const char *read_token(const char *pointer, char name[TOKEN_MAX])
{
	size_t used = 0;

	for (pointer++; *pointer && *pointer != '/'; pointer++) {
		char c = *pointer;

		if (c == '~') {
			c = *++pointer == '0' ? '~' : '/';
		}
		if (!*pointer || used + 1 == TOKEN_MAX) {
			return NULL;
		}
		name[used++] = c;
	}
	name[used] = '\0';
	return pointer;
}

/* Finds an entry of the object or array at `at`. Returns as next_entry does. */
static const char *find_entry(const char *at, const char *end, const char *name, const char **value)
{
	const bool object = at < end && *at == '{';
	const char *entry;
	char number[24];

	at = object || (at < end && *at == '[') ? at : end;
	for (unsigned long i = 0; (entry = next_entry(&at, end, object ? '}' : ']', value)); i++) {
		snprintf(number, sizeof(number), "%lu", i);
		if (object ? is_key(entry, end, name) : strcmp(number, name) == 0) {
			return entry;
		}
	}
	return NULL;
}

void sgpu_json_locate(const char *text, size_t size, const char *pointer, int *line, int *column)
{
	const char *end = text + size, *value = skip_blanks(text, end), *found = value;
	char name[TOKEN_MAX];

	while (*pointer) {
		const char *rest = read_token(pointer, name);
		const char *entry = rest ? find_entry(value, end, name, &value) : NULL;

		if (!entry) {
			break;
		}
		found = entry;
		pointer = rest;
	}
	sgpu_json_place(text, (size_t)(found - text), line, column);
}
