/* SPDX-License-Identifier: Apache-2.0
 *
 * Listing, releasing and reaping regions.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>

#include <stage/region.h>

#include "base/io.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PIECE = 1 << 20 };

/* Zeros over what a file holds; its holes stay holes. */
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

/* Huge pages do not support write(2). A page that cannot be mapped now holds nothing. */
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
	const char *kind;
	bool in_memory;
	uint64_t room;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &status) != 0 ||
	    !S_ISREG(status.st_mode)) {
		return;
	}
	if (sgpu_stage_file_system(path, &kind, &in_memory, &room, NULL) == SGPU_OK &&
	    strcmp(kind, "hugetlbfs") == 0) {
		wipe_huge(fd, status.st_size, (size_t)status.st_blksize);
	} else {
		wipe_plain(fd, status.st_size);
	}
}

/* Anything with this name is removed, including damaged regions and links: only this user can write
 * to the directory. */
static int release_in(int directory, const char *name, bool *found, struct sgpu_error *error)
{
	int fd = sgpu_look_open_name(directory, name, O_RDWR), code = SGPU_OK;

	*found = true;
	if (unlinkat(directory, name, 0) != 0) {
		*found = errno != ENOENT;
		code = sgpu_fail_errno(error, "cannot release region '%s'", name);
	}
	if (fd >= 0) {
		if (code == SGPU_OK) {
			wipe(fd);
		}
		close(fd);
	}
	return code;
}

int sgpu_region_release(const char *id, struct sgpu_error *error)
{
	char **directories = NULL;
	bool found = false;
	int directory, code, i;

	if (!sgpu_region_id_valid(id)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%.64s' is no region: an id is %d lower-case hexadecimal digits",
				 id, SGPU_REGION_ID_TEXT);
	}
	code = sgpu_stage_directories(&directories, error);
	for (i = 0; code == SGPU_OK && directories[i] && !found; i++) {
		if (sgpu_stage_open_directory(directories[i], false, &directory, NULL) == SGPU_OK) {
			code = release_in(directory, id, &found, error);
			code = found ? code : SGPU_OK;
			close(directory);
		}
	}
	sgpu_stage_directories_free(&directories);
	if (code == SGPU_OK && !found) {
		code = sgpu_fail(error, SGPU_ESYSTEM, "there is no region '%s'", id);
	}
	return code;
}

/* Calls visit for every name in a directory that regions use; it is no fault when there is no such
 * directory. */
static int each_name(const char *path,
		     int (*visit)(int directory, const char *path, const char *name,
				  void *argument),
		     void *argument, struct sgpu_error *error)
{
	struct dirent *entry;
	int directory, code = SGPU_OK;
	DIR *stream;

	if (sgpu_stage_open_directory(path, false, &directory, NULL) < 0) {
		return SGPU_OK;
	}
	stream = fdopendir(directory);
	if (!stream) {
		close(directory);
		return sgpu_fail_nomem(error);
	}
	while (code == SGPU_OK && (entry = readdir(stream))) {
		code = visit(directory, path, entry->d_name, argument);
	}
	closedir(stream);
	return code < 0 ? sgpu_fail_nomem(error) : SGPU_OK;
}

static int each(int (*visit)(int directory, const char *path, const char *name, void *argument),
		void *argument, struct sgpu_error *error)
{
	char **directories = NULL;
	int i, code = sgpu_stage_directories(&directories, error);

	for (i = 0; code == SGPU_OK && directories[i]; i++) {
		code = each_name(directories[i], visit, argument, error);
	}
	sgpu_stage_directories_free(&directories);
	return code;
}

static int reap_one(int directory, const char *path, const char *name, void *argument)
{
	struct sgpu_region region;
	bool found, dead = false;
	int fd;

	(void)path;
	if (sgpu_region_id_valid(name)) {
		if (sgpu_region_open_in(directory, name, false, true, &region, &found, NULL) ==
		    SGPU_OK) {
			dead = region.expired;
			sgpu_region_close(&region);
		}
	} else if (strncmp(name, "new-", 4) == 0 && sgpu_region_id_valid(name + 4)) {
		/* Its maker holds a lock as long as it lives. */
		fd = sgpu_look_open_name(directory, name, O_RDONLY);
		dead = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
		if (fd >= 0) {
			close(fd);
		}
	}
	if (dead && release_in(directory, name, &found, NULL) == SGPU_OK) {
		++*(int *)argument;
	}
	return SGPU_OK;
}

int sgpu_region_reap(int *count, struct sgpu_error *error)
{
	int ignored;

	count = count ? count : &ignored;
	*count = 0;
	return each(reap_one, count, error);
}

struct listing {
	struct sgpu_region *list;
	int count;
};

static int list_one(int directory, const char *path, const char *name, void *argument)
{
	struct listing *listing = argument;
	struct sgpu_region *larger, *region;
	struct sgpu_error reason = { 0 };
	struct stat status;
	bool found;
	int code;

	if (!sgpu_region_id_valid(name)) {
		return SGPU_OK;
	}
	larger = realloc(listing->list, ((size_t)listing->count + 1) * sizeof(*larger));
	if (!larger) {
		return SGPU_ENOMEM;
	}
	listing->list = larger;
	region = &larger[listing->count];
	code = sgpu_region_open_in(directory, name, false, true, region, &found, &reason);
	if (!found) {
		return SGPU_OK; /* released since the name was read */
	}
	if (code == SGPU_OK) {
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
		region->path = NULL;
		return SGPU_ENOMEM;
	}
	listing->count++;
	return SGPU_OK;
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
	int code = each(list_one, &listing, error);

	if (code < 0) {
		sgpu_region_list_free(&listing.list, listing.count);
		listing.count = 0;
	} else if (listing.count > 1) {
		qsort(listing.list, (size_t)listing.count, sizeof(*listing.list), by_creation);
	}
	*regions = listing.list;
	*count = listing.count;
	return code;
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
