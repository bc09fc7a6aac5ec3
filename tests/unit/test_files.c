/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading people's files: made ones read as they are defined, and none that is cut, longer or
 * changed in a field is read as another. tests/interop/test_files.py compares with nibabel and
 * NumPy.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <sgpu/base.h>

#include "files/files.h"
#include "unit.h"

enum { ROOM = 4096, ELEMENTS = 24 };

static uint8_t bytes[ROOM];
static size_t size;
static struct sgpu_error error;
static struct sgpu_file_info info;
static uint8_t elements[ROOM];

static int descriptor(const void *data, size_t length)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, length) != (ssize_t)length) {
		abort();
	}
	return fd;
}

/* Opens and reads a file to its end, in two reads. */
static int read_fd(int fd, int other, const struct sgpu_file_request *request)
{
	struct sgpu_file *file = NULL;
	uint64_t all = 0;
	size_t half;
	int rc;

	memset(&error, 0, sizeof(error));
	rc = sgpu_file_open(fd, other, request, &file, &error);
	if (!rc) {
		info = *sgpu_file_info(file);
		(void)sgpu_type_bytes(&info.type, &all);
		half = all / 16 * 8;
		rc = all > sizeof(elements) ? SGPU_EINVALID
					    : sgpu_file_read(file, elements, half, &error);
		rc = rc ? rc : sgpu_file_read(file, elements + half, all - half, &error);
	}
	sgpu_file_close(&file);
	return rc;
}

static int read_bytes(const void *data, size_t length)
{
	const int fd = descriptor(data, length),
		  rc = read_fd(fd, -1, &(struct sgpu_file_request){ .name = "file" });

	close(fd);
	return rc;
}

static void put(size_t at, int width, uint64_t value, bool big)
{
	for (int i = 0; i < width; i++) {
		bytes[at + (size_t)(big ? width - 1 - i : i)] = (uint8_t)(value >> 8 * i);
	}
}

static void put_real(size_t at, int width, double value, bool big)
{
	const float narrow = (float)value;
	uint64_t bits = 0;

	memcpy(&bits, width == 4 ? (const void *)&narrow : &value, (size_t)width);
	put(at, width, bits, big);
}

/* Elements of i16: 0, 257, 514, ...; their two bytes are equal, but for the last one. */
static void put_elements(size_t at, bool big)
{
	for (size_t i = 0; i < ELEMENTS; i++) {
		put(at + 2 * i, 2, i + 1 < ELEMENTS ? 257 * i : 0x0102, big);
	}
	size = at + 2 * ELEMENTS;
}

static void make_nifti1(bool big)
{
	memset(bytes, 0, sizeof(bytes));
	put(0, 4, 348, big);
	for (size_t i = 0; i < 8; i++) {
		put(40 + 2 * i, 2, (const uint8_t[]){ 3, 4, 3, 2, 1, 1, 1, 1 }[i], big);
		put_real(76 + 4 * i, 4, (double)i, big);
	}
	put(70, 2, 4, big);
	put(72, 2, 16, big);
	put_real(108, 4, 352, big);
	bytes[123] = 2;
	memcpy(bytes + 344, "n+1", 4);
	put_elements(352, big);
}

static void make_nifti2(bool big)
{
	memset(bytes, 0, sizeof(bytes));
	put(0, 4, 540, big);
	memcpy(bytes + 4, "n+2\0\r\n\032\n", 8);
	put(12, 2, 4, big);
	put(14, 2, 16, big);
	for (size_t i = 0; i < 8; i++) {
		put(16 + 8 * i, 8, (const uint8_t[]){ 3, 4, 3, 2, 1, 1, 1, 1 }[i], big);
		put_real(104 + 8 * i, 8, (double)i, big);
	}
	put(168, 8, 544, big);
	put(500, 4, 3, big); /* micrometres */
	put_elements(544, big);
}

static void make_npy(const char *text)
{
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, "\x93NUMPY\1\0", 8);
	put(8, 2, strlen(text), false);
	memcpy(bytes + 10, text, strlen(text));
	put_elements(10 + strlen(text), strstr(text, ">i2"));
}

#define LITERAL "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4), }"

