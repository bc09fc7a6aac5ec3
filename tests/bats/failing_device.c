/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded, it makes one of two CPU devices of a process fail from its first batch on, the one
 * that maps pages later: once something was renamed, it maps no more. See spool.bats.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int first = -1, second = -1; /* the files that have the devices' memory */
static atomic_int armed;
static _Thread_local int of_second;

static void *map(void *at, size_t size, int protection, int flags, int fd, long offset)
{
	int none = -1;

	of_second = 0;
	if (fd >= 0 && (flags & MAP_SHARED) && (flags & MAP_FIXED)) {
		if (!atomic_compare_exchange_strong(&first, &none, fd) && none != fd) {
			none = -1;
			(void)atomic_compare_exchange_strong(&second, &none, fd);
		}
		of_second = fd == atomic_load(&second);
	}
	return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return map(at, size, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
	return map(at, size, protection, flags, fd, offset);
}

int madvise(void *at, size_t size, int advice)
{
	if (advice == MADV_DONTDUMP && of_second && atomic_load(&armed)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_madvise, at, size, advice);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
	atomic_store(&armed, 1);
	return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}
