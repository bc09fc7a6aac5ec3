/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a pool of leases, on both sides.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "device/device.h"
#include "stage/region.h"

#define SLICE ((uint64_t)32 << 20)
enum { SMALL_PAGE = 4096 };

/* ---- the worker's side ---- */
/* A mapping of huge pages is given only if so many are free. */
static int make_file(struct sgpu_lease_memory *m, bool huge, struct sgpu_error *error)
{
	int rc = sgpu_memory_file_create("sgpu-leases", m->size, false, huge, &m->fd, error);

	if (rc < 0) {
		return rc;
	}
	m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (m->base != MAP_FAILED) {
		return SGPU_OK;
	}
	rc = sgpu_fail_errno(error, "cannot map a pool of %llu bytes", (unsigned long long)m->size);
	close(m->fd);
	m->fd = -1;
	m->base = NULL;
	return rc;
}

struct population {
	const struct sgpu_lease_memory *memory;
	atomic_int failed; /* errno */
};

static void populate_slices(void *argument, uint64_t begin, uint64_t end)
{
	struct population *p = argument;
	const struct sgpu_lease_memory *m = p->memory;

	for (; begin < end && atomic_load(&p->failed) == 0; begin++) {
		const uint64_t at = begin * SLICE,
			       size = m->size - at < SLICE ? m->size - at : SLICE;

		if (madvise(m->base + at, size, MADV_POPULATE_WRITE) == 0) {
			continue;
		}
		if (errno != EINVAL) {
			atomic_store(&p->failed, errno);
			return;
		}
		for (uint64_t i = 0; i < size; i += SMALL_PAGE) { /* a kernel before 5.14 */
			((volatile uint8_t *)m->base)[at + i] = 0;
		}
	}
}

static int populate(const struct sgpu_lease_memory *m, struct sgpu_error *error)
{
	struct population population = { .memory = m };
	struct sgpu_pool *pool = NULL;
	int rc = sgpu_pool_create(0, &pool, error);

	if (rc < 0) {
		return rc;
	}
	sgpu_pool_enter(pool);
	rc = sgpu_pool_for(pool, (m->size + SLICE - 1) / SLICE, 1, populate_slices, &population);
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
	return rc < 0 || atomic_load(&population.failed) == 0
		       ? rc
		       : sgpu_fail(error, SGPU_ENOMEM,
				   "there is no memory for a pool of %llu bytes",
				   (unsigned long long)m->size);
}

int sgpu_lease_memory_create(uint64_t size, struct sgpu_lease_memory *m, struct sgpu_error *error)
{
	uint64_t available;
	int rc;

	*m = (struct sgpu_lease_memory){ .fd = -1 };
	if (size == 0 || size > SGPU_LEASE_POOL_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a pool has 1 to %llu bytes",
				 (unsigned long long)SGPU_LEASE_POOL_MAX);
	}
	m->size = (size + SGPU_LEASE_HUGE - 1) / SGPU_LEASE_HUGE * SGPU_LEASE_HUGE;
	m->page = SGPU_LEASE_HUGE;
	m->pages = SGPU_PAGES_HUGE;
	if (make_file(m, true, NULL) == SGPU_OK) {
		rc = populate(m, error);
		if (rc == SGPU_OK) {
			return rc;
		}
		sgpu_lease_memory_free(m);
	}
	/* The kernel would end processes to find the pages. */
	sgpu_host_memory(NULL, &available);
	if (m->size > available) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "a pool of %llu bytes is more than the %llu that are free",
				 (unsigned long long)m->size, (unsigned long long)available);
	}
	m->page = SMALL_PAGE;
	m->pages = sgpu_stage_memory_huge() ? SGPU_PAGES_TRANSPARENT : SGPU_PAGES_NORMAL;
	rc = make_file(m, false, error);
	if (rc < 0) {
		return rc;
	}
	if (madvise(m->base, m->size, MADV_HUGEPAGE) != 0) {
		m->pages = SGPU_PAGES_NORMAL; /* a kernel without them */
	}
	rc = populate(m, error);
	if (rc < 0) {
		sgpu_lease_memory_free(m);
	}
	return rc;
}

void sgpu_lease_memory_free(struct sgpu_lease_memory *m)
{
	if (m->base) {
		munmap(m->base, m->size);
	}
	if (m->fd >= 0) { /* a client may have it open for longer, but not what was taken for it */
		(void)fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				(off_t)m->size);
		close(m->fd);
	}
	m->base = NULL;
	m->fd = -1;
}

/* ---- the client's side ---- */
int sgpu_lease_check(int fd, uint64_t pool_size, const struct sgpu_lease *lease,
		     struct sgpu_error *error)
{
	uint64_t size, end;
	bool huge;
	int rc = sgpu_memory_file_check(fd, "the memory of a lease", 0, INT64_MAX, &size, &huge,
					error);

	if (rc == SGPU_OK &&
	    (size != pool_size || !sgpu_region_id_valid(lease->id) ||
	     !sgpu_add_u64(lease->offset, lease->size, &end) || end > pool_size ||
	     lease->size == 0 || lease->offset % (huge ? SGPU_LEASE_HUGE : SMALL_PAGE) != 0)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a lease of %llu bytes at %llu does not lie in a pool of %llu",
				 (unsigned long long)lease->size, (unsigned long long)lease->offset,
				 (unsigned long long)size);
	}
	return rc;
}

int sgpu_lease_map(int fd, const struct sgpu_lease *lease, struct sgpu_lease_mapping *mapping,
		   struct sgpu_error *error)
{
	struct statfs system;
	uint64_t page = SMALL_PAGE;
	void *base;

	*mapping = (struct sgpu_lease_mapping){ .memory = NULL };
	if (fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC) {
		page = SGPU_LEASE_HUGE;
	}
	mapping->size = (lease->size + page - 1) / page * page;
	base = mmap(NULL, mapping->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    (off_t)lease->offset);
	if (base == MAP_FAILED) {
		return sgpu_fail_errno(error, "cannot map lease '%s'", lease->id);
	}
	(void)madvise(base, mapping->size, MADV_DONTDUMP);
	mapping->memory = base;
	return SGPU_OK;
}

void sgpu_lease_unmap(struct sgpu_lease_mapping *mapping)
{
	if (mapping->memory) {
		munmap(mapping->memory, mapping->size);
	}
	mapping->memory = NULL;
}
