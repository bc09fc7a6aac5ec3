/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files that make outputs: the place of an output, reached only by descriptors.
 */
#ifndef SGPU_BASE_OUTPUT_PLACE_H
#define SGPU_BASE_OUTPUT_PLACE_H

#include <sys/stat.h>

#include <sgpu/io.h>

/* A directory that was made on the way. */
struct sgpu_output_made {
	int directory; /* the one that it was made in */
	char *name;
};

struct output_place {
	int descriptor;	    /* one of this process's own, if the path names that; else -1 */
	int directory;	    /* of the last component */
	char *name;	    /* the last component, from malloc */
	int found;	    /* O_PATH descriptor of what has that name, or -1 */
	struct stat status; /* of it */
	struct sgpu_output_made *made;
	int made_count;
};

#define OUTPUT_PLACE_INIT                                      \
	{                                                      \
		.descriptor = -1, .directory = -1, .found = -1 \
	}

/* Walks to the place, and makes the directories that are missing. Refuses (SGPU_EPOLICY) what
 * another user may have put there. The caller clears `place` in any case; the directories that were
 * made stay, see sgpu_output_made_clear. */
SGPU_MUST_CHECK int sgpu_output_place_find(const char *path, mode_t directory_mode,
					   struct output_place *place, struct sgpu_error *error);
/* The same for a directory: all components are on the way, and place->directory is the last one. */
SGPU_MUST_CHECK int sgpu_output_place_directory(const char *path, mode_t directory_mode,
						struct output_place *place,
						struct sgpu_error *error);
/* Walks to a place beneath an open directory, see sgpu_output_open_beneath. Links are not followed:
 * a link with the last name is what was found. `shown` is for messages. */
SGPU_MUST_CHECK int sgpu_output_place_beneath(int root, const char *path, const char *shown,
					      mode_t directory_mode, struct output_place *place,
					      struct sgpu_error *error);
/* Calls mkdirat in place->directory and records the new directory. An existing directory is no
 * error. */
SGPU_MUST_CHECK int sgpu_output_place_make(struct output_place *place, const char *name,
					   mode_t mode, const char *shown,
					   struct sgpu_error *error);
void sgpu_output_place_clear(struct output_place *place);

/* Frees the list; removes the directories that are empty unless they are kept. */
void sgpu_output_made_clear(struct sgpu_output_made **made, int *count, bool keep);

#endif
