/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files that appear only on success. Linux cannot link a file over another, so a replacement
 * briefly has a temporary name; without O_TMPFILE, every output has one from the start. A process
 * locks its temporary file. One without a lock was left by a killed process, and the next output
 * there removes it. All processes try the same first names, so that such files are found without a
 * search.
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

#include "base/io.h"
#include "base/base.h"

enum { COMMON_NAMES = 16, NAMES_TRIED = 100, NAME_SIZE = 64 };

static void make_name(int attempt, char name[NAME_SIZE])
{
	if (attempt < COMMON_NAMES) {
		snprintf(name, NAME_SIZE, ".sgpu-%d", attempt);
	} else {
		snprintf(name, NAME_SIZE, ".sgpu-%ld-%llx", (long)getpid(),
			 (unsigned long long)sgpu_now_ns());
	}
}

/* Locks the file. Returns whether we hold the lock on the user's own file of that name. */
static bool lock_own(int fd, int directory, const char *name)
{
	struct stat file, named;

	return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
	       flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	       fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       named.st_dev == file.st_dev && named.st_ino == file.st_ino;
}

/* Removes this user's temporary files that no living process holds. */
static void collect(int directory)
{
	char name[NAME_SIZE];

	for (int i = 0; i < COMMON_NAMES; i++) {
		make_name(i, name);
		if (faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW)) {
			return; /* names are taken in order, so there are no more */
		}
		/* Opened for writing, since locks on NFS need that. */
		const int fd = openat(directory, name,
				      O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0 && lock_own(fd, directory, name)) {
			unlinkat(directory, name, 0);
		}
		sgpu_close(fd);
	}
}

/* Gives a nameless file a name. Without /proc, this needs Linux 6.10 or root. */
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

/* Makes a file of a temporary name, or links the nameless file to it. */
static int take_name(struct sgpu_output *output, mode_t mode, struct sgpu_error *error)
{
	const bool is_new = output->fd < 0;
	char name[NAME_SIZE];

	for (int attempt = 0; attempt < NAMES_TRIED; attempt++) {
		make_name(attempt, name);
		if (is_new) {
			output->fd =
				openat(output->directory, name,
				       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		} else {
			(void)!flock(output->fd, LOCK_EX | LOCK_NB);
		}
		if (is_new ? output->fd < 0 : link_nameless(output, name) != 0) {
			if (errno != EEXIST) {
				break;
			}
			continue;
		}
		/* Before the lock, another process may have removed the file as a leftover. */
		if (!is_new || lock_own(output->fd, output->directory, name)) {
			output->temporary = strdup(name);
			if (!output->temporary) {
				unlinkat(output->directory, name, 0);
			}
			return output->temporary ? 0 : sgpu_fail_nomem(error);
		}
		close(output->fd);
		output->fd = -1;
		errno = EEXIST;
	}
	return sgpu_fail_errno(error, "cannot create '%s'", output->path);
}

static int exists(const struct sgpu_output *output, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_ESYSTEM, "'%s' exists", output->path);
}

/* Renames to the final name, which must be free. NFS lacks RENAME_NOREPLACE, but it has links. */
static int rename_new(const struct sgpu_output *output)
{
	const int directory = output->directory;

	if (renameat2(directory, output->temporary, directory, output->name, RENAME_NOREPLACE) ==
	    0) {
		return 0;
	}
	return (errno == EINVAL || errno == ENOSYS) &&
			       linkat(directory, output->temporary, directory, output->name, 0) == 0
		       ? unlinkat(directory, output->temporary, 0)
		       : -1;
}

static int give_name(struct sgpu_output *output, struct sgpu_error *error)
{
	int result = output->temporary ? -1 : link_nameless(output, output->name);

	if (!output->temporary && result != 0 && errno == EEXIST && !output->is_new) {
		const int rc = take_name(output, 0, error);
		if (rc) {
			return rc;
		}
	}
	if (output->temporary) {
		result = output->is_new ? rename_new(output)
					: renameat(output->directory, output->temporary,
						   output->directory, output->name);
	}
	if (result != 0) {
		return errno == EEXIST ? exists(output, error)
				       : sgpu_fail_errno(error, "cannot name '%s'", output->path);
	}
	free(output->temporary);
	output->temporary = NULL;
	return 0;
}

