/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources and sinks: files and regions.
 *
 * A slice of a region is mapped for the device alone, if registering it saves time. The region's
 * owner may change or cut it at any time. Registered pages stay readable for the device, and
 * whatever it reads has to verify; but a processor that touched the mapping could fault, so none
 * does.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/io.h"
#include "transfer/engine.h"

#define REGISTER_MIN ((uint64_t)4 << 20) /* below this size, registering saves no time */
enum {
	PAGE = 4096,
	KEPT_MAX = 256,
	PAGES_WORKERS_MIN = 8,
	PAGES_MIN = 256 << 10,
	POPULATED = 2 << 20, /* bytes that a worker has allocated at a time */
	STAT_BLOCK = 512,
};

/* ---- slices of regions that stay registered: registering one costs more than moving it once ----
 *
 * A region that has all its memory is registered whole, of another one the slice alone, at first
 * use, if there is room and the region has a name: nobody can use a region without one again. The
 * slice stays until the region has no name or the engine is freed. */
struct sgpu_kept_slice {
	struct sgpu_kept_slice *next;
	dev_t device;
	ino_t inode;
	int fd; /* a duplicate, which shows whether the region still has a name */
	bool writable;
	uint64_t begin, size; /* in the file, whole pages */
	void *base;	      /* of the registered mapping */
	unsigned users;
};

struct file {
	struct sgpu_engine *engine;
	int fd;
	const char *name;
	uint64_t offset;
	struct sgpu_kept_slice *kept; /* or NULL */
	bool region;	/* others may have it open, with or without a name, and cut it short */
	uint8_t *pages; /* or MAP_FAILED: a mapping for this payload alone */
	uint64_t mapped;
	atomic_bool lacks; /* some of these pages */
};

static bool is_in_memory(int fd)
{
	struct statfs about;

	return fstatfs(fd, &about) == 0 && about.f_type == TMPFS_MAGIC;
}

static void drop(struct sgpu_engine *engine, struct sgpu_kept_slice **link)
{
	struct sgpu_kept_slice *slice = *link;

	*link = slice->next;
	sgpu_host_unregister(engine->device, slice->base);
	munmap(slice->base, slice->size);
	engine->kept_bytes -= slice->size;
	engine->kept_count--;
	close(slice->fd);
	free(slice);
}

static void drop_nameless(struct sgpu_engine *engine)
{
	struct sgpu_kept_slice **link = &engine->kept;
	struct stat status;

	while (*link) {
		const bool named = fstat((*link)->fd, &status) == 0 && status.st_nlink > 0;

		if ((*link)->users == 0 && !named) {
			drop(engine, link);
		} else {
			link = &(*link)->next;
		}
	}
}

/* Registers pages of the region; NULL: there is no room, or the device cannot. */
static struct sgpu_kept_slice *keep(struct sgpu_engine *engine, int fd, const struct stat *status,
				    uint64_t begin, uint64_t size, bool writable)
{
	struct sgpu_kept_slice *slice;

	drop_nameless(engine);
	if (engine->kept_count >= KEPT_MAX || engine->kept_bytes + size > engine->config.kept_max ||
	    !(slice = calloc(1, sizeof(*slice)))) {
		return NULL;
	}
	*slice = (struct sgpu_kept_slice){ .next = engine->kept,
					   .device = status->st_dev,
					   .inode = status->st_ino,
					   .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
					   .writable = writable,
					   .begin = begin,
					   .size = size };
	slice->base = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
			   slice->fd, (off_t)begin);
	if (slice->base == MAP_FAILED ||
	    sgpu_host_register(engine->device, slice->base, size, NULL) != SGPU_OK) {
		if (slice->base != MAP_FAILED) {
			munmap(slice->base, size);
		}
		sgpu_close(slice->fd);
		free(slice);
		return NULL;
	}
	(void)madvise(slice->base, size, MADV_DONTDUMP);
	engine->kept = slice;
	engine->kept_count++;
	engine->kept_bytes += size;
	return slice;
}

