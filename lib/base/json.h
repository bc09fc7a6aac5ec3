/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON over jansson: strict parsing, canonical form.
 */
#ifndef SGPU_BASE_JSON_H
#define SGPU_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/error.h>

/* Integers in every format of sgpu are below 2^53 (RFC 7493). */
#define SGPU_JSON_INTEGER_MAX ((uint64_t)1 << 53)

/* The most values in a document: their tree takes at most 16 MiB, without the strings. */
enum { SGPU_JSON_VALUES_MAX = 1 << 16 };

/* Parses UTF-8 text. Refuses duplicate keys, trailing text, and, before memory is allocated for
 * them, nesting beyond 64 and more than SGPU_JSON_VALUES_MAX values. The message begins with
 * `where`, unless NULL. The caller owns *value (json_decref), which is NULL after an error. Errors:
 * SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_json_parse(const char *text, size_t size, const char *where,
				    json_t **value, struct sgpu_error *error);
/* Parses JSON in base64url, as sgpu_base64url_read takes it. */
SGPU_MUST_CHECK int sgpu_json_decode(const char *text, size_t length, const char *where,
				     json_t **value, struct sgpu_error *error);

/* A long array of an object. A tree takes ten times the memory of its text, so elements are parsed
 * one by one. */
struct sgpu_json_list {
	const char *key;      /* of the array in the object */
	size_t count_max;     /* more elements are refused */
	size_t part_max;      /* longer elements are refused; bytes, 0: any */
	size_t count;	      /* filled in: elements found */
	const char *at, *end; /* filled in: the text of the elements that are left, borrowed */
};
/* Parses a document as sgpu_json_parse does, with at most two such arrays empty, of at most
 * frame_max bytes (0: any), and finds their elements. After an error, *position is the offset of
 * the fault. Errors: SGPU_EINVALID, SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_json_frame(const char *text, size_t size, struct sgpu_json_list *lists,
				    size_t list_count, size_t frame_max, json_t **frame,
				    size_t *position, struct sgpu_error *error);
/* Parses the next of the `count` elements. *position counts from list->at. */
SGPU_MUST_CHECK int sgpu_json_next(struct sgpu_json_list *list, json_t **value, size_t *position,
				   struct sgpu_error *error);
/* Gives line and column, from 1, of a value (for a member, of its key) by its JSON pointer (RFC
 * 6901; "" is the document), or of its nearest existing parent. The text must be valid JSON. */
void sgpu_json_locate(const char *text, size_t size, const char *pointer, int *line, int *column);

/* Writes the canonical form of RFC 8785 (members sorted by UTF-16 code units, shortest numbers).
 * *text is from malloc, with a NUL; the caller frees it. Integers of 2^53 and more are
 * SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_json_canonical(const json_t *value, char **text, size_t *size,
					struct sgpu_error *error);

/* All fail with SGPU_EINVALID and name the member; `where` names the object: "batch.json:
 * /segments/3". */
SGPU_MUST_CHECK int sgpu_json_string(const json_t *object, const char *where, const char *key,
				     const char **value, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_json_u64(const json_t *object, const char *where, const char *key,
				  uint64_t *value, struct sgpu_error *error);
/* Reads a member that holds exactly `size` bytes in base64url. */
SGPU_MUST_CHECK int sgpu_json_bytes(const json_t *object, const char *where, const char *key,
				    void *data, size_t size, struct sgpu_error *error);
/* Decodes at most 4 MiB of base64url. *data is from malloc, with a NUL. `what` is for messages.
 * Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_base64url_read(const char *text, size_t length, const char *what,
					uint8_t **data, size_t *size, struct sgpu_error *error);

/* ---- objects whose members are known ---- */
enum sgpu_field_kind { SGPU_FIELD_TEXT, SGPU_FIELD_NUMBER, SGPU_FIELD_BYTES, SGPU_FIELD_JSON };
struct sgpu_field {
	const char *key;
	enum sgpu_field_kind kind;
	void *to;    /* const char **, borrowed; uint64_t *; `size` bytes; json_t **, borrowed */
	size_t size; /* in base64url */
	bool *given; /* the member is optional: whether it is there */
};
/* The row of bytes in an array. */
#define SGPU_BYTES(key, to)                                 \
	{                                                   \
		key, SGPU_FIELD_BYTES, to, sizeof(to), NULL \
	}
/* Reads the members of an object. Refuses any that is not in the table. */
SGPU_MUST_CHECK int sgpu_fields_read(const json_t *object, const char *where,
				     const struct sgpu_field *fields, size_t count,
				     struct sgpu_error *error);

/* Returns a new string in base64url; NULL: out of memory. */
json_t *sgpu_json_from_bytes(const void *data, size_t size);

#endif
