/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is, by its first bytes.
 */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <sgpu/base.h>
#include <sgpu/sniff.h>

enum { USTAR_AT = 257 };

static const struct mark {
	size_t at;
	const char *bytes;
	size_t size;
	enum sgpu_sniffed kind;
	const char *what;
} marks[] = {
#define MARK(at, bytes, kind, what)                                     \
	{                                                               \
		at, bytes, sizeof(bytes) - 1, SGPU_SNIFFED_##kind, what \
	}
	MARK(0, "\x1f\x8b\x08", PACKED, "gzip data"),
	MARK(0, "-----BEGIN", PEM, "a key or another thing in PEM"),
	MARK(0, "age-encryption.org/", FORMAT, "a file of age"),
	MARK(0,
	     "\x7f"
	     "ELF",
	     FORMAT, "an ELF program or module"),
	MARK(0, "\x93NUMPY", FORMAT, "a NumPy array"),
	MARK(344, "n+1\0", FORMAT, "a NIfTI scan"),
	MARK(128, "DICM", FORMAT, "a DICOM file"),
#undef MARK
};

static bool has(const char *text, size_t size, const char *part)
{
	return memmem(text, size, part, strlen(part)) != NULL;
}

static enum sgpu_sniffed sniff_json(const char *text, size_t size, const char **what)
{
	if (has(text, size, "\"kty\"")) {
		*what = has(text, size, "\"keys\"") ? "a set of JSON Web Keys" : "a JSON Web Key";
		return SGPU_SNIFFED_KEY;
	}
	if (has(text, size, "\"manifest_id\"") || has(text, size, "\"segments\"") ||
	    has(text, size, "\"gpu_operation_id\"")) {
		*what = "a manifest";
		return SGPU_SNIFFED_MANIFEST;
	}
	*what = "JSON text";
	return SGPU_SNIFFED_JSON;
}

/* By the name of the first member, so that a batch with a damaged or short header is still
 * recognised. */
static enum sgpu_sniffed sniff_tar(const char *text, size_t size, const char **what)
{
	if (size >= sizeof("batch.json") && !memcmp(text, "batch.json", sizeof("batch.json"))) {
		*what = "a batch";
		return SGPU_SNIFFED_BATCH;
	}
	if (size >= sizeof("response.json") &&
	    !memcmp(text, "response.json", sizeof("response.json"))) {
		*what = "a response";
		return SGPU_SNIFFED_RESPONSE;
	}
	*what = "a tar archive";
	return size >= USTAR_AT + 5 && !memcmp(text + USTAR_AT, "ustar", 5) ? SGPU_SNIFFED_TAR
									    : SGPU_SNIFFED_UNKNOWN;
}

/* Any bytes from 0x80 among many ASCII bytes count as UTF-8. */
static bool is_text(const uint8_t *bytes, size_t size)
{
	size_t plain = 0;

	for (size_t i = 0; i < size; i++) {
		if (bytes[i] == 0x7f || (bytes[i] < 0x20 && !strchr("\t\n\r\f\033", bytes[i])) ||
		    !bytes[i]) {
			return false;
		}
		plain += bytes[i] < 0x80;
	}
	return plain * 4 >= size * 3;
}

/* Pairs of equal bytes: of n random ones about n * (n - 1) / 512 are, with that variance. Twelve
 * deviations and twelve more are never seen, and what people make (pictures, numbers, programs) is
 * far beyond. */
static bool is_uneven(const uint8_t *bytes, size_t size)
{
	uint64_t counts[256] = { 0 }, pairs = 0, expected = (uint64_t)size * (size - 1) / 512,
		 deviation = 0;

	for (size_t i = 0; i < size; i++) {
		pairs += counts[bytes[i]]++;
	}
	while (deviation * deviation < expected) {
		deviation++;
	}
	return pairs > expected + 12 * deviation + 12;
}

enum sgpu_sniffed sgpu_sniff(const void *first, size_t size, const char **what)
{
	const char *text = first, *ignored;
	size_t begin = 0;

	what = what ? what : &ignored;
	size = size < SGPU_SNIFF_SIZE ? size : SGPU_SNIFF_SIZE;
	if (!size) {
		*what = "empty";
		return SGPU_SNIFFED_EMPTY;
	}
	const enum sgpu_sniffed archive = sniff_tar(text, size, what);
	if (archive != SGPU_SNIFFED_UNKNOWN) {
		return archive;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(marks); i++) {
		const struct mark *mark = &marks[i];
		if (size >= mark->at + mark->size &&
		    !memcmp(text + mark->at, mark->bytes, mark->size)) {
			*what = mark->what;
			return mark->kind;
		}
	}
	const bool readable = is_text(first, size);
	while (begin < size && strchr(" \t\r\n", text[begin]) && text[begin]) {
		begin++;
	}
	if (readable && begin < size && (text[begin] == '{' || text[begin] == '[')) {
		return sniff_json(text, size, what);
	}
	if (readable) {
		*what = "text";
		return SGPU_SNIFFED_TEXT;
	}
	if (is_uneven(first, size)) {
		*what = "plain data of no known kind";
		return SGPU_SNIFFED_UNEVEN;
	}
	*what = "data of no known kind";
	return SGPU_SNIFFED_UNKNOWN;
}

static bool is_pipe(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

int sgpu_fail_sniffed(struct sgpu_error *error, int fd, const char *name, const void *first,
		      size_t size, const char *wanted)
{
	const char *what;
	const enum sgpu_sniffed kind = sgpu_sniff(first, size, &what);

	if (kind == SGPU_SNIFFED_EMPTY && !strcmp(name, "standard input")) {
		return sgpu_fail(error, is_pipe(fd) ? SGPU_ENOINPUT : SGPU_EINVALID, "no input");
	}
	if (kind == SGPU_SNIFFED_EMPTY) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is empty", name);
	}
	sgpu_fail(error, SGPU_EINVALID, "'%s' is %s, not %s", name, what, wanted);
	switch (kind) {
	case SGPU_SNIFFED_PACKED:
		return sgpu_hint(error, "unpack it first");
	case SGPU_SNIFFED_MANIFEST:
		return sgpu_hint(error, "'sgpu-manifest pack' makes a batch of it");
	case SGPU_SNIFFED_KEY:
		return sgpu_hint(error, "keys are given with -k");
	default:
		return SGPU_EINVALID;
	}
}
