/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of outputs. Linux cannot link a file over another, so a replacement has a temporary name
 * for a moment; on a file system without O_TMPFILE, every output has one from the start. A process
 * holds a lock on its temporary file. A file without a lock was left by a killed process, and the
 * next run removes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "output_name.h"

/* All processes try the same first names, so files that were left behind are found without a
 * search. */
enum { COMMON_NAMES = 16, NAMES_TRIED = 100, NAME_SIZE = 64 };

static void make_name(int attempt, char name[NAME_SIZE])
{
	static unsigned serial;

	if (attempt < COMMON_NAMES) {
		snprintf(name, NAME_SIZE, ".sgpu-%d", attempt);
	} else {
		snprintf(name, NAME_SIZE, ".sgpu-%ld-%u-%llx", (long)getpid(),
			 __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED),
			 (unsigned long long)sgpu_now_ns());
	}
}

static bool is_same(int directory, const char *name, const struct stat *file)
{
	struct stat status;

	return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       status.st_dev == file->st_dev && status.st_ino == file->st_ino;
}

static bool is_own_file(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_uid == geteuid();
}

/* Removes the file if it is the user's own and nobody's lock is on it. */
static void collect(int directory, const char *name)
{
	struct stat status;

	if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) || !is_own_file(&status)) {
		return;
	}
	/* For writing, since the locks of NFS need that. */
	const int fd =
		openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		return;
	}
	if (fstat(fd, &status) == 0 && is_own_file(&status) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    is_same(directory, name, &status)) {
		unlinkat(directory, name, 0);
	}
	close(fd);
}

void sgpu_output_names_collect(int directory)
{
	char name[NAME_SIZE];

	for (int i = 0; i < COMMON_NAMES; i++) {
		make_name(i, name);
		if (faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW)) {
			return; /* lower ones are taken first */
		}
		collect(directory, name);
	}
}

static int keep_name(struct sgpu_output *output, const char *name, struct sgpu_error *error)
{
	output->temporary = strdup(name);
	if (!output->temporary) {
		unlinkat(output->directory, name, 0);
		return sgpu_fail_nomem(error);
	}
	return 0;
}

/* Between creation and lock another run may have taken the file for one that was left. */
static bool lock_created(struct sgpu_output *output, const char *name)
{
	struct stat status;

	if (flock(output->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		return false;
	}
	return fstat(output->fd, &status) == 0 && is_same(output->directory, name, &status);
}

int sgpu_output_name_create(struct sgpu_output *output, mode_t mode, struct sgpu_error *error)
{
	char name[NAME_SIZE];

	for (int attempt = 0; attempt < NAMES_TRIED; attempt++) {
		make_name(attempt, name);
		output->fd = openat(output->directory, name,
				    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (output->fd < 0 && errno != EEXIST) {
			break;
		}
		if (output->fd >= 0 && lock_created(output, name)) {
			return keep_name(output, name, error);
		}
		if (output->fd >= 0) {
			close(output->fd);
			output->fd = -1;
			errno = EEXIST;
		}
	}
	return sgpu_fail_errno(error, "cannot create '%s'", output->path);
}

/* linkat of a file that has no name yet. Without /proc it takes a new kernel, or root. */
static int link_nameless(const struct sgpu_output *output, const char *name)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", output->fd);
	if (linkat(AT_FDCWD, link, output->directory, name, AT_SYMLINK_FOLLOW) == 0) {
		return 0;
	}
	return errno == ENOENT ? linkat(output->fd, "", output->directory, name, AT_EMPTY_PATH)
			       : -1;
}

/* For file systems whose rename cannot refuse to replace, and that may have no links either. */
static int rename_new(const struct sgpu_output *output)
{
	struct stat status;

	if (renameat2(output->directory, output->temporary, output->directory, output->name,
		      RENAME_NOREPLACE) == 0) {
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS) {
		return -1;
	}
	if (linkat(output->directory, output->temporary, output->directory, output->name, 0) == 0) {
		return unlinkat(output->directory, output->temporary, 0);
	}
	if (errno == EEXIST) {
		return -1;
	}
	if (fstatat(output->directory, output->name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EEXIST;
		return -1;
	}
	return renameat(output->directory, output->temporary, output->directory, output->name);
}

static void drop_temporary(struct sgpu_output *output)
{
	free(output->temporary);
	output->temporary = NULL;
}

int sgpu_output_name_give(struct sgpu_output *output, struct sgpu_error *error)
{
	const int result =
		output->temporary ? rename_new(output) : link_nameless(output, output->name);

	if (result && errno == EEXIST) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'%s' exists", output->path);
	}
	if (result) {
		return sgpu_fail_errno(error, "cannot name '%s'", output->path);
	}
	drop_temporary(output);
	return 0;
}

/* Locked before it is linked: a file with that name but without a lock was left behind. */
static int give_temporary(struct sgpu_output *output, struct sgpu_error *error)
{
	char name[NAME_SIZE];

	(void)!flock(output->fd, LOCK_EX | LOCK_NB);
	for (int attempt = 0; attempt < NAMES_TRIED; attempt++) {
		make_name(attempt, name);
		if (link_nameless(output, name) == 0) {
			return keep_name(output, name, error);
		}
		if (errno != EEXIST) {
			break;
		}
	}
	return sgpu_fail_errno(error, "cannot name '%s'", output->path);
}

int sgpu_output_name_replace(struct sgpu_output *output, struct sgpu_error *error)
{
	if (!output->temporary) {
		if (link_nameless(output, output->name) == 0) {
			return 0;
		}
		const int code = errno == EEXIST
					 ? give_temporary(output, error)
					 : sgpu_fail_errno(error, "cannot name '%s'", output->path);
		if (code) {
			return code;
		}
	}
	if (renameat(output->directory, output->temporary, output->directory, output->name)) {
		return sgpu_fail_errno(error, "cannot replace '%s'", output->path);
	}
	drop_temporary(output);
	return 0;
}
