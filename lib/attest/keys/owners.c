/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the owners whose batches a runner takes, and sorts them as quotes do.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "base/io.h"
#include "attest/internal.h"

enum { FILE_MAX = 1 << 18, THUMBPRINT_LENGTH = 43 };

void sgpu_owners_clear(struct sgpu_owners *owners)
{
	for (int i = 0; i < owners->count; i++) {
		free(owners->names[i]);
	}
	free(owners->names);
	memset(owners, 0, sizeof(*owners));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Reads a line: a thumbprint or nothing, then maybe a comment. Messages show none of it: it may be
 * a key. */
static int read_line(const char *line, size_t length, int number, const char *path,
		     struct sgpu_owners *owners, struct sgpu_error *error)
{
	uint8_t hash[SGPU_SHA256_SIZE];
	const char *comment = memchr(line, '#', length);

	length = comment ? (size_t)(comment - line) : length;
	while (length && isspace((unsigned char)line[length - 1])) {
		length--;
	}
	for (; length && isspace((unsigned char)*line); line++) {
		length--;
	}
	if (!length) {
		return 0;
	}
	if (owners->count == SGPU_QUOTE_OWNERS_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' names more than %d owners", path,
				 SGPU_QUOTE_OWNERS_MAX);
	}
	char *name = owners->names[owners->count++] = strndup(line, length);
	return name && length == THUMBPRINT_LENGTH &&
			       !sgpu_base64url_decode(name, hash, sizeof(hash), NULL)
		       ? 0
		       : sgpu_fail(
				 error, SGPU_EINVALID,
				 "'%s':%d: no thumbprint of a key, as 'sgpu-seal keyinfo --owner' "
				 "prints it",
				 path, number);
}

int sgpu_owners_parse(const char *text, size_t size, const char *path, struct sgpu_owners *owners,
		      struct sgpu_error *error)
{
	int rc = 0, number = 1, kept = 0;

	owners->count = 0;
	owners->names = calloc(SGPU_QUOTE_OWNERS_MAX, sizeof(*owners->names));
	if (!owners->names) {
		return sgpu_fail_nomem(error);
	}
	for (size_t at = 0; at < size && !rc; number++) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t length = end ? (size_t)(end - text) - at : size - at;
		rc = read_line(text + at, length, number, path, owners, error);
		at += length + 1;
	}
	if (!rc && !owners->count) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' names no owner", path);
	}
	if (rc) {
		sgpu_owners_clear(owners);
		return rc;
	}
	qsort(owners->names, (size_t)owners->count, sizeof(*owners->names), by_text);
	for (int i = 0; i < owners->count; i++) {
		if (kept && !strcmp(owners->names[i], owners->names[kept - 1])) {
			free(owners->names[i]);
		} else {
			owners->names[kept++] = owners->names[i];
		}
	}
	owners->count = kept;
	return 0;
}

int sgpu_owners_load(const char *path, struct sgpu_owners *owners, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;

	memset(owners, 0, sizeof(*owners));
	int rc = sgpu_read_file(path, "says whose work is taken", FILE_MAX, &text, &size, error);
	rc = rc ? rc : sgpu_owners_parse(text, size, path, owners, error);
	sgpu_free_wiped(&text, size); /* the file may be a key, given by mistake */
	return rc;
}
