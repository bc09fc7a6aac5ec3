/* SPDX-License-Identifier: Apache-2.0
 *
 * Device code in the file of the CUDA device: the section with the images that the driver is given.
 * The loader maps it as it is, so that a digest of the file is that of what a process has loaded.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/crypto.h>
#include <sgpu/io.h>

#include <device/code_file.h>
#include <device/elf.h>

void sgpu_device_code_digest(const void *bytes, uint64_t size, struct sgpu_device_code *code)
{
	memset(code, 0, sizeof(*code));
	snprintf(code->name, sizeof(code->name), "sgpu-cuda.so %s", SGPU_CODE_SECTION);
	code->size = size;
	sgpu_kt128(bytes, size, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM) - 1, code->digest,
		   sizeof(code->digest));
}

int sgpu_code_file_map(const char *path, const void **image, size_t *size, struct sgpu_error *error)
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
	if (fd >= 0) {
		close(fd);
	}
	return code;
}

void sgpu_code_file_unmap(const void *image, size_t size)
{
	munmap((void *)(uintptr_t)image, size);
}

int sgpu_device_code_of_file(const char *path, struct sgpu_device_code *code,
			     struct sgpu_error *error)
{
	struct sgpu_elf_section section;
	const void *image;
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
	sgpu_code_file_unmap(image, size);
	return result;
}
