/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SGPU_STAGE_REGION_H
#define SGPU_STAGE_REGION_H

#include <sys/stat.h>

#include "stage/lease.h"
#include "stage/stage.h"

/* seconds */
#define SGPU_REGION_LIFE_MAX ((uint64_t)3660 * 86400)

/* ---- open.c: the first page of a region's file: a line of canonical JSON, then zeros ---- */
SGPU_MUST_CHECK int sgpu_region_encode(const struct sgpu_region *region,
				       char page[SGPU_REGION_HEADER], struct sgpu_error *error);
/* Decodes an untrusted page; fills in what it has, and -1 for fd. */
bool sgpu_region_decode(const char page[SGPU_REGION_HEADER], struct sgpu_region *region);
/* Whether an id is 32 lower-case hexadecimal digits; if not, check_id returns SGPU_EINVALID. */
bool sgpu_region_id_valid(const char *id);
SGPU_MUST_CHECK int sgpu_region_check_id(const char *id, struct sgpu_error *error);
/* *file_size: a region's header and payload, in whole pages. False: too large. */
bool sgpu_region_file_size(uint64_t size, uint64_t *file_size);

/* ---- directory.c ---- */
/* As sgpu_stage_directory, and opens the directory. Both are the caller's. */
SGPU_MUST_CHECK int sgpu_stage_open_directory(char **path, int *directory,
					      struct sgpu_error *error);

/* ---- open.c ---- */
/* Opens and validates `id` in an open directory. expired_too: an expired region is accepted.
 * *found: whether the file exists. */
SGPU_MUST_CHECK int sgpu_region_open_in(int directory, const char *id, bool writable,
					bool expired_too, struct sgpu_region *region, bool *found,
					struct sgpu_error *error);

void sgpu_region_unmap(struct sgpu_region *region);

/* ---- files.c ---- */
/* Opens the file of an O_PATH descriptor, by /proc. Returns -1 with errno; EINVAL if it is not a
 * regular file: opening a watchdog or a terminal has side effects, and opening a pipe waits. */
int sgpu_look_open(int look, int flags);
/* Opens a regular file by a location's path. `files` NULL: no file may be opened. */
SGPU_MUST_CHECK int sgpu_files_open(const struct sgpu_files *files, const char *path, int *fd,
				    struct sgpu_error *error);

#endif
