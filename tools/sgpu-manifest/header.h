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

struct header {
	bool known; /* the file has one that is understood */
	struct sgpu_type type;
	uint64_t offset;
	bool scaled; /* what is meant by a stored value is value * gain + bias */
	double gain, bias;
};

/* Reads the file's header. Errors: SGPU_ESYSTEM; SGPU_EINVALID when the header promises what the
 * file does not hold, or what no manifest can say. */
SGPU_MUST_CHECK int header_read(const char *path, struct header *header, struct sgpu_error *error);

#endif
