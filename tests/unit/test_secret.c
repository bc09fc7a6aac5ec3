/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for keys: what it promises, on this machine and where it can lock nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "unit.h"

enum { KEY = 32, MANY = 3000, THREADS = 4 };

static bool is_zero(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i]) {
			return false;
		}
	}
	return true;
}

UNIT_TEST(memory_comes_zeroed_and_aligned)
{
	uint8_t *a = sgpu_secret_alloc(KEY), *b = sgpu_secret_alloc(KEY);

	REQUIRE(a && b);
	CHECK(a != b);
	CHECK((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
	CHECK(is_zero(a, KEY) && is_zero(b, KEY));
	sgpu_secret_free(a, KEY);
	sgpu_secret_free(b, KEY);
	CHECK(!sgpu_secret_alloc(0));
	sgpu_secret_free(NULL, KEY);
}

UNIT_TEST(freed_memory_is_gone)
{
	uint8_t *stays = sgpu_secret_alloc(1), *key = sgpu_secret_alloc(KEY);

	REQUIRE(stays && key);
	memset(key, 0xa5, KEY);
	CHECK(msync(key, 1, MS_ASYNC) == 0);
	sgpu_secret_free(key, KEY);
	CHECK(msync(key, 1, MS_ASYNC) < 0 && errno == ENOMEM); /* no page is there */
	CHECK(msync(stays, 1, MS_ASYNC) == 0);
	sgpu_secret_free(stays, 1);
}

UNIT_TEST(many_objects_of_all_sizes_do_not_overlap)
{
	static uint8_t *objects[MANY];
	static const size_t sizes[] = { 1, 32, 63, 64, 65, 200, 4096 };
	const size_t kinds = SGPU_ARRAY_LENGTH(sizes);
	bool good = true;

	for (size_t i = 0; i < MANY; i++) {
		objects[i] = sgpu_secret_alloc(sizes[i % kinds]);
		REQUIRE(objects[i]);
		good &= is_zero(objects[i], sizes[i % kinds]);
		memset(objects[i], (int)(i % 251 + 1), sizes[i % kinds]);
	}
	/* Every second one goes, and others come where they were. */
	for (size_t i = 0; i < MANY; i += 2) {
		sgpu_secret_free(objects[i], sizes[i % kinds]);
		objects[i] = sgpu_secret_alloc(sizes[i % kinds]);
		REQUIRE(objects[i]);
		memset(objects[i], (int)(i % 251 + 1), sizes[i % kinds]);
	}
	for (size_t i = 0; i < MANY; i++) {
		good &= objects[i][0] == i % 251 + 1 &&
			objects[i][sizes[i % kinds] - 1] == i % 251 + 1;
		sgpu_secret_free(objects[i], sizes[i % kinds]);
	}
	CHECK(good);
}

UNIT_TEST(large_objects_have_pages_of_their_own)
{
	static const size_t sizes[] = { 32768, 32769, 65535, 65536, 65537, 1 << 20 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		uint8_t *memory = sgpu_secret_alloc(sizes[i]);

		REQUIRE(memory);
		CHECK(is_zero(memory, sizes[i]));
		memset(memory, 0x5a, sizes[i]);
		sgpu_secret_free(memory, sizes[i]);
	}
	CHECK(!sgpu_secret_alloc(SIZE_MAX));
	CHECK(!sgpu_secret_alloc(SIZE_MAX - 70000));
}

static void *worker(void *argument)
{
	size_t *bad = argument;

	for (int round = 0; round < 2000; round++) {
		const size_t size = (size_t)(round % 7 + 1) * 40;
		uint8_t *memory = sgpu_secret_alloc(size);

		if (!memory || !is_zero(memory, size)) {
			(*bad)++;
			continue;
		}
		memset(memory, round | 1, size);
		*bad += memory[size - 1] != (uint8_t)(round | 1);
		sgpu_secret_free(memory, size);
	}
	return NULL;
}

UNIT_TEST(threads_take_and_give_at_the_same_time)
{
	pthread_t threads[THREADS];
	size_t bad[THREADS] = { 0 };

	for (int i = 0; i < THREADS; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, worker, &bad[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHECK(bad[i] == 0);
	}
}

UNIT_TEST(buffered_io_works_with_it)
{
	uint8_t *key = sgpu_secret_alloc(KEY), back[KEY];
	int fds[2];

	REQUIRE(key && pipe(fds) == 0);
	memset(key, 7, KEY);
	CHECK(write(fds[1], key, KEY) == KEY);
	CHECK(read(fds[0], back, KEY) == KEY && memcmp(key, back, KEY) == 0);
	memset(back, 9, KEY);
	CHECK(write(fds[1], back, KEY) == KEY);
	CHECK(read(fds[0], key, KEY) == KEY && key[KEY - 1] == 9);
	close(fds[0]);
	close(fds[1]);
	sgpu_secret_free(key, KEY);
}

/* What the kernel itself would copy for a debugger. */
UNIT_TEST(the_kernel_reads_none_of_it_for_others)
{
	uint8_t *key = sgpu_secret_alloc(KEY), back[KEY] = { 0 };
	struct iovec to = { back, KEY }, from = { key, KEY };
	int fd;

	REQUIRE(key);
	memset(key, 3, KEY);
	if (strcmp(sgpu_secret_kind(), "memfd_secret") != 0) {
		sgpu_secret_free(key, KEY);
		SKIP("this kernel has no memfd_secret, or RLIMIT_MEMLOCK leaves no room for it");
	}
	CHECK(process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0);
	fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	REQUIRE(fd >= 0);
	CHECK(pread(fd, back, KEY, (off_t)(uintptr_t)key) < 0);
	CHECK(is_zero(back, KEY));
	close(fd);
	sgpu_secret_free(key, KEY);
}

/* Not dumped, not copied by a fork. */
static bool is_flagged(const void *key)
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	char line[512];
	bool inside = false, flagged = false;
	unsigned long begin, end;

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
			inside = (uintptr_t)key >= begin && (uintptr_t)key < end;
		}
		if (inside && strncmp(line, "VmFlags:", 8) == 0) {
			flagged = strstr(line, " dd") != NULL && strstr(line, " dc") != NULL;
		}
	}
	if (maps) {
		fclose(maps);
	}
	return flagged;
}