/* ---- the output ---- */
int sgpu_output_set_mode(struct sgpu_output *output, mode_t mode, struct sgpu_error *error)
{
	if (!output->regular) {
		return 0;
	}
	/* The umask can only be read by setting it: to the strictest, since other threads may make
	 * files meanwhile. */
	const mode_t mask = umask(0077);

	umask(mask);
	mode = mode == 0600		? mode
	       : output->kept_mode >= 0 ? (mode_t)output->kept_mode
					: mode & ~mask;
	return fchmod(output->fd, mode)
		       ? sgpu_fail_errno(error, "cannot set the mode of '%s'", output->path)
		       : 0;
}

/* Opens a pipe or device by the descriptor that the walk judged, not by its path again. */
static int open_special(struct sgpu_output *output, int found, struct sgpu_error *error)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
	output->fd = open(link, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	return output->fd < 0 ? sgpu_fail_errno(error, "cannot open '%s'", output->path) : 0;
}

/* Duplicates the descriptor that the path names; both share a position. */
static int open_descriptor(struct sgpu_output *output, int descriptor, struct sgpu_error *error)
{
	const int flags = fcntl(descriptor, F_GETFL);

	if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) {
		errno = EBADF;
	} else if (flags >= 0) {
		output->fd = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	return output->fd < 0 ? sgpu_fail_write(error, output->path) : 0;
}

/* Takes over the walk's name and directory. */
static int open_regular(struct sgpu_output *output, struct sgpu_walk *walk, mode_t mode,
			struct sgpu_error *error)
{
	const struct stat *status = &walk->status;
	int rc = 0;

	if (walk->found >= 0 && output->is_new) {
		return exists(output, error);
	}
	output->regular = true;
	output->name = walk->name;
	walk->name = NULL;
	/* Syncing the name needs the directory open for reading; if that is denied, the name is not
	 * synced. */
	output->directory = openat(walk->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (output->directory < 0) {
		output->directory = walk->directory;
		walk->directory = -1;
	}
	/* Only the mode of the user's own file, with a single link, is kept: that of another file
	 * could let others read. */
	if (walk->found >= 0 && status->st_uid == geteuid() && status->st_nlink == 1) {
		output->kept_mode = (int)(status->st_mode & 0777);
	}
	collect(output->directory);
	output->fd = openat(output->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (output->fd < 0) {
		rc = take_name(output, mode, error);
	}
	return rc || mode == 0600 || output->kept_mode < 0
		       ? rc
		       : sgpu_output_set_mode(output, mode, error);
}

static int open_found(struct sgpu_output *output, struct sgpu_walk *walk, mode_t mode,
		      struct sgpu_error *error)
{
	const bool there = walk->found >= 0;

	if (walk->descriptor >= 0) {
		return open_descriptor(output, walk->descriptor, error);
	}
	if (there && walk->is_beneath && !S_ISREG(walk->status.st_mode)) {
		return sgpu_fail(error, SGPU_EPOLICY, "'%s' is there and is not a regular file",
				 walk->shown);
	}
	if (there && S_ISDIR(walk->status.st_mode)) {
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot write '%s': it is a directory",
				 output->path);
	}
	return there && !S_ISREG(walk->status.st_mode) ? open_special(output, walk->found, error)
						       : open_regular(output, walk, mode, error);
}

static int open_walked(struct sgpu_output *output, struct sgpu_walk *walk, const char *path,
		       mode_t mode, bool is_new, struct sgpu_error *error)
{
	*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
	output->is_new = is_new;
	output->path = strdup(walk->shown);
	int rc = output->path ? sgpu_output_walk(walk, path, error) : sgpu_fail_nomem(error);
	rc = rc ? rc : open_found(output, walk, mode, error);
	output->made = sgpu_output_walk_end(walk);
	if (rc) {
		sgpu_output_close(output);
	}
	return rc;
}

int sgpu_output_open(struct sgpu_output *output, const char *path, mode_t mode, bool is_new,
		     struct sgpu_error *error)
{
	const bool is_standard = !strcmp(path, "-");
	struct sgpu_walk walk = { SGPU_WALK_INIT, .shown = is_standard ? "standard output" : path,
				  .mode = mode == 0600 ? 0700 : 0777 };

