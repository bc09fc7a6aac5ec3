/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded, it makes every file system one where a file always has a name, as on vfat, NFS and
 * most of FUSE. With SGPU_TEST_KILL=1 the process then dies by SIGKILL at its first rename, as one
 * that is killed between two calls would. With SGPU_TEST_REPLACE=1 no rename can refuse to replace,
 * as on NFS; with SGPU_TEST_UNRESERVED=1 none can reserve space. See outputs.bats and spool.bats.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int openat(int folder, const char *path, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	if ((flags & O_TMPFILE) == O_TMPFILE && !getenv("SGPU_TEST_NAMELESS")) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	if (mode == FALLOC_FL_KEEP_SIZE && getenv("SGPU_TEST_UNRESERVED")) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	if (getenv("SGPU_TEST_KILL")) {
		raise(SIGKILL);
	}
	return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
	if ((flags & RENAME_NOREPLACE) && getenv("SGPU_TEST_REPLACE")) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}
