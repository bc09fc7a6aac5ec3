/* SPDX-License-Identifier: Apache-2.0
 *
 * Hexadecimal, base64url, wiping, constant-time comparison.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"

enum { TEXT_MAX = 4 << 20 };

void sgpu_wipe(void *data, size_t size)
{
	if (data && size) {
		explicit_bzero(data, size);
	}
}

void sgpu_free_wiped(void *data_pointer, size_t size)
{
	void *data;

	if (!data_pointer) {
		return;
	}
	/* The caller's pointer may be of any object type: copy its representation. */
	memcpy(&data, data_pointer, sizeof(data));
	sgpu_wipe(data, size);
	free(data);
	memset(data_pointer, 0, sizeof(data));
}

void sgpu_hex_encode(const void *data, size_t size, char *text)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = data;

	for (size_t i = 0; i < size; i++) {
		*text++ = digits[bytes[i] >> 4];
		*text++ = digits[bytes[i] & 15];
	}
	*text = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sgpu_hex_decode(const char *text, void *data, size_t size, struct sgpu_error *error)
{
	uint8_t *bytes = data;
	size_t length = strlen(text);

	if (length != 2 * size) {
		return sgpu_fail(error, SGPU_EINVALID, "has %zu hexadecimal digits, not %zu",
				 length, 2 * size);
	}
	for (size_t i = 0; i < size; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
		if (high < 0 || low < 0) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "has a character that is no hexadecimal digit");
		}
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void sgpu_base64url_encode(const void *data, size_t size, char *text)
{
	const uint8_t *bytes = data;
	uint32_t bits = 0;
	int count = 0;

	for (size_t i = 0; i < size; i++) {
		bits = bits << 8 | bytes[i];
		for (count += 8; count >= 6; count -= 6) {
			*text++ = alphabet[bits >> (count - 6) & 63];
		}
	}
	if (count) {
		*text++ = alphabet[bits << (6 - count) & 63];
	}
	*text = '\0';
}

static int decode(const char *text, size_t length, uint8_t *bytes, struct sgpu_error *error)
{
	int8_t digits[256];
	uint32_t bits = 0;
	int count = 0;

	memset(digits, -1, sizeof(digits));
	for (int i = 0; i < 64; i++) {
		digits[(uint8_t)alphabet[i]] = (int8_t)i;
	}
	for (size_t i = 0; i < length; i++) {
		const int digit = digits[(uint8_t)text[i]];
		if (digit < 0) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "has a character that is not base64url");
		}
		bits = bits << 6 | (uint32_t)digit;
		count += 6;
		if (count >= 8) {
			count -= 8;
			*bytes++ = (uint8_t)(bits >> count);
		}
	}
	if (bits & ((1u << count) - 1)) {
		return sgpu_fail(error, SGPU_EINVALID, "has base64url bits beyond its last byte");
	}
	return 0;
}

int sgpu_base64url_decode(const char *text, void *data, size_t size, struct sgpu_error *error)
{
	size_t length = strlen(text), expected = (size * 4 + 2) / 3;

	return length == expected
		       ? decode(text, length, data, error)
		       : sgpu_fail(error, SGPU_EINVALID, "has %zu base64url characters, not %zu",
				   length, expected);
}

int sgpu_base64url_read(const char *text, size_t length, const char *what, uint8_t **data,
			size_t *size, struct sgpu_error *error)
{
	size_t bytes = length / 4 * 3 + (length % 4 ? length % 4 - 1 : 0);
	struct sgpu_error inner = { 0 };

	*data = NULL;
	*size = 0;
	if (length % 4 == 1 || length > TEXT_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: %zu characters are no base64url", what,
				 length);
	}
	uint8_t *made = malloc(bytes + 1);
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	if (decode(text, length, made, &inner)) {
		free(made);
		return sgpu_fail(error, SGPU_EINVALID, "%s: %s", what, inner.text);
	}
	made[bytes] = '\0';
	*data = made;
	*size = bytes;
	return 0;
}
