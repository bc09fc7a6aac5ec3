/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for keys, each in pages of its own.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447 /* the same on every architecture */
#endif

/* How pages are protected, from best to weakest. */
enum kind { SECRET_FILE, LOCKED, PLAIN };

/* Held while pages are made that a child would inherit, and while the process forks. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint kinds; /* bits: the kinds of all allocations so far */

static void *map_secret_file(size_t size)
{
	void *memory = MAP_FAILED;
	int fd = (int)syscall(SYS_memfd_secret, (unsigned)O_CLOEXEC);

	if (fd < 0) {
		return MAP_FAILED;
	}
	if (ftruncate(fd, (off_t)size) == 0) {
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	close(fd);
	return memory;
}

static void *map_pages(size_t size)
{
	void *memory = map_secret_file(size);
	enum kind kind = SECRET_FILE;

	if (memory == MAP_FAILED) {
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
		if (memory == MAP_FAILED) {
			return NULL;
		}
		/* The sanitizers replace mlock() by a function that does nothing and reports
		 * success. */
		kind = syscall(SYS_mlock, memory, size) == 0 ? LOCKED : PLAIN;
		/* This helps if the process forks before the flags below are set, or if they are
		 * refused. */
		(void)madvise(memory, size, MADV_WIPEONFORK);
	}
	(void)madvise(memory, size, MADV_DONTDUMP);
	(void)madvise(memory, size, MADV_DONTFORK);
	atomic_fetch_or(&kinds, 1u << kind);
	return memory;
}

static void before_fork(void)
{
	pthread_mutex_lock(&making);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&making);
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork, after_fork);
}

void *sgpu_secret_alloc(size_t size)
{
	void *memory;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&making);
	memory = map_pages(size);
	pthread_mutex_unlock(&making);
	return memory;
}

void sgpu_secret_free(void *memory, size_t size)
{
	if (memory) {
		sgpu_wipe(memory, size);
		munmap(memory, size);
	}
}

const char *sgpu_secret_kind(void)
{
	void *memory = sgpu_secret_alloc(1); /* so that protection was tried at least once */
	const unsigned seen = atomic_load(&kinds);
	const bool got = memory;

	sgpu_secret_free(memory, 1);
	return !got || seen & 1u << PLAIN ? "none" : seen & 1u << LOCKED ? "mlock" : "memfd_secret";
}
