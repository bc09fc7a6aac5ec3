/* SPDX-License-Identifier: Apache-2.0
 *
 * Published test vectors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "vectors.h"

const char *vectors_path(const char *name, char *path, size_t size)
{
	const char *folder = getenv("SGPU_VECTORS");
	FILE *file = NULL;

	if (folder && *folder && snprintf(path, size, "%s/%s", folder, name) < (int)size) {
		file = fopen(path, "r");
	}
	if (file) {
		fclose(file);
	}
	return file ? path : NULL;
}

uint8_t *vectors_hex(const char *text, size_t *size)
{
	uint8_t *bytes;

	*size = strlen(text) / 2;
	bytes = malloc(*size + 1);
	if (!bytes || sgpu_hex_decode(text, bytes, *size, NULL)) {
		fprintf(stderr, "bad hexadecimal in a vector\n");
		abort();
	}
	return bytes;
}

uint8_t *vectors_member(const json_t *object, const char *key, size_t *size)
{
	const char *text = json_string_value(json_object_get(object, key));

	return vectors_hex(text ? text : "", size);
}

int vectors_is(const json_t *object, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && !strcmp(text, value);
}
