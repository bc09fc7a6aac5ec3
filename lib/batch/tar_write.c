/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of ustar archives. The same members give the same bytes: no times, no owners.
 */
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "tar.h"

unsigned sgpu_tar_checksum(const struct sgpu_tar_raw *header)
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
	if (size <= SGPU_TAR_OCTAL_MAX) {
		char text[24];
		snprintf(text, sizeof(text), "%011llo", (unsigned long long)size);
		memcpy(field, text, 12);
		return;
	}
	memset(field, 0, 12);
	field[0] = (char)0x80;
	for (int i = 0; i < 8; i++) {
		field[11 - i] = (char)(size >> (8 * i));
	}
}

int sgpu_tar_make_header(const char *member, uint64_t size, uint8_t block[SGPU_TAR_BLOCK],
			 struct sgpu_error *error)
{
	struct sgpu_tar_raw header;
	memset(&header, 0, sizeof(header));
	const size_t length = strlen(member);
	if (!length || length > sizeof(header.name)) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is too long for the name of a member",
				 member);
	}
	if (size > SGPU_TAR_SIZE_MAX) {
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
	snprintf(sum, sizeof(sum), "%06o", sgpu_tar_checksum(&header));
	memcpy(header.checksum, sum, 7);
	header.checksum[7] = ' ';
	memcpy(block, &header, sizeof(header));
	return 0;
}

int sgpu_tar_header(int fd, const char *name, const char *member, uint64_t size,
		    struct sgpu_error *error)
{
	uint8_t block[SGPU_TAR_BLOCK];
	const int rc = sgpu_tar_make_header(member, size, block, error);
	return rc ? rc : sgpu_write(fd, name, block, sizeof(block), error);
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
