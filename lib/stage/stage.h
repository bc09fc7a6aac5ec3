/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged regions: memory files in $XDG_RUNTIME_DIR/sgpu (0700) that outlive their makers, and from
 * which a runner fetches payloads. A region is validated at each use; one that is cut short causes
 * an error in its reader, never a crash. */
#ifndef SGPU_STAGE_STAGE_H
#define SGPU_STAGE_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <sgpu/batch.h>
#include <sgpu/error.h>

/* In a region's file, a page of metadata precedes the payload. */
enum { SGPU_REGION_HEADER = 4096 };
#define SGPU_REGION_MAX ((uint64_t)1 << 50) /* bytes */

/* What a region is for, as a set. */
enum sgpu_region_use { SGPU_REGION_INPUTS = 1, SGPU_REGION_RESULTS = 2 };
const char *sgpu_region_use_name(
	unsigned use); /* "inputs", "results", "both"; "-" of an empty set */

struct sgpu_region_options {
	unsigned use;  /* 0: inputs. A region for results, where a runner writes, is kept. */
	int numa_node; /* -1: no node */
	bool keep;     /* stays until released or expired; else a runner that takes it unlinks it */
	uint64_t lifetime_ns; /* rounded up to seconds; up to 10 years; 0: 1 hour */
};

struct sgpu_region {
	char id[SGPU_REGION_ID_TEXT + 1];
	uint64_t size; /* bytes */
	uid_t owner;
	pid_t maker;
	int64_t created, expires; /* seconds since 1970 */
	unsigned use;
	int numa_node; /* -1: not bound */
	bool keep;
	int fd;			    /* -1 in a listing */
	uint8_t *data;		    /* until publish: the mapped payload; see sgpu_region_back */
	uint64_t file_size;	    /* until publish: of the mapping */
	struct sgpu_output *output; /* until publish: gives the file its name */
	char *path;		    /* the directory's (in a listing: the file's) */
	bool expired;
	char why[128]; /* in a listing: what is wrong; "": it is valid now */
};

/* The directory of the regions: $XDG_RUNTIME_DIR/sgpu, else /run/user/UID/sgpu if /run/user/UID
 * exists, else /dev/shm/sgpu-UID; made if missing. SGPU_EPOLICY if it is a link or another user's,
 * or others have rights on it. *path: from malloc. */
SGPU_MUST_CHECK int sgpu_stage_directory(char **path, struct sgpu_error *error);
/* *in_memory: if false, LOW data are written to a disk. *available: bytes, UINT64_MAX if there is
 * no limit. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_stage_file_system(const char *directory, bool *in_memory,
					   uint64_t *available, struct sgpu_error *error);

/* Makes a region, open for writing; the caller owns region->fd. It has no name until publish: if it
 * is closed or the process ends before, nothing is left. */
SGPU_MUST_CHECK int sgpu_region_create(uint64_t size, const struct sgpu_region_options *options,
				       struct sgpu_region *region, struct sgpu_error *error);
/* Backs [offset, offset + size) of region->data with memory; otherwise writing there may fault. Any
 * thread. Errors: SGPU_ENOMEM, SGPU_ESYSTEM (the file system is full). */
SGPU_MUST_CHECK int sgpu_region_back(struct sgpu_region *region, uint64_t offset, uint64_t size,
				     struct sgpu_error *error);
/* Names the region and unmaps region->data; from then on the region is used through descriptors. */
SGPU_MUST_CHECK int sgpu_region_publish(struct sgpu_region *region, struct sgpu_error *error);
void sgpu_region_close(struct sgpu_region *region);
/* Opens a region and validates all of it. Errors: SGPU_EINVALID (form of the id), SGPU_EPOLICY
 * (owner, mode, expired), SGPU_EUNAVAILABLE (absent), SGPU_ESYSTEM. take: unlinks the region unless
 * it is kept, so that none is left however the runner ends. */
SGPU_MUST_CHECK int sgpu_region_open(const char *id, bool writable, bool take,
				     struct sgpu_region *region, struct sgpu_error *error);
