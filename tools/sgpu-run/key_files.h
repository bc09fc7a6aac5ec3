/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that secrets of the runner are read from: once, before the first batch. After that
 * nothing gets at them.
 */
#ifndef SGPU_RUN_KEY_FILES_H
#define SGPU_RUN_KEY_FILES_H

#include <stdbool.h>
#include <sys/stat.h>

#include <sgpu/stage.h>

enum { KEY_FILES_MAX = 72 };

struct key_files {
	struct {
		struct stat status;
		char *path; /* without links; NULL: it came by a descriptor */
	} list[KEY_FILES_MAX];
	int count;
};

/* Notes the file of a key, as -k takes one, before it is read. No batch gets it from `files` (may
 * be NULL): one that lies in there is refused (SGPU_EUSAGE), and other names of it are never
 * fetched. One that the run could read once it is confined, in `state` (may be NULL) for one, is
 * refused as well (SGPU_EPOLICY). What is no file is left to whoever loads it. */
SGPU_MUST_CHECK int key_files_note(struct key_files *keys, const char *key,
				   struct sgpu_files *files, const char *state,
				   struct sgpu_error *error);

/* Whether a file is that of a key, whatever its name is. */
bool key_files_have(const struct key_files *keys, const struct stat *status);

/* Closes every descriptor of them but `kept`, inherited ones too. */
void key_files_close(const struct key_files *keys, int kept);

void key_files_clear(struct key_files *keys);

#endif
