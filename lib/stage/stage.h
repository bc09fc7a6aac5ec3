/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged regions: memory files in $XDG_RUNTIME_DIR/sgpu (0700) that outlive the program that made
 * them, and from which a runner fetches payloads. A region is validated at each use. One that is
 * cut short causes an error in its reader, never a crash. */
#ifndef SGPU_STAGE_STAGE_H
#define SGPU_STAGE_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <sgpu/batch.h>
#include <sgpu/error.h>

/* A region's file starts with a page of metadata: payload byte n is at byte SGPU_REGION_HEADER + n
 * of the file. */
enum { SGPU_REGION_HEADER = 4096 };

enum sgpu_page_kind { SGPU_PAGES_NORMAL, SGPU_PAGES_TRANSPARENT, SGPU_PAGES_HUGE };
const char *sgpu_page_kind_name(
	enum sgpu_page_kind kind); /* "4 KiB", "transparent huge", "2 MiB huge" */

struct sgpu_region_options {
	int numa_node; /* -1: none chosen */
	bool no_huge;  /* only normal pages */
	bool keep;     /* stays until released or expired; else a runner that takes it unlinks it */
	uint64_t lifetime_ns; /* until it expires, whole seconds, at most 10 years; 0: one hour */
	bool written;	      /* a runner writes to it: no memory without pwrite */
};

struct sgpu_region {
	char id[SGPU_REGION_ID_TEXT + 1];
	uint64_t size; /* bytes */
	uid_t owner;
	pid_t maker;
	int64_t created, expires; /* seconds since 1970 */
	enum sgpu_page_kind pages;
	int numa_node; /* -1: not bound */
	bool sealed;   /* against shrinking */
	bool keep;
	int fd;	       /* open descriptor, or -1 in a listing */
	uint8_t *data; /* until publish: the mapped payload; sgpu_region_back comes before touching
			  it */
	struct sgpu_output *output; /* until publish: to give it its name */
	char *path;		    /* of its directory (in a listing: of the file) */
	bool usable; /* in a listing: it passes validation now; if not, `why` says what is wrong */
	bool expired;
	char why[128];
};

/* The directory of the regions: $XDG_RUNTIME_DIR/sgpu, else /run/user/UID/sgpu if /run/user/UID
 * exists, else /dev/shm/sgpu-UID, or /dev/shm/sgpu-UID-XXXXXX if another user has that name. Made
 * if missing; SGPU_EPOLICY if it is a link or others have rights on it. *path: from malloc. */
SGPU_MUST_CHECK int sgpu_stage_directory(char **path, struct sgpu_error *error);
/* Whether the path is the last of these. */
bool sgpu_stage_directory_is_fallback(const char *path);

/* All directories in which regions may be, NULL-terminated: that of sgpu_stage_directory, then
 * those for huge pages, which may be missing. */
SGPU_MUST_CHECK int sgpu_stage_directories(char ***directories, struct sgpu_error *error);
void sgpu_stage_directories_free(char ***directories);

/* Makes a region of `size` bytes, open for writing; region->fd is the caller's. It has no name
 * until publish: closed before, or by the end of the process, it leaves nothing. */
SGPU_MUST_CHECK int sgpu_region_create(uint64_t size, const struct sgpu_region_options *options,
				       struct sgpu_region *region, struct sgpu_error *error);
/* Backs [offset, offset + size) of region->data with memory, so that writing there cannot fault.
 * Any thread. Errors: SGPU_ENOMEM, SGPU_ESYSTEM (the file system is full). */
SGPU_MUST_CHECK int sgpu_region_back(struct sgpu_region *region, uint64_t offset, uint64_t size,
				     struct sgpu_error *error);
/* Gives the region its name and unmaps region->data: from then on there are descriptors. */
SGPU_MUST_CHECK int sgpu_region_publish(struct sgpu_region *region, struct sgpu_error *error);
void sgpu_region_close(struct sgpu_region *region);
/* Unlinks a region and overwrites it with zeros, unless a runner has it open: its memory is freed
 * with the last descriptor. */
SGPU_MUST_CHECK int sgpu_region_release(const char *id, struct sgpu_error *error);
/* All regions of this user in the order of creation, also expired and damaged ones. */
SGPU_MUST_CHECK int sgpu_region_list(struct sgpu_region **regions, int *count,
				     struct sgpu_error *error);
void sgpu_region_list_free(struct sgpu_region **regions, int count);
/* Releases all expired regions; *count receives their number. */
SGPU_MUST_CHECK int sgpu_region_reap(int *count, struct sgpu_error *error);

