/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user of init says about a file: [ARGUMENT=]FILE[:DTYPE:SHAPE[:OFFSET]].
 */
#include "ops/ops.h"

#ifndef SGPU_MANIFEST_FILE_SPEC_H
#define SGPU_MANIFEST_FILE_SPEC_H

struct file_spec {
	int argument; /* index in the row, or -1 when it was not named */
	char *path;   /* as given */
	struct sgpu_type type;
	bool has_offset;
	uint64_t offset;
	bool scaled; /* the file's header says that a value is meant as value * gain + bias */
	double gain, bias;
};

/* A type that is not stated is looked for in the file; one that is stated is that of the stored
 * values, which no header's scaling applies to. Errors: SGPU_EUSAGE, SGPU_EINVALID, SGPU_ESYSTEM.
 */
SGPU_MUST_CHECK int file_spec_parse(const char *text, const struct sgpu_op *op,
				    struct file_spec *spec, struct sgpu_error *error);
void file_spec_clear(struct file_spec *spec);
/* The path as data_location_client of a manifest in `folder` (a real path): relative when it lies
 * below, else absolute. From malloc; NULL when out of memory. */
char *file_spec_location(const char *path, const char *folder);

#endif
