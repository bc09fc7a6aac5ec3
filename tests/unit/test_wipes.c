/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library leaves in the memory that it gives back: no key, no plaintext.
 */
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "transfer/transfer.h"
#include "unit.h"

/* Begins what must not be found: plaintext, or a key, whose bytes are also the first of its
 * schedule. */
enum { NEEDLE = 16 };

static const char marker[] = "plaintext-that-nobody-may-find-again";
static bool watching;
static unsigned found, freed;

#if !UNIT_SANITIZED
extern void __libc_free(void *memory);

/* In the place of the C library's: looks through what is given back. */
void free(void *memory)
{
	if (memory && __atomic_load_n(&watching, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
		if (memmem(memory, malloc_usable_size(memory), marker, NEEDLE)) {
			__atomic_fetch_add(&found, 1, __ATOMIC_RELAXED);
		}
	}
	__libc_free(memory);
}
#endif

static void watch(bool on)
{
	if (on) {
		found = freed = 0;
	}
	__atomic_store_n(&watching, on, __ATOMIC_SEQ_CST);
}

static int memory_file(const void *data, size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size) ||
	    lseek(fd, 0, SEEK_SET) != 0) {
		abort();
	}
	return fd;
}

static void fill(uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)marker[i % (sizeof(marker) - 1)];
	}
}

UNIT_TEST(the_watch_finds_what_was_not_wiped)
{
	uint8_t *memory;

	NEEDS_OWN_FREE();
	memory = malloc(200);
	REQUIRE(memory);
	fill(memory, 200);
	__asm__ volatile(""
			 :
			 : "r"(memory)
			 : "memory"); /* stores before a free count as dead otherwise */
	watch(true);
	free(memory);
	watch(false);
	CHECK(found == 1 && freed >= 1);
}

UNIT_TEST(streams_give_back_no_memory_with_plaintext)
{
	enum { SIZE = 3 << 20 };
	static const uint8_t key[SGPU_KEY_SIZE] = { 1 };
	uint8_t *data;

	NEEDS_OWN_FREE();
	data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(data != MAP_FAILED);
	fill(data, SIZE);
	int in = memory_file(data, SIZE), sealed = memory_file("", 0), out = memory_file("", 0);
	struct sgpu_host_part part = { .action = SGPU_HOST_SEAL,
				       .key = key,
				       .size = SGPU_SIZE_UNKNOWN };
	struct sgpu_host_move move = { .parts = &part, .count = 1, .jobs = 2 };
	struct sgpu_descriptor from, to;

	sgpu_descriptor_from_fd(in, "in", &from);
	sgpu_descriptor_from_fd(sealed, "sealed", &to);
	watch(true);
	CHECK(sgpu_host_move_file(&move, &from, &to, NULL) == 0);
	watch(false);
	CHECK(freed > 0 && found == 0);
	REQUIRE(lseek(sealed, 0, SEEK_SET) == 0);
	part.action = SGPU_HOST_OPEN;
	part.size = SGPU_SIZE_UNKNOWN;
	sgpu_descriptor_from_fd(sealed, "sealed", &from);
	sgpu_descriptor_from_fd(out, "out", &to);
	watch(true);
	CHECK(sgpu_host_move_file(&move, &from, &to, NULL) == 0 && part.bytes_out == SIZE);
	watch(false);
	CHECK(freed > 0 && found == 0);
	/* What was opened before a bad chunk was met. */
	uint8_t byte = 0;
	REQUIRE(pread(sealed, &byte, 1, SIZE / 2) == 1);
	byte ^= 1;
	REQUIRE(pwrite(sealed, &byte, 1, SIZE / 2) == 1 && lseek(sealed, 0, SEEK_SET) == 0);
	sgpu_descriptor_from_fd(sealed, "sealed", &from);
	watch(true);
	CHECK(sgpu_host_move_file(&move, &from, &to, NULL) == SGPU_EAUTH);
	watch(false);
	CHECK(freed > 0 && found == 0);
	close(in);
	close(sealed);
	close(out);
	munmap(data, SIZE);
}

UNIT_TEST(key_schedules_are_wiped_before_they_are_given_back)
{
	uint8_t data[64] = { 0 }, nonce[SGPU_NONCE_SIZE] = { 1 }, tag[SGPU_TAG_SIZE],
		key[SGPU_KEY_SIZE];
	const char *const *names = sgpu_aead_providers();

	NEEDS_OWN_FREE();
	fill(key, sizeof(key));
	for (size_t i = 0; names[i]; i++) {
		struct sgpu_aead *aead = NULL, *copy = NULL;

		watch(true);
		REQUIRE(sgpu_aead_create(names[i], key, &aead, NULL) == 0 &&
			sgpu_aead_copy(aead, &copy, NULL) == 0);
		CHECK(sgpu_aead_seal(copy, nonce, data, sizeof(data), data, tag) == 0);
		CHECK(sgpu_aead_open(aead, nonce, data, sizeof(data), data, tag) == 0);
		sgpu_aead_free(&copy);
		sgpu_aead_free(&aead);
		watch(false);
		CHECK(freed > 0 && found == 0);
	}
}

int main(void)
{
	UNIT_RUN(the_watch_finds_what_was_not_wiped);
	UNIT_RUN(streams_give_back_no_memory_with_plaintext);
	UNIT_RUN(key_schedules_are_wiped_before_they_are_given_back);
	return unit_done();
}
