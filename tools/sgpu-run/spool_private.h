/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the spool.
 */
#ifndef SGPU_RUN_SPOOL_PRIVATE_H
#define SGPU_RUN_SPOOL_PRIVATE_H

#include <limits.h>
#include <stdbool.h>

#include <sgpu/error.h>

#include "base/io.h"
#include "spool.h"

/* The workers of a directory: DIR/.claimed/HOST.BOOT.PID.RANDOM is what one of them has claimed,
 * and the lock on the file of that name and ".lock" says that it lives. BOOT tells one run of a
 * kernel from another: locks of this one can be believed. Whether those of other hosts get here is
 * not known, on NFS and Lustre it depends on the mount. */

#define CLAIMS_DIRECTORY ".claimed"

/* One worker's. */
struct claims {
	char name[NAME_MAX + 1];
	int directory, lock; /* -1 when they are not open */
};
#define CLAIMS_NONE                         \
	{                                   \
		.directory = -1, .lock = -1 \
	}

/* Makes the claims of this worker in `root`, DIR/.claimed. Without locks on the file system it
 * warns. */
SGPU_MUST_CHECK int claims_make(int root, struct claims *claims, struct sgpu_error *error);
/* Opens those of a worker that is dead: its lock is held until they are closed. Returns false when
 * it is not known to be dead, or somebody else has them. guess: also when nobody can tell. */
bool claims_take(int root, const char *name, bool guess, struct claims *claims);
/* Closes them, and removes them if they are empty. */
void claims_close(int root, struct claims *claims);

enum claims_life { CLAIMS_ALIVE, CLAIMS_DEAD, CLAIMS_UNKNOWN };
/* Changes nothing. */
enum claims_life claims_look(int root, const char *name);
/* The name of the claims that an entry of `root` belongs to, be it their directory or their lock.
 * Returns false for others. */
bool claims_of(const char *entry, char name[NAME_MAX + 1]);

/* Opens what others chose, without links, waiting and effects; -1 with errno. */
int spool_open_file(int directory, const char *name);

/* Names that were read and not looked at yet. */
struct spool_names {
	char **items;
	size_t count, at;
	size_t kept; /* of a list, so many were put back to its beginning */
};
void spool_names_clear(struct spool_names *names);
/* All names of a directory but "." and "..". */
SGPU_MUST_CHECK int spool_names_read(int directory, const char *shown, struct spool_names *names,
				     struct sgpu_error *error);
/* All names of the list on standard input. */
SGPU_MUST_CHECK int spool_names_list(bool nul, struct spool_names *names, struct sgpu_error *error);
/* Whether a name in the directory is for this worker to claim; *why: if there is something that is
 * left alone, else NULL. */
bool spool_is_batch(const struct spool_options *options, int directory, const char *name,
		    struct stat *status, const char **why);
extern const char spool_for_other_keys[]; /* of a batch that waits for another worker */
/* Whether an open file has the index of a batch that none of the worker's keys opens. If that is
 * damaged, it is anybody's. */
bool spool_is_for_others(const struct spool_options *options, int fd, const char *name);
/* The name of the file with the reason why that one failed. */
void spool_reason_name(const char *name, char file[NAME_MAX + 1]);
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
	struct spool_names names;
	enum { LOOK_NONE, LOOK_DIRECTORY, LOOK_CLAIMS } look;
	struct spool_names workers; /* entries of .claimed */
	bool moved, moved_at_all;   /* something was claimed in this look; in one of these looks */
	unsigned left, left_before; /* what was left alone in this look, and in the one before */
	unsigned others, others_before; /* likewise, for keys of others */
	unsigned warned;		/* how often that was said */
	unsigned seed;			/* where this worker begins among names */
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
