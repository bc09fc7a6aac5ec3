/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing people's files: what is written reads back as it was given, with the same bytes each
 * time, and what a format does not have is refused. tests/interop/test_files.py reads them with
 * nibabel and NumPy.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "files/files.h"
#include "unit.h"

enum { BYTES = 240 };

static struct sgpu_error error;
static uint8_t data[BYTES];

/* Writes `bytes` of data, in two calls. Returns the code of the first call that fails. */
static int write_to(int fd, const struct sgpu_file_style *style, const struct sgpu_type *type,
		    size_t bytes)
{
	struct sgpu_file_writer *writer = NULL;
	int rc = sgpu_file_create(fd, "file", style, type, &writer, &error);

	rc = rc ? rc : sgpu_file_write(writer, data, bytes / 3, &error);
	rc = rc ? rc : sgpu_file_write(writer, data + bytes / 3, bytes - bytes / 3, &error);
	rc = rc ? rc : sgpu_file_end(writer, &error);
	sgpu_file_writer_free(&writer);
	return rc;
}

static int new_file(void)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	if (fd < 0) {
		abort();
	}
	return fd;
}

static int writes(const struct sgpu_file_style *style, const struct sgpu_type *type, size_t bytes)
{
	const int fd = new_file(), rc = write_to(fd, style, type, bytes);

	close(fd);
	return rc;
}

static bool reads_back(int fd, const struct sgpu_file_style *style, const struct sgpu_type *type)
{
	const struct sgpu_file_request request = { .name = "file" };
	struct sgpu_file *file = NULL;
	uint8_t back[BYTES];
	bool good = sgpu_file_open(fd, -1, &request, &file, &error) == 0;

	if (good) {
		const struct sgpu_file_info *info = sgpu_file_info(file);

		good = info->format == style->format && info->gzip == style->gzip &&
		       info->boolean == style->boolean && !info->scaled &&
		       info->first_fastest == style->first_fastest &&
		       info->type.dtype == type->dtype && info->type.rank == type->rank &&
		       !memcmp(info->type.shape, type->shape, 8 * (size_t)type->rank) &&
		       sgpu_file_read(file, back, BYTES, &error) == 0 &&
		       memcmp(back, data, BYTES) == 0;
	}
	sgpu_file_close(&file);
	return good;
}

#define STYLE(name)               \
	&(struct sgpu_file_style) \
	{                         \
		.format = (name)  \
	}
static const struct sgpu_type volume = { SGPU_I16, 4, { 5, 4, 3, 2 } };

UNIT_TEST(what_is_written_reads_back_and_has_the_same_bytes_each_time)
{
	static const struct sgpu_file_style styles[] = {
		{ .format = SGPU_FILE_NIFTI, .first_fastest = true },
		{ .format = SGPU_FILE_NIFTI, .first_fastest = true, .gzip = true },
		{ .format = SGPU_FILE_NPY },
		{ .format = SGPU_FILE_NPY, .first_fastest = true },
		{ .format = SGPU_FILE_NPZ },
		{ .format = SGPU_FILE_NPZ, .first_fastest = true },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(styles); i++) {
		const int one = new_file(), other = new_file();
		uint8_t first[2048], second[2048];
		ssize_t length;

		CHECK(write_to(one, &styles[i], &volume, BYTES) == 0);
		CHECK(reads_back(one, &styles[i], &volume));
		CHECK(write_to(other, &styles[i], &volume, BYTES) == 0);
		length = pread(one, first, sizeof(first), 0);
		CHECK(length > BYTES / 2 && pread(other, second, sizeof(second), 0) == length &&
		      memcmp(first, second, (size_t)length) == 0);
		close(one);
		close(other);
	}
}

UNIT_TEST(raw_files_hold_the_elements_alone)
{
	const int fd = new_file();
	uint8_t back[BYTES + 1];

	CHECK(write_to(fd, STYLE(SGPU_FILE_RAW), &volume, BYTES) == 0);
	CHECK(pread(fd, back, sizeof(back), 0) == BYTES && memcmp(back, data, BYTES) == 0);
	close(fd);
}

UNIT_TEST(a_file_of_fewer_or_more_elements_does_not_end)
{
	for (int format = SGPU_FILE_RAW; format <= SGPU_FILE_NPZ; format++) {
		const struct sgpu_file_style style = { .format = (enum sgpu_file_format)format };

		CHECK(writes(&style, &volume, BYTES) == 0);
		CHECK(writes(&style, &volume, BYTES - 1) == SGPU_EINVALID);
		CHECK(writes(&style, &(struct sgpu_type){ SGPU_I16, 1, { 119 } }, BYTES) ==
		      SGPU_EINVALID);
	}
}