static void *view_region(struct file *file, uint64_t size, bool writable)
{
	struct sgpu_engine *engine = file->engine;
	struct sgpu_kept_slice *found;
	struct stat status;
	uint64_t begin, bytes, end;
	void *memory = NULL;

	if (size < REGISTER_MIN || !engine->registers || !is_in_memory(file->fd) ||
	    fstat(file->fd, &status) != 0 || status.st_nlink == 0 ||
	    !sgpu_add_u64(file->offset, size, &end) || end > (uint64_t)status.st_size) {
		return NULL;
	}
	begin = file->offset / PAGE * PAGE;
	if ((uint64_t)status.st_blocks * STAT_BLOCK >= (uint64_t)status.st_size) {
		begin = 0;
		end = (uint64_t)status.st_size;
	}
	bytes = (end + PAGE - 1) / PAGE * PAGE - begin;
	pthread_mutex_lock(&engine->keeping);
	found = engine->kept;
	while (found &&
	       (found->device != status.st_dev || found->inode != status.st_ino ||
		found->begin != begin || found->size != bytes || found->writable != writable)) {
		found = found->next;
	}
	found = found ? found : keep(engine, file->fd, &status, begin, bytes, writable);
	if (found) {
		found->users++;
		file->kept = found;
		memory = (uint8_t *)found->base + (file->offset - begin);
	}
	pthread_mutex_unlock(&engine->keeping);
	return memory;
}

void sgpu_kept_free(struct sgpu_engine *engine)
{
	while (engine->kept) {
		drop(engine, &engine->kept);
	}
}

/* ---- files ---- */
static int read_file(void *context, uint64_t position, void *data, size_t size,
		     struct sgpu_error *error)
{
	const struct file *file = context;
	size_t got = 0;
	int rc = sgpu_pread(file->fd, file->name, data, size, file->offset + position, &got, error);

	if (rc == SGPU_OK && got < size) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'%s' ends too early", file->name);
	}
	return rc;
}

static int write_file(void *context, uint64_t position, const void *data, size_t size,
		      struct sgpu_error *error)
{
	const struct file *file = context;

	return sgpu_pwrite(file->fd, file->name, data, size, file->offset + position, error);
}

static void populate(void *argument, uint64_t begin, uint64_t end)
{
	struct file *file = argument;

	if (madvise(file->pages + begin, end - begin, MADV_POPULATE_WRITE) != 0) {
		atomic_store(&file->lacks, true); /* memory, or a new enough kernel */
	}
}

/* The kernel lets only one thread write to a file at a time, but many to its mapped pages. These
 * cannot fault if all of them are there, and the file has no name by which to cut it short. */
static void *view_pages(struct file *file, uint64_t size)
{
	struct sgpu_pool *pool = file->engine->pool;
	const uint64_t first = file->offset / PAGE * PAGE;
	struct stat status;
	uint64_t end;

	if (size < PAGES_MIN || file->engine->config.shared_files ||
	    sgpu_pool_jobs(pool) < PAGES_WORKERS_MIN || !is_in_memory(file->fd) ||
	    fstat(file->fd, &status) != 0 || status.st_nlink > 0 ||
	    !sgpu_add_u64(file->offset, size, &end) || end > INT64_MAX ||
	    (end > (uint64_t)status.st_size && ftruncate(file->fd, (off_t)end) != 0)) {
		return NULL;
	}
	file->mapped = end - first;
	file->pages = mmap(NULL, file->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd,
			   (off_t)first);
	if (file->pages == MAP_FAILED) {
		return NULL;
	}
	sgpu_pool_enter(pool);
	if (sgpu_pool_for(pool, file->mapped, POPULATED, 0, populate, file) != SGPU_OK) {
		file->lacks = true;
	}
	sgpu_pool_leave(pool);
	return file->lacks ? NULL : file->pages + (file->offset - first);
}

static void *view_file(void *context, uint64_t size, bool writable, bool *registered)
{
	struct file *file = context;

	*registered = file->region;
	return file->region ? view_region(file, size, writable)
	       : writable   ? view_pages(file, size)
			    : NULL;
}

static void close_file(void *context)
{
	struct file *file = context;

	if (file->pages != MAP_FAILED) {
		munmap(file->pages, file->mapped);
	}
	if (file->kept) {
		pthread_mutex_lock(&file->engine->keeping);
		file->kept->users--;
		drop_nameless(file->engine);
		pthread_mutex_unlock(&file->engine->keeping);
	}
	free(file);
}

int sgpu_endpoint_in_file(struct sgpu_engine *engine, int fd, const char *name, uint64_t offset,
			  bool region, struct sgpu_endpoint *endpoint, struct sgpu_error *error)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file) {
		return sgpu_fail_nomem(error);
	}
	*file = (struct file){ .engine = engine,
			       .fd = fd,
			       .name = name,
			       .offset = offset,
			       .region = region,
			       .pages = MAP_FAILED };
	*endpoint = (struct sgpu_endpoint){ .read = read_file,
					    .write = write_file,
					    .view = view_file,
					    .close = close_file,
					    .context = file };
	return SGPU_OK;
}
