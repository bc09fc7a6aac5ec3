/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a long document into parts. Elements are delimited only by brackets, quotes and commas;
 * parsing an element decides whether it is valid. If the frame and all parts are valid, so is the
 * whole document. Also finds where a value lies in the text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"

enum { TOKEN_MAX = 512, LONG = 1 << 20 };

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static const char *skip_blanks(const char *text, const char *end)
{
	while (text < end && is_blank(*text)) {
		text++;
	}
	return text;
}

/* Skips a string from its opening quote to after the closing one, or to the end. */
static const char *string_end(const char *text, const char *end)
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
			text = string_end(text, end);
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

static int add_part(struct sgpu_json_list *list, const char *begin, const char *end,
		    struct sgpu_error *error)
{
	begin = skip_blanks(begin, end);
	while (end > begin && is_blank(end[-1])) {
		end--;
	}
	if (list->count == list->count_max) {
		return sgpu_fail(error, SGPU_EINVALID, "there are more than %zu %s",
				 list->count_max, list->key);
	}
	if (list->part_max && (size_t)(end - begin) > list->part_max) {
		return sgpu_fail(error, SGPU_EINVALID, "an element is too long");
	}
	if ((list->count & (list->count - 1)) == 0) { /* all that there is room for are taken */
		void *grown = reallocarray(list->parts, list->count ? 2 * list->count : 1,
					   sizeof(*list->parts));

		if (!grown) {
			return sgpu_fail_nomem(error);
		}
		list->parts = grown;
	}
	list->parts[list->count++] = (struct sgpu_json_part){ begin, (size_t)(end - begin) };
	return SGPU_OK;
}

/* Splits a list. *at moves from after its opening bracket to the closing one, or to the end of a
 * document that was cut short; after an error, it is the element. */
static int split_list(struct sgpu_json_list *list, const char **at, const char *end,
		      struct sgpu_error *error)
{
	const char *next = skip_blanks(*at, end);
	int rc;

	if (next < end && *next == ']') {
		*at = next;
		return SGPU_OK;
	}
	for (;; ++*at) {
		next = element_end(*at, end, ']');
		rc = add_part(list, *at, next, error);
		if (rc != SGPU_OK) {
			return rc;
		}
		*at = next;
		if (next == end || *next == ']') {
			return SGPU_OK;
		}
	}
}

/* Whether a key, in its quotes, is `name`. jansson decodes keys with escapes. */
static bool is_key(const char *key, size_t size, const char *name)
{
	const size_t length = strlen(name);

	if (!memchr(key, '\\', size)) {
		return size == length + 2 && !memcmp(name, key + 1, length);
	}
	json_t *decoded = json_loadb(key, size, JSON_DECODE_ANY, NULL);
	const bool same = decoded && !strcmp(json_string_value(decoded), name);

	json_decref(decoded);
	return same;
}

/* Returns the list whose key is the string from `key` to *at, and moves *at to after its opening
 * bracket. NULL: there is none, or it was split already. Parsing the frame then reports the
 * repeated key. */
static struct sgpu_json_list *find_list(struct sgpu_json_list *lists, size_t count, const char *key,
					const char **at, const char *end)
{
	const size_t size = (size_t)(*at - key);
	const char *next = skip_blanks(*at, end);

	next = next < end && *next == ':' ? skip_blanks(next + 1, end) : end;
	for (size_t i = 0; next < end && *next == '[' && i < count; i++) {
		if (is_key(key, size, lists[i].key)) {
			*at = lists[i].count ? *at : next + 1;
			return lists[i].count ? NULL : &lists[i];
		}
	}
	return NULL;
}

/* Writes the document to `frame`, which has its size, with blanks in the place of the elements, so
 * that both have the same positions. *at: how far it came. */
