/* SPDX-License-Identifier: Apache-2.0
 *
 * The ustar reader and writer: what is written is read, by us and in the layout of the standard;
 * all else is refused.
 */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tar_header.h"
#include "unit.h"

static struct sgpu_error error;

/* Offsets in a header, from the standard and not from our struct. */
enum {
	NAME = 0,
	MODE = 100,
	SIZE = 124,
	MTIME = 136,
	SUM = 148,
	TYPE = 156,
	LINK = 157,
	MAGIC = 257,
	VERSION = 263,
	USER = 265,
	MAJOR = 329,
	PREFIX = 345,
	REST = 500
};

static int memory_file(const void *data, size_t size)
{
	const int fd = memfd_create("tar", 0);
	if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size) ||
	    lseek(fd, 0, SEEK_SET) < 0) {
		abort();
	}
	return fd;
}

static void fill(uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 7 + 1);
	}
}

static void fix_checksum(uint8_t *header)
{
	unsigned sum = 8 * ' ';
	for (int i = 0; i < 512; i++) {
		sum += i >= SUM && i < SUM + 8 ? 0 : header[i];
	}
	snprintf((char *)header + SUM, 8, "%06o", sum);
	header[SUM + 7] = ' ';
}

static int write_archive(const size_t *sizes, int count)
{
	uint8_t data[2048];
	const int fd = memory_file(NULL, 0);
	fill(data, sizeof(data));
	for (int i = 0; i < count; i++) {
		char name[32];
		snprintf(name, sizeof(name), "segments/%d", i);
		if (put_header(fd, name, sizes[i], &error) ||
		    sgpu_write(fd, "a", data, sizes[i], &error) ||
		    sgpu_tar_padding(fd, "a", sizes[i], &error)) {
			abort();
		}
	}
	if (sgpu_tar_end(fd, "a", &error) || lseek(fd, 0, SEEK_SET) < 0) {
		abort();
	}
	return fd;
}

/* Reads everything; returns the code of the first failure. */
static int read_all(int fd, int *members)
{
	struct sgpu_tar_reader *reader = NULL;
	int code = sgpu_tar_open(fd, "a", &reader, &error);
	*members = 0;
	while (!code) {
		const char *name = NULL;
		uint64_t size = 0;
		code = sgpu_tar_next(reader, &name, &size, &error);
		if (code || !name) {
			break;
		}
		++*members;
		uint8_t byte = 0;
		for (uint64_t i = 0; !code && i < size; i++) {
			code = sgpu_tar_read(reader, &byte, 1, &error);
			CHECK(code || byte == (uint8_t)(i * 7 + 1));
		}
	}
	sgpu_tar_close(&reader);
	return code;
}

UNIT_TEST(members_of_all_sizes_come_back)
{
	static const size_t sizes[] = { 0, 1, 511, 512, 513, 1024, 2047 };
	const int fd = write_archive(sizes, 7);
	int members = 0;
	CHECK(read_all(fd, &members) == 0);
	CHECK(members == 7);
	CHECK(lseek(fd, 0, SEEK_END) == 7 * 512 + 0 + 512 + 512 + 512 + 1024 + 1024 + 2048 + 1024);
	close(fd);
}

UNIT_TEST(payloads_that_are_not_read_are_skipped)
{
	static const size_t sizes[] = { 700, 513, 1 };
	const int fd = write_archive(sizes, 3);
	struct sgpu_tar_reader *reader = NULL;
	const char *name = NULL;
	uint64_t size = 0;
	uint8_t data[700];
	REQUIRE(sgpu_tar_open(fd, "a", &reader, &error) == 0);
	CHECK(sgpu_tar_next(reader, &name, &size, &error) == 0 && !strcmp(name, "segments/0") &&
	      size == 700);
	CHECK(sgpu_tar_read(reader, data, 10, &error) == 0);
	CHECK(sgpu_tar_next(reader, &name, &size, &error) == 0 && !strcmp(name, "segments/1") &&
	      size == 513);
	/* Read past our back, in the two ways that bulk readers have. */
	CHECK(sgpu_tar_fd(reader) == fd);
	CHECK(pread(fd, data, 513, lseek(fd, 0, SEEK_CUR)) == 513 && data[0] == 1 &&
	      data[512] == (uint8_t)(512 * 7 + 1));
	sgpu_tar_consumed(reader, 513);
	CHECK(sgpu_tar_next(reader, &name, &size, &error) == 0 && !strcmp(name, "segments/2") &&
	      size == 1);
	CHECK(read(sgpu_tar_fd(reader), data, 1) == 1 && data[0] == 1);
	sgpu_tar_consumed(reader, 1);
	CHECK(sgpu_tar_next(reader, &name, &size, &error) == 0 && !name);
	CHECK(sgpu_tar_next(reader, &name, &size, &error) == 0 && !name);
	sgpu_tar_close(&reader);
	CHECK(!reader);
	sgpu_tar_close(&reader);
	close(fd);
}

