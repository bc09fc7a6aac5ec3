/* SPDX-License-Identifier: Apache-2.0
 *
 * Whoever can shrink a file that others have mapped makes them fault. So the size is sealed before
 * the memory is handed out, and whoever receives it looks for the seals before mapping it.
 */
#include "ring/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define WRITE_SEALS (F_SEAL_WRITE | 0x0010 /* F_SEAL_FUTURE_WRITE */)
#define TMPFS 0x01021994L /* TMPFS_MAGIC: not hugetlbfs, where touching a page may fail */

int sgpu_ring_file_create(const char *name, size_t size, int *fd, struct sgpu_error *error)
{
	int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL), rc;

	*fd = -1;
	if (made < 0 && errno == EINVAL) { /* a kernel before 6.3 */
		made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	}
	if (made < 0) {
		return sgpu_fail_errno(error, "cannot make a memory file '%s'", name);
	}
	/* All pages at once, so that no first touch has to find one. */
	if (fallocate(made, 0, 0, (off_t)size) != 0 || fcntl(made, F_ADD_SEALS, SIZE_SEALS) != 0) {
		rc = sgpu_fail_errno(error, "cannot make a memory file '%s'", name);
		close(made);
		return rc;
	}
	*fd = made;
	return SGPU_OK;
}

/* The file may be anything that another process has sent. Its seals come first: to ask for them takes nobody's word but the
 * kernel's, whatever file system it is of. */
int sgpu_ring_file_check(int fd, const char *what, size_t least, size_t most, size_t *size, struct sgpu_error *error)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;
	struct statfs system;

	if (seals < 0 && errno == EBADF) {
		return sgpu_fail_errno(error, "cannot look at %s", what);
	}
	if (seals < 0) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is not a memory file", what);
	}
	if (fstat(fd, &status) != 0 || fstatfs(fd, &system) != 0) {
		return sgpu_fail_errno(error, "cannot look at %s", what);
	}
	if (!S_ISREG(status.st_mode) || system.f_type != TMPFS) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is not a memory file", what);
	}
	if ((seals & SIZE_SEALS) != SIZE_SEALS) {
		return sgpu_fail(error, SGPU_EPOLICY, "%s is not sealed against a change of its size", what);
	}
	if (seals & WRITE_SEALS) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is sealed against writing", what);
	}
	if (status.st_size < 0 || (uint64_t)status.st_size < least || (uint64_t)status.st_size > most) {
		return sgpu_fail(error, SGPU_EINVALID, "%s has %lld bytes", what, (long long)status.st_size);
	}
	*size = (size_t)status.st_size;
	return SGPU_OK;
}
