/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a long document into parts. Elements are delimited only by brackets, quotes and commas;
 * parsing an element decides whether it is valid. If the frame and all parts are valid, so is the
 * whole document. Also finds where a value lies in the text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { LISTS_MAX = 4, TOKEN_MAX = 512 };

struct cut {
	/* at offset frame_at, the frame lacks `removed` bytes of the document */
	size_t frame_at, removed;
};

/* One pass over the document. With `frame` NULL it only counts. */
struct pass {
	const char *text, *at, *end;
	struct sgpu_json_list *lists;
	size_t list_count;
	char *frame;
	size_t frame_size;
	struct cut cuts[LISTS_MAX];
	size_t cut_count;
	const char *long_part; /* the first element that is too long */
};

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

static void emit(struct pass *pass, const char *text, size_t size)
{
	if (pass->frame) {
		memcpy(pass->frame + pass->frame_size, text, size);
	}
	pass->frame_size += size;
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

static void add_part(struct pass *pass, struct sgpu_json_list *list, const char *begin,
		     const char *end)
{
	begin = skip_blanks(begin, end);
	while (end > begin && is_blank(end[-1])) {
		end--;
	}
	if (list->part_max && (size_t)(end - begin) > list->part_max && !pass->long_part) {
		pass->long_part = begin;
	}
	if (pass->frame) {
		list->parts[list->count] = (struct sgpu_json_part){ begin, (size_t)(end - begin) };
	}
	list->count++;
}

/* Splits a list, from its opening bracket to after the closing one, which is missing if the
 * document was cut short. */
static void split_list(struct pass *pass, struct sgpu_json_list *list)
{
	const char *open = pass->at, *begin = open + 1;

	pass->at = skip_blanks(begin, pass->end);
	if (pass->at < pass->end && *pass->at != ']') {
		for (;;) {
			pass->at = element_end(begin, pass->end, ']');
			add_part(pass, list, begin, pass->at);
			if (pass->at == pass->end || *pass->at == ']') {
				break;
			}
			begin = pass->at + 1;
		}
	}
	emit(pass, "[", 1);
	if (pass->cut_count < LISTS_MAX) {
		pass->cuts[pass->cut_count++] =
			(struct cut){ pass->frame_size, (size_t)(pass->at - open) - 1 };
	}
	if (pass->at < pass->end) {
		emit(pass, pass->at++, 1);
	}
}

/* Whether a key, in its quotes, is `name`. jansson decodes keys with escapes. */
static bool is_key(const char *key, size_t size, const char *name)
{
	const size_t length = strlen(name);

	if (!memchr(key, '\\', size)) {
		return size == length + 2 && !memcmp(name, key + 1, length);
	}
	if (size > 6 * length + 2) {
		return false;
	}
	json_t *decoded = json_loadb(key, size, JSON_DECODE_ANY, NULL);
	const bool same = decoded && !strcmp(json_string_value(decoded), name);

	json_decref(decoded);
	return same;
}

/* Returns the list with that key; NULL if there is none, or if it was split already. Parsing the
 * frame then reports the repeated key. */
static struct sgpu_json_list *find_list(const struct pass *pass, const char *key, size_t size)
{
	for (size_t i = 0; i < pass->list_count; i++) {
		struct sgpu_json_list *list = &pass->lists[i];

		if (is_key(key, size, list->key)) {
			return list->count ? NULL : list;
		}
	}
	return NULL;
}

/* Takes a member's key, and its value if that is a list to be split. */
static void take_key(struct pass *pass)
{
	const char *key = pass->at, *next = string_end(key, pass->end);
	struct sgpu_json_list *list = find_list(pass, key, (size_t)(next - key));

	if (list) {
		next = skip_blanks(next, pass->end);
	}
	if (list && next < pass->end && *next == ':') {
		next = skip_blanks(next + 1, pass->end);
	} else {
		list = NULL;
	}
	emit(pass, key, (size_t)(next - key));
	pass->at = next;
	if (list && next < pass->end && *next == '[') {
		split_list(pass, list);
	}
}

static void run(struct pass *pass)
{
	bool in_object = false, at_key = false;
	int depth = 0;

	for (pass->at = pass->text; pass->at < pass->end;) {
		char c = *pass->at;

		if (c == '"' && at_key) {
			at_key = false;
			take_key(pass);
			continue;
		}
		if (c == '"') {
			const char *next = string_end(pass->at, pass->end);

			emit(pass, pass->at, (size_t)(next - pass->at));
			pass->at = next;
			continue;
		}
		if (c == '{' || c == '[') {
			depth++;
			in_object = depth == 1 ? c == '{' : in_object;
		} else if (c == '}' || c == ']') {
			depth--;
		}
		if (!is_blank(c)) {
			at_key = depth == 1 && in_object && (c == '{' || c == ',');
		}
		emit(pass, pass->at++, 1);
	}
}

static int check_limits(const struct pass *pass, size_t frame_max, int *line, int *column,
			struct sgpu_error *error)
{
	for (size_t i = 0; i < pass->list_count; i++) {
		if (pass->lists[i].count > pass->lists[i].count_max) {
			return sgpu_fail(
				error, SGPU_EINVALID, "there are %zu %s, at most %zu are possible",
				pass->lists[i].count, pass->lists[i].key, pass->lists[i].count_max);
		}
	}
	if (pass->long_part) {
		sgpu_json_place(pass->text, (size_t)(pass->long_part - pass->text), line, column);
		return sgpu_fail(error, SGPU_EINVALID, "an element is too long");
	}
	if (frame_max && pass->frame_size > frame_max) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%zu bytes beside the lists, at most %zu are possible",
				 pass->frame_size, frame_max);
	}
	return SGPU_OK;
}

/* Allocates the memory that the first pass counted. */
static int allocate(struct pass *pass, struct sgpu_error *error)
{
	for (size_t i = 0; i < pass->list_count; i++) {
		struct sgpu_json_list *list = &pass->lists[i];

		list->parts = calloc(list->count + 1, sizeof(*list->parts));
		list->count = 0;
		if (!list->parts) {
			return sgpu_fail_nomem(error);
		}
	}
	pass->frame = malloc(pass->frame_size + 1);
	pass->frame_size = pass->cut_count = 0;
	return pass->frame ? SGPU_OK : sgpu_fail_nomem(error);
}

int sgpu_json_split(const char *text, size_t size, struct sgpu_json_list *lists, size_t list_count,
		    size_t frame_max, json_t **frame, int *line, int *column,
		    struct sgpu_error *error)
{
	struct pass pass = {
		.text = text, .end = text + size, .lists = lists, .list_count = list_count
	};
	int ignored[2];
	size_t position = 0, place;
	int rc;

	*frame = NULL;
	line = line ? line : &ignored[0];
	column = column ? column : &ignored[1];
	*line = *column = 1;
	for (size_t i = 0; i < list_count; i++) {
		lists[i].count = 0;
		lists[i].parts = NULL;
	}
	run(&pass);
	rc = check_limits(&pass, frame_max, line, column, error);
	rc = rc ? rc : allocate(&pass, error);
	if (rc == SGPU_OK) {
		run(&pass);
		rc = sgpu_json_parse_at(pass.frame, pass.frame_size, false, SGPU_JSON_VALUES_MAX,
					frame, &position, error);
		place = position;
		for (size_t i = 0; rc == SGPU_EINVALID && i < pass.cut_count; i++) {
			place += pass.cuts[i].frame_at <= position ? pass.cuts[i].removed : 0;
		}
		if (rc == SGPU_EINVALID) {
			sgpu_json_place(text, place, line, column);
		}
	}
	free(pass.frame);
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