/* The reader reads ahead in a file, and a bulk reader takes over wherever it is. */
UNIT_TEST(members_larger_than_what_is_read_ahead_come_back)
{
	enum { LARGE = 100000, MEMBERS = 40 };
	static uint8_t data[LARGE], got[LARGE];
	const int fd = memory_file("before", 6);
	struct sgpu_tar_reader *reader = NULL;
	const char *name = NULL;
	uint64_t size = 0;

	fill(data, sizeof(data));
	lseek(fd, 6, SEEK_SET);
	for (int i = 0; i < MEMBERS; i++) {
		const size_t bytes = i % 3 ? (size_t)i * 31 : LARGE - (size_t)i;
		REQUIRE(put_header(fd, "m", bytes, &error) == 0 &&
			sgpu_write(fd, "a", data, bytes, &error) == 0 &&
			sgpu_tar_padding(fd, "a", bytes, &error) == 0);
	}
	REQUIRE(sgpu_tar_end(fd, "a", &error) == 0);
	const off_t end = lseek(fd, 0, SEEK_CUR);
	lseek(fd, 6, SEEK_SET);
	REQUIRE(sgpu_tar_open(fd, "a", &reader, &error) == 0);
	for (int i = 0; i < MEMBERS; i++) {
		const size_t bytes = i % 3 ? (size_t)i * 31 : LARGE - (size_t)i,
			     first = bytes / (size_t)(i % 7 + 1);

		REQUIRE(sgpu_tar_next(reader, &name, &size, &error) == 0 && name && size == bytes);
		memset(got, 0, sizeof(got));
		REQUIRE(sgpu_tar_read(reader, got, first, &error) == 0);
		if (i % 2) {
			CHECK(read(sgpu_tar_fd(reader), got + first, bytes - first) ==
			      (ssize_t)(bytes - first));
			sgpu_tar_consumed(reader, bytes - first);
		} else if (i % 5) {
			CHECK(sgpu_tar_read(reader, got + first, bytes - first, &error) == 0);
		} else {
			memcpy(got + first, data + first, bytes - first); /* it is skipped */
		}
		CHECK(memcmp(got, data, bytes) == 0);
	}
	CHECK(sgpu_tar_next(reader, &name, &size, &error) == 0 && !name);
	CHECK(lseek(fd, 0, SEEK_CUR) == end);
	sgpu_tar_close(&reader);
	close(fd);
}

UNIT_TEST(reading_past_a_member_is_refused)
{
	static const size_t sizes[] = { 3 };
	const int fd = write_archive(sizes, 1);
	struct sgpu_tar_reader *reader = NULL;
	const char *name = NULL;
	uint64_t size = 0;
	uint8_t data[4];
	REQUIRE(sgpu_tar_open(fd, "a", &reader, &error) == 0);
	CHECK(sgpu_tar_read(reader, data, 1, &error) == SGPU_EINVALID);
	CHECK(sgpu_tar_next(reader, &name, &size, &error) == 0);
	CHECK(sgpu_tar_read(reader, data, 4, &error) == SGPU_EINVALID);
	sgpu_tar_close(&reader);
	close(fd);
}

UNIT_TEST(the_header_is_that_of_the_standard)
{
	static const size_t sizes[] = { 5 };
	uint8_t header[512];
	const int fd = write_archive(sizes, 1);
	REQUIRE(pread(fd, header, 512, 0) == 512);
	CHECK(!memcmp(header + NAME, "segments/0\0", 11));
	CHECK(!memcmp(header + MODE,
		      "0000644\0"
		      "0000000\0"
		      "0000000\0"
		      "00000000005\0"
		      "00000000000\0",
		      48));
	CHECK(header[TYPE] == '0' && !memcmp(header + MAGIC,
					     "ustar\0"
					     "00",
					     8));
	uint8_t copy[512];
	memcpy(copy, header, 512);
	fix_checksum(copy);
	CHECK(!memcmp(copy, header, 512));
	close(fd);
}

