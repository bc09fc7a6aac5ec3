/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices of regions that stay registered, since registering one costs more than to move it once.
 *
 * A slice is registered at its second use, while its region has a name: one that nobody can use
 * again is not worth it. It stays until the region has lost its name, until others need the room,
 * or until the engine ends. Whoever cuts a region short, or replaces its pages, harms only what
 * they gave or wait for themselves: the device keeps the pages that it had, no processor touches
 * them here, and what the device reads has to verify.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/io.h"
#include "transfer/engine.h"

enum { PAGE = 4096, KEPT_MAX = 256 };

struct sgpu_kept_slice {
	struct sgpu_kept_slice *next;
	dev_t device;
	ino_t inode;
	int fd; /* of our own: tells whether the region has a name */
	bool writable;
	uint64_t begin, size; /* in the file, whole pages */
	void *base;	      /* NULL: it was used once */
	unsigned users;
};

bool sgpu_transfer_in_memory(int fd, uint64_t *page)
{
	struct statfs about;

	*page = PAGE;
	if (fstatfs(fd, &about) != 0) {
		return false;
	}
	if (about.f_type == HUGETLBFS_MAGIC) {
		*page = (uint64_t)about.f_bsize;
	}
	return about.f_type == HUGETLBFS_MAGIC || about.f_type == TMPFS_MAGIC;
}

bool sgpu_transfer_find_pages(struct sgpu_engine *engine, int fd, uint64_t offset, uint64_t size,
			      uint64_t *begin, uint64_t *bytes, uint64_t *page)
{
	uint64_t end;

	if (!atomic_load(&engine->registers) || !sgpu_transfer_in_memory(fd, page) ||
	    !sgpu_add_u64(offset, size, &end) || !sgpu_add_u64(end, *page - 1, &end) ||
	    end > INT64_MAX) {
		return false;
	}
	*begin = offset / *page * *page;
	*bytes = end / *page * *page - *begin;
	return true;
}

void *sgpu_transfer_register(struct sgpu_engine *engine, int fd, uint64_t begin, uint64_t bytes,
			     bool writable)
{
	struct sgpu_error why = { 0 };
	void *base = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
			  fd, (off_t)begin);

	if (base == MAP_FAILED) {
		return NULL;
	}
	(void)madvise(base, bytes, MADV_DONTDUMP);
	if (sgpu_host_register(engine->device, base, bytes, &why) != SGPU_OK) {
		/* A device that does not do it at all need not be asked again. */
		if (why.code == SGPU_EUNAVAILABLE) {
			atomic_store(&engine->registers, false);
		}
		munmap(base, bytes);
		return NULL;
	}
	return base;
}

void sgpu_transfer_unregister(struct sgpu_engine *engine, void *base, uint64_t bytes)
{
	if (base) {
		sgpu_host_unregister(engine->device, base);
		munmap(base, bytes);
	}
}

static void drop(struct sgpu_engine *engine, struct sgpu_kept_slice **link)
{
	struct sgpu_kept_slice *slice = *link;

	*link = slice->next;
	if (slice->base) {
		sgpu_transfer_unregister(engine, slice->base, slice->size);
		engine->kept_bytes -= slice->size;
	}
	engine->kept_count--;
	close(slice->fd);
	free(slice);
}

static bool has_name(const struct sgpu_kept_slice *slice)
{
	struct stat status;

	return fstat(slice->fd, &status) == 0 && status.st_nlink > 0;
}

/* The list begins with what was used last. */
static void make_room(struct sgpu_engine *engine, uint64_t bytes)
{
	struct sgpu_kept_slice **link = &engine->kept, **last;

	while (*link) {
		if ((*link)->users == 0 && !has_name(*link)) {
			drop(engine, link);
		} else {
			link = &(*link)->next;
		}
	}
	while (engine->kept_count >= KEPT_MAX ||
	       engine->kept_bytes + bytes > engine->config.kept_max) {
		last = NULL;
		for (link = &engine->kept; *link; link = &(*link)->next) {
			last = (*link)->users == 0 ? link : last;
		}
		if (!last) {
			return;
		}
		drop(engine, last);
	}
}

static struct sgpu_kept_slice *find(struct sgpu_engine *engine, const struct stat *status,
				    uint64_t begin, uint64_t size, bool writable)
{
	for (struct sgpu_kept_slice **link = &engine->kept; *link; link = &(*link)->next) {
		struct sgpu_kept_slice *slice = *link;

		if (slice->device == status->st_dev && slice->inode == status->st_ino &&
		    slice->begin == begin && slice->size == size && slice->writable == writable) {
			*link = slice->next;
			slice->next = engine->kept;
			engine->kept = slice;
			return slice;
		}
	}
	return NULL;
}

static void note_use(struct sgpu_engine *engine, int fd, const struct stat *status, uint64_t begin,
		     uint64_t size, bool writable)
{
	struct sgpu_kept_slice *slice;

	make_room(engine, 0);
	slice = engine->kept_count < KEPT_MAX ? calloc(1, sizeof(*slice)) : NULL;
	if (!slice) {
		return; /* so it is copied, next time too */
	}
	*slice = (struct sgpu_kept_slice){ .next = engine->kept,
					   .device = status->st_dev,
					   .inode = status->st_ino,
					   .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
					   .writable = writable,
					   .begin = begin,
					   .size = size };
	if (slice->fd < 0) {
		free(slice);
		return;
	}
	engine->kept = slice;
	engine->kept_count++;
}

static bool register_slice(struct sgpu_engine *engine, struct sgpu_kept_slice *slice)
{
	slice->users++; /* it stays */
	make_room(engine, slice->size);
	slice->users--;
	if (engine->kept_bytes + slice->size > engine->config.kept_max) {
		return false;
	}
	slice->base = sgpu_transfer_register(engine, slice->fd, slice->begin, slice->size,
					     slice->writable);
	if (!slice->base) {
		return false;
	}
	engine->kept_bytes += slice->size;
	return true;
}

void *sgpu_kept_take(struct sgpu_engine *engine, int fd, uint64_t offset, uint64_t size,
		     bool writable, struct sgpu_kept_slice **slice)
{
	struct sgpu_kept_slice *found;
	struct stat status;
	uint64_t begin, bytes, page;
	void *memory = NULL;

	*slice = NULL;
	if (size < SGPU_REGISTER_MIN ||
	    !sgpu_transfer_find_pages(engine, fd, offset, size, &begin, &bytes, &page) ||
	    fstat(fd, &status) != 0 || status.st_nlink == 0 ||
	    offset + size > (uint64_t)status.st_size) {
		return NULL;
	}
	pthread_mutex_lock(&engine->keeping);
	found = find(engine, &status, begin, bytes, writable);
	if (!found) {
		note_use(engine, fd, &status, begin, bytes, writable);
	} else if (found->base || register_slice(engine, found)) {
		found->users++;
		*slice = found;
		memory = (uint8_t *)found->base + (offset - begin);
	}
	pthread_mutex_unlock(&engine->keeping);
	return memory;
}

void sgpu_kept_give(struct sgpu_engine *engine, struct sgpu_kept_slice *slice)
{
	if (!slice) {
		return;
	}
	pthread_mutex_lock(&engine->keeping);
	slice->users--;
	make_room(engine, 0);
	pthread_mutex_unlock(&engine->keeping);
}

void sgpu_kept_free(struct sgpu_engine *engine)
{
	while (engine->kept) {
		drop(engine, &engine->kept);
	}
}
