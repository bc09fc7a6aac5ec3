/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a ring: what is made, and what is refused before it is mapped.
 */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <sgpu/ring.h>

#include "read_once.h"
#include "ring/private.h"
#include "unit.h"

enum { SUBMISSIONS = 8, COMPLETIONS = 16, FILE_SIZE = 8192, HEADER_WORDS = 8 };

static struct sgpu_error error;

/* Opened by both sides, and refused or accepted by both in the same way. */
static int open_both(int fd)
{
	const struct sgpu_ring_config client_config = { .doorbell = -1 };
	static const uint8_t members[SGPU_RING_OPCODES];
	const struct sgpu_ring_config worker_config = { .doorbell = -1, .members = members };
	struct sgpu_ring *client = NULL;
	struct sgpu_ring *worker = NULL;
	int first, second;

	first = sgpu_ring_open(fd, &client_config, &client, &error);
	second = sgpu_ring_open(fd, &worker_config, &worker, &error);
	CHECK(first == second);
	CHECK((client != NULL) == (first == SGPU_OK) && (worker != NULL) == (first == SGPU_OK));
	sgpu_ring_close(&client);
	sgpu_ring_close(&worker);
	return first;
}

static int memory_file(const char *name, size_t size, const void *begin, size_t begin_size,
		       int seals)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	CHECK(pwrite(fd, begin, begin_size, 0) == (ssize_t)begin_size);
	CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

static struct sgpu_ring_header good_header(void)
{
	struct sgpu_ring_header header = { .magic = SGPU_RING_MAGIC,
					   .version = SGPU_RING_VERSION,
					   .submissions = SUBMISSIONS,
					   .completions = COMPLETIONS };

	return header;
}

enum { GOOD_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

UNIT_TEST(memory_is_sealed_and_both_sides_open_it)
{
	struct sgpu_ring_header header;
	struct stat status;
	int fd;

	REQUIRE(sgpu_ring_memory_create(SUBMISSIONS, COMPLETIONS, &fd, &error) == SGPU_OK);
	CHECK(fstat(fd, &status) == 0 && status.st_size == FILE_SIZE);
	CHECK((fcntl(fd, F_GET_SEALS) & GOOD_SEALS) == GOOD_SEALS);
	CHECK(ftruncate(fd, 0) != 0 && ftruncate(fd, 1 << 20) != 0);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header));
	CHECK(memcmp(header.magic, "SGPURING", 8) == 0 && header.version == 1);
	CHECK(open_both(fd) == SGPU_OK);
	close(fd);
}

UNIT_TEST(sizes_are_powers_of_two_within_bounds)
{
	static const uint32_t bad[][2] = { { 0, 0 },	    { 1, 1 },
					   { 3, 4 },	    { 4, 6 },
					   { 8, 4 },	    { 8192, 8192 },
					   { 4096, 16384 }, { 1u << 31, 1u << 31 } };
	int fd;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(sgpu_ring_memory_create(bad[i][0], bad[i][1], &fd, &error) == SGPU_EUSAGE &&
		      fd == -1);
	}
	REQUIRE(sgpu_ring_memory_create(2, 2, &fd, &error) == SGPU_OK);
	CHECK(open_both(fd) == SGPU_OK);
	close(fd);
	REQUIRE(sgpu_ring_memory_create(SGPU_RING_SUBMISSIONS_MAX, SGPU_RING_COMPLETIONS_MAX, &fd,
					&error) == SGPU_OK);
	CHECK(open_both(fd) == SGPU_OK);
	close(fd);
}

UNIT_TEST(memory_that_its_sender_can_resize_is_refused)
{
	static const int seals[] = { 0, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL,
				     F_SEAL_SHRINK | F_SEAL_GROW };
	const struct sgpu_ring_header header = good_header();
	int fd;

	for (size_t i = 0; i < sizeof(seals) / sizeof(seals[0]); i++) {
		fd = memory_file("x", FILE_SIZE, &header, sizeof(header), seals[i]);
		CHECK(open_both(fd) == SGPU_EPOLICY);
		close(fd);
	}
	fd = memory_file("x", FILE_SIZE, &header, sizeof(header), GOOD_SEALS);
	CHECK(open_both(fd) == SGPU_OK);
	close(fd);
	fd = memory_file("x", FILE_SIZE, &header, sizeof(header), GOOD_SEALS | F_SEAL_WRITE);
	CHECK(open_both(fd) == SGPU_EINVALID);
	close(fd);
}