static void make_idx(void)
{
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, "\0\0\x0b\3\0\0\0\2\0\0\0\3\0\0\0\4", 16);
	put_elements(16, true);
}

/* Makes an archive of what is in `bytes`, as "a.npy" between two other members. */
static void make_npz(bool deflated)
{
	uint8_t packed[ROOM], *member = deflated ? packed : bytes;
	size_t length = size, at = 0, entries;
	z_stream z = {
		.next_in = bytes, .avail_in = (uInt)size, .next_out = packed, .avail_out = ROOM
	};
	const uint32_t sum = (uint32_t)crc32(0, bytes, (uInt)size);
	uint8_t archive[ROOM] = { 0 };

	if (deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) ||
	    deflate(&z, Z_FINISH) != Z_STREAM_END || deflateEnd(&z)) {
		abort();
	}
	length = deflated ? z.total_out : size;
	memcpy(archive, "PK\3\4", 4);
	archive[26] = 5;
	memcpy(archive + 30, "a.npy", 5);
	memcpy(archive + 35, member, length);
	entries = at = 35 + length;
	for (int i = 0; i < 2; i++) {
		memcpy(archive + at, "PK\1\2", 4);
		archive[at + 10] = deflated ? 8 : 0;
		memcpy(archive + at + 16, &sum, 4);
		memcpy(archive + at + 20, &(uint32_t){ (uint32_t)length }, 4);
		memcpy(archive + at + 24, &(uint32_t){ (uint32_t)size }, 4);
		archive[at + 28] = 5;
		memcpy(archive + at + 46, i ? "a.npy" : "b.txt", 5);
		at += 51;
	}
	memcpy(archive + at, "PK\5\6", 4);
	archive[at + 8] = archive[at + 10] = 2;
	archive[at + 12] = 102;
	memcpy(archive + at + 16, &(uint32_t){ (uint32_t)entries }, 4);
	size = at + 22;
	memcpy(bytes, archive, size);
}

static void pack(void)
{
	uint8_t packed[ROOM];
	z_stream z = {
		.next_in = bytes, .avail_in = (uInt)size, .next_out = packed, .avail_out = ROOM
	};

	if (deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY) ||
	    deflate(&z, Z_FINISH) != Z_STREAM_END || deflateEnd(&z)) {
		abort();
	}
	size = z.total_out;
	memcpy(bytes, packed, size);
}

static void make(int kind)
{
	if (kind < 4) {
		(kind < 2 ? make_nifti1 : make_nifti2)(kind % 2);
	} else if (kind < 8) {
		make_npy(kind == 5
				 ? "{'descr': '>i2', 'fortran_order': True, 'shape': (4, 3, 2), }\n"
				 : LITERAL "  \n");
	} else {
		make_idx();
	}
	if (kind == 6 || kind == 7) {
		make_npz(kind == 7);
	}
}
enum { KINDS = 9, PACKED = 5 }; /* of the first ones and IDX, compressed too */

static bool has_elements(void)
{
	bool good = true;

	for (size_t i = 0; i < ELEMENTS; i++) {
		const unsigned value = i + 1 < ELEMENTS ? 257 * (unsigned)i : 0x0102;

		good = good && elements[2 * i] == (value & 255) &&
		       elements[2 * i + 1] == value >> 8;
	}
	return good;
}

UNIT_TEST(files_of_all_formats_read_as_they_are_defined)
{
	static const enum sgpu_file_format formats[KINDS] = {
		SGPU_FILE_NIFTI, SGPU_FILE_NIFTI, SGPU_FILE_NIFTI, SGPU_FILE_NIFTI, SGPU_FILE_NPY,
		SGPU_FILE_NPY,	 SGPU_FILE_NPZ,	  SGPU_FILE_NPZ,   SGPU_FILE_IDX
	};

	for (int kind = 0; kind < KINDS; kind++) {
		const bool reversed = kind < 4 || kind == 5;
		struct sgpu_type type;

		make(kind);
		CHECK(read_bytes(bytes, size) == 0 && has_elements());
		CHECK(info.format == formats[kind] && info.type.dtype == SGPU_I16 && !info.gzip);
		CHECK(info.first_fastest == reversed && info.type.rank == 3);
		CHECK(info.type.shape[0] == (reversed ? 4 : 2) && info.type.shape[1] == 3);
		sgpu_file_payload_type(&info, &type);
		CHECK(type.shape[0] == 2 && type.shape[1] == 3 && type.shape[2] == 4);
		CHECK(info.plain == (kind == 0 || kind == 2 || kind == 4));
		CHECK(!info.plain || memcmp(bytes + info.offset, elements, 2 * ELEMENTS) == 0);
	}
	make(1);
	CHECK(read_bytes(bytes, size) == 0 && info.voxel[0] == 1 && info.voxel[2] == 3);
	make(2);
	CHECK(read_bytes(bytes, size) == 0 && info.voxel[2] == 0.003 && !info.scaled);
}

