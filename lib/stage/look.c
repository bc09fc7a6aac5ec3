/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at a file before it is opened. Opening a watchdog, a tape or a terminal has effects, and
 * opening a pipe waits; an O_PATH descriptor does neither, and the file that it names is the one
 * that is then opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <stage/region.h>

int sgpu_look(int directory, const char *path, int flags)
{
	return openat(directory, path, O_PATH | O_CLOEXEC | flags);
}

int sgpu_look_beneath(int directory, const char *path)
{
	struct open_how how;

	memset(&how, 0, sizeof(how));
	how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
	how.resolve =
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
	for (int attempt = 0; attempt < 100; attempt++) {
		/* Fails with EAGAIN when something was renamed meanwhile. */
		int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));

		if (fd >= 0 || errno != EAGAIN) {
			return fd;
		}
	}
	return -1;
}

/* Where there is no /proc: by its name once more, and only if that is still the same file. */
static int open_again(int directory, const char *path, int flags, const struct stat *looked)
{
	struct stat status;
	int fd = openat(directory, path, flags);

	if (fd >= 0 && (fstat(fd, &status) != 0 || status.st_dev != looked->st_dev ||
			status.st_ino != looked->st_ino)) {
		close(fd);
		errno = ESTALE;
		return -1;
	}
	return fd;
}

int sgpu_look_open(int look, int directory, const char *path, int flags)
{
	char name[32];
	struct stat status;
	int fd;

	if (fstat(look, &status) != 0 || !S_ISREG(status.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	flags |= O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", look);
	fd = open(name, flags & ~O_NOFOLLOW);
	return fd < 0 && errno == ENOENT ? open_again(directory, path, flags, &status) : fd;
}

int sgpu_look_open_name(int directory, const char *name, int flags)
{
	int look = sgpu_look(directory, name, O_NOFOLLOW);
	int fd = look < 0 ? -1 : sgpu_look_open(look, directory, name, flags | O_NOFOLLOW);

	if (look >= 0) {
		close(look);
	}
	return fd;
}
