/* SPDX-License-Identifier: Apache-2.0
 *
 * Device code in the file of the CUDA device: this program's own file stands for it, with a section
 * of another name renamed, whole, cut short and spoiled.
 */
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/device.h>

#include "crypto/crypto.h"
#include "device/backend.h"

#include "unit.h"

#define RENAMED ".gnu.version_r" /* long enough for the other name, and loaded */

static uint8_t *image;
static size_t size;
static char path[64];
static struct sgpu_error error;

/* In an object of its own behind the last byte, so that a checker sees a read too far. */
static bool find_in(const uint8_t *bytes, size_t length, const char *name,
		    struct sgpu_elf_section *section)
{
	uint8_t *copy = malloc(length ? length : 1);
	bool found;

	if (!copy) {
		abort();
	}
	memcpy(copy, bytes, length);
	found = sgpu_elf_find_section(copy, length, name, section);
	free(copy);
	return found;
}

static void read_self(void)
{
	FILE *file = fopen("/proc/self/exe", "rb");
	long length;

	if (!file || fseek(file, 0, SEEK_END) != 0 || (length = ftell(file)) <= 0 ||
	    fseek(file, 0, SEEK_SET) != 0) {
		abort();
	}
	size = (size_t)length;
	image = malloc(size);
	if (!image || fread(image, 1, size, file) != size) {
		abort();
	}
	fclose(file);
}

/* A file without a name, at `path` until the next one. */
static void write_file(const void *bytes, size_t length)
{
	static int fd = -1;

	if (fd >= 0) {
		close(fd);
	}
	fd = memfd_create("code", MFD_CLOEXEC);
	if (fd < 0 || (length > 0 && write(fd, bytes, length) != (ssize_t)length)) {
		abort();
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
}

static bool rename_section(struct sgpu_elf_section *section)
{
	struct sgpu_elf_section names;
	ElfW(Ehdr) header;
	ElfW(Shdr) table;
	uint8_t *name;

	memcpy(&header, image, sizeof(header));
	memcpy(&table, image + header.e_shoff + header.e_shstrndx * sizeof(table), sizeof(table));
	names.offset = table.sh_offset;
	name = memmem(image + names.offset, table.sh_size, RENAMED, sizeof(RENAMED));
	if (!name || !sgpu_elf_find_section(image, size, RENAMED, section)) {
		return false;
	}
	memcpy(name, ".nv_fatbin", sizeof(".nv_fatbin"));
	return true;
}

UNIT_TEST(a_section_is_found_and_digested)
{
	struct sgpu_elf_section before, after;
	struct sgpu_device_code code;
	uint8_t digest[32];

	CHECK(!sgpu_elf_find_section(image, size, ".nv_fatbin", &after));
	write_file(image, size);
	CHECK(sgpu_device_code_of_file(path, &code, &error) == SGPU_EINVALID &&
	      strstr(error.text, ".nv_fatbin"));
	REQUIRE(rename_section(&before));
	REQUIRE(sgpu_elf_find_section(image, size, ".nv_fatbin", &after));
	CHECK(before.offset == after.offset && before.size == after.size &&
	      before.address == after.address);
	write_file(image, size);
	CHECK(sgpu_device_code_of_file(path, &code, &error) == SGPU_OK);
	sgpu_kt128(image + after.offset, after.size, "sgpu measure v1", 15, digest, sizeof(digest));
	CHECK(code.size == after.size && memcmp(code.digest, digest, sizeof(digest)) == 0);
	CHECK(strcmp(code.name, "sgpu-cuda.so .nv_fatbin") == 0);
}

UNIT_TEST(a_file_that_was_cut_short_or_is_of_another_kind_has_none)
{
	struct sgpu_elf_section section;
	struct sgpu_device_code code;
	size_t cut, step = size / 300 + 1, end;
	ElfW(Ehdr) header;

	/* Section headers stand at the end. Behind that of the names may be some of sections that
	 * are not looked at, as the linker likes. */
	memcpy(&header, image, sizeof(header));
	end = header.e_shoff + (header.e_shstrndx + 1) * sizeof(ElfW(Shdr));
	for (cut = 0; cut < end; cut += cut < 256 ? 1 : step) {
		CHECK(!find_in(image, cut, ".nv_fatbin", &section));
	}
	for (size_t k = 0; k < SELFMAG; k++) {
		image[k] ^= 1;
		CHECK(!find_in(image, size, ".nv_fatbin", &section));
		image[k] ^= 1;
	}
	write_file(image, 0);
	CHECK(sgpu_device_code_of_file(path, &code, &error) == SGPU_EINVALID);
	CHECK(sgpu_device_code_of_file("/nonexistent/sgpu-cuda.so", &code, &error) ==
		      SGPU_ESYSTEM &&
	      strstr(error.text, "/nonexistent"));
	CHECK(sgpu_device_code_of_file("/", &code, &error) < 0);
}

/* Headers with every byte of theirs at its extremes: no answer is wrong, but nothing outside is
 * read. */
UNIT_TEST(spoiled_headers_reach_nothing_outside)
{
	struct sgpu_elf_section section;
	ElfW(Ehdr) header;
	size_t at, k, count = 0;

	memcpy(&header, image, sizeof(header));
	for (k = 0; k < sizeof(header) + (size_t)header.e_shnum * sizeof(ElfW(Shdr)); k++) {
		at = k < sizeof(header) ? k : header.e_shoff + k - sizeof(header);
		const uint8_t kept = image[at];
		const uint8_t values[3] = { 0xff, 0x7f, 0 };

		for (int i = 0; i < 3; i++) {
			image[at] = values[i];
			if (sgpu_elf_find_section(image, size, ".nv_fatbin", &section)) {
				count++;
				CHECK(section.offset <= size &&
				      section.size <= size - section.offset && section.size > 0);
			}
		}
		image[at] = kept;
	}
	CHECK(count > 0);
}

UNIT_TEST(the_cpu_device_has_neither_code_nor_a_report)
{
	struct sgpu_device_code list[SGPU_DEVICE_CODE_MAX];
	struct sgpu_device_evidence evidence;
	struct sgpu_device *device;
	const uint8_t nonce[32] = { 0 };

	REQUIRE(sgpu_device_open("cpu", NULL, &device, &error) == SGPU_OK);
	CHECK(sgpu_device_code_digests(device, list, &error) == 0);
	error.text[0] = '\0';
	CHECK(sgpu_device_get_evidence(device, nonce, &evidence, &error) == SGPU_EUNAVAILABLE &&
	      error.text[0]);
	CHECK(!evidence.report && !evidence.chain);
	sgpu_device_evidence_clear(&evidence);
	sgpu_device_close(&device);
}

int main(void)
{
	read_self();
	UNIT_RUN(a_section_is_found_and_digested);
	UNIT_RUN(a_file_that_was_cut_short_or_is_of_another_kind_has_none);
	UNIT_RUN(spoiled_headers_reach_nothing_outside);
	UNIT_RUN(the_cpu_device_has_neither_code_nor_a_report);
	free(image);
	return unit_done();
}
