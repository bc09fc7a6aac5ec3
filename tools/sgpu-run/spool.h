/* SPDX-License-Identifier: Apache-2.0
 *
 * Where sgpu-run worker has its batches from, and where its responses go: a directory that several
 * workers may share, or a list of files of this worker alone.
 *
 *   DIR/NAME                             waits
 *   DIR/.claimed/HOST.BOOT.PID.RANDOM/NAME  is with that worker, which holds a lock on
 *                                           HOST.BOOT.PID.RANDOM.lock
 *   OUTPUT/NAME.response                 is its response, which never replaces anything
 *   DIR/done/NAME                        has one
 *   DIR/failed/NAME, NAME.reason         has none, for this reason
 *
 * Each step is one rename. Whatever the directory holds is another's: names are looked up beneath
 * descriptors, without links, and only regular files are opened. One thread at a time, unless it is
 * said otherwise.
 */
#ifndef SGPU_RUN_SPOOL_H
#define SGPU_RUN_SPOOL_H

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
	const char *path;	      /* the directory; NULL: the list on standard input */
	const char *output;	      /* directory of the responses; NULL: `path` */
	const struct key_files *keys; /* none of these is a batch; borrowed */
	const struct sgpu_key
		*opening; /* batches for none of these wait for another worker; borrowed */
	int opening_count;
	bool nul;     /* names in the list end with NUL, not with a line feed */
	bool remove;  /* batches that are done are removed */
	bool reclaim; /* claims of workers of which nobody can tell are taken back, too */
};

/* A batch that this worker has. */
struct spool_batch {
	struct spool_batch *next; /* for whoever has it */
	char *name;		  /* in the directory; in a list, its path */
	char *shown;		  /* for messages */
	char *response_name;	  /* in the output directory */
	int fd;			  /* -1 when it is not open */
	uint64_t size;		  /* bytes */
	bool foreign; /* others than the user can have written it: regions of ours are not theirs to
			 name */
	struct sgpu_output response; /* open, when there is nothing to say of the batch */
	bool resumed;		     /* from the claims of another worker */
	bool answered;		     /* its response is there: only to be put away */
	struct sgpu_error error;     /* why it cannot run */
};

/* Opens both, and makes directories that are missing. Errors: SGPU_EUSAGE, SGPU_ESYSTEM,
 * SGPU_EPOLICY. */
SGPU_MUST_CHECK int spool_open(const struct spool_options *options, struct spool **spool,
			       struct sgpu_error *error);
/* Gives up the claims' directory, if it is empty. Batches have been put away. Accepts a pointer to
 * NULL. */
void spool_close(struct spool **spool);
/* What the process needs after it is confined. */
void spool_need(const struct spool *spool, struct landlock_needs *needs);
int spool_output(const struct spool *spool); /* descriptor of the directory of the responses */

/* Claims the next batch, one no larger than size_max unless a dead worker had it, and opens it and
 * its response. *batch is NULL when there is none: at the end, and while there are only larger
 * ones; the next call looks anew. Errors: the directory cannot be used. */
SGPU_MUST_CHECK int spool_next(struct spool *spool, uint64_t size_max, struct spool_batch **batch,
			       struct sgpu_error *error);
/* How many were left where they are: names that are no batches, and batches for other keys. */
void spool_left(const struct spool *spool, unsigned *alone, unsigned *others);

/* ---- where a batch goes; each frees it, and may be called while another thread is in spool_next
 * ---- */
/* Gives the response its name, when its data are on the disk; the batch stays. Errors:
 * SGPU_ESYSTEM; but if the response is there already, the batch is answered, or its `error` says
 * what else is there. */
SGPU_MUST_CHECK int spool_answer(struct spool *spool, struct spool_batch *batch,
				 struct sgpu_error *error);
/* The name is on the disk, too. */
SGPU_MUST_CHECK int spool_done(struct spool *spool, struct spool_batch **batch,
			       struct sgpu_error *error);
SGPU_MUST_CHECK int spool_failed(struct spool *spool, struct spool_batch **batch,
				 const struct sgpu_error *reason, struct sgpu_error *error);
void spool_give_back(struct spool *spool, struct spool_batch **batch);

/* ---- what is left ---- */
/* An array of objects: "batch", "state" ("waiting", "claimed", "failed"), and "worker" with "alive"
 * (null: nobody can tell), or "reason". Changes nothing. */
SGPU_MUST_CHECK int spool_missing(const struct spool_options *options, json_t **missing,
				  struct sgpu_error *error);

#endif
