/* SPDX-License-Identifier: Apache-2.0
 *
 * The position of each value of a JSON text, from one pass over text that jansson has accepted.
 * Messages can thus name the line and column of a value that is valid JSON but wrong.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "manifest/reader.h"

struct entry {
	uint64_t hash; /* of the JSON pointer */
	int line, column;
};

struct sgpu_json_index {
	struct entry *entries;
	size_t count, capacity;
};

struct scan {
	const char *at, *end, *line_start;
	int line;
	struct sgpu_json_index *index;
	bool failed;
};

/* FNV-1a: a collision only gives a message a wrong position. */
static const uint64_t hash_start = 0xcbf29ce484222325u;

static uint64_t hash_bytes(uint64_t hash, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
	}
	return hash;
}

/* Hashes one token of a pointer: '/' and the name with '~' and '/' escaped (RFC 6901). */
static uint64_t hash_token(uint64_t hash, const char *name, size_t size)
{
	hash = hash_bytes(hash, "/", 1);
	for (size_t i = 0; i < size; i++) {
		if (name[i] == '~') {
			hash = hash_bytes(hash, "~0", 2);
		} else if (name[i] == '/') {
			hash = hash_bytes(hash, "~1", 2);
		} else {
			hash = hash_bytes(hash, name + i, 1);
		}
	}
	return hash;
}

static void add(struct scan *scan, uint64_t hash, int line, int column)
{
	struct sgpu_json_index *index = scan->index;

	if (index->count == index->capacity) {
		size_t capacity = index->capacity ? 2 * index->capacity : 256;
		struct entry *entries = realloc(index->entries, capacity * sizeof(*entries));
		if (!entries) {
			scan->failed = true;
			return;
		}
		index->entries = entries;
		index->capacity = capacity;
	}
	index->entries[index->count++] = (struct entry){ hash, line, column };
}

static int column(const struct scan *scan)
{
	return (int)(scan->at - scan->line_start) + 1;
}

static void skip_blanks(struct scan *scan)
{
	for (; scan->at < scan->end && strchr(" \t\r\n", *scan->at) && *scan->at; scan->at++) {
		if (*scan->at == '\n') {
			scan->line++;
			scan->line_start = scan->at + 1;
		}
	}
}

/* Skips a string with its quotes; *plain: it has no escapes. */
static void skip_string(struct scan *scan, bool *plain)
{
	*plain = true;
	for (scan->at++; scan->at < scan->end && *scan->at != '"'; scan->at++) {
		if (*scan->at == '\\') {
			*plain = false;
			scan->at++;
		}
	}
	if (scan->at < scan->end) {
		scan->at++;
	}
}

/* Returns the hash of a member's pointer; jansson decodes a key with escapes. */
static uint64_t hash_key(uint64_t hash, const char *begin, const char *end, bool plain)
{
	if (plain) {
		return hash_token(hash, begin + 1, (size_t)(end - begin) - 2);
	}
	json_t *key = json_loadb(begin, (size_t)(end - begin), JSON_DECODE_ANY, NULL);
	hash = hash_token(hash, json_string_value(key) ? json_string_value(key) : "",
			  json_string_length(key));
	json_decref(key);
	return hash;
}

static void scan_value(struct scan *scan, uint64_t hash);

static void scan_object(struct scan *scan, uint64_t hash)
{
	for (scan->at++; !scan->failed;) {
		skip_blanks(scan);
		if (scan->at >= scan->end || *scan->at != '"') {
			break; /* '}' */
		}
		const char *begin = scan->at;
		int line = scan->line, place = column(scan);
		bool plain;
		skip_string(scan, &plain);
		uint64_t member = hash_key(hash, begin, scan->at, plain);
		add(scan, member, line, place);
		skip_blanks(scan);
		scan->at++; /* ':' */
		scan_value(scan, member);
		skip_blanks(scan);
		if (scan->at >= scan->end || *scan->at != ',') {
			break;
		}
		scan->at++;
	}
	scan->at += scan->at < scan->end;
}

static void scan_array(struct scan *scan, uint64_t hash)
{
	unsigned long number = 0;

	for (scan->at++; !scan->failed; number++) {
		skip_blanks(scan);
		if (scan->at >= scan->end || *scan->at == ']') {
			break;
		}
		char name[24];
		int size = snprintf(name, sizeof(name), "%lu", number);
		uint64_t item = hash_token(hash, name, (size_t)size);
		add(scan, item, scan->line, column(scan));
		scan_value(scan, item);
		skip_blanks(scan);
		if (scan->at >= scan->end || *scan->at != ',') {
			break;
		}
		scan->at++;
	}
	scan->at += scan->at < scan->end;
}

/* Depth is bounded by sgpu_json_parse. */
static void scan_value(struct scan *scan, uint64_t hash)
{
	bool plain;

	skip_blanks(scan);
	if (scan->at >= scan->end) {
		return;
	}
	if (*scan->at == '{') {
		scan_object(scan, hash);
	} else if (*scan->at == '[') {
		scan_array(scan, hash);
	} else if (*scan->at == '"') {
		skip_string(scan, &plain);
	} else {
		while (scan->at < scan->end && !strchr(",]} \t\r\n", *scan->at)) {
			scan->at++;
		}
	}
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

int sgpu_json_index_create(const char *text, size_t size, struct sgpu_json_index **index_out,
			   struct sgpu_error *error)
{
	struct sgpu_json_index *index = calloc(1, sizeof(*index));
	struct scan scan = {
		.at = text, .end = text + size, .line_start = text, .line = 1, .index = index
	};

	if (!index) {
		return sgpu_fail_nomem(error);
	}
	skip_blanks(&scan);
	add(&scan, hash_start, scan.line, column(&scan));
	scan_value(&scan, hash_start);
	if (scan.failed) {
		sgpu_json_index_free(&index);
		return sgpu_fail_nomem(error);
	}
	qsort(index->entries, index->count, sizeof(*index->entries), compare);
	*index_out = index;
	return 0;
}

void sgpu_json_index_free(struct sgpu_json_index **index)
{
	if (index && *index) {
		free((*index)->entries);
		free(*index);
		*index = NULL;
	}
}

void sgpu_json_locate(const struct sgpu_json_index *index, const char *pointer, int *line,
		      int *column_out)
{
	size_t size = strlen(pointer);

	for (;;) {
		struct entry key = { .hash = hash_bytes(hash_start, pointer, size) };
		const struct entry *found =
			bsearch(&key, index->entries, index->count, sizeof(key), compare);
		if (found) {
			*line = found->line;
			*column_out = found->column;
			return;
		}
		while (size && pointer[size - 1] != '/') {
			size--;
		}
		if (!size) {
			*line = *column_out = 1;
			return;
		}
		size--; /* also drop the '/': this gives the parent */
	}
}
