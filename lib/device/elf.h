/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared objects before the loader sees them.
 */
#ifndef SGPU_DEVICE_ELF_H
#define SGPU_DEVICE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

/* Whether it begins as an ELF shared object does. */
bool sgpu_elf_is_shared(const void *image, size_t size);
/* Of what is one. Whether it is of the program's own kind: the loader says of any other that there
 * is no such file. */
bool sgpu_elf_is_native(const void *image);
/* Of what is one and native. Whether all that will be mapped is there: the loader does not look,
 * and would reach behind the end of a file that was cut short. */
bool sgpu_elf_is_whole(const void *image, size_t size);

struct sgpu_elf_section {
	uint64_t offset;  /* in the file */
	uint64_t address; /* from where it is loaded */
	uint64_t size;
};
/* Of any file: a section that is loaded, lies in the file whole and holds something. False where
 * there is none of that name. */
bool sgpu_elf_find_section(const void *image, size_t size, const char *name,
			   struct sgpu_elf_section *section);

/* ---- the digest of device code in a file, and of what is loaded ---- */
#define SGPU_CODE_SECTION ".nv_fatbin"

/* Fills in *code for these bytes. */
void sgpu_device_code_digest(const void *bytes, uint64_t size, struct sgpu_device_code *code);
/* The bytes of a file, to be unmapped. */
SGPU_MUST_CHECK int sgpu_code_file_map(const char *path, const void **image, size_t *size,
				       struct sgpu_error *error);
void sgpu_code_file_unmap(const void *image, size_t size);

#endif