UNIT_TEST(sizes_beyond_eight_gibibytes_are_base_256)
{
	static const uint64_t sizes[] = { 077777777777, 0100000000000, ((uint64_t)1 << 52) + 3,
					  (uint64_t)1 << 62 };
	for (int i = 0; i < 4; i++) {
		const int fd = memory_file(NULL, 0);
		uint8_t header[512];
		CHECK(put_header(fd, "x", sizes[i], &error) == 0);
		REQUIRE(pread(fd, header, 512, 0) == 512);
		CHECK((header[SIZE] == 0x80) == (i > 0));
		int pipes[2];
		struct sgpu_tar_reader *reader = NULL;
		const char *name = NULL;
		uint64_t size = 0;
		REQUIRE(pipe(pipes) == 0 && write(pipes[1], header, 512) == 512);
		close(pipes[1]);
		REQUIRE(sgpu_tar_open(pipes[0], "a", &reader, &error) == 0);
		CHECK(sgpu_tar_next(reader, &name, &size, &error) == 0 && size == sizes[i]);
		CHECK(sgpu_tar_next(reader, &name, &size, &error) == SGPU_EINVALID);
		sgpu_tar_close(&reader);
		close(pipes[0]);
		close(fd);
	}
	CHECK(put_header(1, "x", ((uint64_t)1 << 62) + 1, &error) == SGPU_EINVALID);
}

/* A header with one change, its checksum right: the code that reading it gives. */
static int read_changed(size_t at, const char *bytes, size_t size)
{
	static const size_t sizes[] = { 5 };
	const int fd = write_archive(sizes, 1);
	uint8_t header[512];
	int members = 0;
	if (pread(fd, header, 512, 0) != 512) {
		abort();
	}
	memcpy(header + at, bytes, size);
	fix_checksum(header);
	if (pwrite(fd, header, 512, 0) != 512) {
		abort();
	}
	const int code = read_all(fd, &members);
	close(fd);
	return code;
}

UNIT_TEST(whatever_a_batch_does_not_need_is_refused)
{
	static const char *const types = "\0001234567gxLKSDVM";
	for (int i = 0; i < 16; i++) {
		CHECK(read_changed(TYPE, types + i, 1) == SGPU_EINVALID);
	}
	CHECK(read_changed(MAGIC, "ustar  ", 8) == SGPU_EINVALID);	    /* GNU */
	CHECK(read_changed(MAGIC, "\0\0\0\0\0\0\0\0", 8) == SGPU_EINVALID); /* v7 */
	CHECK(read_changed(VERSION, "01", 2) == SGPU_EINVALID);
	CHECK(read_changed(PREFIX, "a", 1) == SGPU_EINVALID);
	CHECK(read_changed(PREFIX + 154, "a", 1) == SGPU_EINVALID);
	CHECK(read_changed(LINK, "a", 1) == SGPU_EINVALID);
	CHECK(read_changed(REST, "a", 1) == SGPU_EINVALID);
	CHECK(read_changed(NAME, "", 1) == SGPU_EINVALID);
	CHECK(read_changed(NAME + 50, "a", 1) == SGPU_EINVALID); /* behind the name's end */
	CHECK(read_changed(MAJOR, "0000001", 8) == SGPU_EINVALID);
	CHECK(read_changed(USER, "\0x", 2) == SGPU_EINVALID);
	CHECK(read_changed(MODE, "0000648", 8) == SGPU_EINVALID);
	CHECK(read_changed(MTIME, "-1", 2) == SGPU_EINVALID);
}

