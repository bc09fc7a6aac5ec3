/* SPDX-License-Identifier: Apache-2.0
 *
 * Digest of this shared object's kernels: of their images in this process's memory, from where the
 * driver loads them; the file only says where they are. On the device nothing can read code.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include <device/cuda/gpu.h>
#include <device/backend.h>

/* A range of addresses, and whether it is in one loaded segment of the object at `base`. */
struct place {
	uintptr_t base, address;
	uint64_t size;
	bool found;
};

static int look(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct place *place = argument;
	uintptr_t start;
	int i;

	(void)size;
	for (i = 0; i < object->dlpi_phnum && (uintptr_t)object->dlpi_addr == place->base; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		start = object->dlpi_addr + part->p_vaddr;
		if (part->p_type == PT_LOAD && (part->p_flags & PF_R) && place->address >= start &&
		    place->address - start <= part->p_memsz &&
		    place->size <= part->p_memsz - (place->address - start)) {
			place->found = true;
		}
	}
	return place->found;
}

int sgpu_cuda_code(struct sgpu_device *device, struct sgpu_device_code *list)
{
	struct sgpu_elf_section section;
	struct place place = { 0 };
	void *image;
	size_t size;
	Dl_info self;
	bool found;
	int rc;

	(void)device;
	if (!dladdr(&sgpu_cuda_backend, &self) || !self.dli_fname) {
		return SGPU_ESYSTEM;
	}
	rc = sgpu_code_file_map(self.dli_fname, &image, &size, NULL);
	if (rc < 0) {
		return rc;
	}
	found = sgpu_elf_find_section(image, size, SGPU_CODE_SECTION, &section);
	munmap(image, size);
	if (!found) {
		return SGPU_EINVALID;
	}
	place.base = (uintptr_t)self.dli_fbase;
	place.address = place.base + section.address;
	place.size = section.size;
	if (dl_iterate_phdr(look, &place) == 0) {
		return SGPU_EINVALID; /* the file was replaced since it was loaded */
	}
	sgpu_device_code_digest((const void *)place.address, place.size, list);
	return 1;
}
