/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes moved by several cores. One core copies a tenth of what a bus to a GPU carries; on the CPU device the cores
 * have better to do, and there one thread reads.
 */
#include <string.h>

#include <sgpu/io.h>

#include "run/transfers.h"

enum { GRAIN = 512 << 10 };

struct move {
	const struct sgpu_source *file;
	uint64_t position;
	const uint8_t *from;
	uint8_t *to;
	atomic_bool failed;
};

struct sgpu_pool *sgpu_movers(struct sgpu_transfers *run, uint64_t size)
{
	return run->base->traits->engines && size > GRAIN ? run->base->copiers : NULL;
}

/* All of it, or an error: a file that ends early was cut short. */
static int read_whole(const struct sgpu_source *file, uint64_t position, void *data, size_t size,
		      struct sgpu_error *error)
{
	size_t got = 0;
	int rc = sgpu_pread(file->fd, file->name, data, size, file->offset + position, &got, error);

	if (rc == SGPU_OK && got < size) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'%s' ends too early", file->name);
	}
	return rc;
}

static void read_part(void *argument, uint64_t begin, uint64_t end)
{
	struct move *m = argument;

	if (read_whole(m->file, m->position + begin, m->to + begin, end - begin, NULL) != SGPU_OK) {
		atomic_store(&m->failed, true);
	}
}

static void copy_part(void *argument, uint64_t begin, uint64_t end)
{
	const struct move *m = argument;

	memcpy(m->to + begin, m->from + begin, end - begin);
}

static bool share(struct sgpu_pool *pool, struct move *m, size_t size,
		  void (*part)(void *argument, uint64_t begin, uint64_t end))
{
	int rc;

	if (!pool || size <= GRAIN) {
		return false;
	}
	sgpu_pool_enter(pool);
	rc = sgpu_pool_for(pool, size, GRAIN, part, m);
	sgpu_pool_leave(pool);
	return rc == SGPU_OK && !atomic_load(&m->failed);
}

int sgpu_move_read(struct sgpu_pool *pool, const struct sgpu_source *file, uint64_t position, void *data, size_t size,
		   struct sgpu_error *error)
{
	struct move m = { .file = file, .position = position, .to = data };

	/* Whatever failed in a part fails again here, and says why. */
	return share(pool, &m, size, read_part) ? SGPU_OK : read_whole(file, position, data, size, error);
}

void sgpu_move_copy(struct sgpu_pool *pool, void *to, const void *from, size_t size)
{
	struct move m = { .from = from, .to = to };

	if (!share(pool, &m, size, copy_part)) {
		memcpy(to, from, size);
	}
}
