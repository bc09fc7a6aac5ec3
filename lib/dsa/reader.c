/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files with the accelerator, which copies a mapped piece from the page cache; pread(2)
 * copies with a core. Which is faster depends on the machine, so the first pieces are read both
 * ways in turn, and the best time of each decides. If a file is cut short meanwhile, the device
 * reports a missing page, and no signal comes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "dsa/queue.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { PART = 128 << 10, DEPTH = 8, PARTS_MAX = 64 };

/* One way to read: its best trial, in picoseconds a byte. */
struct way {
	unsigned trials;
	uint64_t best;
};

struct sgpu_dsa_reader {
	struct sgpu_dsa *dsa;
	pthread_mutex_t
		lock;	  /* held by the thread that uses the device; guards the members below */
	atomic_bool used; /* whether the device is used */
	struct way device, core;
	uint64_t bytes;
	char why[SGPU_ERROR_TEXT_MAX];
};

int sgpu_dsa_reader_create(struct sgpu_dsa *dsa, struct sgpu_dsa_reader **reader,
			   struct sgpu_error *error)
{
	struct sgpu_dsa_reader *new = calloc(1, sizeof(*new));

	*reader = NULL;
	if (!new || pthread_mutex_init(&new->lock, NULL) != 0) {
		free(new);
		return sgpu_fail_nomem(error);
	}
	new->dsa = dsa;
	atomic_init(&new->used, dsa != NULL);
	*reader = new;
	return SGPU_OK;
}

void sgpu_dsa_reader_free(struct sgpu_dsa_reader **reader)
{
	if (*reader) {
		pthread_mutex_destroy(&(*reader)->lock);
		free(*reader);
		*reader = NULL;
	}
}

void sgpu_dsa_reader_figures(const struct sgpu_dsa_reader *reader, struct sgpu_dsa_figures *figures)
{
	figures->bytes = reader->bytes;
	memcpy(figures->why, reader->why, sizeof(figures->why));
}

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

static void count_trial(struct way *way, uint64_t ns, size_t size)
{
	const uint64_t each = ns * 1000 / size;

	way->best = way->trials++ == 0 || each < way->best ? each : way->best;
}

static void give_up(struct sgpu_dsa_reader *reader, const char *why)
{
	snprintf(reader->why, sizeof(reader->why), "%s", why);
	reader->used = false;
}

static void decide(struct sgpu_dsa_reader *reader)
{
	char text[128];

	if (reader->used && reader->device.trials >= SGPU_DSA_TRIALS &&
	    reader->core.trials >= SGPU_DSA_TRIALS && reader->device.best >= reader->core.best) {
		snprintf(text, sizeof(text),
			 "a core is faster: %.2f ns a KiB, the accelerator %.2f",
			 (double)reader->core.best * 1.024, (double)reader->device.best * 1.024);
		give_up(reader, text);
	}
}

/* The caller holds the lock. */
static bool try_device(struct sgpu_dsa_reader *reader, int fd, void *data, size_t size,
		       uint64_t offset)
{
	const uint64_t begin = sgpu_now_ns();
	struct sgpu_error error = { 0 };
	int rc = by_device(reader->dsa, fd, data, size, offset, &error);

	if (rc == SGPU_OK) {
		reader->bytes += size;
		count_trial(&reader->device, sgpu_now_ns() - begin, size);
	} else if (rc != SGPU_ERETRY && rc != SGPU_ESYSTEM) {
		give_up(reader, error.text);
	}
	return rc == SGPU_OK;
}

int sgpu_dsa_pread(struct sgpu_dsa_reader *reader, int fd, const char *name, void *data,
		   size_t size, uint64_t offset, size_t *got, struct sgpu_error *error)
{
	bool read;
	int rc = SGPU_OK;

	if (!reader->used || size < SGPU_DSA_READ_LEAST || size > PARTS_MAX * PART ||
	    pthread_mutex_trylock(&reader->lock) != 0) {
		return sgpu_pread(fd, name, data, size, offset, got, error);
	}
	read = (reader->core.trials >= SGPU_DSA_TRIALS ||
		reader->device.trials <= reader->core.trials) &&
	       try_device(reader, fd, data, size, offset);
	if (read) {
		*got = size;
	} else {
		const uint64_t begin = sgpu_now_ns();

		rc = sgpu_pread(fd, name, data, size, offset, got, error);
		if (rc == SGPU_OK && *got == size) {
			count_trial(&reader->core, sgpu_now_ns() - begin, size);
		}
	}
	decide(reader);
	pthread_mutex_unlock(&reader->lock);
	return rc;
}
