/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged regions: what the files of this part share.
 */
#ifndef SGPU_STAGE_REGION_H
#define SGPU_STAGE_REGION_H

#include <sys/stat.h>

#include "stage/lease.h"
#include "stage/stage.h"

/* Longest life of a region, seconds. */
#define SGPU_REGION_LIFE_MAX ((uint64_t)3660 * 86400)

/* ---- open.c: the first page of a region's file: a line of canonical JSON, then zeros ---- */
SGPU_MUST_CHECK int sgpu_region_encode(const struct sgpu_region *region,
				       char page[SGPU_REGION_HEADER], struct sgpu_error *error);
/* The inverse, for untrusted bytes; fills everything except fd, data and path. */
bool sgpu_region_decode(const char page[SGPU_REGION_HEADER], struct sgpu_region *region);
/* 32 lower-case hexadecimal digits. Errors: SGPU_EINVALID. */
bool sgpu_region_id_valid(const char *id);
SGPU_MUST_CHECK int sgpu_region_check_id(const char *id, struct sgpu_error *error);
/* Bytes of the file of a region: header and payload in whole pages. False when that is out of
 * range. */
bool sgpu_region_file_size(uint64_t size, uint64_t page_size, uint64_t *file_size);

/* ---- directory.c ---- */
/* Opens, or with `make` makes, a directory of regions, on which only this user may have rights. */
SGPU_MUST_CHECK int sgpu_stage_open_directory(const char *path, bool make, int *directory,
					      struct sgpu_error *error);

/* Calls visit for each directory of regions that is there and this user's, until it fails. */
SGPU_MUST_CHECK int sgpu_stage_each(int (*visit)(int directory, const char *path, void *argument,
						 struct sgpu_error *error),
				    void *argument, struct sgpu_error *error);

/* ---- pages.c ---- */
/* "MOUNT/sgpu-UID", from malloc, or NULL. */
char *sgpu_stage_huge_directory(const char *mount);
/* Whether a memory file gets transparent huge pages on request. */
bool sgpu_stage_memory_huge(void);

/* ---- open.c ---- */
/* Opens `id` in an open directory and validates all of it; with expired_too expiry is no fault.
 * *found: whether there was such a file at all. */
SGPU_MUST_CHECK int sgpu_region_open_in(int directory, const char *id, bool writable,
					bool expired_too, struct sgpu_region *region, bool *found,
					struct sgpu_error *error);

/* ---- files.c ---- */
/* Opens the file that an O_PATH descriptor names, with /proc; EINVAL if it is no regular one, for
 * opening a watchdog, a tape or a terminal has effects, and opening a pipe waits. -1 with errno. */
int sgpu_look_open(int look, int flags);
/* Opens a regular file by a location's path. `files` may be NULL: then nothing is. */
SGPU_MUST_CHECK int sgpu_files_open(const struct sgpu_files *files, const char *path, int *fd,
				    struct sgpu_error *error);

/* Opens a region by id and validates all of it. Errors: SGPU_EINVALID (form of the id),
 * SGPU_EPOLICY (owner, mode, expired), SGPU_ESYSTEM (absent). take: for a runner, unlinks the
 * region unless it is to be kept, so that nothing is left however the runner ends. */
SGPU_MUST_CHECK int sgpu_region_open(const char *id, bool writable, bool take,
				     struct sgpu_region *region, struct sgpu_error *error);

#endif
