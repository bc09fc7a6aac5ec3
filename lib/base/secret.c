/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for keys: regions of pages that no other process sees, divided into units. An object
 * larger than half a region gets a region of its own.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
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

enum { UNIT = 64, UNITS = 1024, REGION = UNIT * UNITS };

/* How pages are protected, from best to weakest. */
enum kind { SECRET_FILE, LOCKED, PLAIN };
static const char *const names[] = { "memfd_secret", "mlock", "none" };

struct region {
	struct region *next;
	uint8_t *memory;
	size_t size;   /* bytes: REGION, or more when it holds one object */
	unsigned used; /* units, or 1 when it holds one object */
	bool taken[UNITS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct region *regions;
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

/* ---- regions ---- */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* Forgets all regions: the child has none of the pages. */
static void in_child(void)
{
	while (regions) {
		struct region *gone = regions;

		regions = gone->next;
		free(gone);
	}
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork, in_child);
}

static struct region *add_region(size_t size)
{
	struct region *region = calloc(1, sizeof(*region));
	enum kind kind;

	if (!region) {
		return NULL;
	}
	region->memory = map_pages(size, &kind);
	if (!region->memory) {
		free(region);
		return NULL;
	}
	region->size = size;
	region->next = regions;
	regions = region;
	weakest = kind > weakest ? kind : weakest;
	return region;
}

static void remove_region(struct region *region)
{
	struct region **place = &regions;

	while (*place != region) {
		place = &(*place)->next;
	}
	*place = region->next;
	munmap(region->memory, region->size);
	free(region);
}

/* Takes the first `count` free units in a row; NULL if there are none. */
static uint8_t *take_units(struct region *region, unsigned count)
{
	unsigned begin = 0;

	for (unsigned i = 0; i < UNITS; i++) {
		if (region->taken[i]) {
			begin = i + 1;
		} else if (i + 1 - begin == count) {
			for (unsigned k = begin; k <= i; k++) {
				region->taken[k] = true;
			}
			region->used += count;
			return region->memory + (size_t)begin * UNIT;
		}
	}
	return NULL;
}

static void give_units(struct region *region, size_t begin, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		region->taken[begin + i] = false;
	}
	region->used -= count;
}

static unsigned units_of(size_t size)
{
	return (unsigned)((size + UNIT - 1) / UNIT);
}

static void *alloc_small(size_t size)
{
	void *memory = NULL;
	struct region *region;

	for (region = regions; region && !memory; region = region->next) {
		if (region->size == REGION && UNITS - region->used >= units_of(size)) {
			memory = take_units(region, units_of(size));
		}
	}
	if (!memory && (region = add_region(REGION))) {
		memory = take_units(region, units_of(size));
	}
	return memory;
}

static void *alloc_large(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded;
	struct region *region;

	if (__builtin_add_overflow(size, page + REGION, &rounded)) {
		return NULL;
	}
	/* Never REGION bytes, which would mark a region cut into units. */
	rounded = size <= REGION ? REGION + page : (size + page - 1) / page * page;
	region = add_region(rounded);
	if (region) {
		region->used = 1;
	}
	return region ? region->memory : NULL;
}

void *sgpu_secret_alloc(size_t size)
{
	void *memory;

	if (!size) {
		return NULL;
	}
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
	memory = size > REGION / 2 ? alloc_large(size) : alloc_small(size);
	pthread_mutex_unlock(&lock);
	return memory;
}

static struct region *region_of(const uint8_t *memory)
{
	struct region *region = regions;

	while (region && (memory < region->memory || memory >= region->memory + region->size)) {
		region = region->next;
	}
	return region;
}

void sgpu_secret_free(void *memory, size_t size)
{
	struct region *region;

	if (!memory) {
		return;
	}
	pthread_mutex_lock(&lock);
	region = region_of(memory);
	/* Memory from elsewhere is wiped, as its owner expects, but not freed. */
	sgpu_wipe(memory, size);
	if (region && region->size == REGION) {
		give_units(region, (size_t)((uint8_t *)memory - region->memory) / UNIT,
			   units_of(size));
	} else if (region) {
		region->used = 0;
	}
	/* One region is kept for the next key. */
	if (region && region->used == 0 && (region->size != REGION || regions->next)) {
		remove_region(region);
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