UNIT_TEST(sizes_that_are_not_numbers_are_refused)
{
	CHECK(read_changed(SIZE, "-0000000001", 12) == SGPU_EINVALID);
	CHECK(read_changed(SIZE, "0000000005x", 12) == SGPU_EINVALID);
	CHECK(read_changed(SIZE, "\0\0\0\0\0\0\0\0\0\0\0\0", 12) == SGPU_EINVALID);
	CHECK(read_changed(SIZE, "         5 ", 12) == SGPU_EINVALID);
	CHECK(read_changed(SIZE, "00000000008", 12) == SGPU_EINVALID);
	CHECK(read_changed(SIZE, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12) ==
	      SGPU_EINVALID);
	CHECK(read_changed(SIZE, "\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 12) ==
	      SGPU_EINVALID);
	CHECK(read_changed(SIZE, "\x80\0\0\1\0\0\0\0\0\0\0\5", 12) == SGPU_EINVALID);
	CHECK(read_changed(SIZE, "\x80\0\0\0\0\0\0\0\0\0\0\5", 12) == 0);
	CHECK(read_changed(SIZE, "000000000005", 12) == 0); /* twelve digits */
}

/* Metadata that the reader does not use may differ, so that another tar can write a batch. */
UNIT_TEST(metadata_that_has_no_meaning_is_free)
{
	CHECK(read_changed(MODE, "0100600", 8) == 0);
	CHECK(read_changed(MTIME, "14725133562", 12) == 0);
	CHECK(read_changed(USER, "root", 5) == 0);
	CHECK(read_changed(MAJOR, "\0\0\0\0\0\0\0\0", 8) == 0);
}

UNIT_TEST(every_changed_byte_of_a_header_is_refused)
{
	static const size_t sizes[] = { 5 };
	const int fd = write_archive(sizes, 1);
	for (int i = 0; i < 512; i++) {
		uint8_t byte = 0, other = 0;
		int members = 0;
		REQUIRE(pread(fd, &byte, 1, i) == 1);
		other = byte ^ 1;
		REQUIRE(pwrite(fd, &other, 1, i) == 1 && lseek(fd, 0, SEEK_SET) == 0);
		CHECK(read_all(fd, &members) == SGPU_EINVALID);
		REQUIRE(pwrite(fd, &byte, 1, i) == 1);
	}
	close(fd);
}

UNIT_TEST(padding_and_end_must_be_zeros)
{
	static const size_t sizes[] = { 5 };
	for (int at = 517; at < 4 * 512; at += 97) {
		int members = 0;
		const int fd = write_archive(sizes, 1);
		REQUIRE(pwrite(fd, "x", 1, at) == 1);
		CHECK(read_all(fd, &members) == SGPU_EINVALID);
		close(fd);
	}
}

UNIT_TEST(every_cut_is_refused)
{
	static const size_t sizes[] = { 600, 5 };
	uint8_t bytes[9 * 512];
	const int fd = write_archive(sizes, 2);
	const ssize_t size = pread(fd, bytes, sizeof(bytes), 0);
	REQUIRE(size == 7 * 512);
	for (ssize_t cut = 0; cut < size; cut += 64) {
		int members = 0, pipes[2];
		const int file = memory_file(bytes, (size_t)cut);
		CHECK(read_all(file, &members) == SGPU_EINVALID);
		close(file);
		REQUIRE(pipe(pipes) == 0 && write(pipes[1], bytes, (size_t)cut) == cut);
		close(pipes[1]);
		CHECK(read_all(pipes[0], &members) == SGPU_EINVALID);
		close(pipes[0]);
	}
	close(fd);
}

UNIT_TEST(blocks_of_zeros_may_follow_up_to_a_limit)
{
	static const size_t sizes[] = { 5 };
	int members = 0;
	const int fd = write_archive(sizes, 1);
	REQUIRE(ftruncate(fd, 10240) == 0);
	CHECK(read_all(fd, &members) == 0);
	REQUIRE(ftruncate(fd, 4 << 20) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	CHECK(read_all(fd, &members) == SGPU_EINVALID);
	REQUIRE(ftruncate(fd, 9000) == 0 && pwrite(fd, "x", 1, 8999) == 1 &&
		lseek(fd, 0, SEEK_SET) == 0);
	CHECK(read_all(fd, &members) == SGPU_EINVALID);
	close(fd);
}

UNIT_TEST(names_that_do_not_fit_are_refused)
{
	char name[102];
	memset(name, 'a', sizeof(name));
	name[101] = '\0';
	CHECK(put_header(-1, name, 0, &error) == SGPU_EINVALID);
	CHECK(put_header(-1, "", 0, &error) == SGPU_EINVALID);
	name[100] = '\0';
	const int fd = memory_file(NULL, 0);
	struct sgpu_tar_reader *reader = NULL;
	const char *member = NULL;
	uint64_t size = 0;
	CHECK(put_header(fd, name, 0, &error) == 0);
	REQUIRE(lseek(fd, 0, SEEK_SET) == 0 && sgpu_tar_open(fd, "a", &reader, &error) == 0);
	CHECK(sgpu_tar_next(reader, &member, &size, &error) == 0 && member &&
	      !strcmp(member, name));
	sgpu_tar_close(&reader);
	close(fd);
}

int main(void)
{
	UNIT_RUN(members_of_all_sizes_come_back);
	UNIT_RUN(payloads_that_are_not_read_are_skipped);
	UNIT_RUN(members_larger_than_what_is_read_ahead_come_back);
	UNIT_RUN(reading_past_a_member_is_refused);
	UNIT_RUN(the_header_is_that_of_the_standard);
	UNIT_RUN(sizes_beyond_eight_gibibytes_are_base_256);
	UNIT_RUN(whatever_a_batch_does_not_need_is_refused);
	UNIT_RUN(sizes_that_are_not_numbers_are_refused);
	UNIT_RUN(metadata_that_has_no_meaning_is_free);
	UNIT_RUN(every_changed_byte_of_a_header_is_refused);
	UNIT_RUN(padding_and_end_must_be_zeros);
	UNIT_RUN(every_cut_is_refused);
	UNIT_RUN(blocks_of_zeros_may_follow_up_to_a_limit);
	UNIT_RUN(names_that_do_not_fit_are_refused);
	return unit_done();
}