UNIT_TEST(no_file_that_is_cut_or_goes_on_is_read)
{
	for (int kind = 0; kind < 2 * KINDS; kind++) {
		make(kind % KINDS);
		if (kind >= KINDS) {
			if (kind % KINDS == 6 || kind % KINDS == 7) {
				continue;
			}
			pack();
			CHECK(read_bytes(bytes, size) == 0 && has_elements() && info.gzip &&
			      !info.plain);
		}
		for (size_t length = 0; length < size; length++) {
			const int rc = read_bytes(bytes, length);

			if (rc != SGPU_EINVALID || !*error.text) {
				printf("# kind %d cut to %zu: %d\n", kind, length, rc);
			}
			CHECK(rc == SGPU_EINVALID && *error.text);
		}
		bytes[size] = 0;
		CHECK(read_bytes(bytes, size + 1) == SGPU_EINVALID);
	}
}

UNIT_TEST(no_compressed_file_whose_contents_are_cut_or_go_on_is_read)
{
	for (int kind = 0; kind < KINDS; kind++) {
		for (int more = -1; more <= 1; more += 2) {
			make(kind);
			if (kind == 6 || kind == 7) {
				continue;
			}
			bytes[size] = 0;
			size += (size_t)more;
			pack();
			CHECK(read_bytes(bytes, size) == SGPU_EINVALID);
		}
	}
}

/* ---- fields ---- */
static bool refused(const char *reason)
{
	const int rc = read_bytes(bytes, size);

	if (rc != SGPU_EINVALID || !strstr(error.text, reason)) {
		printf("# %d, not '%s': %s\n", rc, reason, error.text);
	}
	return rc == SGPU_EINVALID && strstr(error.text, reason);
}

UNIT_TEST(fields_of_nifti_that_disagree_are_refused)
{
	static const struct {
		int version;
		size_t at;
		int width;
		uint64_t value;
		const char *reason;
	} rows[] = {
		{ 1, 40, 2, 0, "has no extents" },
		{ 1, 40, 2, 8, "has no extents" },
		{ 1, 40, 2, 0xffff, "has no extents" },
		{ 1, 42, 2, 0xfffc, "has no extents" },
		{ 1, 42, 2, 5, "less than the 412" },
		{ 1, 42, 2, 3, "more than the 388" },
		{ 1, 44, 2, 32767, "less than" },
		{ 1, 70, 2, 16, "two sizes of a voxel" },
		{ 1, 72, 2, 8, "two sizes of a voxel" },
		{ 1, 70, 2, 3, "of no type of NIfTI" },
		{ 1, 70, 2, 0, "of no type of NIfTI" },
		{ 1, 70, 2, 32, "complex numbers" },
		{ 1, 70, 2, 128, "colours (RGB)" },
		{ 1, 68, 2, 3001, "CIFTI" },
		{ 1, 108, 4, 0x43ae0000, "less than the 396" }, /* 348: then four bytes remain */
		{ 1, 108, 4, 0x43ad8000, "begin nowhere" },	/* 347 */
		{ 1, 108, 4, 0x43b02000, "begin nowhere" },	/* 352.25 */
		{ 1, 108, 4, 0x7fc00000, "begin nowhere" },
		{ 1, 108, 4, 0x7f800000, "begin nowhere" },
		{ 1, 108, 4, 0xc3b00000, "begin nowhere" },
		{ 1, 112, 4, 0x7fc00000, "which is no number" },
		{ 1, 344, 4, 0, "ANALYZE 7.5" },
		{ 1, 344, 4, 0x31696e, "the other is missing" },
		{ 2, 16, 8, UINT64_MAX, "has no extents" },
		{ 2, 24, 8, UINT64_MAX, "has no extents" },
		{ 2, 24, 8, INT64_MAX, "too many bytes" },
		{ 2, 32, 8, (uint64_t)1 << 50, "too many bytes" },
		{ 2, 168, 8, 539, "begin nowhere" },
		{ 2, 168, 8, (uint64_t)1 << 53, "begin nowhere" },
		{ 2, 168, 8, ((uint64_t)1 << 53) - 8, "less than" },
		{ 2, 4, 4, 0, "without its magic number" },
	};

	for (int big = 0; big < 2; big++) {
		for (size_t i = 0; i < SGPU_ARRAY_LENGTH(rows); i++) {
			const bool text = strstr(rows[i].reason, "ANALYZE") ||
					  strstr(rows[i].reason, "missing") || rows[i].at == 4;

			(rows[i].version == 1 ? make_nifti1 : make_nifti2)(big);
			put(rows[i].at, rows[i].width, rows[i].value, big && !text);
			if (strstr(rows[i].reason, "396")) {
				CHECK(refused("more than the 396"));
			} else {
				CHECK(refused(rows[i].reason));
			}
		}
	}
	make_nifti1(false);
	put(40, 2, 5, false);
	put(50, 2, 2, false);
	CHECK(refused("has 5 dimensions, at most 4"));
}