UNIT_TEST(what_a_format_does_not_have_is_refused)
{
	const struct sgpu_type half = { SGPU_F16, 1, { 120 } }, none = { SGPU_NONE, 1, { 1 } },
			       bytes = { SGPU_U8, 1, { BYTES } },
			       large = { SGPU_U8, 1, { UINT32_MAX } },
			       huge = { SGPU_U8, 2, { UINT64_MAX, 2 } };

	CHECK(writes(STYLE(SGPU_FILE_NIFTI), &half, BYTES) == SGPU_EINVALID);
	CHECK(strstr(error.text, "f16"));
	CHECK(writes(STYLE(SGPU_FILE_NPY), &half, BYTES) == 0);
	CHECK(writes(STYLE(SGPU_FILE_IDX), &bytes, BYTES) == SGPU_EINVALID);
	CHECK(writes(STYLE(SGPU_FILE_NPY), &none, 0) == SGPU_EINVALID);
	CHECK(writes(STYLE(SGPU_FILE_NPY), &huge, 0) == SGPU_EINVALID);
	CHECK(writes(STYLE(SGPU_FILE_NPZ), &large, 0) == SGPU_EINVALID);
	CHECK(strstr(error.text, "4 GiB") && strstr(error.hint, ".npy"));
	CHECK(writes(&(struct sgpu_file_style){ .format = SGPU_FILE_NPY, .boolean = true }, &volume,
		     BYTES) == SGPU_EINVALID);
	CHECK(writes(&(struct sgpu_file_style){ .format = SGPU_FILE_NPY, .boolean = true }, &bytes,
		     BYTES) == 0);
}

UNIT_TEST(a_header_to_keep_may_hold_anything)
{
	uint8_t header[SGPU_FILE_HEADER_MAX];
	struct sgpu_file_style style = { .format = SGPU_FILE_NIFTI,
					 .first_fastest = true,
					 .header = header };
	const struct sgpu_type wide = { SGPU_I16, 2, { 40000, 0 } };

	for (int fill = 0; fill < 2; fill++) {
		for (size_t size = 0; size <= sizeof(header); size += 4) {
			const uint32_t stated = (uint32_t)size;
			const int fd = new_file();

			memset(header, fill ? 0xff : 0, sizeof(header));
			memcpy(header, &stated, sizeof(stated));
			style.header_size = size;
			CHECK(write_to(fd, &style, &volume, BYTES) ==
			      (size == 348 || size == 540 ? 0 : SGPU_EINVALID));
			CHECK((size != 348 && size != 540) || reads_back(fd, &style, &volume));
			close(fd);
		}
	}
	memcpy(header, &(uint32_t){ 348 }, 4);
	style.header_size = 348;
	CHECK(writes(&style, &wide, 0) == 0); /* all of it is moved to NIfTI-2 */
	memcpy(header, &(uint32_t){ 0x5c010000 }, 4);
	CHECK(writes(&style, &volume, BYTES) == SGPU_EINVALID);
}

UNIT_TEST(endings_say_which_format_is_asked_for)
{
	static const struct {
		const char *name;
		enum sgpu_file_format format;
		bool gzip;
	} rows[] = {
		{ "a.nii", SGPU_FILE_NIFTI, false }, { "b/a.NII.GZ", SGPU_FILE_NIFTI, true },
		{ "a.npy", SGPU_FILE_NPY, false },   { "a.npz", SGPU_FILE_NPZ, false },
		{ "a.gz", SGPU_FILE_RAW, false },    { "a.npy.gz", SGPU_FILE_RAW, false },
		{ ".nii", SGPU_FILE_RAW, false },    { "nii", SGPU_FILE_RAW, false },
		{ "", SGPU_FILE_RAW, false },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(rows); i++) {
		struct sgpu_file_style style;

		memset(&style, 0xff, sizeof(style));
		sgpu_file_style_of(rows[i].name, &style);
		CHECK(style.format == rows[i].format && style.gzip == rows[i].gzip);
		sgpu_file_style_named(rows[i].name, &style);
		CHECK(style.format == SGPU_FILE_RAW);
		sgpu_file_style_named("nifti.gz", &style);
		CHECK(style.format == SGPU_FILE_NIFTI && style.gzip);
		sgpu_file_style_of(rows[i].name, &style);
		CHECK(style.first_fastest == (style.format == SGPU_FILE_NIFTI) && !style.header);
	}
}

UNIT_TEST(a_full_disk_is_an_error)
{
	const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	if (fd < 0) {
		SKIP("there is no /dev/full");
	}
	for (int format = SGPU_FILE_RAW; format <= SGPU_FILE_NPZ; format++) {
		struct sgpu_file_style style = { .format = (enum sgpu_file_format)format };

		CHECK(write_to(fd, &style, &volume, BYTES) == SGPU_ENOSPACE);
		style.gzip = true;
		CHECK(write_to(fd, &style, &volume, BYTES) == SGPU_ENOSPACE);
	}
	close(fd);
}

int main(void)
{
	for (size_t i = 0; i < BYTES; i++) {
		data[i] = (uint8_t)(i * i >> 3);
	}
	UNIT_RUN(what_is_written_reads_back_and_has_the_same_bytes_each_time);
	UNIT_RUN(raw_files_hold_the_elements_alone);
	UNIT_RUN(a_file_of_fewer_or_more_elements_does_not_end);
	UNIT_RUN(what_a_format_does_not_have_is_refused);
	UNIT_RUN(a_header_to_keep_may_hold_anything);
	UNIT_RUN(endings_say_which_format_is_asked_for);
	UNIT_RUN(a_full_disk_is_an_error);
	return unit_done();
}
