/* SPDX-License-Identifier: Apache-2.0
 *
 * Where sgpu-run worker has its batches from, and where its responses go: a directory that several
 * workers may share, or a list of files of this worker alone.
 *
 *   DIR/NAME                             waits
 *   DIR/.claimed/HOST.BOOT.PID.RANDOM/NAME  is with that worker, which holds a lock on
 *                                           HOST.BOOT.PID.RANDOM.lock
 *   OUTPUT/NAME.response                 is its response, which never replaces anything
 *   DIR/done/NAME                        has a response
 *   DIR/failed/NAME, NAME.reason         has no response, for this reason
 *
 * Each step is one rename. Whatever the directory holds is another's: names are looked up beneath
 * descriptors, without links, and only regular files are opened. One thread at a time, unless it is
 * said otherwise.
 */
#ifndef SGPU_RUN_SPOOL_H
#define SGPU_RUN_SPOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/io.h"
#include "worker.h"
#include "harden.h"

#define SPOOL_RESPONSE ".response"
#define SPOOL_REASON ".reason"

struct spool;

struct spool_options {
	const char *path;		/* the directory; NULL: the list on standard input */
	const char *output;		/* directory of the responses; NULL: `path` */
	const struct key_files *keys;	/* files of keys, which are no batches; borrowed */
	const struct sgpu_key *opening; /* our keys; batches for others are left; borrowed */
	int opening_count;
	bool nul;     /* names in the list end with NUL */
	bool remove;  /* removes batches that are done */
	bool reclaim; /* also takes claims of workers of which nobody can tell if they live */
};

/* A batch that this worker has. */
struct spool_batch {
	struct spool_batch *next; /* for the owner's lists */
	char *name;		  /* in the directory; in a list, its path */
	char *shown;		  /* for messages */
	char *response_name;	  /* in the output directory */
	int fd;			  /* -1 when it is not open */
	uint64_t size;		  /* bytes */
	bool foreign; /* others can have written the file, so it may not name our regions */
	struct sgpu_output response; /* open unless `answered` or `error` is set */
	bool resumed;		     /* taken from the claims of a dead worker */
	bool answered;		     /* its response was there already */
	struct sgpu_error error;     /* why it cannot run */
};

/* Opens both directories, and makes what is missing. Errors: SGPU_EUSAGE, SGPU_ESYSTEM,
 * SGPU_EPOLICY. */
SGPU_MUST_CHECK int spool_open(const struct spool_options *options, struct spool **spool,
			       struct sgpu_error *error);
/* Removes the claims' directory if it is empty. All batches must have been put away. Accepts a
 * pointer to NULL. */
void spool_close(struct spool **spool);
/* Adds the directories and files to which the spool needs rights under confinement. */
void spool_need(const struct spool *spool, struct landlock_needs *needs);

/* Claims the next batch, no larger than size_max unless a dead worker had it, and opens it and its
 * response. *batch is NULL at the end, and while there are only larger ones; the next call looks
 * anew. Errors: the directory cannot be used. */
SGPU_MUST_CHECK int spool_next(struct spool *spool, uint64_t size_max, struct spool_batch **batch,
			       struct sgpu_error *error);

/* ---- where a batch goes; each frees it, and may be called while another thread is in spool_next
 * ---- */
/* Gives the response its name, once its data are on the disk; the batch stays. Errors:
 * SGPU_ESYSTEM; but if there is a response, the batch is answered, or its `error` says what is
 * there. */
SGPU_MUST_CHECK int spool_answer(struct spool *spool, struct spool_batch *batch,
				 struct sgpu_error *error);
/* Puts an answered batch away. The response's name must be on the disk, too. */
SGPU_MUST_CHECK int spool_done(struct spool *spool, struct spool_batch **batch,
			       struct sgpu_error *error);
SGPU_MUST_CHECK int spool_failed(struct spool *spool, struct spool_batch **batch,
				 const struct sgpu_error *reason, struct sgpu_error *error);
void spool_give_back(struct spool *spool, struct spool_batch **batch);

/* An array of objects: "batch"; "state": "waiting", "claimed", "failed"; "worker" with "alive"
 * (null: nobody can tell), or "reason". Changes nothing. */
SGPU_MUST_CHECK int spool_missing(const struct spool_options *options, json_t **missing,
				  struct sgpu_error *error);

