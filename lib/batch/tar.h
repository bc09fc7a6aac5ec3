/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the reader of archives, which head.c and refusal.c share.
 */
#ifndef SGPU_BATCH_TAR_H
#define SGPU_BATCH_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "batch/batch.h"

enum { SGPU_TAR_NAME_MAX = 100 };

struct sgpu_tar_reader {
	int fd;
	char *name; /* for messages */
	char member[SGPU_TAR_NAME_MAX + 1];
	bool seekable;
	uint64_t position, file_size; /* seekable: where reading continues; size at opening */
	uint8_t ahead[32 << 10];      /* seekable: bytes read from ahead_at on: a small batch */
	uint64_t ahead_at;
	size_t ahead_size;
	uint64_t remaining; /* of the current member's payload */
	unsigned padding;
	bool begun, ended;
	bool again; /* the current member, of which nothing was read, is also the next */
	int cursor; /* the next segment for sgpu_batch_next_payload */
};

static inline uint64_t sgpu_tar_padded(uint64_t size)
{
	return (size + SGPU_TAR_BLOCK - 1) / SGPU_TAR_BLOCK * SGPU_TAR_BLOCK;
}

SGPU_MUST_CHECK int sgpu_tar_header(const char *member, uint64_t size,
				    uint8_t block[SGPU_TAR_BLOCK], struct sgpu_error *error);

struct sgpu_tar_member {
	const char *name;
	const void *data; /* NULL: it is left out */
	size_t size;
};
/* Makes whole members in memory, from malloc. */
SGPU_MUST_CHECK int sgpu_tar_members(const struct sgpu_tar_member *members, size_t count,
				     uint8_t **text, size_t *size, struct sgpu_error *error);

#endif
