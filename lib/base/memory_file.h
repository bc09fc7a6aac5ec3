/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory files that two processes share and do not trust each other with: of a fixed size, sealed.
 * Private to the library.
 */
#ifndef SGPU_BASE_MEMORY_FILE_H
#define SGPU_BASE_MEMORY_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>

/* Makes one of zeros, whose size nobody can change any more. filled: all pages at once, so that no
 * first touch has to find one. huge: of pages of 2 MiB. */
SGPU_MUST_CHECK int sgpu_memory_file_create(const char *name, uint64_t size, bool filled, bool huge,
					    int *fd, struct sgpu_error *error);
/* Whether what another process may have sent is such a file, of `least` to `most` bytes, and can be
 * written to. `what` is for messages. huge: whether it has pages of 2 MiB; NULL: it may not.
 * Errors: SGPU_EINVALID, SGPU_EPOLICY (not sealed), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_memory_file_check(int fd, const char *what, uint64_t least, uint64_t most,
					   uint64_t *size, bool *huge, struct sgpu_error *error);
/* Checks and maps it: *memory of *size bytes, which no core dump shows. */
SGPU_MUST_CHECK int sgpu_memory_file_map(int fd, const char *what, uint64_t least, uint64_t most,
					 void **memory, uint64_t *size, struct sgpu_error *error);

#endif