UNIT_TEST(it_stays_out_of_core_files)
{
	uint8_t *key = sgpu_secret_alloc(KEY);

	REQUIRE(key);
	CHECK(is_flagged(key));
	sgpu_secret_free(key, KEY);
}

/* Runs `body` in a child and gives its exit status, or -1 when a signal ended it. */
static int in_child(int (*body)(void *argument), void *argument)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		_exit(body(argument));
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
		       ? WEXITSTATUS(status)
		       : -1;
}

static int is_unmapped(void *argument)
{
	unsigned char resident;

	return mincore((void *)((uintptr_t)argument & ~(uintptr_t)4095), 4096, &resident) < 0 &&
			       errno == ENOMEM
		       ? 0
		       : 1;
}

static int takes_its_own(void *argument)
{
	uint8_t *memory = sgpu_secret_alloc(KEY);

	(void)argument;
	if (!memory || !is_zero(memory, KEY)) {
		return 1;
	}
	memset(memory, 1, KEY);
	sgpu_secret_free(memory, KEY);
	return 0;
}

UNIT_TEST(a_child_has_none_of_it)
{
	uint8_t *key = sgpu_secret_alloc(KEY);

	REQUIRE(key);
	memset(key, 1, KEY);
	CHECK(in_child(is_unmapped, key) == 0);
	CHECK(in_child(takes_its_own, NULL) == 0);
	CHECK(key[0] == 1);
	sgpu_secret_free(key, KEY);
}

/* Root may lock without a limit, so the child gives that right up with its user. */
static int locks_nothing(void *argument)
{
	const struct rlimit none = { 0, 0 };
	uint8_t *memory;

	(void)argument;
	if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (getuid() == 0 && setuid(65534) != 0)) {
		return 2;
	}
	memory = sgpu_secret_alloc(KEY);
	if (!memory || strcmp(sgpu_secret_kind(), "none") != 0) {
		return 1;
	}
	/* Since the user changed, /proc/self is root's. */
	if (prctl(PR_SET_DUMPABLE, 1) != 0 || !is_flagged(memory)) {
		return 3;
	}
	memset(memory, 1, KEY);
	sgpu_secret_free(memory, KEY);
	return 0;
}

UNIT_TEST(without_leave_to_lock_it_works_and_says_so)
{
	CHECK(in_child(locks_nothing, NULL) == 0);
}

int main(void)
{
	UNIT_RUN(without_leave_to_lock_it_works_and_says_so); /* first: the child has tried nothing
								 yet */
	UNIT_RUN(memory_comes_zeroed_and_aligned);
	UNIT_RUN(freed_memory_is_gone);
	UNIT_RUN(many_objects_of_all_sizes_do_not_overlap);
	UNIT_RUN(large_objects_have_pages_of_their_own);
	UNIT_RUN(threads_take_and_give_at_the_same_time);
	UNIT_RUN(buffered_io_works_with_it);
	UNIT_RUN(the_kernel_reads_none_of_it_for_others);
	UNIT_RUN(it_stays_out_of_core_files);
	UNIT_RUN(a_child_has_none_of_it);
	return unit_done();
}