UNIT_TEST(ranks_above_four_are_read_if_what_is_more_is_one)
{
	make_nifti1(false);
	put(40, 2, 7, false);
	CHECK(read_bytes(bytes, size) == 0 && has_elements() && info.type.rank == 4);
	make_npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4, 1, 1, 1), }\n");
	CHECK(read_bytes(bytes, size) == 0 && has_elements() && info.type.rank == 4);
	make_npy("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 1, 2, 3, 4), }\n");
	CHECK(refused("has 5 dimensions"));
}

UNIT_TEST(headers_that_numpy_does_not_write_are_refused)
{
	static const char *const bad[] = {
		"",
		"{}",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4), ",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4), } x",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4), }\n\n{",
		"{'descr': '<i2', 'fortran_order': false, 'shape': (2, 3, 4), }",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (24), }",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2 3 4), }",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, -4), }",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4.0), }",
		"{'descr': '<i2', 'fortran_order': False, 'shape': [2, 3, 4], }",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4), 'x': 1}",
		"{'descr': '<i2', 'fortran_order': False 'shape': (2, 3, 4), }",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 99999999999999999999), }",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (4611686018427387904, 3, 4), }",
		"{'descr': '=i2', 'fortran_order': False, 'shape': (2, 3, 4), }",
		"{'descr': '|i2', 'fortran_order': False, 'shape': (2, 3, 4), }",
		"{'descr': '<i22', 'fortran_order': False, 'shape': (2, 3, 4), }",
		"{'descr': '<i3', 'fortran_order': False, 'shape': (2, 3, 4), }",
		"{'descr': '", /* ends in the middle */
		"{'descr': '<",
		"{'descr': '<i",
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		make_npy(bad[i]);
		if (read_bytes(bytes, size) != SGPU_EINVALID) {
			printf("# read: %s\n", bad[i]);
		}
		CHECK(read_bytes(bytes, size) == SGPU_EINVALID);
	}
	make_npy(LITERAL);
	CHECK(read_bytes(bytes, size) == 0 && has_elements());
	bytes[20] = '\0';
	CHECK(refused("cut short"));
	make_npy(LITERAL);
	bytes[6] = 4;
	CHECK(refused(".npy of version 4.0"));
	bytes[6] = 3;
	CHECK(refused("no header so long")); /* its length has four bytes then */
}

