/* SPDX-License-Identifier: Apache-2.0
 *
 * If one process shrinks a file, others that map it fault. So the size is sealed before the file is
 * handed out, and the receiver checks the seals before it maps the file.
 */
#include "base/base.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define WRITE_SEALS (F_SEAL_WRITE | 0x0010 /* F_SEAL_FUTURE_WRITE */)

int sgpu_memory_file_create(const char *name, uint64_t size, bool filled, int *fd,
			    struct sgpu_error *error)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int made = memfd_create(name, flags | MFD_NOEXEC_SEAL), rc;

	*fd = -1;
	if (made < 0 && errno == EINVAL) { /* a kernel before 6.3 */
		made = memfd_create(name, flags);
	}
	if (made >= 0 && ftruncate(made, (off_t)size) == 0 &&
	    (!filled || fallocate(made, 0, 0, (off_t)size) == 0) &&
	    fcntl(made, F_ADD_SEALS, SIZE_SEALS) == 0) {
		*fd = made;
		return SGPU_OK;
	}
	rc = sgpu_fail_errno(error, "cannot make a memory file '%s' of %llu bytes", name,
			     (unsigned long long)size);
	sgpu_close(made);
	return rc;
}

/* Another process may send any file. Seals are checked first: the kernel alone answers for them,
 * whatever the file system. */
int sgpu_memory_file_check(int fd, const char *what, uint64_t least, uint64_t most, uint64_t *size,
			   struct sgpu_error *error)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;
	struct statfs system;

	if (seals < 0 && errno == EBADF) {
		return sgpu_fail_errno(error, "cannot look at %s", what);
	}
	if (seals < 0 || fstat(fd, &status) != 0 || fstatfs(fd, &system) != 0 ||
	    !S_ISREG(status.st_mode) || system.f_type != TMPFS_MAGIC) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is not a memory file", what);
	}
	if ((seals & SIZE_SEALS) != SIZE_SEALS) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "%s is not sealed against a change of its size", what);
	}
	if (seals & WRITE_SEALS) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is sealed against writing", what);
	}
	if (status.st_size < 0 || (uint64_t)status.st_size < least ||
	    (uint64_t)status.st_size > most) {
		return sgpu_fail(error, SGPU_EINVALID, "%s has %lld bytes", what,
				 (long long)status.st_size);
	}
	*size = (uint64_t)status.st_size;
	return SGPU_OK;
}

int sgpu_memory_file_map(int fd, const char *what, uint64_t least, uint64_t most, void **memory,
			 uint64_t *size, struct sgpu_error *error)
{
	int rc = sgpu_memory_file_check(fd, what, least, most, size, error);
	void *base;

	*memory = NULL;
	if (rc < 0) {
		return rc;
	}
	base = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		return sgpu_fail_errno(error, "cannot map %s", what);
	}
	(void)madvise(base, *size, MADV_DONTDUMP);
	*memory = base;
	return SGPU_OK;
}
