/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for keys: each object has pages of its own, which no other process sees.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
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
static const char *const names[] = { "memfd_secret", "mlock", "none" };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *objects; /* a tree of struct sgpu_range */
static enum kind weakest;

/* ---- pages ---- */
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

static void *map_pages(size_t size, enum kind *kind)
{
	void *memory = map_secret_file(size);

	*kind = SECRET_FILE;
	if (memory == MAP_FAILED) {
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
		if (memory == MAP_FAILED) {
			return NULL;
		}
		/* The system call is made directly: the sanitizers replace mlock() by a function
		 * that does nothing and reports success. */
		*kind = syscall(SYS_mlock, memory, size) == 0 ? LOCKED : PLAIN;
		/* This helps if the process forks before the flags below are set, or if they are
		 * refused. */
		(void)madvise(memory, size, MADV_WIPEONFORK);
	}
	(void)madvise(memory, size, MADV_DONTDUMP);
	(void)madvise(memory, size, MADV_DONTFORK);
	return memory;
}

/* ---- objects ---- */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void forget(struct sgpu_range *object)
{
	sgpu_ranges_remove(&objects, object);
	free(object);
}

/* Forgets all objects: the child has none of the pages. */
static void in_child(void)
{
	struct sgpu_range *object;

	while ((object = sgpu_ranges_any(&objects))) {
		forget(object);
	}
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork, in_child);
}

void *sgpu_secret_alloc(size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct sgpu_range *object =
		size && size <= SIZE_MAX - page ? malloc(sizeof(*object)) : NULL;
	enum kind kind;
	void *memory;

	if (!object) {
		return NULL;
	}
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
	size = (size + page - 1) / page * page;
	memory = map_pages(size, &kind);
	*object = (struct sgpu_range){ .address = (uintptr_t)memory, .extent = size };
	if (memory && sgpu_ranges_insert(&objects, object)) {
		weakest = kind > weakest ? kind : weakest;
	} else {
		if (memory) {
			munmap(memory, size);
		}
		free(object);
		memory = NULL;
	}
	pthread_mutex_unlock(&lock);
	return memory;
}

void sgpu_secret_free(void *memory, size_t size)
{
	struct sgpu_range *object;

	if (!memory) {
		return;
	}
	/* Memory from elsewhere is wiped, as its owner expects, but not freed. */
	sgpu_wipe(memory, size);
	pthread_mutex_lock(&lock);
	object = sgpu_ranges_find(&objects, (uintptr_t)memory);
	if (object) {
		munmap(memory, object->extent);
		forget(object);
	}
	pthread_mutex_unlock(&lock);
}

const char *sgpu_secret_kind(void)
{
	void *memory = sgpu_secret_alloc(1); /* so that protection was tried at least once */
	const char *name;

	pthread_mutex_lock(&lock);
	name = memory ? names[weakest] : names[PLAIN];
	pthread_mutex_unlock(&lock);
	sgpu_secret_free(memory, 1);
	return name;
}
