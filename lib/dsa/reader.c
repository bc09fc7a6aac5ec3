/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files with the accelerator, which copies a mapped piece from the page cache. If a file is
 * cut short meanwhile, the device reports a missing page, and no signal comes.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "dsa/queue.h"

enum { PART = 128 << 10, DEPTH = 8, PARTS_MAX = 64 };

/* Whether the file still has `end` bytes. If cut, the mapping reads as zeros up to the page's
 * end. */
static bool has(int fd, uint64_t end)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       end <= (uint64_t)status.st_size;
}

/* Reads through a mapping. SGPU_ESYSTEM if the file cannot be mapped or was cut short: the caller
 * then uses pread(2), which says why. */
static int by_device(struct sgpu_dsa *dsa, int fd, uint8_t *data, size_t size, uint64_t offset,
		     struct sgpu_error *error)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset / page * page;
	const size_t length = size + (size_t)(offset - begin);
	struct sgpu_dsa_job jobs[PARTS_MAX];
	size_t count = 0;
	uint8_t *map = MAP_FAILED;
	uint64_t end;
	int rc;

	if (sgpu_add_u64(offset, size, &end) && end <= INT64_MAX && has(fd, end)) {
		map = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, (off_t)begin);
	}
	if (map == MAP_FAILED) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the file cannot be mapped");
	}
	/* Maps all pages now, so that no access faults. */
	(void)madvise(map, length, MADV_POPULATE_READ);
	(void)madvise(data - (uintptr_t)data % page, size + (uintptr_t)data % page,
		      MADV_POPULATE_WRITE);
	for (size_t at = 0; at < size; at += PART) {
		jobs[count++] = (struct sgpu_dsa_job){
			.from = map + (offset - begin) + at,
			.to = data + at,
			.size = (uint32_t)(size - at < PART ? size - at : PART)
		};
	}
	rc = sgpu_dsa_run(dsa, jobs, count, DEPTH, error);
	munmap(map, length);
	return rc || has(fd, end) ? rc : sgpu_fail(error, SGPU_ESYSTEM, "the file was cut short");
}

int sgpu_dsa_pread(struct sgpu_dsa *dsa, int fd, const char *name, void *data, size_t size,
		   uint64_t offset, size_t *got, struct sgpu_error *error)
{
	bool read = false;

	if (dsa && size >= SGPU_DSA_READ_LEAST && size <= PARTS_MAX * PART &&
	    pthread_mutex_trylock(&dsa->lock) == 0) {
		read = by_device(dsa, fd, data, size, offset, NULL) == SGPU_OK;
		dsa->copied += read ? size : 0;
		pthread_mutex_unlock(&dsa->lock);
	}
	*got = size;
	return read ? SGPU_OK : sgpu_pread(fd, name, data, size, offset, got, error);
}

uint64_t sgpu_dsa_copied(const struct sgpu_dsa *dsa, const char **why)
{
	*why = dsa->why.text;
	return dsa->copied;
}
