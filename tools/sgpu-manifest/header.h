/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that say themselves what they hold: NIfTI-1 (one file, uncompressed) and IDX.
 */
#ifndef SGPU_MANIFEST_HEADER_H
#define SGPU_MANIFEST_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>
#include <sgpu/manifest.h>

/* Fills type and offset from the file's header. *known is false when the file has none that is understood. Errors:
 * SGPU_ESYSTEM; SGPU_EINVALID when the header promises what the file does not hold, or what no manifest can say. */
SGPU_MUST_CHECK int header_read(const char *path, bool *known, struct sgpu_type *type, uint64_t *offset,
				struct sgpu_error *error);

#endif
