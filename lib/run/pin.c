/* SPDX-License-Identifier: Apache-2.0
 *
 * Registering a payload where it lies: a slice of a file in memory is mapped, read-only, for the device alone. The
 * file may be changed or cut short by its owner at any time. What is pinned stays readable for the device, and sealed
 * data verify or fail wherever they were read; but a processor that touched the mapping would fault, so none does.
 */
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "run/transfers.h"

enum { PAGE = 4096 };

/* Files on a disk cannot be registered. *page: what a mapping is a multiple of. */
static bool in_memory(int fd, uint64_t *page)
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

bool sgpu_pin(struct sgpu_transfers *run, int fd, uint64_t offset, uint64_t size, struct sgpu_pinned *pinned)
{
	uint64_t page, begin, end;
	struct sgpu_error why = { 0 };
	void *base;

	*pinned = (struct sgpu_pinned){ 0 };
	if (!atomic_load(&run->base->traits->registers) || !in_memory(fd, &page) || !sgpu_add_u64(offset, size, &end) ||
	    !sgpu_add_u64(end, page, &end) || end > INT64_MAX || !sgpu_register_pays(size, run->base->traits->cores, page > PAGE)) {
		return false;
	}
	begin = offset / page * page;
	end = (end - 1) / page * page;
	base = mmap(NULL, end - begin, PROT_READ, MAP_SHARED, fd, (off_t)begin);
	if (base == MAP_FAILED) {
		return false;
	}
	(void)madvise(base, end - begin, MADV_DONTDUMP);
	if (sgpu_host_register(run->base->traits->device, base, end - begin, &why) != SGPU_OK) {
		/* A device that does not do it at all need not be asked again. */
		if (why.code == SGPU_EUNAVAILABLE) {
			atomic_store(&run->base->traits->registers, false);
		}
		munmap(base, end - begin);
		return false;
	}
	*pinned = (struct sgpu_pinned){ (const uint8_t *)base + (offset - begin), base, end - begin };
	return true;
}

void sgpu_unpin(struct sgpu_transfers *run, struct sgpu_pinned *pinned)
{
	if (pinned->base) {
		sgpu_host_unregister(run->base->traits->device, pinned->base);
		munmap(pinned->base, pinned->size);
	}
	*pinned = (struct sgpu_pinned){ 0 };
}
