/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from outside, as it may be shown: printable ASCII or escaped, short where it is no name, and nothing of a key.
 */
#include <string.h>

#include <sgpu/base.h>

#include "base/message.h"

enum { EXCERPT = 24, NAME_MAX_LENGTH = 64 };

size_t sgpu_escape(const void *bytes, size_t size, char *text, size_t room)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *in = bytes;
	size_t used = 0;

	for (size_t i = 0; i < size; i++) {
		const bool printable = in[i] >= 0x20 && in[i] < 0x7f;
		if (room - used <= (printable ? 1 : 4)) {
			break; /* never a part of an escape */
		}
		if (printable) {
			text[used++] = (char)in[i];
		} else {
			text[used++] = '\\';
			text[used++] = 'x';
			text[used++] = digits[in[i] >> 4];
			text[used++] = digits[in[i] & 15];
		}
	}
	text[used] = '\0';
	return used;
}

bool sgpu_is_control(uint32_t character)
{
	static const uint32_t ranges[][2] = {
		{ 0, 0x1f }, { 0x7f, 0x9f }, { 0x061c, 0x061c }, { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x2069 },
		{ 0xfeff, 0xfeff },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(ranges); i++) {
		if (character >= ranges[i][0] && character <= ranges[i][1]) {
			return true;
		}
	}
	return false;
}

static bool holds(const char *text, size_t size, const char *part)
{
	return memmem(text, size, part, strlen(part)) != NULL;
}

bool sgpu_looks_secret(const char *text, size_t size)
{
	static const char *const marks[] = { "\"kty\"", "\"k\"", "\"d\"", "-----BEGIN", "PRIVATE KEY" };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(marks); i++) {
		if (holds(text, size, marks[i])) {
			return true;
		}
	}
	return false;
}

const char *sgpu_excerpt(const char *value, size_t size, char text[SGPU_EXCERPT_MAX])
{
	const size_t shown = size <= EXCERPT ? size : sgpu_looks_secret(value, size) ? 0 : EXCERPT;
	const size_t used = sgpu_escape(value, shown, text, SGPU_EXCERPT_MAX);

	if (shown < size) {
		memcpy(text + used, "...", sizeof("..."));
	}
	return text;
}

/* A path of any length is shown in full. A long value with quotes, braces or line breaks, or without a '/', is a
 * text. */
bool sgpu_is_name(const char *value, size_t size)
{
	if (size <= EXCERPT) {
		return true;
	}
	for (size_t i = 0; i < size; i++) {
		if (strchr("{}\"\n\r", value[i])) {
			return false;
		}
	}
	return !sgpu_looks_secret(value, size) && (size <= NAME_MAX_LENGTH || memchr(value, '/', size));
}
