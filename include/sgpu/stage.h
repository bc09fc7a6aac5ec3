/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged regions: memory files that outlive the program that made them, in $XDG_RUNTIME_DIR/sgpu (0700), from which
 * a runner fetches payloads. A region has an id, an owner and an expiry, and is validated on every use. The side
 * that reads one uses positioned reads, so that a region that is cut short is an error and never a fault.
 */
#ifndef SGPU_STAGE_H
#define SGPU_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <sgpu/batch.h>
#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A region's file starts with a page of metadata: payload byte n is at byte SGPU_REGION_HEADER + n of the file. */
enum { SGPU_REGION_HEADER = 4096 };

enum sgpu_page_kind { SGPU_PAGES_NORMAL, SGPU_PAGES_TRANSPARENT, SGPU_PAGES_HUGE };
const char *sgpu_page_kind_name(enum sgpu_page_kind kind); /* "4 KiB", "transparent huge", "2 MiB huge" */

struct sgpu_region_options {
	int numa_node;        /* -1: none chosen */
	bool no_huge;         /* normal pages only */
	bool keep;            /* stays until released or expired; else the runner that takes it unlinks it */
	uint64_t lifetime_ns; /* until it expires, whole seconds, at most 10 years; 0: one hour */
	bool written;         /* a runner will write to it with pwrite, so no kind of memory that lacks that */
};

struct sgpu_region {
	char id[SGPU_REGION_ID_TEXT + 1];
	uint64_t size;        /* bytes */
	uid_t owner;
	pid_t maker;
	int64_t created, expires; /* seconds since 1970 */
	enum sgpu_page_kind pages;
	int numa_node;        /* -1: not bound */
	bool locked;          /* while it was filled */
	bool sealed;          /* against shrinking */
	bool keep;
	int fd;               /* open descriptor, or -1 in a listing */
	uint8_t *data;        /* until publish: the payload, `size` bytes, mapped; sgpu_region_back before it is touched */
	char *path;           /* of the folder that it is in (a listing: of the file) */
	bool usable;          /* in a listing: passes validation now; if not, `why` says what is wrong */
	bool expired;
	char why[128];
};

/* The folder: $XDG_RUNTIME_DIR/sgpu, else /run/user/UID/sgpu where that folder is, else /dev/shm/sgpu-UID, or
 * /dev/shm/sgpu-UID-XXXXXX where another user has taken that. Made
 * with mode 0700 when absent; refused (SGPU_EPOLICY) when it is not ours alone or is a link. `path` comes from
 * malloc. */
SGPU_MUST_CHECK int sgpu_stage_folder(char **path, struct sgpu_error *error);
/* Whether it is the last of these. */
bool sgpu_stage_folder_is_fallback(const char *path);

/* All folders in which regions may be: the first is that one, made when absent, the others are of huge pages and may not be
 * there. NULL-terminated, from malloc. */
SGPU_MUST_CHECK int sgpu_stage_folders(char ***folders, struct sgpu_error *error);
void sgpu_stage_folders_free(char ***folders);

/* A new region of `size` bytes, open for writing; region->fd is the caller's. Until publish it has no name, so that
 * a killed process leaves nothing. Close without publish gives the memory back. */
SGPU_MUST_CHECK int sgpu_region_create(uint64_t size, const struct sgpu_region_options *options,
				       struct sgpu_region *region, struct sgpu_error *error);
/* Backs [offset, offset + size) of region->data with memory, so that writing there cannot fault; any thread may call
 * it. Errors: SGPU_ENOMEM, SGPU_ESYSTEM (the file system is full). */
SGPU_MUST_CHECK int sgpu_region_back(struct sgpu_region *region, uint64_t offset, uint64_t size,
				     struct sgpu_error *error);
/* Gives it its name, after which it is only read and written through descriptors; region->data is gone. */
SGPU_MUST_CHECK int sgpu_region_publish(struct sgpu_region *region, struct sgpu_error *error);
void sgpu_region_close(struct sgpu_region *region);
/* Overwrites with zeros and unlinks. While a runner still has it open it is only unlinked: what it holds goes with
 * the last descriptor. */
SGPU_MUST_CHECK int sgpu_region_release(const char *id, struct sgpu_error *error);
/* All regions of this user, by their creation, expired and damaged ones included; free with sgpu_region_list_free. */
SGPU_MUST_CHECK int sgpu_region_list(struct sgpu_region **regions, int *count, struct sgpu_error *error);
void sgpu_region_list_free(struct sgpu_region **regions, int count);
/* Releases those that have expired; *count says how many. */
SGPU_MUST_CHECK int sgpu_region_reap(int *count, struct sgpu_error *error);

