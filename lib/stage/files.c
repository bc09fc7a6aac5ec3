/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories from which batches may name payloads. They are opened once, and names are resolved
 * beneath them, so neither a name nor a later mount leads elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include <stage/region.h>

#include "base/io.h"

enum { DIRECTORIES_MAX = 64, PRIVATE_MAX = 128 };

struct directory {
	char *path;  /* without links */
	char *given; /* as the caller named it */
	int fd;
};

struct sgpu_files {
	struct directory directories[DIRECTORIES_MAX];
	int count;
	struct {
		dev_t device;
		ino_t inode;
	} private_files[PRIVATE_MAX];
	int private_count;
};

int sgpu_look_open(int look, int flags)
{
	char name[32];
	struct stat status;

	if (fstat(look, &status) != 0 || !S_ISREG(status.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", look);
	return open(name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static int look_beneath(int directory, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV };
	int fd = -1;

	/* openat2 fails with EAGAIN if something was renamed meanwhile. */
	for (int attempt = 0; attempt < 100 && fd < 0 && (!attempt || errno == EAGAIN); attempt++) {
		fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
	}
	return fd;
}

/* ---- directories ---- */
int sgpu_files_create(struct sgpu_files **files, struct sgpu_error *error)
{
	*files = calloc(1, sizeof(**files));
	return *files ? SGPU_OK : sgpu_fail_nomem(error);
}

void sgpu_files_free(struct sgpu_files **files)
{
	if (!files || !*files) {
		return;
	}
	for (int i = 0; i < (*files)->count; i++) {
		free((*files)->directories[i].path);
		free((*files)->directories[i].given);
		close((*files)->directories[i].fd);
	}
	free(*files);
	*files = NULL;
}

/* Whether a directory holds no data: reading files that the kernel makes, as in procfs, shows its
 * state or has side effects. Such file systems have no blocks, except efivarfs, and devtmpfs, which
 * has the type of tmpfs: it is the file system of /dev. */
static bool is_of_kernel(const struct directory *directory)
{
	struct stat status, devices, root;
	struct statfs about;

	return fstatfs(directory->fd, &about) != 0 || fstat(directory->fd, &status) != 0 ||
	       (about.f_blocks == 0 && about.f_type != TMPFS_MAGIC && about.f_type != RAMFS_MAGIC &&
		about.f_type != FUSE_SUPER_MAGIC) ||
	       about.f_type == EFIVARFS_MAGIC || strcmp(directory->path, "/dev") == 0 ||
	       (stat("/dev", &devices) == 0 && stat("/", &root) == 0 &&
		devices.st_dev != root.st_dev && devices.st_dev == status.st_dev);
}

static int open_directory(const char *path, struct directory *directory, struct sgpu_error *error)
{
	directory->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	directory->path = realpath(path, NULL);
	directory->given = strdup(path);
	if (directory->fd < 0 || !directory->path) {
		return sgpu_fail_errno(error, "cannot open directory '%s'", path);
	}
	if (!directory->given) {
		return sgpu_fail_nomem(error);
	}
	return is_of_kernel(directory)
		       ? sgpu_fail(error, SGPU_EPOLICY,
				   "directory '%s' holds no data: its file system is the kernel's",
				   path)
		       : SGPU_OK;
}

int sgpu_files_allow(struct sgpu_files *files, const char *path, struct sgpu_error *error)
{
	struct directory directory = { .fd = -1 };
	int rc;

	if (files->count == DIRECTORIES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d directories of files",
				 DIRECTORIES_MAX);
	}
	rc = open_directory(path, &directory, error);
	if (rc < 0) {
		free(directory.path);
		free(directory.given);
		sgpu_close(directory.fd);
		return rc;
	}
	files->directories[files->count++] = directory;
	return SGPU_OK;
}

int sgpu_files_except(struct sgpu_files *files, const struct stat *status, struct sgpu_error *error)
{
	if (files->private_count == PRIVATE_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d private files", PRIVATE_MAX);
	}
	files->private_files[files->private_count].device = status->st_dev;
	files->private_files[files->private_count++].inode = status->st_ino;
	return SGPU_OK;
}

int sgpu_files_count(const struct sgpu_files *files)
{
	return files ? files->count : 0;
}

int sgpu_files_directory(const struct sgpu_files *files, int index, const char **name)
{
	*name = files->directories[index].given;
	return files->directories[index].fd;
}

static const char *beneath(const char *directory, const char *path)
{
	size_t size = strlen(directory);

	while (size > 0 && directory[size - 1] == '/') {
		size--;
	}
	if (strncmp(path, directory, size) != 0 || path[size] != '/') {
		return NULL;
	}
	path += size;
	return path + strspn(path, "/");
}

static const char *rest_of(const struct directory *directory, const char *path)
{
	const char *rest = *path == '/' ? beneath(directory->path, path) : path;

	return rest ? rest : beneath(directory->given, path);
}

static bool goes_up(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		p += strspn(p, "/");
		if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0')) {
			return true;
		}
	}
	return false;
}