UNIT_TEST(archives_that_disagree_with_themselves_are_refused)
{
	size_t at;

	make(6);
	at = size - 22 - 51; /* the entry of a.npy */
#define CHANGED(where, value, reason)    \
	do {                             \
		make(6);                 \
		bytes[where] ^= (value); \
		CHECK(refused(reason));  \
	} while (0)
	CHANGED(at + 8, 1, "is encrypted");
	CHANGED(at + 10, 12, "by method 12 of zip");
	CHANGED(at + 16, 1, "its CRC-32 is another");
	CHANGED(at + 20, 1, "the directory of its archive is none"); /* stored: two sizes */
	CHANGED(at + 23, 1, "the directory of its archive is none");
	CHANGED(at + 42, 1, "the directory of its archive is none");
	CHANGED(at + 50, 1, "without arrays");
	CHANGED(at + 29, 1, "without arrays"); /* a name beyond the end */
	CHANGED(0, 1, "no known kind");
	CHANGED(26, 1, "the member is no array");
	CHANGED(35 + 12, 1, "header is none");
	CHANGED(34 + 80, 1, "CRC-32");
	CHANGED(size - 22 + 12, 1, "archive");
	CHANGED(size - 22 + 15, 1, "the directory of its archive is none");
	CHANGED(size - 22 + 19, 1, "the directory of its archive is none");
	CHANGED(size - 22 + 20, 1, "has no end"); /* a comment that is not there */
#undef CHANGED
	make(6);
	memset(bytes + at + 24, 0xff, 4);
	CHECK(refused("4 GiB or more") || refused("directory"));
	make(6);
	memcpy(bytes + at - 51 + 46, "b.npy", 5);
	CHECK(read_bytes(bytes, size) == SGPU_EUSAGE && strstr(error.text, "has 2 arrays: b, a"));
	make(7);
	bytes[40] ^= 0x10;
	CHECK(read_bytes(bytes, size) == SGPU_EINVALID);
}

UNIT_TEST(pairs_are_read_from_either_file)
{
	const struct sgpu_file_request request = { .name = "pair" };
	int header, image, wrong;

	make_nifti1(true);
	memcpy(bytes + 344, "ni1", 4);
	put_real(108, 4, 0, true);
	header = descriptor(bytes, 348);
	image = descriptor(bytes + 352, 2 * ELEMENTS);
	wrong = descriptor(bytes + 352, 2 * ELEMENTS - 1);
	CHECK(read_fd(header, image, &request) == 0 && has_elements() && !info.plain);
	CHECK(read_fd(image, header, &request) == 0 && has_elements());
	CHECK(read_fd(header, wrong, &request) == SGPU_EINVALID);
	CHECK(read_fd(header, -1, &request) == SGPU_EINVALID);
	CHECK(read_fd(image, -1, &request) == SGPU_EINVALID);
	CHECK(read_fd(image, wrong, &request) == SGPU_EINVALID);
	close(header);
	close(wrong);
	make_nifti1(false);
	memcpy(bytes + 344, "ni1", 4);
	put_real(108, 4, 0, false);
	header = descriptor(bytes, 348);
	close(image);
	image = descriptor(bytes + 352, 2 * ELEMENTS);
	CHECK(read_fd(header, image, &request) == 0 && !info.plain);
	CHECK(read_fd(image, header, &request) == 0 && info.plain && info.offset == 0);
	close(header);
	close(image);
}

UNIT_TEST(raw_data_are_a_window_or_all_of_the_file)
{
	struct sgpu_file_request request = {
		.name = "raw", .raw = true, .raw_type = { SGPU_U8, 1, { 4 } }, .raw_offset = 2
	};
	int fd = descriptor("\x1f\x8b\x08"
			    "abcd",
			    7);

	CHECK(read_fd(fd, -1, &request) == SGPU_EINVALID);
	request.window = true;
	CHECK(read_fd(fd, -1, &request) == 0 &&
	      !memcmp(elements,
		      "\x08"
		      "abc",
		      4) &&
	      info.plain && info.offset == 2);
	request.raw_offset = 4;
	CHECK(read_fd(fd, -1, &request) == SGPU_EINVALID);
	request.raw_offset = UINT64_MAX - 1;
	CHECK(read_fd(fd, -1, &request) == SGPU_EINVALID);
	request = (struct sgpu_file_request){ .name = "raw",
					      .raw = true,
					      .raw_type = { SGPU_U8, 1, { 7 } } };
	CHECK(read_fd(fd, -1, &request) == 0 && !memcmp(elements, "\x1f\x8b", 2));
	close(fd);
}

