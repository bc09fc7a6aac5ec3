/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <sgpu/base.h>

#include <stage/region.h>

#include "base/io.h"

enum { PIECE = 1 << 20 };

/* Overwrites a file's data with zeros, unless somebody has it open; holes remain. */
static void wipe(int fd)
{
	static const char zeros[PIECE];
	struct stat status;
	off_t begin = 0, end;

	if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &status) != 0) {
		return;
	}
	while (begin < status.st_size && (begin = lseek(fd, begin, SEEK_DATA)) >= 0) {
		end = lseek(fd, begin, SEEK_HOLE);
		end = end < 0 ? status.st_size : end;
		while (begin < end) {
			size_t piece = end - begin < PIECE ? (size_t)(end - begin) : PIECE;

			if (sgpu_pwrite(fd, "region", zeros, piece, (uint64_t)begin, NULL) < 0) {
				return;
			}
			begin += (off_t)piece;
		}
	}
}

/* Removes anything with this name, even a damaged region or a link: only this user can write to the
 * directory. */
int sgpu_region_release(const char *id, struct sgpu_error *error)
{
	char *path = NULL;
	int directory = -1, look = -1, fd = -1, rc = sgpu_region_check_id(id, error);

	rc = rc ? rc : sgpu_stage_open_directory(&path, &directory, error);
	if (rc == SGPU_OK) {
		look = openat(directory, id, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		fd = look < 0 ? -1 : sgpu_look_open(look, O_RDWR);
		rc = unlinkat(directory, id, 0) == 0 ? SGPU_OK
		     : errno == ENOENT
			     ? sgpu_fail(error, SGPU_ESYSTEM, "there is no region '%s'", id)
			     : sgpu_fail_errno(error, "cannot release region '%s'", id);
	}
	if (rc == SGPU_OK && fd >= 0) {
		wipe(fd);
	}
	sgpu_close(fd);
	sgpu_close(look);
	sgpu_close(directory);
	free(path);
	return rc;
}

/* Describes a region, even one that no runner would take. */
static int describe(int directory, const char *path, const char *name, struct sgpu_region *region,
		    bool *found, struct sgpu_error *error)
{
	struct sgpu_error reason = { 0 };
	struct stat status;
	const int rc = sgpu_region_open_in(directory, name, false, true, region, found, &reason);

	if (rc == SGPU_OK) {
		close(region->fd);
		snprintf(region->why, sizeof(region->why), "%s",
			 region->expired ? "it has expired" : "");
	} else {
		memset(region, 0, sizeof(*region));
		memcpy(region->id, name, sizeof(region->id));
		region->numa_node = -1;
		snprintf(region->why, sizeof(region->why), "%.127s", reason.text);
		if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
			region->size = (uint64_t)status.st_size;
			region->owner = status.st_uid;
			region->created = status.st_mtime;
		}
	}
	region->fd = -1;
	if (*found && asprintf(&region->path, "%s/%s", path, name) < 0) {
		return sgpu_fail_nomem(error);
	}
	return SGPU_OK;
}

static int is_region(const struct dirent *entry)
{
	return sgpu_region_id_valid(entry->d_name);
}

static int by_creation(const void *a, const void *b)
{
	const struct sgpu_region *left = a, *right = b;

	if (left->created != right->created) {
		return left->created < right->created ? -1 : 1;
	}
	return strcmp(left->id, right->id);
}

int sgpu_region_list(struct sgpu_region **regions, int *count, struct sgpu_error *error)
{
	struct dirent **entries = NULL;
	char *path = NULL;
	int directory, found = 0, rc = sgpu_stage_open_directory(&path, &directory, error);

	*regions = NULL;
	*count = 0;
	if (rc == SGPU_OK) {
		found = scandirat(directory, ".", &entries, is_region, NULL);
		*regions = calloc((size_t)(found < 0 ? 0 : found) + 1, sizeof(**regions));
		rc = found < 0	 ? sgpu_fail_errno(error, "cannot read directory '%s'", path)
		     : !*regions ? sgpu_fail_nomem(error)
				 : SGPU_OK;
	}
	for (int i = 0; i < found; i++) {
		bool there = false;

		rc = rc ? rc
			: describe(directory, path, entries[i]->d_name, &(*regions)[*count], &there,
				   error);
		*count += !rc && there; /* another process may release it meanwhile */
		free(entries[i]);
	}
	free(entries);
	sgpu_close(directory);
	free(path);
	if (rc < 0) {
		sgpu_region_list_free(regions, *count);
		*count = 0;
	} else {
		qsort(*regions, (size_t)*count, sizeof(**regions), by_creation);
	}
	return rc;
}

void sgpu_region_list_free(struct sgpu_region **regions, int count)
{
	int i;

	for (i = 0; *regions && i < count; i++) {
		free((*regions)[i].path);
	}
	free(*regions);
	*regions = NULL;
}

int sgpu_region_reap(int *count, struct sgpu_error *error)
{
	struct sgpu_region *list = NULL;
	int listed = 0, reaped = 0, rc = sgpu_region_list(&list, &listed, error);

	for (int i = 0; i < listed; i++) {
		reaped += list[i].expired && sgpu_region_release(list[i].id, NULL) == SGPU_OK;
	}
	sgpu_region_list_free(&list, listed);
	if (count) {
		*count = reaped;
	}
	return rc;
}
