/* SPDX-License-Identifier: Apache-2.0
 *
 * base64 in both alphabets, strictly: the exact padding or none, and no bits beyond the last byte.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/internal.h"

/* The input is part of a bounded text; this prevents overflow in sums. */
enum { TEXT_MAX = 4 * SGPU_QUOTE_MAX };

int sgpu_decode_base64url(const char *text, size_t length, const char *what, uint8_t **data,
			  size_t *size, struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	size_t bytes = length / 4 * 3 + (length % 4 ? length % 4 - 1 : 0);

	*data = NULL;
	*size = 0;
	if (length % 4 == 1 || length > TEXT_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: %zu characters are no base64url", what,
				 length);
	}
	char *copy = strndup(text, length);
	uint8_t *made = malloc(bytes + 1);
	int code = copy && made ? 0 : sgpu_fail_nomem(error);
	if (!code && sgpu_base64url_decode(copy, made, bytes, &inner)) {
		code = sgpu_fail(error, SGPU_EINVALID, "%s: %s", what, inner.text);
	}
	free(copy);
	if (code) {
		free(made);
		return code;
	}
	made[bytes] = '\0';
	*data = made;
	*size = bytes;
	return 0;
}

int sgpu_decode_base64(const char *text, size_t length, const char *what, uint8_t **data,
		       size_t *size, struct sgpu_error *error)
{
	size_t padding = 0;

	*data = NULL;
	*size = 0;
	if (length % 4 || length > TEXT_MAX) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: %zu characters are no base64 with its padding", what, length);
	}
	while (padding < 2 && padding < length && text[length - 1 - padding] == '=') {
		padding++;
	}
	char *copy = strndup(text, length - padding);
	if (!copy) {
		return sgpu_fail_nomem(error);
	}
	/* The characters of base64url, without those of base64 only. */
	for (char *c = copy; *c; c++) {
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c == '-' || *c == '_' ? '!' : *c;
	}
	int code = strlen(copy) == length - padding
			   ? sgpu_decode_base64url(copy, length - padding, what, data, size, error)
			   : sgpu_fail(error, SGPU_EINVALID, "%s: has a NUL character", what);
	free(copy);
	return code;
}

char *sgpu_encode_base64(const void *data, size_t size)
{
	char *text = size <= TEXT_MAX ? malloc((size + 2) / 3 * 4 + 1) : NULL;

	if (text) {
		EVP_EncodeBlock((unsigned char *)text, data, (int)size);
	}
	return text;
}
