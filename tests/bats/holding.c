/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded, it has calls wait that read or write a regular file whose sticky bit is set, until
 * that is taken away; with the set-group-ID bit, those that read behind the first 256 KiB. So a
 * test holds a batch, or its response. A file for which a call waits gets the set-user-ID bit. See
 * `hold` in serve.bash.
 */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { HEAD = 262144 };

static void wait_for_file(int fd, off_t offset)
{
	struct stat status;

	while (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       ((status.st_mode & S_ISVTX) || ((status.st_mode & S_ISGID) && offset >= HEAD))) {
		(void)fchmod(fd, status.st_mode | S_ISUID);
		usleep(5000);
	}
}

ssize_t read(int fd, void *data, size_t size)
{
	wait_for_file(fd, lseek(fd, 0, SEEK_CUR));
	return syscall(SYS_read, fd, data, size);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
	wait_for_file(fd, offset);
	return syscall(SYS_pread64, fd, data, size, offset);
}

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
	wait_for_file(fd, offset);
	return syscall(SYS_preadv2, fd, parts, count, offset, 0L, flags);
}

ssize_t write(int fd, const void *data, size_t size)
{
	wait_for_file(fd, 0);
	return syscall(SYS_write, fd, data, size);
}
