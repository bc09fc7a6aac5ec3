/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers of archives that a test writes.
 */
#ifndef TAR_HEADER_H
#define TAR_HEADER_H

#include "base/io.h"
#include "batch/tar.h"

static inline int put_header(int fd, const char *member, uint64_t size, struct sgpu_error *error)
{
	uint8_t block[SGPU_TAR_BLOCK];
	const int rc = sgpu_tar_header(member, size, block, error);

	return rc ? rc : sgpu_write(fd, "a", block, sizeof(block), error);
}

#endif
