/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of the members of JSON objects, for what comes from outside.
 */
#ifndef SGPU_ATTEST_MEMBERS_H
#define SGPU_ATTEST_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include <sgpu/error.h>

enum sgpu_member_kind {
	SGPU_MEMBER_TEXT,
	SGPU_MEMBER_INTEGER,
	SGPU_MEMBER_TRUTH,
	SGPU_MEMBER_BYTES /* base64url */,
	SGPU_MEMBER_HEX,
	SGPU_MEMBER_OBJECT,
	SGPU_MEMBER_ARRAY,
	SGPU_MEMBER_LIST /* an array, or the text "any" */,
};

/* One member; a table ends with a name that is NULL. Limits: characters of a text, bytes in
 * base64url or (max alone) in hexadecimal, items of an array. */
struct sgpu_member {
	const char *name;
	enum sgpu_member_kind kind;
	bool optional;
	size_t min, max;
	/* Of an object, or of each object in an array. NULL: the object is checked elsewhere, the
	 * array holds strings. */
	const struct sgpu_member *inside;
	size_t digits; /* of an array of strings: bytes in hexadecimal of each; 0: any text */
};

/* `where` names the object in messages. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_members_check(const json_t *object, const char *where,
				       const struct sgpu_member *members, struct sgpu_error *error);
/* Whether a text is one of a few words; the list ends with NULL. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_members_word(const json_t *object, const char *where, const char *key,
				      const char *const *words, struct sgpu_error *error);

#endif
