/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves on the host alone.
 *
 * All workers do the same: claim the next chunk run, read it, open, seal or copy it, and deliver
 * it. Chunk runs are claimed in order, across the borders of parts, so that no worker waits for the
 * end of a part.
 */
#ifndef SGPU_TRANSFER_HOST_H
#define SGPU_TRANSFER_HOST_H

#include <pthread.h>

#include "crypto/crypto.h"
#include "transfer/transfer.h"

enum {
	/* A chunk run, read and sealed, fits the second-level cache of a core. */
	HOST_RUN_CHUNKS = 16,
	HOST_RUN_PLAIN = HOST_RUN_CHUNKS * SGPU_CHUNK,
	HOST_RUN_SEALED = HOST_RUN_CHUNKS * SGPU_SEALED_CHUNK,
	HOST_BESIDE = 4,   /* parts that are moved at the same time */
	HOST_WAIT_MS = 50, /* how long a wait lasts before it looks for a signal */
};

struct host_digest;

/* A part that is being moved. The worker that holds the claim sets the members when the part
 * begins, and `next` later; `ended` is under the move's lock. */
struct host_part {
	struct sgpu_host_part *part;
	bool begun; /* set under the claim */
	bool open;  /* until all its chunk runs were delivered */
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead; /* each worker copies it */
	struct host_digest *digest;
	const uint8_t *view;	/* the source's memory, or NULL */
	uint64_t size;		/* bytes to read after the header, or SGPU_SIZE_UNKNOWN */
	uint64_t runs, next;	/* chunk runs, UINT64_MAX while unknown; the next to claim */
	uint64_t last_sequence; /* of the last chunk run */
	uint64_t ended;		/* chunk runs that were delivered */
	/* For two writers: the kernel lets one thread write to a file at a time, and the other is
	 * ready then. */
	pthread_mutex_t writing[2];
};

struct host_run {
	struct host_part *of;
	uint64_t sequence; /* counted over all parts, in the order of claims */
	uint64_t index;	   /* within its part */
	uint64_t turn;	   /* order of writing to an ordered sink */
	size_t size;
	bool last; /* the last of its part */
};

struct host_move {
	struct sgpu_host_move *move;
	struct host_part *parts;

	/* Used by the worker that is `claiming`, which claims a chunk run and reads it if its
	 * source is ordered. */
	size_t at;		  /* the first part with unclaimed chunk runs */
	size_t end;		  /* no part from here on is claimed any more */
	size_t latest;		  /* the part of the last claim */
	uint64_t sequence, turns; /* the next numbers */

	pthread_mutex_t lock;
	pthread_cond_t claim_free;
	bool claiming;
	pthread_cond_t turn_came;
	uint64_t turn;	   /* the turn that may write to an ordered sink */
	uint64_t bytes_in; /* of all parts */
	bool failed;
	/* The lowest failed chunk run, of the lowest failed part, since the reported error must not
	 * depend on timing. */
	uint64_t failed_sequence;
	const struct host_part *failed_part;
	uint64_t bad_chunk;
	struct sgpu_error error;
};

struct host_worker {
	struct host_move *move;
	const struct host_part *aead_of;
	struct sgpu_aead *aead;
	uint8_t *in, *out;
	size_t capacity;
};

/* ---- host_part.c ---- */
/* Prepares a part and reads its header. The caller holds the claim. */
SGPU_MUST_CHECK int sgpu_host_part_begin(struct host_part *part, struct sgpu_error *error);
/* Checks the digest, if one is demanded, after a part's last run. */
SGPU_MUST_CHECK int sgpu_host_part_check(const struct host_part *part, struct sgpu_error *error);
/* Closes a part's source and sink, and wipes its keys. Accepts a part that is not open. */
void sgpu_host_part_end(struct host_part *part);
/* Fills worker->in with the run's bytes. Finds the end of a source of unknown size. */
SGPU_MUST_CHECK int sgpu_host_run_read(struct host_worker *worker, struct host_run *run,
				       struct sgpu_error *error);
/* Opens, seals or copies a run; *data and *size are the bytes to write. With SGPU_EAUTH, *bad is
 * the bad chunk and *data has the chunks before it. */
SGPU_MUST_CHECK int sgpu_host_run_transform(struct host_worker *worker, const struct host_run *run,
					    const uint8_t **data, size_t *size, uint64_t *bad,
					    struct sgpu_error *error);

#endif
