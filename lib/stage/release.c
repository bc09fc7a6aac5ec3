/* SPDX-License-Identifier: Apache-2.0
 *
 * Listing, releasing and reaping regions.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include <stage/region.h>

#include "base/io.h"

enum { PIECE = 1 << 20 };

/* Overwrites a file's data with zeros; holes remain. */
static void wipe_plain(int fd, off_t size)
{
	static const char zeros[PIECE];
	off_t begin = 0, end;

	while (begin < size && (begin = lseek(fd, begin, SEEK_DATA)) >= 0) {
		end = lseek(fd, begin, SEEK_HOLE);
		end = end < 0 ? size : end;
		while (begin < end) {
			size_t piece = end - begin < PIECE ? (size_t)(end - begin) : PIECE;

			if (sgpu_pwrite(fd, "region", zeros, piece, (uint64_t)begin, NULL) < 0) {
				return;
			}
			begin += (off_t)piece;
		}
	}
}

/* Files on huge pages do not support write(2). A page that cannot be populated has no data. */
static void wipe_huge(int fd, off_t size, size_t page)
{
	off_t at;
	void *memory;

	for (at = 0; at + (off_t)page <= size; at += (off_t)page) {
		memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
		if (memory == MAP_FAILED) {
			continue;
		}
		if (madvise(memory, page, MADV_POPULATE_WRITE) == 0) {
			memset(memory, 0, page);
		}
		munmap(memory, page);
	}
}

static void wipe(int fd)
{
	struct stat status;
	struct statfs system;

	if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &status) != 0) {
		return;
	}
	if (fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC) {
		wipe_huge(fd, status.st_size, (size_t)status.st_blksize);
	} else {
		wipe_plain(fd, status.st_size);
	}
}

struct release {
	const char *id;
	bool found;
};

/* Removes anything with this name, even a damaged region or a link: only this user can write to the
 * directory. */
static int release_in(int directory, const char *path, void *argument, struct sgpu_error *error)
{
	struct release *release = argument;
	const int look = openat(directory, release->id, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	const int fd = look < 0 ? -1 : sgpu_look_open(look, O_RDWR);
	int rc = SGPU_OK;

	(void)path;
	if (unlinkat(directory, release->id, 0) == 0) {
		release->found = true;
		if (fd >= 0) {
			wipe(fd);
		}
	} else if (errno != ENOENT) {
		rc = sgpu_fail_errno(error, "cannot release region '%s'", release->id);
	}
	sgpu_close(look);
	sgpu_close(fd);
	return rc;
}

int sgpu_region_release(const char *id, struct sgpu_error *error)
{
	struct release release = { .id = id };
	int rc = sgpu_region_check_id(id, error);

	rc = rc < 0 ? rc : sgpu_stage_each(release_in, &release, error);
	return rc < 0 || release.found
		       ? rc
		       : sgpu_fail(error, SGPU_ESYSTEM, "there is no region '%s'", id);
}

struct listing {
	struct sgpu_region *list;
	int count;
};

static int list_one(int directory, const char *path, const char *name, struct listing *listing,
		    struct sgpu_error *error)
{
	struct sgpu_region *larger, *region;
	struct sgpu_error reason = { 0 };
	struct stat status;
	bool found;
	int rc;

	larger = realloc(listing->list, ((size_t)listing->count + 1) * sizeof(*larger));
	if (!larger) {
		return sgpu_fail_nomem(error);
	}
	listing->list = larger;
	region = &larger[listing->count];
	rc = sgpu_region_open_in(directory, name, false, true, region, &found, &reason);
	if (!found) {
		return SGPU_OK; /* another process released it meanwhile */
	}
	if (rc == SGPU_OK) {
		region->locked =
			region->pages == SGPU_PAGES_HUGE || sgpu_region_is_marked(region->fd);
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
	if (asprintf(&region->path, "%s/%s", path, name) < 0) {
		return sgpu_fail_nomem(error);
	}
	listing->count++;
	return SGPU_OK;
}

static int is_region(const struct dirent *entry)
{
	return sgpu_region_id_valid(entry->d_name);
}

static int list_directory(int directory, const char *path, void *argument, struct sgpu_error *error)
{
	struct dirent **entries = NULL;
	const int count = scandirat(directory, ".", &entries, is_region, NULL);
	int rc = count < 0 ? sgpu_fail_errno(error, "cannot read directory '%s'", path) : SGPU_OK;

	for (int i = 0; i < count; i++) {
		rc = rc ? rc : list_one(directory, path, entries[i]->d_name, argument, error);
		free(entries[i]);
	}
	free(entries);
	return rc;
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
	struct listing listing = { NULL, 0 };
	int rc = sgpu_stage_each(list_directory, &listing, error);

	if (rc < 0) {
		sgpu_region_list_free(&listing.list, listing.count);
		listing.count = 0;
	} else if (listing.count > 1) {
		qsort(listing.list, (size_t)listing.count, sizeof(*listing.list), by_creation);
	}
	*regions = listing.list;
	*count = listing.count;
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
