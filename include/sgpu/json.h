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

/* Parses UTF-8 text: duplicate keys, trailing text and nesting beyond 64 are refused. On a fault *line and *column
 * (from 1; either may be NULL) say where. The caller owns *value (json_decref).
 * Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_json_parse(const char *text, size_t size, json_t **value, int *line, int *column,
				    struct sgpu_error *error);

/* Canonical form after RFC 8785 (members sorted by UTF-16 code units, shortest numbers). *text comes from malloc,
 * NUL-terminated; the caller frees it. Integers at or beyond 2^53 are SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_json_canonical(const json_t *value, char **text, size_t *size, struct sgpu_error *error);

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