/* Unlinks a region, and zeroes it unless a runner has it open; its memory is then freed when the
 * runner closes it. */
SGPU_MUST_CHECK int sgpu_region_release(const char *id, struct sgpu_error *error);
/* In order of creation, even expired and damaged ones. */
SGPU_MUST_CHECK int sgpu_region_list(struct sgpu_region **regions, int *count,
				     struct sgpu_error *error);
void sgpu_region_list_free(struct sgpu_region **regions, int count);
SGPU_MUST_CHECK int sgpu_region_reap(int *count, struct sgpu_error *error);

/* Where a payload is; not for inline payloads. */
struct sgpu_source {
	int fd;
	uint64_t offset, size;
	bool owned; /* sgpu_source_close closes fd */
	char name[128];
};
/* Opens a FILE or REGION location for `size` bytes on the owner's side; checks bounds and a
 * region's validity. A FILE may be any regular file. */
SGPU_MUST_CHECK int sgpu_source_open(const struct sgpu_location *location, uint64_t size,
				     struct sgpu_source *source, struct sgpu_error *error);
void sgpu_source_close(struct sgpu_source *source);

/* Opens part of a REGION for inputs, for its owner's programs to fill. Errors: as sgpu_region_open.
 */
SGPU_MUST_CHECK int sgpu_slice_open(const struct sgpu_location *location, uint64_t size,
				    struct sgpu_source *slice, struct sgpu_error *error);

/* ---- directories from which a runner fetches files ----
 * The maker of a batch chooses file names, so files are opened in these directories alone: an
 * absolute name must begin with a directory's own path, a relative one is tried in each. Links,
 * '..', other mounts and files that are not regular are refused. */
struct sgpu_files;
SGPU_MUST_CHECK int sgpu_files_create(struct sgpu_files **files, struct sgpu_error *error);
void sgpu_files_free(struct sgpu_files **files);
/* Adds a directory, which stays open. Errors: SGPU_ESYSTEM; SGPU_EPOLICY if its file system is one
 * of the kernel's (procfs, sysfs, devtmpfs and such). */
SGPU_MUST_CHECK int sgpu_files_allow(struct sgpu_files *files, const char *directory,
				     struct sgpu_error *error);
/* Excludes a file, under any name, by its identity from fstat. */
struct stat;
SGPU_MUST_CHECK int sgpu_files_except(struct sgpu_files *files, const struct stat *status,
				      struct sgpu_error *error);
/* Inspects a file without opening it. */
SGPU_MUST_CHECK int sgpu_files_look(const struct sgpu_files *files, const char *path,
				    struct stat *status, struct sgpu_error *error);
/* The number of directories (0 for NULL), and a directory's descriptor (O_PATH) and name. */
int sgpu_files_count(const struct sgpu_files *files);
int sgpu_files_directory(const struct sgpu_files *files, int index, const char **name);

/* ---- the regions and files of one batch ----
 * A region can be taken once and may hold many payloads: the first use takes it, later uses share
 * its descriptor. For any thread. `files` is borrowed; NULL: files are refused (SGPU_EPOLICY). */
struct sgpu_sources;
SGPU_MUST_CHECK int sgpu_sources_create(const struct sgpu_files *files,
					struct sgpu_sources **sources, struct sgpu_error *error);
/* Closes everything; no source of this batch may be in use. Accepts NULL. */
void sgpu_sources_free(struct sgpu_sources **sources);
/* Checks that the region could be opened and has these bytes; takes and reads nothing. */
SGPU_MUST_CHECK int sgpu_region_check(const struct sgpu_location *location, uint64_t size,
				      bool writable, struct sgpu_error *error);
/* As sgpu_source_open, but takes a region that is not kept, and opens a FILE only in allowed
 * directories. A source in a region is valid until sgpu_sources_free; sgpu_source_close accepts it.
 * writable: for outputs. A REGION must be for this use (SGPU_EPOLICY). */
SGPU_MUST_CHECK int sgpu_sources_open(struct sgpu_sources *sources,
				      const struct sgpu_location *location, uint64_t size,
				      bool writable, struct sgpu_source *source,
				      struct sgpu_error *error);

#endif