/* ---- between the files of the spool ---- */
/* DIR/.claimed/HOST.BOOT.PID.RANDOM is what a worker has claimed, and the lock on the file of that
 * name and ".lock" says that it lives. BOOT identifies one boot of a host. Locks of workers of this
 * boot can be believed. Whether locks of other hosts are seen here is not known; on NFS and Lustre
 * it depends on the mount. */

#define CLAIMS_DIRECTORY ".claimed"

/* The claims of one worker. */
struct claims {
	char name[NAME_MAX + 1];
	int directory, lock; /* -1 when they are not open */
};
#define CLAIMS_NONE                         \
	{                                   \
		.directory = -1, .lock = -1 \
	}

/* Makes this worker's claims in `root`, DIR/.claimed. Warns if the file system has no locks. */
SGPU_MUST_CHECK int claims_make(int root, struct claims *claims, struct sgpu_error *error);
/* Opens the claims of a dead worker, and holds their lock. False: it is not known to be dead, or
 * another process has them. guess: takes them also where nobody can tell if it lives. */
bool claims_take(int root, const char *name, bool guess, struct claims *claims);
/* Closes claims, and removes them if they are empty. */
void claims_close(int root, struct claims *claims);

enum claims_life { CLAIMS_ALIVE, CLAIMS_DEAD, CLAIMS_UNKNOWN };
/* Tells whether the worker of claims lives. Changes nothing. */
enum claims_life claims_look(int root, const char *name);
/* The claims that an entry of `root`, a directory or a lock, belongs to. False: none. */
bool claims_of(const char *entry, char name[NAME_MAX + 1]);

/* Opens a file that others chose, without following links, waiting or side effects. -1 with
 * errno. */
int spool_open_file(int directory, const char *name);

/* Names that were read and not looked at yet. */
struct spool_names {
	char **items;
	size_t count, at;
	size_t kept; /* names of a list that were put back to its beginning */
};
void spool_names_clear(struct spool_names *names);
/* All names of a directory but "." and "..". */
SGPU_MUST_CHECK int spool_names_read(int directory, const char *shown, struct spool_names *names,
				     struct sgpu_error *error);
/* All names of the list on standard input. */
SGPU_MUST_CHECK int spool_names_list(bool nul, struct spool_names *names, struct sgpu_error *error);
/* Whether a name is for this worker to claim; *why: what is left alone, or NULL. */
bool spool_is_batch(const struct spool_options *options, int directory, const char *name,
		    struct stat *status, const char **why);
extern const char spool_for_other_keys[]; /* a value of *why */
/* Whether none of the worker's keys opens the batch in a file. A damaged one is anybody's. */
bool spool_is_for_others(const struct spool_options *options, int fd, const char *name);
/* The name of the file with its reason. */
void spool_reason_name(const char *name, char file[NAME_MAX + 1]);
/* Returns what follows the last slash. */
const char *spool_base_name(const char *path);

struct spool {
	struct spool_options options;
	const char *shown;	   /* the directory, for messages */
	int directory, output;	   /* -1: a list has no directory */
	int claimed, done, failed; /* in the directory */
	struct sgpu_output_directory output_directory;
	struct claims own;
	/* what is looked through: the directory, a dead worker's claims, or the list */
	struct claims dead; /* the dead worker's claims; directory -1: none are looked through */
	struct spool_names names;
	enum { LOOK_NONE, LOOK_DIRECTORY, LOOK_CLAIMS } look;
	struct spool_names workers;	/* entries of .claimed */
	bool moved, moved_at_all;	/* something was claimed in this look; in this round */
	unsigned left, left_before;	/* left alone in this look, and in the one before */
	unsigned others, others_before; /* batches for other keys */
	unsigned warned;		/* warnings printed */
	unsigned seed;			/* for the order of names */
};

/* Makes a batch of that name, which is not open yet. */
SGPU_MUST_CHECK int spool_batch_make(const struct spool *spool, const char *name,
				     struct spool_batch **batch, struct sgpu_error *error);
/* Opens a batch and its response. A fault of the batch goes to its `error`. */
SGPU_MUST_CHECK int spool_batch_open(struct spool *spool, int directory, struct spool_batch *batch,
				     struct sgpu_error *error);
/* Moves a file and replaces none: EEXIST. */
int spool_move_new(int from, const char *name, int to, const char *new_name);

#endif
