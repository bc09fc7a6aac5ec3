/* SPDX-License-Identifier: Apache-2.0
 *
 * The directories of the regions. Only this user may have rights on them; otherwise another user
 * could put a region under a name that a runner trusts.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include <sgpu/base.h>

#include <stage/region.h>

#define SHARED_MEMORY "/dev/shm"

static bool is_own_directory(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

/* Returns "sgpu-UID", or, if that is another user's, the first "sgpu-UID-XXXXXX" of ours, so that
 * all calls find the same directory. Does not follow links: a user who can plant a directory can
 * also plant a link. */
static char *look_in_memory(void)
{
	char usual[64], pattern[80], *path = NULL;
	struct stat status;
	glob_t found = { 0 };
	bool there, taken;

	snprintf(usual, sizeof(usual), SHARED_MEMORY "/sgpu-%lu", (unsigned long)geteuid());
	there = lstat(usual, &status) == 0;
	taken = there && status.st_uid != geteuid();
	if (there && !taken) {
		return strdup(usual);
	}
	snprintf(pattern, sizeof(pattern), "%s-*", usual);
	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && !path; i++) {
		if (lstat(found.gl_pathv[i], &status) == 0 && S_ISDIR(status.st_mode) &&
		    status.st_uid == geteuid() && (status.st_mode & 0077) == 0) {
			path = strdup(found.gl_pathv[i]);
		}
	}
	globfree(&found);
	if (path || !taken) {
		return path ? path : strdup(usual);
	}
	snprintf(pattern, sizeof(pattern), "%s-XXXXXX", usual);
	return mkdtemp(pattern) ? strdup(pattern) : NULL;
}

bool sgpu_stage_directory_is_fallback(const char *path)
{
	char fallback[64];

	snprintf(fallback, sizeof(fallback), SHARED_MEMORY "/sgpu-%lu-", (unsigned long)geteuid());
	return strncmp(path, fallback, strlen(fallback)) == 0;
}

/* Returns /dev/shm/sgpu-UID, or, if another user has that name, a directory with a random name. The
 * random name is remembered, since a runner may not list directories later. */
static char *choose_in_memory(void)
{
	static char chosen[sizeof(SHARED_MEMORY) + NAME_MAX + 1];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	char *path = NULL;

	pthread_mutex_lock(&lock);
	if (chosen[0]) {
		path = strdup(chosen);
	} else {
		path = look_in_memory();
		if (path && sgpu_stage_directory_is_fallback(path)) {
			snprintf(chosen, sizeof(chosen), "%s", path);
		}
	}
	pthread_mutex_unlock(&lock);
	return path;
}

/* Chooses by the rule in stage.h. The path is from malloc. */
static char *choose_directory(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char *path = NULL, user[64];
	int length = 0;

	snprintf(user, sizeof(user), "/run/user/%lu", (unsigned long)geteuid());
	if (runtime && runtime[0] == '/') {
		length = asprintf(&path, "%s/sgpu", runtime);
	} else if (is_own_directory(user)) {
		length = asprintf(&path, "%s/sgpu", user);
	} else {
		path = choose_in_memory();
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
		return sgpu_fail(error, SGPU_EPOLICY, "directory '%s' belongs to another user",
				 path);
	}
	if ((status.st_mode & 0077) != 0) {
		sgpu_fail(error, SGPU_EPOLICY, "directory '%s' has mode %04o, others could use it",
			  path, (unsigned)status.st_mode & 07777);
		sgpu_hint(error, "chmod 0700 '%s'", path);
		return SGPU_EPOLICY;
	}
	return SGPU_OK;
}

int sgpu_stage_open_directory(const char *path, bool make, int *directory, struct sgpu_error *error)
{
	int rc;

	*directory = -1;
	if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
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

int sgpu_stage_directory(char **path, struct sgpu_error *error)
{
	int directory = -1, rc;

	*path = choose_directory();
	if (!*path) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_stage_open_directory(*path, true, &directory, error);
	if (rc < 0) {
		free(*path);
		*path = NULL;
		return rc;
	}
	close(directory);
	return SGPU_OK;
}

void sgpu_stage_directories_free(char ***directories)
{
	size_t i;

	for (i = 0; *directories && (*directories)[i]; i++) {
		free((*directories)[i]);
	}
	free(*directories);
	*directories = NULL;
}

int sgpu_stage_directories(char ***directories, struct sgpu_error *error)
{
	struct sgpu_huge_mount *mounts = NULL;
	int count = 0, rc, i, used = 0;

	*directories = NULL;
	rc = sgpu_huge_mounts(&mounts, &count, error);
	if (rc < 0) {
		return rc;
	}
	*directories = calloc((size_t)count + 2, sizeof(char *));
	rc = *directories ? sgpu_stage_directory(&(*directories)[used], error)
			  : sgpu_fail_nomem(error);
	for (i = 0; rc == SGPU_OK && i < count; i++) {
		(*directories)[++used] = sgpu_stage_huge_directory(mounts[i].path);
		if (!(*directories)[used]) {
			rc = sgpu_fail_nomem(error);
		}
	}
	sgpu_huge_mounts_free(&mounts, count);
	if (rc < 0) {
		sgpu_stage_directories_free(directories);
	}
	return rc;
}

int sgpu_stage_each(int (*visit)(int directory, const char *path, void *argument,
				 struct sgpu_error *error),
		    void *argument, struct sgpu_error *error)
{
	char **directories = NULL;
	int directory, rc = sgpu_stage_directories(&directories, error);

	for (int i = 0; rc == SGPU_OK && directories[i]; i++) {
		if (sgpu_stage_open_directory(directories[i], false, &directory, NULL) == SGPU_OK) {
			rc = visit(directory, directories[i], argument, error);
			close(directory);
		}
	}
	sgpu_stage_directories_free(&directories);
	return rc;
}

int sgpu_stage_file_system(const char *directory, const char **name, bool *in_memory,
			   uint64_t *available, struct sgpu_error *error)
{
	static const struct {
		unsigned long magic;
		const char *name;
		bool in_memory;
	} kinds[] = {
		{ TMPFS_MAGIC, "tmpfs", true },
		{ RAMFS_MAGIC, "ramfs", true },
		{ HUGETLBFS_MAGIC, "hugetlbfs", true },
		{ EXT4_SUPER_MAGIC, "ext4", false },
		{ XFS_SUPER_MAGIC, "xfs", false },
		{ BTRFS_SUPER_MAGIC, "btrfs", false },
		{ OVERLAYFS_SUPER_MAGIC, "overlay", false },
		{ NFS_SUPER_MAGIC, "nfs", false },
	};
	struct statfs status;
	size_t i;

	if (statfs(directory, &status) != 0) {
		return sgpu_fail_errno(error, "cannot inspect the file system of '%s'", directory);
	}
	*name = "unknown";
	*in_memory = false;
	/* A tmpfs without a limit reports 0 blocks. */
	*available = status.f_blocks == 0 ? UINT64_MAX
					  : (uint64_t)status.f_bavail * (uint64_t)status.f_bsize;
	for (i = 0; i < SGPU_ARRAY_LENGTH(kinds); i++) {
		if ((unsigned long)status.f_type == kinds[i].magic) {
			*name = kinds[i].name;
			*in_memory = kinds[i].in_memory;
		}
	}
	return SGPU_OK;
}
