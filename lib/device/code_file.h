/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the digest of device code in a file, and that of what is loaded.
 */
#ifndef SGPU_DEVICE_CODE_FILE_H
#define SGPU_DEVICE_CODE_FILE_H

#include <sgpu/device.h>

#define SGPU_CODE_SECTION ".nv_fatbin"

/* Fills in *code for these bytes. */
void sgpu_device_code_digest(const void *bytes, uint64_t size, struct sgpu_device_code *code);
/* The bytes of a file, to be unmapped. */
SGPU_MUST_CHECK int sgpu_code_file_map(const char *path, const void **image, size_t *size,
				       struct sgpu_error *error);
void sgpu_code_file_unmap(const void *image, size_t size);

#endif
