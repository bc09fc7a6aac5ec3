/* SPDX-License-Identifier: Apache-2.0
 *
 * The ustar header, and the state of the reader, which payload.c shares.
 */
#ifndef SGPU_BATCH_TAR_H
#define SGPU_BATCH_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "batch/batch.h"

/* POSIX.1-2017, pax: "ustar Interchange Format". */
struct sgpu_tar_raw {
	char name[100];
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
_Static_assert(sizeof(struct sgpu_tar_raw) == SGPU_TAR_BLOCK, "a header is one block");

enum { SGPU_TAR_TRAILER_MAX = 1 << 20 }; /* bytes of zeros after the two end blocks */
#define SGPU_TAR_SIZE_MAX ((uint64_t)1 << 62)
#define SGPU_TAR_OCTAL_MAX ((uint64_t)077777777777) /* most in eleven octal digits */

struct sgpu_tar_reader {
	int fd;
	char *name; /* of the archive, for messages */
	char member[sizeof(((struct sgpu_tar_raw *)0)->name) + 1];
	bool seekable;
	uint64_t position, file_size; /* seekable: where reading continues; size at opening */
	uint8_t *ahead;		      /* seekable only: bytes read from ahead_at on, or NULL */
	uint64_t ahead_at;
	size_t ahead_size;
	uint64_t remaining;	 /* unread payload bytes of the current member */
	unsigned padding;	 /* bytes after the payload */
	bool begun, ended, lost; /* lost: the position is not known */
	bool again;		 /* the current member is also the next */
	int cursor;		 /* the next segment for sgpu_batch_next_payload */
};

/* Returns the size of a payload with its padding. */
static inline uint64_t sgpu_tar_padded(uint64_t size)
{
	return (size + SGPU_TAR_BLOCK - 1) / SGPU_TAR_BLOCK * SGPU_TAR_BLOCK;
}

/* The sum of a header's bytes, with the checksum field counted as blanks. */
unsigned sgpu_tar_checksum(const struct sgpu_tar_raw *header);
/* Makes the header that sgpu_tar_header writes. */
SGPU_MUST_CHECK int sgpu_tar_make_header(const char *member, uint64_t size,
					 uint8_t block[SGPU_TAR_BLOCK], struct sgpu_error *error);

#endif
