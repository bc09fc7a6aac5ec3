/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON over jansson: strict parsing, positions for messages, canonical form.
 */
#ifndef SGPU_JSON_H
#define SGPU_JSON_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Integers in every format of sgpu are below 2^53 (RFC 7493). */
#define SGPU_JSON_INTEGER_MAX ((uint64_t)1 << 53)

/* Values of a document that sgpu_json_parse takes. As a tree they take 16 MiB at most, beside their strings. */
enum { SGPU_JSON_VALUES_MAX = 1 << 16 };

/* Parses UTF-8 text: duplicate keys, trailing text, nesting beyond 64 and more than SGPU_JSON_VALUES_MAX values are
 * refused; depth and values are counted before anything is allocated for them. On a fault *line and *column (from 1;
 * either may be NULL) say where. The caller owns *value (json_decref).
 * Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_json_parse(const char *text, size_t size, json_t **value, int *line, int *column,
				    struct sgpu_error *error);
/* The same with another limit, for text that is not hostile, or is known to be short. */
SGPU_MUST_CHECK int sgpu_json_parse_most(const char *text, size_t size, size_t values_max, json_t **value, int *line,
					 int *column, struct sgpu_error *error);

/* A long document a piece at a time, since a tree takes ten times as much memory as its text: an object of which some
 * members are arrays whose elements are read one by one. */
struct sgpu_json_part {
	const char *text; /* of one element, borrowed; what it is, sgpu_json_part_parse says */
	size_t size;
};
struct sgpu_json_list {
	const char *key;      /* of the document's member */
	size_t count_max;     /* more elements are refused */
	size_t part_max;      /* so is a longer element: bytes; 0: any */
	size_t count;         /* filled in: elements found */
	struct sgpu_json_part *parts; /* filled in, from malloc: sgpu_json_lists_clear */
};
/* *frame is the document with these arrays empty; the text of the rest has at most frame_max bytes (0: any). The
 * frame is checked as sgpu_json_parse does, the parts are not.
 * Errors: SGPU_EINVALID, with *line and *column; SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_json_split(const char *text, size_t size, struct sgpu_json_list *lists, size_t list_count,
				    size_t frame_max, json_t **frame, int *line, int *column, struct sgpu_error *error);
/* Any value. *line and *column are the place in `text`, the whole document; all three may be NULL. */
SGPU_MUST_CHECK int sgpu_json_part_parse(const struct sgpu_json_part *part, const char *text, json_t **value, int *line,
					 int *column, struct sgpu_error *error);
void sgpu_json_lists_clear(struct sgpu_json_list *lists, size_t list_count);

/* Canonical form after RFC 8785 (members sorted by UTF-16 code units, shortest numbers). *text comes from malloc,
 * NUL-terminated; the caller frees it. Integers at or beyond 2^53 are SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_json_canonical(const json_t *value, char **text, size_t *size, struct sgpu_error *error);

/* The same of an object some of whose members, whatever they are in `value`, are lists that are made an element at a
 * time: `item` returns a new reference, NULL when out of memory. */
struct sgpu_json_items {
	const char *key;
	size_t count;
	json_t *(*item)(void *argument, size_t index);
	void *argument;
};
SGPU_MUST_CHECK int sgpu_json_canonical_items(const json_t *value, const struct sgpu_json_items *lists,
					      size_t list_count, char **text, size_t *size, struct sgpu_error *error);

/* Where each value of a text stands, by JSON pointer (RFC 6901). The text must have parsed; it is only read while
 * the index is made. The position of an object's member is that of its key, of anything else that of the value. */
struct sgpu_json_index;
SGPU_MUST_CHECK int sgpu_json_index_create(const char *text, size_t size, struct sgpu_json_index **index,
					   struct sgpu_error *error);
void sgpu_json_index_free(struct sgpu_json_index **index);
/* Line and column from 1 of a pointer ("" is the document), or of its nearest parent that is there. */
void sgpu_json_locate(const struct sgpu_json_index *index, const char *pointer, int *line, int *column);

/* Member access for strict readers: each fails with SGPU_EINVALID and names the member. `where` names the object
 * in messages, "batch.json: /segments/3". */
SGPU_MUST_CHECK int sgpu_json_string(const json_t *object, const char *where, const char *key, const char **value,
				     struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_json_u64(const json_t *object, const char *where, const char *key, uint64_t *value,
				  struct sgpu_error *error);
/* A member that holds exactly `size` bytes in base64url. */
SGPU_MUST_CHECK int sgpu_json_bytes(const json_t *object, const char *where, const char *key, void *data, size_t size,
				    struct sgpu_error *error);
/* Refuses any member that is not in the NULL-terminated list. */
SGPU_MUST_CHECK int sgpu_json_only(const json_t *object, const char *where, const char *const *keys,
				   struct sgpu_error *error);
/* A new JSON string of bytes in base64url, NULL when out of memory. */
json_t *sgpu_json_from_bytes(const void *data, size_t size);

#ifdef __cplusplus
}
#endif
#endif
