/* SPDX-License-Identifier: Apache-2.0
 *
 * What huge pages the kernel says there are.
 */
#include <inttypes.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/base.h"
#include "stage/region.h"

char *sgpu_stage_huge_directory(const char *mount)
{
	char *path = NULL;

	return asprintf(&path, "%s/sgpu-%lu", mount, (unsigned long)geteuid()) < 0 ? NULL : path;
}

/* Whether this user could make regions in a mount: in a directory that exists or can be made. */
static bool can_write(const char *mount)
{
	char *directory = sgpu_stage_huge_directory(mount);
	bool can = directory &&
		   (access(directory, W_OK | X_OK) == 0 || access(mount, W_OK | X_OK) == 0);

	free(directory);
	return can;
}

static uint64_t pool_number(uint64_t page_size, const char *file)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/%s",
		 page_size / 1024, file);
	(void)sgpu_peek(path, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

static int describe(const char *path, struct sgpu_huge_mount *mount, struct sgpu_error *error)
{
	struct statfs status;
	uint64_t reserved;

	memset(mount, 0, sizeof(*mount));
	if (statfs(path, &status) != 0) {
		return SGPU_OK;
	}
	mount->path = strdup(path);
	if (!mount->path) {
		return sgpu_fail_nomem(error);
	}
	mount->page_size = (uint64_t)status.f_bsize;
	mount->free = pool_number(mount->page_size, "free_hugepages");
	reserved = pool_number(mount->page_size, "resv_hugepages");
	mount->free -= reserved < mount->free ? reserved : mount->free;
	/* A mount may have its own limit; if it has none, the kernel reports 0 blocks. */
	if (status.f_blocks > 0 && (uint64_t)status.f_bavail < mount->free) {
		mount->free = (uint64_t)status.f_bavail;
	}
	mount->writable = can_write(path);
	return SGPU_OK;
}

int sgpu_huge_mounts(struct sgpu_huge_mount **mounts, int *count, struct sgpu_error *error)
{
	FILE *file = setmntent("/proc/self/mounts", "re");
	struct sgpu_huge_mount *list = NULL, *larger;
	struct mntent entry;
	char text[8192];
	int used = 0, rc = SGPU_OK;

	while (file && rc == SGPU_OK && getmntent_r(file, &entry, text, sizeof(text))) {
		if (strcmp(entry.mnt_type, "hugetlbfs") != 0) {
			continue;
		}
		larger = realloc(list, ((size_t)used + 1) * sizeof(*list));
		if (!larger) {
			rc = sgpu_fail_nomem(error);
			break;
		}
		list = larger;
		rc = describe(entry.mnt_dir, &list[used], error);
		if (list[used].path) {
			used++;
		}
	}
	if (file) {
		endmntent(file);
	}
	if (rc < 0) {
		sgpu_huge_mounts_free(&list, used);
		used = 0;
	}
	*mounts = list;
	*count = used;
	return rc;
}

void sgpu_huge_mounts_free(struct sgpu_huge_mount **mounts, int count)
{
	int i;

	for (i = 0; *mounts && i < count; i++) {
		free((*mounts)[i].path);
	}
	free(*mounts);
	*mounts = NULL;
}

enum { SETTING = 128 };

/* Reads the kernel's setting. Its words "deny" and "force" overrule mount options; the others
 * concern memory files. */
static void kernel_setting(char setting[SETTING])
{
	(void)sgpu_peek_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", setting, SETTING);
}

bool sgpu_stage_memory_huge(void)
{
	char setting[SETTING];

	kernel_setting(setting);
	return strcmp(setting, "always") == 0 || strcmp(setting, "advise") == 0 ||
	       strcmp(setting, "force") == 0 || strcmp(setting, "within_size") == 0;
}

/* Whether the mount options, at the end of a line of mountinfo, ask for huge pages; "huge=never" is
 * the kernel's default. */
static bool has_huge_option(const char *line)
{
	const char *options = strrchr(line, ' '),
		   *option = options ? strstr(options, "huge=") : NULL;

	return option && strncmp(option, "huge=never", 10) != 0;
}

bool sgpu_shmem_huge(const char *directory)
{
	FILE *file;
	struct stat status;
	char line[8192], setting[SETTING];
	unsigned major_number, minor_number;
	bool found = false;

	kernel_setting(setting);
	if (strcmp(setting, "deny") == 0 || strcmp(setting, "force") == 0) {
		return strcmp(setting, "force") == 0;
	}
	file = stat(directory, &status) == 0 ? fopen("/proc/self/mountinfo", "re") : NULL;
	while (file && !found && fgets(line, sizeof(line), file)) {
		found = sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) == 2 &&
			makedev(major_number, minor_number) == status.st_dev &&
			strstr(line, " - tmpfs ");
	}
	if (file) {
		fclose(file);
	}
	return found && has_huge_option(line);
}