	return open_walked(output, &walk, is_standard ? "/dev/stdout" : path, mode, is_new, error);
}

int sgpu_output_open_beneath(struct sgpu_output *output, int root, const char *path,
			     const char *shown, mode_t mode, bool is_new, struct sgpu_error *error)
{
	struct sgpu_walk walk = { SGPU_WALK_INIT, .shown = shown, .mode = 0700,
				  .is_beneath = true };

	walk.directory = fcntl(root, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (walk.directory < 0) { /* the walk would begin in the working directory */
		*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
		return sgpu_fail_errno(error, "cannot open the directory of '%s'", shown);
	}
	return open_walked(output, &walk, path, mode, is_new, error);
}

int sgpu_output_commit(struct sgpu_output *output, struct sgpu_error *error)
{
	/* A full disk may be reported only at close, and standard output is not ours to close, so
	 * fsync reports it now where the file supports fsync. */
	if (!output->unsynced && fsync(output->fd) &&
	    (output->regular || (errno != EINVAL && errno != EROFS && errno != ENOTSUP))) {
		return sgpu_fail_write(error, output->path);
	}
	const int rc = output->regular ? give_name(output, error) : 0;
	if (rc) {
		return rc;
	}
	if (output->regular && !output->unsynced) {
		/* The name must survive a crash, too, but not all file systems can sync it. */
		(void)!fsync(output->directory);
	}
	sgpu_output_made_clear(&output->made, true);
	sgpu_output_close(output);
	return 0;
}

int sgpu_output_remove_older(struct sgpu_output *output, bool *removed, struct sgpu_error *error)
{
	*removed = output->regular && unlinkat(output->directory, output->name, 0) == 0;
	if (output->regular && !*removed && errno != ENOENT) {
		return sgpu_fail_errno(error, "cannot remove the older '%s'", output->path);
	}
	if (*removed) {
		(void)!fsync(output->directory);
	}
	return SGPU_OK;
}

void sgpu_output_close(struct sgpu_output *output)
{
	if (output->temporary && output->directory >= 0) {
		unlinkat(output->directory, output->temporary, 0);
	}
	if (output->fd > STDERR_FILENO) {
		close(output->fd);
	}
	sgpu_close(output->directory);
	sgpu_output_made_clear(&output->made, false);
	free(output->temporary);
	free(output->name);
	free(output->path);
	*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
}

int sgpu_output_directory_open(struct sgpu_output_directory *directory, const char *path,
			       mode_t mode, struct sgpu_error *error)
{
	struct sgpu_walk walk = { SGPU_WALK_INIT, .shown = path, .mode = mode, .whole = true };
	int rc = sgpu_output_walk(&walk, path, error);

	*directory = (struct sgpu_output_directory)SGPU_OUTPUT_DIRECTORY_INIT;
	if (!rc) {
		directory->fd = openat(walk.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = directory->fd < 0 ? sgpu_fail_errno(error, "cannot open directory '%s'", path)
				       : 0;
	}
	directory->made = sgpu_output_walk_end(&walk);
	if (rc) {
		sgpu_output_directory_close(directory, false);
	}
	return rc;
}

void sgpu_output_directory_close(struct sgpu_output_directory *directory, bool keep)
{
	sgpu_output_made_clear(&directory->made, keep);
	sgpu_close(directory->fd);
	*directory = (struct sgpu_output_directory)SGPU_OUTPUT_DIRECTORY_INIT;
}