/* *fd is an O_PATH descriptor: the file itself is not opened. */
static int find(const struct sgpu_files *files, const char *path, int *fd, struct sgpu_error *error)
{
	bool lies_there = *path != '/';

	*fd = -1;
	if (goes_up(path)) {
		return sgpu_fail(error, SGPU_EPOLICY, "'%s' is refused: it has a '..'", path);
	}
	errno = ENOENT;
	for (int i = 0; *fd < 0 && errno == ENOENT && i < files->count; i++) {
		const char *rest = rest_of(&files->directories[i], path);

		lies_there = lies_there || rest;
		if (rest && *rest) {
			*fd = look_beneath(files->directories[i].fd, rest);
		}
	}
	if (*fd >= 0) {
		return SGPU_OK;
	}
	if (!lies_there) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "'%s' is not in a directory that is open to batches", path);
	}
	if (errno == ELOOP || errno == EXDEV) {
		return sgpu_fail(error, SGPU_EPOLICY, "'%s' is refused: %s", path,
				 errno == ELOOP ? "it contains a link"
						: "it leaves the directory or its file system");
	}
	return sgpu_fail_errno(error, "cannot open '%s'", path);
}

int sgpu_files_look(const struct sgpu_files *files, const char *path, struct stat *status,
		    struct sgpu_error *error)
{
	int fd, rc = find(files, path, &fd, error);

	if (rc == SGPU_OK && fstat(fd, status) != 0) {
		rc = sgpu_fail_errno(error, "cannot inspect '%s'", path);
	}
	sgpu_close(fd);
	return rc;
}

int sgpu_files_open(const struct sgpu_files *files, const char *path, int *fd,
		    struct sgpu_error *error)
{
	struct stat status;
	int look, rc;

	*fd = -1;
	if (!files || files->count == 0) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "'%s' is refused: no directory is open to batches", path);
	}
	rc = find(files, path, &look, error);
	if (rc < 0) {
		return rc;
	}
	if (fstat(look, &status) != 0) {
		rc = sgpu_fail_errno(error, "cannot inspect '%s'", path);
	} else if (S_ISLNK(status.st_mode)) {
		rc = sgpu_fail(error, SGPU_EPOLICY, "'%s' is refused: it is a link", path);
	} else if (!S_ISREG(status.st_mode)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is no regular file", path);
	}
	for (int i = 0; rc == SGPU_OK && i < files->private_count; i++) {
		if (status.st_dev == files->private_files[i].device &&
		    status.st_ino == files->private_files[i].inode) {
			rc = sgpu_fail(error, SGPU_EPOLICY, "'%s' is private to the runner", path);
		}
	}
	if (rc == SGPU_OK) {
		*fd = sgpu_look_open(look, O_RDONLY);
		rc = *fd < 0 ? sgpu_fail_errno(error, "cannot open '%s'", path) : SGPU_OK;
	}
	close(look);
	return rc;
}
