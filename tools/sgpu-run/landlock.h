/* SPDX-License-Identifier: Apache-2.0
 *
 * What the runner may open once everything of its own is open: files of the system, folders of
 * --files, regions, and names for its outputs; and what the process that signs its quotes may. So a
 * fault in it gets at no key file, nor at anything else of its user.
 */
#ifndef SGPU_RUN_LANDLOCK_H
#define SGPU_RUN_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include <sgpu/io.h>
#include <sgpu/stage.h>

enum { LANDLOCK_FOLDERS_MAX = 8, LANDLOCK_REPORTS_MAX = 2 };

/* A directory that is open. */
struct landlock_directory {
	int fd;
	bool moves; /* files in it are renamed from one directory to another, too, and directories
		       are removed */
};

struct landlock_needs {
	const struct sgpu_files *files; /* to be read, or NULL */
	const struct sgpu_output
		*outputs[LANDLOCK_FOLDERS_MAX]; /* open: what they need to get their names */
	int output_count;
	const char *states[LANDLOCK_FOLDERS_MAX]; /* folders to be read and written */
	int state_count;
	struct landlock_directory directories[LANDLOCK_FOLDERS_MAX]; /* to be read and written */
	int directory_count;
	char *const *inputs; /* files to be read */
	size_t input_count;
	bool gpu;
	bool bare; /* nothing of the system, and no regions */
	bool tpm;
	const char *reports[LANDLOCK_REPORTS_MAX]; /* folders in which the platform makes reports;
						      NULL: none */
};

/* The kernel's version of Landlock; 0: none, or this build or SGPU_DEBUG does without. */
int landlock_version(void);

/* The folder that a run may read and that holds `path`, or NULL: no key may lie there. state: a
 * folder of its own, or NULL. */
const char *landlock_above(const char *path, const char *state);

/* From then on no thread of the process opens anything else. Errors: SGPU_EUNAVAILABLE, if the
 * kernel has no Landlock, or one that knows no moves where they are needed: nothing is confined.
 * SGPU_ESYSTEM and SGPU_ENOMEM: it has, but threads may not be confined. */
SGPU_MUST_CHECK int landlock_confine(const struct landlock_needs *needs, struct sgpu_error *error);

#endif
