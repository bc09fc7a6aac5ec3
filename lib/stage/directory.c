/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of the regions. Only this user may have rights on it; otherwise another user
 * could put a region under a name that a runner trusts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include <sgpu/base.h>

#include <stage/region.h>

#include "base/io.h"

static bool is_own_directory(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

/* The rule is in stage.h. */
static char *choose_directory(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char *path = NULL, user[64];
	int length;

	snprintf(user, sizeof(user), "/run/user/%lu", (unsigned long)geteuid());
	if (runtime && runtime[0] == '/') {
		length = asprintf(&path, "%s/sgpu", runtime);
	} else if (is_own_directory(user)) {
		length = asprintf(&path, "%s/sgpu", user);
	} else {
		length = asprintf(&path, "/dev/shm/sgpu-%lu", (unsigned long)geteuid());
	}
	return length < 0 ? NULL : path;
}

static int check_directory(int directory, const char *path, struct sgpu_error *error)
{
	struct stat status;

	if (fstat(directory, &status) != 0) {
		return sgpu_fail_errno(error, "cannot inspect directory '%s'", path);
	}
	if (status.st_uid != geteuid()) {
		sgpu_fail(error, SGPU_EPOLICY, "directory '%s' belongs to another user", path);
		sgpu_hint(error, "set XDG_RUNTIME_DIR to a directory of yours");
		return SGPU_EPOLICY;
	}
	if ((status.st_mode & 0077) != 0) {
		sgpu_fail(error, SGPU_EPOLICY, "directory '%s' has mode %04o, others could use it",
			  path, (unsigned)status.st_mode & 07777);
		sgpu_hint(error, "chmod 0700 '%s'", path);
		return SGPU_EPOLICY;
	}
	return SGPU_OK;
}

static int open_directory(const char *path, int *directory, struct sgpu_error *error)
{
	int rc;

	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		sgpu_fail_errno(error, "cannot make directory '%s'", path);
		sgpu_hint(error, "set XDG_RUNTIME_DIR to a directory of yours");
		return SGPU_ESYSTEM;
	}
	*directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*directory < 0 && (errno == ELOOP || errno == ENOTDIR)) {
		return sgpu_fail(error, SGPU_EPOLICY, "'%s' is a link or no directory", path);
	}
	if (*directory < 0 && errno == EACCES) { /* as a confined process gets it */
		return sgpu_fail(error, SGPU_EPOLICY, "cannot open directory '%s': %s", path,
				 strerror(errno));
	}
	if (*directory < 0) {
		return sgpu_fail_errno(error, "cannot open directory '%s'", path);
	}
	rc = check_directory(*directory, path, error);
	if (rc < 0) {
		close(*directory);
		*directory = -1;
	}
	return rc;
}

int sgpu_stage_open_directory(char **path, int *directory, struct sgpu_error *error)
{
	int rc;

	*directory = -1;
	*path = choose_directory();
	rc = *path ? open_directory(*path, directory, error) : sgpu_fail_nomem(error);
	if (rc < 0) {
		free(*path);
		*path = NULL;
	}
	return rc;
}

int sgpu_stage_directory(char **path, struct sgpu_error *error)
{
	int directory, rc = sgpu_stage_open_directory(path, &directory, error);

	sgpu_close(directory);
	return rc;
}

int sgpu_stage_file_system(const char *directory, bool *in_memory, uint64_t *available,
			   struct sgpu_error *error)
{
	struct statfs status;

	if (statfs(directory, &status) != 0) {
		return sgpu_fail_errno(error, "cannot inspect the file system of '%s'", directory);
	}
	*in_memory = status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
	/* A tmpfs without a limit reports 0 blocks. */
	*available = status.f_blocks == 0 ? UINT64_MAX
					  : (uint64_t)status.f_bavail * (uint64_t)status.f_bsize;
	return SGPU_OK;
}
