/* SPDX-License-Identifier: Apache-2.0
 *
 * ustar archives. The reader runs where the secrets are, so it checks every byte and accepts only
 * what a batch needs: no links, directories, devices, long names or extended headers. The writer
 * makes the same bytes of the same members: no times, no owners.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "tar.h"

/* POSIX.1-2017, pax: "ustar Interchange Format". */
struct raw {
	char name[SGPU_TAR_NAME_MAX];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char checksum[8];
	char type;
	char link[100];
	char magic[6];
	char version[2];
	char user[32];
	char group[32];
	char major[8];
	char minor[8];
	char prefix[155];
	char rest[12];
};
_Static_assert(sizeof(struct raw) == SGPU_TAR_BLOCK, "a header is one block");

enum { TRAILER_MAX = 1 << 20 }; /* bytes of zeros after the two end blocks */
#define SIZE_LIMIT ((uint64_t)1 << 62)
#define OCTAL_MAX ((uint64_t)077777777777) /* most in eleven octal digits */

/* ---- writing ---- */
/* The sum of a header's bytes, with the checksum field counted as blanks. */
static unsigned checksum_of(const struct raw *header)
{
	const uint8_t *bytes = (const uint8_t *)header;
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof(*header); i++) {
		sum += bytes[i];
	}
	for (size_t i = 0; i < sizeof(header->checksum); i++) {
		sum += ' ' - (unsigned)(uint8_t)header->checksum[i];
	}
	return sum;
}

static void put_size(char field[12], uint64_t size)
{
	if (size <= OCTAL_MAX) {
		char text[24];
		snprintf(text, sizeof(text), "%011llo", (unsigned long long)size);
		memcpy(field, text, 12);
		return;
	}
	size = htobe64(size);
	memcpy(mempcpy(field, "\x80\0\0", 4), &size, 8);
}

int sgpu_tar_header(const char *member, uint64_t size, uint8_t block[SGPU_TAR_BLOCK],
		    struct sgpu_error *error)
{
	struct raw header;
	memset(&header, 0, sizeof(header));
	const size_t length = strlen(member);
	if (!length || length > sizeof(header.name)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is too long for the name of a member",
				 member);
	}
	if (size > SIZE_LIMIT) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is too large for a member", member);
	}
	memcpy(header.name, member, length);
	memcpy(header.mode, "0000644", 8);
	memcpy(header.uid, "0000000", 8);
	memcpy(header.gid, "0000000", 8);
	put_size(header.size, size);
	memcpy(header.mtime, "00000000000", 12);
	header.type = '0';
	memcpy(header.magic, "ustar", 6);
	memcpy(header.version, "00", 2);
	memcpy(header.major, "0000000", 8);
	memcpy(header.minor, "0000000", 8);
	char sum[16];
	snprintf(sum, sizeof(sum), "%06o", checksum_of(&header));
	memcpy(header.checksum, sum, 7);
	header.checksum[7] = ' ';
	memcpy(block, &header, sizeof(header));
	return 0;
}

int sgpu_tar_members(const struct sgpu_tar_member *members, size_t count, uint8_t **text,
		     size_t *size, struct sgpu_error *error)
{
	uint8_t *at;
	int rc = 0;

	*size = 0;
	for (size_t i = 0; i < count; i++) {
		*size += members[i].data ? SGPU_TAR_BLOCK + (size_t)sgpu_tar_padded(members[i].size)
					 : 0;
	}
	*text = at = calloc(1, *size);
	if (!at) {
		return sgpu_fail_nomem(error);
	}
	for (size_t i = 0; !rc && i < count; i++) {
		if (members[i].data) {
			rc = sgpu_tar_header(members[i].name, members[i].size, at, error);
			memcpy(at + SGPU_TAR_BLOCK, members[i].data, members[i].size);
			at += SGPU_TAR_BLOCK + sgpu_tar_padded(members[i].size);
		}
	}
	return rc;
}

int sgpu_tar_padding(int fd, const char *name, uint64_t size, struct sgpu_error *error)
{
	static const uint8_t zeros[SGPU_TAR_BLOCK];
	const size_t padding = (size_t)(-size % SGPU_TAR_BLOCK);
	return padding ? sgpu_write(fd, name, zeros, padding, error) : 0;
}

int sgpu_tar_end(int fd, const char *name, struct sgpu_error *error)
{
	static const uint8_t zeros[2 * SGPU_TAR_BLOCK];
	return sgpu_write(fd, name, zeros, sizeof(zeros), error);
}

/* ---- reading ---- */
static int cut_short(const struct sgpu_tar_reader *reader, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EINVALID, "'%s' is cut short", reader->name);
}

int sgpu_tar_open(int fd, const char *name, struct sgpu_tar_reader **reader,
		  struct sgpu_error *error)
{
	struct sgpu_tar_reader *made = *reader = calloc(1, sizeof(*made));
	struct stat status;

