/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes what is looked at of a module's image before a process of its own loads it: the ELF
 * header, the headers of its parts and sections, and the digest of a section. What is found to be
 * whole must lie in the image.
 */
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/device.h>

#include "device/backend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of what is said to be whole: every part that is mapped from the file ends in it. */
static void check_parts(const uint8_t *data, size_t size)
{
	ElfW(Ehdr) header;
	ElfW(Phdr) part;

	memcpy(&header, data, sizeof(header));
	for (size_t i = 0; i < header.e_phnum; i++) {
		memcpy(&part, data + header.e_phoff + i * sizeof(part), sizeof(part));
		if (part.p_type == PT_LOAD &&
		    (part.p_offset > size || part.p_filesz > size - part.p_offset)) {
			abort();
		}
	}
}

static void check_section(const uint8_t *data, size_t size, const char *name)
{
	struct sgpu_elf_section section = { 0 };
	struct sgpu_device_code code;

	if (!sgpu_elf_find_section(data, size, name, &section)) {
		return;
	}
	if (section.size == 0 || section.offset > size || section.size > size - section.offset) {
		abort();
	}
	sgpu_device_code_digest(data + section.offset, section.size, &code);
	if (code.size != section.size) {
		abort();
	}
}

/* The same by way of a file, which must agree. */
static void check_file(const uint8_t *data, size_t size)
{
	struct sgpu_elf_section section = { 0 };
	struct sgpu_device_code code = { 0 };
	int fd = memfd_create("image", MFD_CLOEXEC), rc;
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		abort();
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = sgpu_device_code_of_file(path, &code, NULL);
	if ((rc == SGPU_OK) != sgpu_elf_find_section(data, size, SGPU_CODE_SECTION, &section) ||
	    (rc == SGPU_OK && code.size != section.size)) {
		abort();
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!sgpu_elf_fault(data, size)) {
		check_parts(data, size);
	}
	check_section(data, size, SGPU_CODE_SECTION);
	check_section(data, size, ".text");
	check_file(data, size);
	return 0;
}
