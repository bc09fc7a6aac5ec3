/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes text from outside fit to be shown: escapes control characters, cuts values that are no
 * names, and shows nothing of a key.
 */
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"

enum { EXCERPT = 24 };

/* Whether a character moves the cursor, changes the direction of writing, or is invisible
 * (Unicode's Default_Ignorable_Code_Point, and annotations). */
static bool is_control(uint32_t character)
{
	static const uint32_t ranges[][2] = {
		{ 0, 0x1f },	      { 0x7f, 0x9f },	    { 0xad, 0xad },
		{ 0x034f, 0x034f },   { 0x061c, 0x061c },   { 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 },   { 0x180b, 0x180f },   { 0x200b, 0x200f },
		{ 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },
		{ 0xd800, 0xdfff },   { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },
		{ 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb },   { 0x1bca0, 0x1bca3 },
		{ 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff }, { 0x110000, UINT32_MAX },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(ranges); i++) {
		if (character >= ranges[i][0] && character <= ranges[i][1]) {
			return true;
		}
	}
	return false;
}

size_t sgpu_shown_length(const char *text, size_t size)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *in = (const unsigned char *)text;
	const size_t length = in[0] < 0x80   ? 1
			      : in[0] < 0xc0 ? 0
			      : in[0] < 0xe0 ? 2
			      : in[0] < 0xf0 ? 3
			      : in[0] < 0xf8 ? 4
					     : 0;
	uint32_t character = length == 1 ? in[0] : in[0] & (0x7fu >> length);

	if (!length || length > size) {
		return 0;
	}
	for (size_t i = 1; i < length; i++) {
		if ((in[i] & 0xc0) != 0x80) {
			return 0;
		}
		character = character << 6 | (in[i] & 0x3f);
	}
	return character < least[length] || is_control(character) ? 0 : length;
}

size_t sgpu_escape(const void *bytes, size_t size, char *text, size_t room, bool utf8)
{
	const char *in = bytes;
	size_t used = 0;

	for (size_t i = 0; i < size;) {
		size_t length = sgpu_shown_length(in + i, size - i);

		length = length > 1 && !utf8 ? 0 : length;
		if (room - used <= (length ? length : 4)) {
			break; /* never cut inside a character or an escape */
		}
		if (length) {
			memcpy(text + used, in + i, length);
			used += length;
			i += length;
		} else {
			memcpy(text + used, "\\x", 2);
			sgpu_hex_encode(in + i++, 1, text + used + 2);
			used += 4;
		}
	}
	text[used] = '\0';
	return used;
}

bool sgpu_looks_secret(const char *text, size_t size)
{
	static const char *const marks[] = { "\"kty\"", "\"k\"", "\"d\"", "-----BEGIN",
					     "PRIVATE KEY" };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(marks); i++) {
		if (memmem(text, size, marks[i], strlen(marks[i]))) {
			return true;
		}
	}
	return false;
}

const char *sgpu_excerpt(const char *value, size_t size, char text[SGPU_EXCERPT_MAX])
{
	size_t shown = size <= EXCERPT ? size : sgpu_looks_secret(value, size) ? 0 : EXCERPT;

	while (shown && shown < size && ((unsigned char)value[shown] & 0xc0) == 0x80) {
		shown--; /* do not cut inside a character */
	}
	const size_t used = sgpu_escape(value, shown, text, SGPU_EXCERPT_MAX, true);

	if (shown < size) {
		memcpy(text + used, "...", sizeof("..."));
	}
	return text;
}
