/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the spool.
 */
#ifndef SGPU_RUN_SPOOL_PRIVATE_H
#define SGPU_RUN_SPOOL_PRIVATE_H

#include <dirent.h>

#include "claims.h"
#include "spool.h"

/* Opens what others chose, without links, waiting and effects; -1 with errno. Closing accepts -1.
 */
int spool_open_file(int directory, const char *name);
void spool_close_file(int fd);

/* Names that were read and not looked at yet. */
struct spool_names {
	char **items;
	size_t count, at;
	size_t kept; /* of a list, so many were put back to its beginning */
};
void spool_names_clear(struct spool_names *names);
/* Up to `most` names of a directory, from where the stream is. None: it has ended. Not "." and
 * "..". */
SGPU_MUST_CHECK int spool_names_read(DIR *stream, size_t most, struct spool_names *names,
				     struct sgpu_error *error);
/* All names of the list on standard input. */
SGPU_MUST_CHECK int spool_names_list(bool nul, struct spool_names *names, struct sgpu_error *error);
/* A stream of its own over a directory that is open. */
SGPU_MUST_CHECK int spool_stream(int directory, const char *shown, DIR **stream,
				 struct sgpu_error *error);

/* Whether a name in the directory is for this worker to claim; *why: if there is something that is
 * left alone, else NULL. */
bool spool_is_batch(const struct spool_options *options, int directory, const char *name,
		    struct stat *status, const char **why);
extern const char spool_for_other_keys[]; /* of a batch that waits for another worker */
/* Whether an open file has the index of a batch that none of the worker's keys opens. If that is
 * damaged, it is anybody's. */
bool spool_is_for_others(const struct spool_options *options, int fd, const char *name);
/* What is behind the last slash. */
const char *spool_base_name(const char *path);

struct spool {
	struct spool_options options;
	const char *shown;	   /* the directory, for messages */
	int directory, output;	   /* -1: a list has no directory */
	int claimed, done, failed; /* in the directory */
	struct sgpu_output_directory output_directory;
	struct claims own;
	/* what is being looked through: the directory, or the claims of a dead worker; in a list,
	 * the list */
	struct claims dead; /* its directory is -1: the directory */
	DIR *stream;	    /* NULL: a look has not begun */
	struct spool_names names;
	enum { LOOK_NONE, LOOK_DIRECTORY, LOOK_CLAIMS } look;
	struct spool_names workers; /* entries of .claimed */
	bool moved, moved_at_all;   /* something was claimed in this look; in one of these looks */
	unsigned left, left_before; /* what was left alone in this look, and in the one before */
	unsigned others, others_before; /* likewise, for keys of others */
	unsigned warned;		/* how often that was said */
	unsigned misses,
		seed; /* names in a row that others were faster with; where this worker begins */
	bool claimed_since; /* the names were read again */
};

/* A batch of that name, which is not open. */
SGPU_MUST_CHECK int spool_batch_make(const struct spool *spool, const char *name,
				     struct spool_batch **batch, struct sgpu_error *error);
/* Opens it and its response. What is wrong with the batch alone is its `error`. */
SGPU_MUST_CHECK int spool_batch_open(struct spool *spool, int directory, struct spool_batch *batch,
				     struct sgpu_error *error);
/* Moves a file and replaces none: EEXIST. */
int spool_move_new(int from, const char *name, int to, const char *new_name);

#endif
