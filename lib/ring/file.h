/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory files that two processes share and do not trust each other with: of a fixed size, sealed. Private to the library.
 */
#ifndef SGPU_RING_FILE_H
#define SGPU_RING_FILE_H

#include <stddef.h>

#include <sgpu/error.h>

/* Makes one of zeros, whose size nobody can change any more. */
SGPU_MUST_CHECK int sgpu_ring_file_create(const char *name, size_t size, int *fd, struct sgpu_error *error);
/* Whether what another process may have sent is such a file, of `least` to `most` bytes, and can be written to. `what` is for
 * messages. Errors: SGPU_EINVALID, SGPU_EPOLICY (not sealed), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_ring_file_check(int fd, const char *what, size_t least, size_t most, size_t *size,
					 struct sgpu_error *error);

#endif
