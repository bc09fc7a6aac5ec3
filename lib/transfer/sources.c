/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources and sinks: files, regions and memory.
 *
 * A slice of a file in memory is mapped, read-only, for the device alone, where registering it
 * pays. The file may be changed or cut short by its owner at any time. What is registered stays
 * readable for the device, and what it read verifies or fails wherever that came from; but a
 * processor that touched the mapping would fault, so none does.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/io.h"
#include "transfer/engine.h"

enum { PAGE = 4096, PAGES_WORKERS_MIN = 8, PAGES_MIN = 1 << 20, STAT_BLOCK = 512 };

struct file {
	struct sgpu_engine *engine;
	int fd;
	const char *name;
	uint64_t offset;
	void *base; /* of the mapping that is registered, or NULL */
	uint64_t mapped;
	struct sgpu_kept_slice *kept; /* or NULL */
};

/* ---- registering ---- */
/* Whether registering memory costs less than copying it on `cores` into pinned memory. huge: 2 MiB
 * pages.
 *
 * Measured on an H200 (PCIe 5.0 x16, 16 cores, driver 580), per GiB: to register 45 ms on pages of
 * 4 KiB and 25 ms on huge ones, to unregister 18 ms; the bus 55 GB/s. A core copies 4.5 GB/s, all
 * of them no more than 37 GB/s. A copy overlaps with the transfer, so that the slower of the two
 * counts; registering has to come first. */
static bool registering_pays(uint64_t size, unsigned cores, bool huge)
{
	const double gib = 1 << 30, bus = 55e9, core = 4.5e9, memory = 37e9, unregister = 0.018;
	double bytes = (double)size, rate = core * (cores < 1 ? 1 : cores), copied, registered;

	if (size < SGPU_REGISTER_MIN) {
		return false;
	}
	rate = rate < memory ? rate : memory;
	copied = bytes / (rate < bus ? rate : bus);
	registered = bytes / gib * ((huge ? 0.025 : 0.045) + unregister) + bytes / bus;
	return registered < copied;
}

static void *register_slice(void *context, uint64_t size, bool *registered)
{
	struct file *file = context;
	struct sgpu_engine *engine = file->engine;
	uint64_t page, begin;

	if (!sgpu_transfer_find_pages(engine, file->fd, file->offset, size, &begin, &file->mapped,
				      &page) ||
	    !registering_pays(size, engine->config.workers, page > PAGE)) {
		return NULL;
	}
	file->base = sgpu_transfer_register(engine, file->fd, begin, file->mapped, false);
	if (!file->base) {
		return NULL;
	}
	*registered = true;
	return (uint8_t *)file->base + (file->offset - begin);
}

static void *view_region(void *context, uint64_t size, bool *registered)
{
	struct file *file = context;
	void *memory =
		sgpu_kept_take(file->engine, file->fd, file->offset, size, false, &file->kept);

	*registered = memory != NULL;
	return memory ? memory : register_slice(context, size, registered);
}

static void *write_region(void *context, uint64_t size, bool *registered)
{
	struct file *file = context;
	void *memory =
		sgpu_kept_take(file->engine, file->fd, file->offset, size, true, &file->kept);

	*registered = memory != NULL;
	return memory;
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

/* Whoever writes to a file waits in the kernel until nobody else does; those who write to its pages
 * do not. 512 MiB of tmpfs on 16 cores: by pwrite 190 ms, through pages 87 ms; where they had been
 * written before, 127 and 56 ms. A file that has all of its pages, and no name by which somebody
 * else could cut it short, has no faults. */
static bool write_pages(const struct file *file, uint64_t position, const void *data, size_t size)
{
	uint64_t begin = file->offset + position, first = begin / PAGE * PAGE, page;
	struct stat status;
	uint8_t *base;

	if (file->engine->config.shared_files || file->engine->config.workers < PAGES_WORKERS_MIN ||
	    size < PAGES_MIN || fstat(file->fd, &status) != 0 || status.st_nlink > 0 ||
	    begin + size > (uint64_t)status.st_size ||
	    (uint64_t)status.st_blocks * STAT_BLOCK < (uint64_t)status.st_size ||
	    !sgpu_transfer_in_memory(file->fd, &page) || page != PAGE) {
		return false;
	}
	base = mmap(NULL, begin + size - first, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd,
		    (off_t)first);
	if (base == MAP_FAILED) {
		return false;
	}
	memcpy(base + (begin - first), data, size);
	munmap(base, begin + size - first);
	return true;
}

static int write_file(void *context, uint64_t position, const void *data, size_t size,
		      struct sgpu_error *error)
{
	const struct file *file = context;

	if (write_pages(file, position, data, size)) {
		return SGPU_OK;
	}
	return sgpu_pwrite(file->fd, file->name, data, size, file->offset + position, error);
}

static void close_file(void *context)
{
	struct file *file = context;

	sgpu_kept_give(file->engine, file->kept);
	sgpu_transfer_unregister(file->engine, file->base, file->mapped);
	free(file);
}

static struct file *new_file(struct sgpu_engine *engine, int fd, const char *name, uint64_t offset)
{
	struct file *file = calloc(1, sizeof(*file));

	if (file) {
		*file = (struct file){ .engine = engine, .fd = fd, .name = name, .offset = offset };
	}
	return file;
}

int sgpu_source_from_file(struct sgpu_engine *engine, int fd, const char *name, uint64_t offset,
			  bool region, struct sgpu_transfer_source *source,
			  struct sgpu_error *error)
{
	struct file *file = new_file(engine, fd, name, offset);

	if (!file) {
		return sgpu_fail_nomem(error);
	}
	*source = (struct sgpu_transfer_source){ .read = read_file,
						 .view = region ? view_region : register_slice,
						 .close = close_file,
						 .context = file };
	return SGPU_OK;
}

int sgpu_sink_to_file(struct sgpu_engine *engine, int fd, const char *name, uint64_t offset,
		      bool region, struct sgpu_transfer_sink *sink, struct sgpu_error *error)
{
	struct file *file = new_file(engine, fd, name, offset);

	if (!file) {
		return sgpu_fail_nomem(error);
	}
	*sink = (struct sgpu_transfer_sink){ .write = write_file,
					     .view = region ? write_region : NULL,
					     .close = close_file,
					     .context = file };
	return SGPU_OK;
}

/* ---- memory ---- */
static void *view_ordinary(void *context, uint64_t size, bool *registered)
{
	(void)size;
	*registered = false;
	return context;
}

static void *view_registered(void *context, uint64_t size, bool *registered)
{
	(void)size;
	*registered = true;
	return context;
}

struct sgpu_transfer_source sgpu_source_from_memory(const void *memory, bool registered)
{
	return (struct sgpu_transfer_source){ .view = registered ? view_registered : view_ordinary,
					      .context = (void *)(uintptr_t)memory };
}

struct sgpu_transfer_sink sgpu_sink_to_memory(void *memory, bool registered)
{
	return (struct sgpu_transfer_sink){ .view = registered ? view_registered : view_ordinary,
					    .context = memory };
}
