/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include <device/backend.h>

#include "base/base.h"
#include "base/io.h"
#include "crypto/crypto.h"

/* The ELF header of this program, a symbol that the linker defines. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/* Whether the file holds all bytes that will be mapped. */
static bool is_whole(const void *image, size_t size, const ElfW(Ehdr) * header)
{
	ElfW(Phdr) part;
	uint64_t end;

	if (header->e_phentsize != sizeof(part) ||
	    !sgpu_add_u64(header->e_phoff, (uint64_t)header->e_phnum * sizeof(part), &end) ||
	    end > size) {
		return false;
	}
	for (size_t i = 0; i < header->e_phnum; i++) {
		memcpy(&part, (const char *)image + header->e_phoff + i * sizeof(part),
		       sizeof(part));
		if (part.p_type == PT_LOAD &&
		    (!sgpu_add_u64(part.p_offset, part.p_filesz, &end) || end > size)) {
			return false;
		}
	}
	return true;
}

const char *sgpu_elf_fault(const void *image, size_t size)
{
	ElfW(Ehdr) header = { .e_type = ET_NONE };

	memcpy(&header, image, sgpu_min_u64(size, sizeof(header)));
	if (size < sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_type != ET_DYN) {
		return "is not an ELF shared object";
	}
	if (header.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS] ||
	    header.e_ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA] ||
	    header.e_machine != __ehdr_start.e_machine) {
		return "is for another processor";
	}
	return is_whole(image, size, &header) ? NULL : "was cut short";
}

static bool section_header(const void *image, size_t size, const ElfW(Ehdr) * header,
			   uint64_t index, ElfW(Shdr) * section)
{
	uint64_t offset, end;

	if (header->e_shentsize != sizeof(*section) || index >= header->e_shnum ||
	    !sgpu_add_u64(header->e_shoff, index * sizeof(*section), &offset) ||
	    !sgpu_add_u64(offset, sizeof(*section), &end) || end > size) {
		return false;
	}
	memcpy(section, (const char *)image + offset, sizeof(*section));
	return true;
}

static bool lies_inside(const ElfW(Shdr) * section, size_t size)
{
	uint64_t end;

	return section->sh_type != SHT_NOBITS &&
	       sgpu_add_u64(section->sh_offset, section->sh_size, &end) && end <= size;
}

bool sgpu_elf_find_section(const void *image, size_t size, const char *name,
			   struct sgpu_elf_section *found)
{
	size_t length = strlen(name) + 1;
	ElfW(Shdr) names, section;
	ElfW(Ehdr) header;

	if (sgpu_elf_fault(image, size)) {
		return false;
	}
	memcpy(&header, image, sizeof(header));
	if (!section_header(image, size, &header, header.e_shstrndx, &names) ||
	    !lies_inside(&names, size)) {
		return false;
	}
	for (uint64_t i = 0;
	     i < header.e_shnum && section_header(image, size, &header, i, &section); i++) {
		if (section.sh_name < names.sh_size && length <= names.sh_size - section.sh_name &&
		    memcmp((const char *)image + names.sh_offset + section.sh_name, name, length) ==
			    0) {
			*found = (struct sgpu_elf_section){ section.sh_offset, section.sh_addr,
							    section.sh_size };
			return section.sh_size > 0 && (section.sh_flags & SHF_ALLOC) &&
			       lies_inside(&section, size);
		}
	}
	return false;
}

/* ---- device code in sgpu-cuda.so: the section of images for the driver. The loader maps the
 * section unchanged, so the file and a process that loaded it give the same digest. ---- */
void sgpu_device_code_digest(const void *bytes, uint64_t size, struct sgpu_device_code *code)
{
	memset(code, 0, sizeof(*code));
	snprintf(code->name, sizeof(code->name), "sgpu-cuda.so %s", SGPU_CODE_SECTION);
	code->size = size;
	sgpu_kt128(bytes, size, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM) - 1, code->digest,
		   sizeof(code->digest));
}

int sgpu_code_file_map(const char *path, void **image, size_t *size, struct sgpu_error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), code = SGPU_OK;
	struct stat status = { 0 };
	void *memory;

	if (fd < 0 || fstat(fd, &status) != 0) {
		code = sgpu_fail_errno(error, "cannot open '%s'", path);
	} else if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
		code = sgpu_fail(error, SGPU_EINVALID, "'%s' is no file with code in it", path);
	} else {
		memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (memory == MAP_FAILED) {
			code = sgpu_fail_errno(error, "cannot read '%s'", path);
		} else {
			*image = memory;
			*size = (size_t)status.st_size;
		}
	}
	sgpu_close(fd);
	return code;
}

int sgpu_device_code_of_file(const char *path, struct sgpu_device_code *code,
			     struct sgpu_error *error)
{
	struct sgpu_elf_section section;
	void *image;
	size_t size;
	int result = sgpu_code_file_map(path, &image, &size, error);

	if (result < 0) {
		return result;
	}
	if (sgpu_elf_find_section(image, size, SGPU_CODE_SECTION, &section)) {
		sgpu_device_code_digest((const char *)image + section.offset, section.size, code);
	} else {
		result = sgpu_fail(error, SGPU_EINVALID,
				   "'%s' has no device code in it: no section '%s'", path,
				   SGPU_CODE_SECTION);
	}
	munmap(image, size);
	return result;
}