UNIT_TEST(what_unpacks_to_more_than_is_allowed_is_refused_before_it_is_read)
{
	struct sgpu_file_request request = { .name = "file", .size_max = 47 };
	int fd;

	make(1);
	pack();
	fd = descriptor(bytes, size);
	CHECK(read_fd(fd, -1, &request) == SGPU_EPOLICY);
	request.size_max = 48;
	CHECK(read_fd(fd, -1, &request) == 0);
	close(fd);
	make_nifti1(false); /* what lies before the elements has to be unpacked, too */
	put_real(108, 4, 4 << 20, false);
	pack();
	fd = descriptor(bytes, size);
	CHECK(read_fd(fd, -1, &request) == SGPU_EPOLICY);
	close(fd);
	make(0); /* what lies there as it is takes no memory */
	fd = descriptor(bytes, size);
	request.size_max = 1;
	CHECK(read_fd(fd, -1, &request) == 0);
	close(fd);
}

UNIT_TEST(directories_pipes_and_other_files_are_refused_by_name)
{
	const struct sgpu_file_request request = { .name = "it" };
	int pipes[2], fd = open("/", O_RDONLY);
	uint8_t dicom[200] = { 0 };

	REQUIRE(pipe(pipes) == 0);
	CHECK(read_fd(fd, -1, &request) == SGPU_EINVALID && strstr(error.text, "a directory"));
	CHECK(read_fd(pipes[0], -1, &request) == SGPU_EINVALID && strstr(error.text, "pipe"));
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	memcpy(dicom + 128, "DICM", 4);
	CHECK(read_bytes(dicom, sizeof(dicom)) == SGPU_EINVALID && strstr(error.text, "DICOM"));
	CHECK(read_bytes("\x89PNG\r\n\032\n", 8) == SGPU_EINVALID && strstr(error.text, "PNG"));
	CHECK(read_bytes("", 0) == SGPU_EINVALID && strstr(error.text, "is empty"));
}

UNIT_TEST(elements_are_read_whole_and_no_more_than_there_are)
{
	const struct sgpu_file_request request = { .name = "file" };
	struct sgpu_file *file = NULL;
	bool fits = false;
	int fd;

	make_npy("{'descr': '>i8', 'fortran_order': False, 'shape': (3, 2), }");
	memset(bytes + size - 48, 0, 48);
	put(size - 8, 8, (uint64_t)1 << 53 | 1, true);
	fd = descriptor(bytes, size);
	REQUIRE(sgpu_file_open(fd, -1, &request, &file, &error) == 0);
	CHECK(sgpu_file_fits_f64(file, &fits, &error) == 0 && !fits);
	CHECK(sgpu_file_read(file, elements, 7, &error) == SGPU_EUSAGE);
	CHECK(sgpu_file_read(file, elements, 56, &error) == SGPU_EUSAGE);
	CHECK(sgpu_file_read(file, elements, 48, &error) == 0);
	CHECK(sgpu_file_read(file, elements, 8, &error) == SGPU_EUSAGE);
	CHECK(elements[40] == 1 && elements[46] == 0x20);
	sgpu_file_close(&file);
	close(fd);
}

int main(void)
{
	UNIT_RUN(files_of_all_formats_read_as_they_are_defined);
	UNIT_RUN(no_file_that_is_cut_or_goes_on_is_read);
	UNIT_RUN(no_compressed_file_whose_contents_are_cut_or_go_on_is_read);
	UNIT_RUN(fields_of_nifti_that_disagree_are_refused);
	UNIT_RUN(ranks_above_four_are_read_if_what_is_more_is_one);
	UNIT_RUN(headers_that_numpy_does_not_write_are_refused);
	UNIT_RUN(archives_that_disagree_with_themselves_are_refused);
	UNIT_RUN(pairs_are_read_from_either_file);
	UNIT_RUN(raw_data_are_a_window_or_all_of_the_file);
	UNIT_RUN(what_unpacks_to_more_than_is_allowed_is_refused_before_it_is_read);
	UNIT_RUN(directories_pipes_and_other_files_are_refused_by_name);
	UNIT_RUN(elements_are_read_whole_and_no_more_than_there_are);
	return unit_done();
}