/* The place of a payload whose location has been validated; not of an inline one. */
struct sgpu_source {
	int fd;
	uint64_t offset, size;
	bool owned; /* sgpu_source_close closes fd */
	char name[128];
};
/* Opens a FILE or REGION location for `size` bytes, for the owner's side: checks bounds and a
 * region's validity. A FILE may be any regular file. */
SGPU_MUST_CHECK int sgpu_source_open(const struct sgpu_location *location, uint64_t size,
				     struct sgpu_source *source, struct sgpu_error *error);
void sgpu_source_close(struct sgpu_source *source);

/* ---- directories from which a runner fetches files ----
 * The maker of a batch chooses names, so they are looked up in these directories alone: an absolute
 * one begins with a directory's own path, a relative one is tried in each. Links, '..' and other
 * mounts are refused; only regular files are opened. */
struct sgpu_files;
SGPU_MUST_CHECK int sgpu_files_create(struct sgpu_files **files, struct sgpu_error *error);
void sgpu_files_free(struct sgpu_files **files);
/* Opens a directory, once. Errors: SGPU_ESYSTEM; SGPU_EPOLICY if its file system is one of the
 * kernel's (procfs, sysfs, devtmpfs and such). */
SGPU_MUST_CHECK int sgpu_files_allow(struct sgpu_files *files, const char *directory,
				     struct sgpu_error *error);
/* Excludes a file by its identity from fstat, under any name. */
struct stat;
SGPU_MUST_CHECK int sgpu_files_except(struct sgpu_files *files, const struct stat *status,
				      struct sgpu_error *error);
/* Returns the directory that contains a path, as it was named, or NULL. */
const char *sgpu_files_above(const struct sgpu_files *files, const char *path);
/* Looks at the file of a name without opening it. */
SGPU_MUST_CHECK int sgpu_files_look(const struct sgpu_files *files, const char *path,
				    struct stat *status, struct sgpu_error *error);
/* The directories' number (0 for NULL), and their descriptors (O_PATH) and names. */
int sgpu_files_count(const struct sgpu_files *files);
int sgpu_files_directory(const struct sgpu_files *files, int index, const char **name);

/* ---- the regions and files of one batch ----
 * A region can be taken once and hold many payloads: the first use takes it, later ones share its
 * descriptor. Any thread. `files` is borrowed; NULL: no payload in a file is fetched
 * (SGPU_EPOLICY). */
struct sgpu_leases;
SGPU_MUST_CHECK int sgpu_leases_create(const struct sgpu_files *files, struct sgpu_leases **leases,
				       struct sgpu_error *error);
/* Closes everything; no source from here may be in use. Accepts NULL. */
void sgpu_leases_free(struct sgpu_leases **leases);
/* As sgpu_source_open, but takes (unlinks) a region that is not to be kept, and opens a FILE only
 * from the directories. A source in a region is valid until sgpu_leases_free; sgpu_source_close
 * accepts it. writable: for outputs, in a REGION that is kept (SGPU_EPOLICY). */
SGPU_MUST_CHECK int sgpu_leases_source(struct sgpu_leases *leases,
				       const struct sgpu_location *location, uint64_t size,
				       bool writable, struct sgpu_source *source,
				       struct sgpu_error *error);

/* ---- this machine, for sgpu-stage info ---- */
/* The directory's file system, "tmpfs", and whether it is in memory: elsewhere LOW data are written
 * to a disk. *available: bytes, UINT64_MAX without a limit. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_stage_file_system(const char *directory, const char **name,
					   bool *in_memory, uint64_t *available,
					   struct sgpu_error *error);
/* Mounts of hugetlbfs. */
struct sgpu_huge_mount {
	char *path;
	uint64_t page_size, total, free; /* bytes, pages, pages */
	bool writable;			 /* by this process */
};
SGPU_MUST_CHECK int sgpu_huge_mounts(struct sgpu_huge_mount **mounts, int *count,
				     struct sgpu_error *error);
void sgpu_huge_mounts_free(struct sgpu_huge_mount **mounts, int count);
/* Whether files in a directory get transparent huge pages on request. setting: the mount option of
 * its tmpfs, "huge=advise", or the kernel's setting if that overrules it. */
bool sgpu_shmem_huge(const char *directory, char setting[32]);
/* Lists the NUMA nodes with memory; none if this build or this machine cannot tell. Unit: bytes. */
struct sgpu_numa_node {
	int node;
	uint64_t total, free;
};
SGPU_MUST_CHECK int sgpu_numa_nodes(struct sgpu_numa_node **nodes, int *count,
				    struct sgpu_error *error);
/* Binds a mapping to a node before it is touched. Errors: SGPU_EUNAVAILABLE, SGPU_EUSAGE (no such
 * node). */
SGPU_MUST_CHECK int sgpu_numa_bind(void *data, uint64_t size, int node, struct sgpu_error *error);

#endif
