/* SPDX-License-Identifier: Apache-2.0
 *
 * The batches of sgpu-worker, and their responses, in a directory that several workers may share.
 *
 *   DIR/NAME                             a batch that waits
 *   DIR/.claimed/HOST.BOOT.PID.RANDOM/NAME  a batch of that worker, which has locked
 *                                           HOST.BOOT.PID.RANDOM.lock
 *   OUTPUT/NAME.response                 its response, which never replaces a file
 *   DIR/done/NAME                        a batch with a response
 *   DIR/failed/NAME, NAME.reason         a batch without one, and why
 *
 * Each step is one rename, or a link if the file system lacks the rename. As others write to the
 * directory, names are looked up beneath descriptors, without following links, and only regular
 * files are opened. One thread at a time may call these functions, unless stated otherwise.
 */
#ifndef SGPU_RUN_SPOOL_H
#define SGPU_RUN_SPOOL_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/io.h"
#include "cli.h"
#include "runner/wire.h"

#define SPOOL_RESPONSE ".response"
#define SPOOL_REASON ".reason"

struct spool;

struct spool_options {
	const char *path;	/* the directory */
	const char *output;	/* of the responses; NULL: `path` */
	struct wire_ready keys; /* ids of those that open batches */
	bool remove;		/* remove batches that are done */
	bool reclaim;		/* also take claims of workers that may be alive */
};

/* A batch that this worker has taken. */
struct spool_batch {
	char *name;			  /* in the directory */
	char *shown;			  /* for messages */
	char response_name[NAME_MAX + 1]; /* in the output directory */
	int fd;				  /* -1 when it is not open */
	uint64_t size;			  /* bytes */
	struct sgpu_output response;	  /* open unless `answered` or `error` is set */
	bool resumed;			  /* taken from the claims of a dead worker */
	bool answered;			  /* had a response already */
	struct sgpu_error error;	  /* why it cannot run, or how it ran */
	/* ---- its run, for drain.c ---- */
	struct spool_batch *next;
	int connection;
	bool alone;		/* runs while no other is under way */
	uint64_t needs;		/* bytes for its response; 0: not known */
	bool full;		/* its response found no space */
	bool again;		/* to run once more, alone, after all others */
	struct sgpu_error lack; /* why it runs once more */
	struct report report;
};

/* Opens both directories, and makes all missing ones but `path`. Errors: SGPU_EUSAGE, SGPU_ESYSTEM,
 * SGPU_EPOLICY. */
SGPU_MUST_CHECK int spool_open(const struct spool_options *options, struct spool **spool,
			       struct sgpu_error *error);
/* Frees the spool (or NULL), and removes this worker's claims if they are empty. All batches must
 * have been freed. */
void spool_close(struct spool **spool);

/* Claims the next batch, and opens it and its response. *batch is NULL if none is left; the next
 * call looks again. Errors: the directory cannot be used. */
SGPU_MUST_CHECK int spool_next(struct spool *spool, struct spool_batch **batch,
			       struct sgpu_error *error);

/* ---- outcomes of a batch; all but spool_answer free it; spool_next may run meanwhile ---- */
/* Gives the response its name. Its data must be on the disk. Errors: those of sgpu_output_commit;
 * SGPU_EPOLICY: a file has the name already, and is no response to this batch. */
SGPU_MUST_CHECK int spool_answer(struct spool *spool, struct spool_batch *batch,
				 struct sgpu_error *error);
/* Moves an answered batch to DIR/done, or removes it. The response's name must be on the disk. */
SGPU_MUST_CHECK int spool_done(struct spool *spool, struct spool_batch **batch,
			       struct sgpu_error *error);
SGPU_MUST_CHECK int spool_failed(struct spool *spool, struct spool_batch **batch,
				 const struct sgpu_error *reason, struct sgpu_error *error);
void spool_give_back(struct spool *spool, struct spool_batch **batch);

/* ---- for the files of the spool ---- */
/* A worker that lives has locked HOST.BOOT.PID.RANDOM.lock. BOOT identifies one boot of a host.
 * Locks of this boot's workers are reliable. Those of other hosts may not be visible here: on NFS
 * and Lustre this depends on the mount. */

#define CLAIMS_DIRECTORY ".claimed"

struct claims {
	char name[NAME_MAX + 1];
	int directory, lock; /* -1 when they are not open */
};

/* Makes this worker's claims in `root`, DIR/.claimed. Warns if the file system has no locks. */
SGPU_MUST_CHECK int claims_make(int root, struct claims *claims, struct sgpu_error *error);
/* Opens and locks a dead worker's claims. False: another process has the lock, or the worker may be
 * alive; `guess` takes the claims of such a worker, too. */
bool claims_take(int root, const char *name, bool guess, struct claims *claims);
/* Closes claims, and removes them if they are empty. */
void claims_close(int root, struct claims *claims);

/* Gets the claims of an entry of DIR/.claimed, a directory or a lock. False: none. */
bool claims_of(const char *entry, char name[NAME_MAX + 1]);

/* Opens a file that others chose, without following links, waiting or side effects. -1 with
 * errno. */
int spool_open_file(int directory, const char *name);

/* Names that were read; from `at` on, not looked at yet. */
struct spool_names {
	struct dirent **items;
	int count, at;
};
/* Whether no key opens the batch in a file. False if it is damaged. */
bool spool_is_for_others(const struct spool_options *options, int fd, const char *name);

struct spool {
	struct spool_options options;
	int directory, output;
	int claimed, done, failed; /* subdirectories of `directory` */
	struct sgpu_output_directory output_directory;
	struct claims own;
	/* what is searched now */
	struct claims dead; /* a dead worker's; directory -1: DIR is searched */
	struct spool_names names;
	bool again;		    /* a batch was claimed: DIR is searched again */
	struct spool_names workers; /* entries of .claimed, while those of others are searched */
	unsigned left, others;	    /* files of DIR left alone; those for other keys */
	unsigned warned;
	unsigned seed; /* for the order of names */
};

SGPU_MUST_CHECK int spool_batch_make(const struct spool *spool, const char *name,
				     struct spool_batch **batch, struct sgpu_error *error);
/* Opens a batch and its response. A fault of the batch is only set in its `error`. */
SGPU_MUST_CHECK int spool_batch_open(struct spool *spool, struct spool_batch *batch,
				     struct sgpu_error *error);
/* Moves a file; EEXIST rather than replace one. */
int spool_move_new(int from, const char *name, int to, const char *new_name);

/* ---- drain.c: the loop over the batches, which a sgpu-enclave runs. One thread claims, submits,
 * hears and closes them. ---- */
struct link; /* start.h */
/* Runs until nothing is left or drain_stop() is called, and says what was done. Returns the exit
 * status: 0; the gravest of all batches (3, 4, 2, 1, 5); EX_TEMPFAIL if all are for other keys; or,
 * after a message, that of the error that stops the worker, which then gives its batches back.
 * most: batches under way; memory_free: of the enclave's device, in bytes. */
int drain(struct link *enclave, unsigned most, uint64_t memory_free, struct spool *spool,
	  uint64_t timeout_ns);
/* Has drain() claim no more batches, and finish those under way. Async-signal-safe. */
void drain_stop(void);
/* Most batches under way. jobs: workers of the CPU device, or 0. */
unsigned drain_most(unsigned jobs);

#endif