UNIT_TEST(descriptors_of_other_things_are_refused)
{
	char name[] = "/tmp/sgpu-ring-XXXXXX";
	const struct sgpu_ring_header header = good_header();
	int fds[2], fd;

	REQUIRE(pipe(fds) == 0);
	CHECK(open_both(fds[0]) == SGPU_EINVALID);
	close(fds[0]);
	close(fds[1]);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	CHECK(open_both(fds[0]) == SGPU_EINVALID);
	close(fds[0]);
	close(fds[1]);
	fd = open("/dev/zero", O_RDWR);
	CHECK(open_both(fd) == SGPU_EINVALID);
	close(fd);
	fd = open("/tmp", O_RDONLY);
	CHECK(open_both(fd) == SGPU_EINVALID);
	close(fd);
	CHECK(open_both(-1) == SGPU_ESYSTEM);
	/* A file with a name can be cut short whatever it holds. */
	fd = mkstemp(name);
	REQUIRE(fd >= 0 && ftruncate(fd, FILE_SIZE) == 0 &&
		pwrite(fd, &header, sizeof(header), 0) > 0);
	CHECK(open_both(fd) < 0);
	close(fd);
	unlink(name);
}

UNIT_TEST(read_only_memory_is_refused)
{
	char path[64];
	int fd, read_only;

	REQUIRE(sgpu_ring_memory_create(SUBMISSIONS, COMPLETIONS, &fd, &error) == SGPU_OK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_only = open(path, O_RDONLY);
	if (read_only >= 0) {
		CHECK(open_both(read_only) == SGPU_ESYSTEM);
		close(read_only);
	}
	close(fd);
}

UNIT_TEST(sizes_and_headers_that_do_not_agree_are_refused)
{
	static const struct {
		size_t size;
		uint32_t version, submissions, completions, reserved;
	} bad[] = {
		{ FILE_SIZE, 0, 8, 16, 0 },
		{ FILE_SIZE, 2, 8, 16, 0 },
		{ FILE_SIZE, 1, 8, 16, 1 },
		{ FILE_SIZE, 1, 64, 64, 0 },
		{ FILE_SIZE, 1, 0, 16, 0 },
		{ FILE_SIZE, 1, 8, 0, 0 },
		{ FILE_SIZE, 1, 7, 16, 0 },
		{ FILE_SIZE, 1, 16, 8, 0 },
		{ FILE_SIZE, 1, 0x80000000, 0x80000000, 0 },
		{ FILE_SIZE + 4096, 1, 8, 16, 0 },
		{ FILE_SIZE - 1, 1, 8, 16, 0 },
		{ 4096, 1, 8, 16, 0 },
		{ 64, 1, 8, 16, 0 },
		{ 0, 1, 8, 16, 0 },
		{ 1 << 24, 1, 8, 16, 0 },
	};
	struct sgpu_ring_header header = good_header();
	int fd;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		header = good_header();
		header.version = bad[i].version;
		header.submissions = bad[i].submissions;
		header.completions = bad[i].completions;
		header.reserved[10] = bad[i].reserved;
		fd = memory_file("x", bad[i].size, &header, bad[i].size < 64 ? bad[i].size : 64,
				 GOOD_SEALS);
		CHECK(open_both(fd) == SGPU_EINVALID);
		close(fd);
	}
	header = good_header();
	header.magic[7] = 'X';
	fd = memory_file("x", FILE_SIZE, &header, sizeof(header), GOOD_SEALS);
	CHECK(open_both(fd) == SGPU_EINVALID);
	close(fd);
}

#ifdef __x86_64__
static bool watches;
static struct sgpu_ring_header *theirs;

static void change_header(void)
{
	theirs->submissions = theirs->completions = 1 << 30;
}

/* In the place of the C library's: what a ring maps is watched. */
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	void *made = (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);

	if (watches && fd >= 0 && made != MAP_FAILED) {
		read_once_begin(made, size, HEADER_WORDS, change_header);
	}
	return made;
}

UNIT_TEST(a_header_is_read_once)
{
	const struct sgpu_ring_header header = good_header();
	const int fd = memory_file("x", FILE_SIZE, &header, sizeof(header), GOOD_SEALS);
	struct sgpu_ring_memory memory;

	theirs = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(theirs != MAP_FAILED);
	watches = true;
	CHECK(sgpu_ring_map(fd, &memory, &error) == SGPU_OK);
	watches = false;
	CHECK(read_once_end() == 0 && memory.submissions.count == SUBMISSIONS &&
	      memory.completions.count == COMPLETIONS);
	sgpu_ring_unmap(&memory);
	munmap(theirs, FILE_SIZE);
	close(fd);
}
#endif

int main(void)
{
	UNIT_RUN(memory_is_sealed_and_both_sides_open_it);
	UNIT_RUN(sizes_are_powers_of_two_within_bounds);
	UNIT_RUN(memory_that_its_sender_can_resize_is_refused);
	UNIT_RUN(descriptors_of_other_things_are_refused);
	UNIT_RUN(read_only_memory_is_refused);
	UNIT_RUN(sizes_and_headers_that_do_not_agree_are_refused);
#ifdef __x86_64__
	UNIT_RUN(a_header_is_read_once);
#endif
	return unit_done();
}
