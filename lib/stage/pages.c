/* SPDX-License-Identifier: Apache-2.0
 *
 * What huge pages the kernel says there are, and how much may be locked.
 */
#include <inttypes.h>
#include <linux/capability.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
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
	mount->total = pool_number(mount->page_size, "nr_hugepages");
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

/* CAP_IPC_LOCK lifts the limit. */
uint64_t sgpu_lock_limit(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct all[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	struct rlimit limit = { .rlim_cur = 0 };

	(void)getrlimit(RLIMIT_MEMLOCK, &limit);
	return limit.rlim_cur == RLIM_INFINITY || (syscall(SYS_capget, &header, all) == 0 &&
						   (all[0].effective >> CAP_IPC_LOCK & 1))
		       ? UINT64_MAX
		       : limit.rlim_cur;
}

/* Reads the kernel's setting, and returns whether it overrules mount options, as "deny" and "force"
 * do. Its other words concern memory files. */
static bool kernel_overrules(char setting[32])
{
	char line[128];

	(void)sgpu_peek_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", line,
			     sizeof(line));
	snprintf(setting, 32, "%.31s", line);
	return strcmp(setting, "deny") == 0 || strcmp(setting, "force") == 0;
}

bool sgpu_stage_memory_huge(void)
{
	char setting[32];

	(void)kernel_overrules(setting);
	return strcmp(setting, "always") == 0 || strcmp(setting, "advise") == 0 ||
	       strcmp(setting, "force") == 0 || strcmp(setting, "within_size") == 0;
}

/* Gets "huge=..." from a line of mountinfo; if absent, "huge=never", the kernel's default. */
static void huge_option(char *line, char setting[32])
{
	char *options = strrchr(line, ' '), *option, *rest = NULL;

	snprintf(setting, 32, "huge=never");
	for (option = options ? strtok_r(options, " ,\n", &rest) : NULL; option;
	     option = strtok_r(NULL, " ,\n", &rest)) {
		if (strncmp(option, "huge=", 5) == 0) {
			snprintf(setting, 32, "%.31s", option);
		}
	}
}

bool sgpu_shmem_huge(const char *directory, char setting[32])
{
	FILE *file;
	struct stat status;
	char line[8192];
	unsigned major_number, minor_number;
	bool found = false;

	if (kernel_overrules(setting)) {
		return strcmp(setting, "force") == 0;
	}
	snprintf(setting, 32, "unknown");
	file = stat(directory, &status) == 0 ? fopen("/proc/self/mountinfo", "re") : NULL;
	while (file && !found && fgets(line, sizeof(line), file)) {
		found = sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) == 2 &&
			makedev(major_number, minor_number) == status.st_dev &&
			strstr(line, " - tmpfs ");
	}
	if (file) {
		fclose(file);
	}
	if (found) {
		huge_option(line, setting);
	}
	return found && strcmp(setting, "huge=never") != 0;
}
