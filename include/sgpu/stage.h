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

enum sgpu_page_kind { SGPU_PAGES_NORMAL, SGPU_PAGES_TRANSPARENT, SGPU_PAGES_HUGE };
const char *sgpu_page_kind_name(enum sgpu_page_kind kind); /* "4 KiB", "transparent huge", "2 MiB huge" */

struct sgpu_region_options {
	int numa_node;        /* -1: none chosen */
	bool no_huge;         /* normal pages only */
	bool keep;            /* stays until released or expired; else the runner that takes it unlinks it */
	uint64_t lifetime_ns; /* until it expires; 0: one hour */
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
};

/* The folder: $XDG_RUNTIME_DIR/sgpu, else /run/user/UID/sgpu where that folder is, else /dev/shm/sgpu-UID. Made
 * with mode 0700 when absent; refused (SGPU_EPOLICY) when it is not ours alone or is a link. `path` comes from
 * malloc. */
SGPU_MUST_CHECK int sgpu_stage_folder(char **path, struct sgpu_error *error);

/* A new region of `size` bytes, open for writing; region->fd is the caller's. Until publish it has no name, so that
 * a killed process leaves nothing. Close without publish gives the memory back. */
SGPU_MUST_CHECK int sgpu_region_create(uint64_t size, const struct sgpu_region_options *options,
				       struct sgpu_region *region, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_region_publish(struct sgpu_region *region, struct sgpu_error *error);
/* Opens by id after validation: the id's form, owner, mode, kind, size, expiry. Errors: SGPU_EINVALID (form),
 * SGPU_EPOLICY (owner, mode, expired), SGPU_ESYSTEM (absent). */
SGPU_MUST_CHECK int sgpu_region_open(const char *id, bool writable, struct sgpu_region *region,
				     struct sgpu_error *error);
/* A runner's way to open: as above, and unlinks it unless it is to be kept, so that nothing is left however the
 * runner ends. */
SGPU_MUST_CHECK int sgpu_region_take(const char *id, bool writable, struct sgpu_region *region,
				     struct sgpu_error *error);
void sgpu_region_close(struct sgpu_region *region);
/* Overwrites with zeros and unlinks. */
SGPU_MUST_CHECK int sgpu_region_release(const char *id, struct sgpu_error *error);
/* All regions of this user, expired ones included, from malloc. */
SGPU_MUST_CHECK int sgpu_region_list(struct sgpu_region **regions, int *count, struct sgpu_error *error);
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
 * must be a regular file. `take` as sgpu_region_take. */
SGPU_MUST_CHECK int sgpu_source_open(const struct sgpu_location *location, uint64_t size, bool take,
				     struct sgpu_source *source, struct sgpu_error *error);
void sgpu_source_close(struct sgpu_source *source);

#ifdef __cplusplus
}
#endif
#endif
