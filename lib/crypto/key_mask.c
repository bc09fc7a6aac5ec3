/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a key file, for a parser that must not see secrets: the JSON parser keeps copies of
 * what it reads and quotes it in messages. Every long string is therefore replaced by a mark of the
 * same length first, and looked up again when its bytes are needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/key.h"

enum { DIGITS = 43 };

/* A long string of plain characters becomes '#', the offset of its first byte, and more '#'. */
static void mask_string(struct sgpu_key_masked *masked, size_t begin, size_t end)
{
	char mark[SGPU_KEY_MASK_FROM];

	for (size_t i = begin; i < end; i++) {
		unsigned char c = (unsigned char)masked->text[i];
		if (c < 0x20 || c > 0x7e || c == '\\') {
			return; /* left to the parser, which may refuse it */
		}
	}
	memset(masked->copy + begin, '#', end - begin);
	int length = snprintf(mark, sizeof(mark), "%zu", begin);
	memcpy(masked->copy + begin + 1, mark, (size_t)length);
}

static int mask(struct sgpu_key_masked *masked, struct sgpu_error *error)
{
	size_t begin = 0;
	bool inside = false;

	masked->copy = malloc(masked->size + 1);
	if (!masked->copy) {
		return sgpu_fail_nomem(error);
	}
	memcpy(masked->copy, masked->text, masked->size);
	masked->copy[masked->size] = '\0';
	for (size_t i = 0; i < masked->size; i++) {
		char c = masked->text[i];
		if (inside && c == '\\') {
			i++;
		} else if (c == '"') {
			if (inside && i - begin >= SGPU_KEY_MASK_FROM) {
				mask_string(masked, begin, i);
			}
			inside = !inside;
			begin = i + 1;
		}
	}
	return 0;
}

/* The original bytes of a string of the masked text, not terminated. */
static const char *unmask(const struct sgpu_key_masked *masked, const char *value, size_t *length)
{
	*length = strlen(value);
	if (*length < SGPU_KEY_MASK_FROM || value[0] != '#') {
		return value;
	}
	size_t begin = strtoul(value + 1, NULL, 10);
	/* Cannot fail for a mark of ours; a string that only looks like one was masked itself. */
	if (begin > masked->size || *length > masked->size - begin) {
		return value;
	}
	return masked->text + begin;
}

int sgpu_key_masked_open(const char *text, size_t size, const char *name,
			 struct sgpu_key_masked *masked, struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	int line = 0, column = 0;

	*masked = (struct sgpu_key_masked){ .text = text, .size = size, .name = name };
	if (size > SGPU_KEY_TEXT_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: longer than %d bytes, so not a key",
				 name, SGPU_KEY_TEXT_MAX);
	}
	int code = mask(masked, error);
	if (!code && sgpu_json_parse(masked->copy, size, &masked->object, &line, &column, &inner)) {
		/* Not the parser's own message: for a malformed text it may quote unmasked bytes.
		 */
		code = sgpu_fail(error, inner.code, "%s:%d:%d: not a JSON Web Key", name, line,
				 column);
		masked->object = NULL;
	}
	sgpu_wipe(&inner, sizeof(inner));
	if (!code && !json_is_object(masked->object)) {
		code = sgpu_fail(error, SGPU_EINVALID, "%s: not a JSON Web Key: not an object",
				 name);
	}
	if (code) {
		sgpu_key_masked_close(masked);
	}
	return code;
}

void sgpu_key_masked_close(struct sgpu_key_masked *masked)
{
	json_decref(masked->object);
	masked->object = NULL;
	sgpu_free_wiped(&masked->copy, masked->size);
}

int sgpu_key_bytes(const struct sgpu_key_masked *masked, const json_t *object, const char *member,
		   uint8_t bytes[32], struct sgpu_error *error)
{
	const json_t *value = json_object_get(object, member);
	struct sgpu_error inner = { 0 };
	char digits[DIGITS + 1] = "";
	size_t length;

	if (!json_is_string(value)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is %s", masked->name, member,
				 value ? "not a string" : "missing");
	}
	const char *text = unmask(masked, json_string_value(value), &length);
	if (length != DIGITS) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: '%s' has %zu characters, not the %d of 32 bytes in base64url",
				 masked->name, member, length, DIGITS);
	}
	memcpy(digits, text, DIGITS);
	int code = sgpu_base64url_decode(digits, bytes, 32, &inner);
	sgpu_wipe(digits, sizeof(digits));
	return code ? sgpu_fail(error, code, "%s: '%s' %s", masked->name, member, inner.text) : 0;
}
