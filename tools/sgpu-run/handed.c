/* SPDX-License-Identifier: Apache-2.0
 *
 * Even fstat and fstatfs ask the server behind a FUSE file. So a file is first told by what the
 * kernel knows by itself.
 */
#include "handed.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

static bool look(int fd, struct statx *status)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, status) == 0;
}

/* No file system without a device but tmpfs has seals. One with a device is root's to mount. */
static bool is_memory_or_disk(int fd, const struct statx *status)
{
	struct statfs system;

	if (!S_ISREG(status->stx_mode)) {
		return false;
	}
	if (fcntl(fd, F_GET_SEALS) >= 0) {
		return true;
	}
	return status->stx_dev_major != 0 && fstatfs(fd, &system) == 0 &&
	       (system.f_type == EXT4_SUPER_MAGIC || system.f_type == XFS_SUPER_MAGIC);
}

/* One without a name: all of these are in one file system. A FIFO with a name may be in any. */
static bool is_pipe(const struct statx *status)
{
	struct statx own;
	bool same;
	int ends[2];

	if (!S_ISFIFO(status->stx_mode) || pipe2(ends, O_CLOEXEC) != 0) {
		return false;
	}
	same = look(ends[0], &own) && own.stx_dev_major == status->stx_dev_major &&
	       own.stx_dev_minor == status->stx_dev_minor;
	close(ends[0]);
	close(ends[1]);
	return same;
}

static bool has_mode(int fd, bool writes)
{
	const int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & (O_PATH | O_DIRECT)) &&
	       ((flags & O_ACCMODE) == O_RDWR ||
		(flags & O_ACCMODE) == (writes ? O_WRONLY : O_RDONLY)) &&
	       !(writes && (flags & O_APPEND));
}

bool handed_batch_is_taken(int fd)
{
	struct statx status;

	return has_mode(fd, false) && look(fd, &status) &&
	       (is_memory_or_disk(fd, &status) || is_pipe(&status));
}

bool handed_response_is_taken(int fd)
{
	struct statx status;

	return has_mode(fd, true) && look(fd, &status) && is_memory_or_disk(fd, &status);
}