	if (!made || !(made->name = strdup(name))) {
		sgpu_tar_close(reader);
		return sgpu_fail_nomem(error);
	}
	made->fd = fd;
	const off_t position =
		fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? lseek(fd, 0, SEEK_CUR) : -1;
	if (position >= 0 && status.st_size > 0) { /* a file in /proc has no size */
		made->seekable = true;
		made->position = (uint64_t)position;
		made->file_size = (uint64_t)status.st_size;
	}
	return 0;
}

void sgpu_tar_close(struct sgpu_tar_reader **reader)
{
	if (reader && *reader) {
		free((*reader)->name);
		sgpu_free_wiped(reader, sizeof(**reader));
	}
}

static int read_file(struct sgpu_tar_reader *reader, void *data, size_t size, size_t *got,
		     struct sgpu_error *error)
{
	const uint64_t left =
		reader->position < reader->file_size ? reader->file_size - reader->position : 0;
	uint64_t skip = reader->position - reader->ahead_at;
	int rc = 0;

	size = (size_t)sgpu_min_u64(size, left);
	if (size >= sizeof(reader->ahead)) {
		rc = sgpu_pread(reader->fd, reader->name, data, size, reader->position, got, error);
	} else {
		if (skip + size > reader->ahead_size) {
			reader->ahead_at = reader->position;
			skip = 0;
			rc = sgpu_pread(reader->fd, reader->name, reader->ahead,
					(size_t)sgpu_min_u64(sizeof(reader->ahead), left),
					reader->position, &reader->ahead_size, error);
		}
		*got = sgpu_min_u64(size, reader->ahead_size - skip);
		memcpy(data, reader->ahead + skip, *got);
	}
	reader->position += *got;
	return rc;
}

/* Reads the next bytes; *got is less than `size` only at the end of the file. */
static int read_some(struct sgpu_tar_reader *reader, void *data, size_t size, size_t *got,
		     struct sgpu_error *error)
{
	if (reader->seekable) {
		return read_file(reader, data, size, got, error);
	}
	return sgpu_read(reader->fd, reader->name, data, size, got, error);
}

/* If the file ends before `size` bytes, the archive is cut short. */
static int read_exact(struct sgpu_tar_reader *reader, void *data, size_t size,
		      struct sgpu_error *error)
{
	size_t got = 0;
	const int rc = read_some(reader, data, size, &got, error);
	if (rc) {
		return rc;
	}
	return got == size ? 0 : cut_short(reader, error);
}

static int finish_member(struct sgpu_tar_reader *reader, struct sgpu_error *error)
{
	uint8_t buffer[1 << 16];
	int rc = 0;

	if (reader->seekable) { /* sgpu_tar_next has found that the file holds these bytes */
		reader->position += reader->remaining;
		reader->remaining = 0;
	}
	while (!rc && reader->remaining) {
		const size_t piece = sgpu_min_u64(reader->remaining, sizeof(buffer));

		rc = read_exact(reader, buffer, piece, error);
		reader->remaining -= piece;
	}
	rc = rc ? rc : read_exact(reader, buffer, reader->padding, error);
	if (!rc && !sgpu_all_zero(buffer, reader->padding)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "'%s': '%s' is padded with other bytes than zeros", reader->name,
			       reader->member);
	}
	reader->padding = 0;
	return rc;
}

/* Reads octal digits, then blanks or NULs to the end of the field; an empty field is 0. */
static bool octal(const char *field, size_t width, uint64_t *value)
{
	size_t i = 0;
	*value = 0;
	for (; i < width && field[i] >= '0' && field[i] <= '7'; i++) {
		*value = *value << 3 | (uint64_t)(field[i] - '0');
	}
	for (; i < width; i++) {
		if (field[i] != ' ' && field[i] != '\0') {
			return false;
		}
	}
	return true;
}

static bool parse_size(const char field[12], uint64_t *value)
{
	if (field[0] >= '0' && field[0] <= '7') {
		return octal(field, 12, value);
	}
	memcpy(value, field + 4, 8);
	*value = be64toh(*value);
	return !memcmp(field, "\x80\0\0", 4) && *value <= SIZE_LIMIT;
}

static bool text_field(const char *field, size_t width)
{
	const size_t length = strnlen(field, width);
	return sgpu_all_zero(field + length, width - length);
}