/* Where a payload is fetched from, once its location was validated; for inline payloads the tar is the source. */
struct sgpu_source {
	int fd;
	uint64_t offset, size;
	bool owned; /* fd is closed by sgpu_source_close */
	char name[128];
};
/* Opens a FILE or REGION location for `size` bytes: kind, bounds and, for a region, the lease are checked; a FILE
 * must be a regular file, anywhere: this is for the owner's side. `take` as sgpu_region_take. */
SGPU_MUST_CHECK int sgpu_source_open(const struct sgpu_location *location, uint64_t size, bool take,
				     struct sgpu_source *source, struct sgpu_error *error);
void sgpu_source_close(struct sgpu_source *source);

/* ---- folders that a runner lets batches fetch from ----
 * Whoever makes a batch chooses the names in it. So they are looked up in these folders alone: an absolute one must
 * begin with a folder's own path, a relative one is tried in each; links, '..' and other mounts are refused, and
 * nothing but regular files is opened. Without folders there are no files. */
struct sgpu_files;
SGPU_MUST_CHECK int sgpu_files_create(struct sgpu_files **files, struct sgpu_error *error);
void sgpu_files_free(struct sgpu_files **files);
/* Opens a folder, once. Errors: SGPU_ESYSTEM; SGPU_EPOLICY when its file system is one of the kernel's (procfs, sysfs,
 * devtmpfs and such). */
SGPU_MUST_CHECK int sgpu_files_allow(struct sgpu_files *files, const char *folder, struct sgpu_error *error);
/* A file that is never fetched, by what fstat says of it, whatever name it has or gets. */
struct stat;
SGPU_MUST_CHECK int sgpu_files_except(struct sgpu_files *files, const struct stat *status, struct sgpu_error *error);
/* The folder that a file lies in or beneath, as it was named, or NULL. */
const char *sgpu_files_above(const struct sgpu_files *files, const char *path);
/* What a name stands for, without opening it. */
SGPU_MUST_CHECK int sgpu_files_look(const struct sgpu_files *files, const char *path, struct stat *status,
				    struct sgpu_error *error);
/* The folders' descriptors (of O_PATH), and how they were named. `files` may be NULL for the count: 0. */
int sgpu_files_count(const struct sgpu_files *files);
int sgpu_files_folder(const struct sgpu_files *files, int index, const char **name);

/* ---- what a runner holds for one batch ----
 * A batch has many payloads in one region, and a region can be taken once. The first use of a region takes it, later
 * ones share its descriptor. Any thread may call. `files` is borrowed, NULL: no payload in a file is fetched
 * (SGPU_EPOLICY). */
struct sgpu_leases;
SGPU_MUST_CHECK int sgpu_leases_create(const struct sgpu_files *files, struct sgpu_leases **leases,
				       struct sgpu_error *error);
/* Closes all; no source from here may be in use. Accepts NULL. */
void sgpu_leases_free(struct sgpu_leases **leases);
/* As sgpu_source_open with take, a FILE only from the folders. A source in a region stays valid until
 * sgpu_leases_free; a FILE is closed by sgpu_source_close, which every source may be given. writable: for outputs,
 * REGION only, and the region must be one that is kept (SGPU_EPOLICY). */
SGPU_MUST_CHECK int sgpu_leases_source(struct sgpu_leases *leases, const struct sgpu_location *location,
				       uint64_t size, bool writable, struct sgpu_source *source,
				       struct sgpu_error *error);

/* ---- this machine, for sgpu-stage info ---- */
/* The folder's file system, "tmpfs", and whether it is in memory; a region elsewhere works, but what is LOW is then
 * written to a disk. *available: bytes, UINT64_MAX when it has no limit. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_stage_file_system(const char *folder, const char **name, bool *in_memory,
					   uint64_t *available, struct sgpu_error *error);
/* Mounts of hugetlbfs. */
struct sgpu_huge_mount {
	char *path;
	uint64_t page_size, total, free; /* bytes, pages, pages */
	bool writable;                   /* by this process */
};
SGPU_MUST_CHECK int sgpu_huge_mounts(struct sgpu_huge_mount **mounts, int *count, struct sgpu_error *error);
void sgpu_huge_mounts_free(struct sgpu_huge_mount **mounts, int count);
/* Whether files in a folder get transparent huge pages on request: that is a matter of how its tmpfs is mounted.
 * *setting is the mount's word, "huge=advise", or the kernel's, where that overrules it. */
bool sgpu_shmem_huge(const char *folder, char setting[32]);
/* NUMA nodes that have memory; 0 when this build or this machine cannot tell. Unit: bytes. */
struct sgpu_numa_node {
	int node;
	uint64_t total, free;
};
SGPU_MUST_CHECK int sgpu_numa_nodes(struct sgpu_numa_node **nodes, int *count, struct sgpu_error *error);
/* Bytes that may be locked; UINT64_MAX: no limit. */
uint64_t sgpu_lock_limit(void);

#ifdef __cplusplus
}
#endif
#endif