static int split(const char *text, size_t size, struct sgpu_json_list *lists, size_t list_count,
		 size_t frame_max, char *frame, const char **at, struct sgpu_error *error)
{
	const char *end = text + size;
	size_t used = 0;
	int depth = 0, rc = SGPU_OK;

	memset(frame, ' ', size);
	for (*at = text; rc == SGPU_OK && *at < end;) {
		struct sgpu_json_list *list = NULL;
		const char *begin = *at;

		if (*begin == '"') {
			*at = string_end(begin, end);
			list = depth == 1 ? find_list(lists, list_count, begin, at, end) : NULL;
			depth += list != NULL;
		} else {
			depth +=
				(*begin == '{' || *begin == '[') - (*begin == '}' || *begin == ']');
			++*at;
		}
		memcpy(frame + (begin - text), begin, (size_t)(*at - begin));
		used += (size_t)(*at - begin);
		rc = list ? split_list(list, at, end, error) : SGPU_OK;
	}
	return rc == SGPU_OK && frame_max && used > frame_max
		       ? sgpu_fail(error, SGPU_EINVALID,
				   "%zu bytes beside the lists, at most %zu are possible", used,
				   frame_max)
		       : rc;
}

int sgpu_json_split(const char *text, size_t size, struct sgpu_json_list *lists, size_t list_count,
		    size_t frame_max, json_t **frame, int *line, int *column,
		    struct sgpu_error *error)
{
	/* A long copy goes back to the kernel, and is no hole in the heap. */
	const bool mapped = size > LONG;
	char *copy = mapped ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0)
			    : malloc(size + 1);
	const char *at = text;
	size_t position = 0;
	int ignored;

	*frame = NULL;
	for (size_t i = 0; i < list_count; i++) {
		lists[i].count = 0;
		lists[i].parts = NULL;
	}
	copy = copy == MAP_FAILED ? NULL : copy;
	int rc = copy ? split(text, size, lists, list_count, frame_max, copy, &at, error)
		      : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		rc = sgpu_json_parse_at(copy, size, false, SGPU_JSON_VALUES_MAX, frame, &position,
					error);
		at = text + position;
	}
	if (mapped && copy) {
		munmap(copy, size);
	} else {
		free(copy);
	}
	sgpu_json_place(text, rc ? (size_t)(at - text) : 0, line ? line : &ignored,
			column ? column : &ignored);
	if (rc != SGPU_OK) {
		sgpu_json_lists_clear(lists, list_count);
	}
	return rc;
}

int sgpu_json_part_parse(const struct sgpu_json_part *part, const char *text, json_t **value,
			 int *line, int *column, struct sgpu_error *error)
{
	size_t position = 0;
	int rc = sgpu_json_parse_at(part->text, part->size, true, SGPU_JSON_VALUES_MAX, value,
				    &position, error);

	if (rc != SGPU_OK && text && line && column) {
		sgpu_json_place(text, (size_t)(part->text - text) + position, line, column);
	}
	return rc;
}

void sgpu_json_lists_clear(struct sgpu_json_list *lists, size_t list_count)
{
	for (size_t i = 0; i < list_count; i++) {
		free(lists[i].parts);
		lists[i].parts = NULL;
		lists[i].count = 0;
	}
}

/* ---- places of values ---- */
/* Reads a token of a pointer, from its slash on. Returns the rest, or NULL for a token that is too
 * long or was cut off. */
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

/* Finds an entry of the object or array at `at`. Returns its key or, in an array, its value, and
 * NULL if there is none; *value is the value in both cases. */
static const char *find_entry(const char *at, const char *end, const char *name, const char **value)
{
	const bool object = at < end && *at == '{';
	const char closing = object ? '}' : ']';
	char number[24];

	if (!object && (at == end || *at != '[')) {
		return NULL;
	}
	for (unsigned long i = 0;; i++) {
		const char *entry = at = skip_blanks(at + 1, end);
		bool found;

		if (at == end || *at == closing) {
			return NULL;
		}
		snprintf(number, sizeof(number), "%lu", i);
		found = !object && strcmp(number, name) == 0;
		if (object) {
			at = string_end(at, end);
			found = is_key(entry, (size_t)(at - entry), name);
			at = skip_blanks(at, end);
			at = skip_blanks(at + (at < end), end); /* after the colon */
		}
		if (found) {
			*value = at;
			return entry;
		}
		at = element_end(at, end, closing);
		if (at == end || *at == closing) {
			return NULL;
		}
	}
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