static const char *header_fault(const struct raw *header, uint64_t *size)
{
	uint64_t value = 0;
	if (memcmp(header->magic, "ustar", sizeof(header->magic)) ||
	    memcmp(header->version, "00", 2)) {
		return "is not a POSIX ustar header";
	}
	/* The checksum does not cover its own field, so this field must have the form "123456\0 ",
	 * which every tar writes. */
	if (!octal(header->checksum, 6, &value) || header->checksum[5] < '0' ||
	    memcmp(header->checksum + 6, "\0 ", 2) || value != checksum_of(header)) {
		return "has a wrong checksum";
	}
	if (header->type != '0') {
		return "is not a regular file";
	}
	if (!parse_size(header->size, size)) {
		return "has a bad size";
	}
	if (!header->name[0] || !text_field(header->name, sizeof(header->name))) {
		return "has a bad name";
	}
	if (!sgpu_all_zero(header->prefix, sizeof(header->prefix)) ||
	    !sgpu_all_zero(header->link, sizeof(header->link)) ||
	    !sgpu_all_zero(header->rest, sizeof(header->rest))) {
		return "has a name prefix, a link or an extension";
	}
	if (!octal(header->mode, 8, &value) || !octal(header->uid, 8, &value) ||
	    !octal(header->gid, 8, &value) || !octal(header->mtime, 12, &value) ||
	    !octal(header->major, 8, &value) || value || !octal(header->minor, 8, &value) ||
	    value || !text_field(header->user, sizeof(header->user)) ||
	    !text_field(header->group, sizeof(header->group))) {
		return "has a bad field";
	}
	return NULL;
}

/* Reads the second zero block, and checks that only zeros follow to the end of the file. */
static int read_end(struct sgpu_tar_reader *reader, struct sgpu_error *error)
{
	uint8_t buffer[1 << 14];
	int rc = read_exact(reader, buffer, SGPU_TAR_BLOCK, error);
	if (rc) {
		return rc;
	}
	bool zero = sgpu_all_zero(buffer, SGPU_TAR_BLOCK);
	size_t total = 0, got = sizeof(buffer);
	while (zero && got == sizeof(buffer) && total <= TRAILER_MAX) {
		rc = read_some(reader, buffer, sizeof(buffer), &got, error);
		if (rc) {
			return rc;
		}
		total += got;
		zero = sgpu_all_zero(buffer, got);
	}
	if (!zero || total > TRAILER_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' has data behind its end",
				 reader->name);
	}
	reader->ended = true;
	(void)sgpu_tar_fd(reader); /* a reader of what follows finds nothing left */
	return 0;
}

/* Fails if the file is no ustar archive; the error says what it is instead. */
static int read_first(struct sgpu_tar_reader *reader, struct raw *header, struct sgpu_error *error)
{
	size_t got = 0;
	const int rc = read_some(reader, header, sizeof(*header), &got, error);

	if (rc) {
		return rc;
	}
	const enum sgpu_sniffed kind = sgpu_sniff(header, got);
	const bool strict = !memcmp(header->magic, "ustar", sizeof(header->magic));
	const bool archive = kind == SGPU_SNIFFED_BATCH || (kind == SGPU_SNIFFED_TAR && strict);
	if (got == sizeof(*header) && (archive || sgpu_all_zero(header, got))) {
		return 0; /* an archive without members begins with zeros */
	}
	return archive ? cut_short(reader, error)
		       : sgpu_fail_sniffed(error, reader->fd, reader->name, header, got,
					   "a batch or a response");
}

int sgpu_tar_next(struct sgpu_tar_reader *reader, const char **member, uint64_t *size,
		  struct sgpu_error *error)
{
	*member = NULL;
	*size = 0;
	if (reader->ended) {
		return 0;
	}
	if (reader->again) {
		reader->again = false;
		*member = reader->member;
		*size = reader->remaining;
		return 0;
	}
	int rc = finish_member(reader, error);
	if (rc) {
		return rc;
	}
	struct raw header = { .type = 0 };
	rc = reader->begun ? read_exact(reader, &header, sizeof(header), error)
			   : read_first(reader, &header, error);
	reader->begun = true;
	if (rc) {
		return rc;
	}
	if (sgpu_all_zero(&header, sizeof(header))) {
		return read_end(reader, error);
	}
	const char *fault = header_fault(&header, &reader->remaining);
	if (fault) {
		reader->remaining = 0;
		return sgpu_fail(error, SGPU_EINVALID, "'%s': the header after '%s' %s",
				 reader->name, reader->member[0] ? reader->member : "the start",
				 fault);
	}
	memcpy(reader->member, header.name, sizeof(header.name));
	reader->padding = (unsigned)(-reader->remaining % SGPU_TAR_BLOCK);
	*member = reader->member;
	*size = reader->remaining;
	return reader->seekable && reader->remaining + reader->padding >
					   reader->file_size - reader->position
		       ? cut_short(reader, error)
		       : 0;
}

int sgpu_tar_read(struct sgpu_tar_reader *reader, void *data, size_t size, struct sgpu_error *error)
{
	if (size > reader->remaining) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': '%s' is shorter than it should be",
				 reader->name, reader->member);
	}
	const int rc = read_exact(reader, data, size, error);
	if (!rc) {
		reader->remaining -= size;
	}
	return rc;
}

int sgpu_tar_fd(struct sgpu_tar_reader *reader)
{
	if (reader->seekable) {
		(void)lseek(reader->fd, (off_t)reader->position, SEEK_SET);
	}
	return reader->fd;
}

void sgpu_tar_consumed(struct sgpu_tar_reader *reader, uint64_t bytes)
{
	reader->remaining -= bytes;
	reader->position += bytes;
}
