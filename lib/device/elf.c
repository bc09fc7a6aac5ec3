/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include <sgpu/base.h>

#include <device/elf.h>

bool sgpu_elf_is_shared(const void *image, size_t size)
{
	ElfW(Ehdr) header;

	if (size < sizeof(header)) {
		return false;
	}
	memcpy(&header, image, sizeof(header));
	return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_type == ET_DYN;
}

/* Of the program itself, by the linker. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

bool sgpu_elf_is_native(const void *image)
{
	ElfW(Ehdr) header;

	memcpy(&header, image, sizeof(header));
	return header.e_ident[EI_CLASS] == __ehdr_start.e_ident[EI_CLASS] &&
	       header.e_ident[EI_DATA] == __ehdr_start.e_ident[EI_DATA] && header.e_machine == __ehdr_start.e_machine;
}

bool sgpu_elf_is_whole(const void *image, size_t size)
{
	ElfW(Ehdr) header;
	ElfW(Phdr) part;
	uint64_t end;

	memcpy(&header, image, sizeof(header));
	if (header.e_phentsize != sizeof(part) ||
	    !sgpu_add_u64(header.e_phoff, (uint64_t)header.e_phnum * sizeof(part), &end) || end > size) {
		return false;
	}
	for (size_t i = 0; i < header.e_phnum; i++) {
		memcpy(&part, (const char *)image + header.e_phoff + i * sizeof(part), sizeof(part));
		if (part.p_type == PT_LOAD && (!sgpu_add_u64(part.p_offset, part.p_filesz, &end) || end > size)) {
			return false;
		}
	}
	return true;
}
