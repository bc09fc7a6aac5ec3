/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises files by their first bytes.
 */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <sgpu/base.h>

#include "base/io.h"

enum { IN_JSON = -1, IN_TEXT = -2 };

static const char to_run[] = "'sgpu run OPERATION FILE' takes such files, see sgpu(1)";

/* The first row that fits decides. A batch is known by the name of its first member, even if the
 * tar header is damaged or short. */
static const struct row {
	int at; /* offset of the bytes; IN_JSON or IN_TEXT: anywhere in such text */
	const char *bytes;
	size_t size;
	enum sgpu_sniffed kind;
	const char *what, *hint;
} rows[] = {
#define ROW(at, bytes, kind, what, hint)                                      \
	{                                                                     \
		at, bytes, sizeof(bytes) - 1, SGPU_SNIFFED_##kind, what, hint \
	}
	ROW(0, "seal.json\0", BATCH, "a batch or a response", NULL),
	ROW(0, "batch.json\0", OTHER, "a batch of version 1",
	    "sgpu 0.1.0 is the last release that opens it"),
	ROW(0, "response.json\0", OTHER, "a response of version 1",
	    "sgpu 0.1.0 is the last release that opens it"),
	ROW(257, "ustar", TAR, "a tar archive", NULL),
	ROW(0, "sgpu-sealed-to/", OTHER, "a file that is sealed to a public key",
	    "'sgpu-seal open-file' opens it"),
	ROW(0, "\x1f\x8b\x08", OTHER, "gzip data",
	    "'sgpu run' takes scans and arrays so; unpack anything else first"),
	ROW(0, "-----BEGIN", KEY, "a key or another thing in PEM", NULL),
	ROW(0, "age-encryption.org/", OTHER, "a file of age", NULL),
	ROW(0, "\177ELF", OTHER, "an ELF program or module", NULL),
	ROW(0, "\x93NUMPY", OTHER, "a NumPy array", to_run),
	ROW(344, "n+1\0", OTHER, "a NIfTI scan", to_run),
	ROW(4, "n+2\0", OTHER, "a NIfTI scan", to_run),
	ROW(128, "DICM", OTHER, "a DICOM file", NULL),
	ROW(0, "\x89PNG", OTHER, "a PNG picture", NULL),
	ROW(IN_JSON, "\"encrypted_key\"", KEY, "a key that is protected by a passphrase",
	    "keys are given with -k"),
	ROW(IN_JSON, "\"keys\"", KEY, "a set of JSON Web Keys", "keys are given with -k"),
	ROW(IN_JSON, "\"kty\"", KEY, "a JSON Web Key", "keys are given with -k"),
	ROW(IN_JSON, "\"manifest_id\"", JSON, "a manifest",
	    "'sgpu-manifest pack' makes a batch of it"),
	ROW(IN_JSON, "\"segments\"", JSON, "a manifest",
	    "'sgpu-manifest pack' makes a batch of it"),
	ROW(IN_JSON, "", JSON, "JSON text", NULL),
	ROW(IN_TEXT, "", OTHER, "text", NULL),
	ROW(0, "", OTHER, "data of no known kind", NULL),
#undef ROW
};

/* begin: the first byte of the text that is not blank, or 0 if the bytes are not text. */
static bool fits(const struct row *row, const char *text, size_t size, char begin)
{
	if (row->at >= 0) {
		return size >= (size_t)row->at + row->size &&
		       !memcmp(text + row->at, row->bytes, row->size);
	}
	return begin && (row->at == IN_TEXT || begin == '{' || begin == '[') &&
	       memmem(text, size, row->bytes, row->size);
}

static const struct row *find(const void *first, size_t size)
{
	const struct row *row = rows;
	const char *text = first;
	size_t plain = 0, controls = 0;
	char begin = ' ';

	size = size < SGPU_SNIFF_SIZE ? size : SGPU_SNIFF_SIZE;
	for (size_t i = 0; i < size; i++) {
		const unsigned char byte = (unsigned char)text[i];

		plain += byte < 0x80;
		begin = strchr(" \t\r\n", begin) ? text[i] : begin;
		controls += !byte || byte == 0x7f || (byte < 0x20 && !strchr("\t\n\r\f\033", byte));
	}
	/* Bytes from 0x80 count as UTF-8 if three quarters of all are ASCII. */
	begin = !controls && plain * 4 >= size * 3 ? begin : '\0';
	while (!fits(row, text, size, begin)) {
		row++;
	}
	return row;
}

enum sgpu_sniffed sgpu_sniff(const void *first, size_t size)
{
	return find(first, size)->kind;
}

static bool is_pipe(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

int sgpu_fail_sniffed(struct sgpu_error *error, int fd, const char *name, const void *first,
		      size_t size, const char *wanted)
{
	const struct row *row = find(first, size);

	if (!size && !strcmp(name, "standard input")) {
		return sgpu_fail(error, is_pipe(fd) ? SGPU_ENOINPUT : SGPU_EINVALID, "no input");
	}
	if (!size) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is empty", name);
	}
	sgpu_fail(error, SGPU_EINVALID, "'%s' is %s, not %s", name, row->what, wanted);
	return row->hint ? sgpu_hint(error, "%s", row->hint) : SGPU_EINVALID;
}
