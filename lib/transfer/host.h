/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves on the host alone: what their workers share. Private to lib/transfer.
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
	HOST_BESIDE = 4,   /* parts whose chunk runs are claimed in turns */
	HOST_WAIT_MS = 50, /* how long a wait lasts before it looks for a signal */
};

struct host_digest;

/* A part that is being moved. The worker that holds the claim sets its members when the part
 * begins, and `next`; `ended` is under the move's lock. */
struct host_part {
	struct sgpu_host_part *part;
	bool begun; /* in the claim */
	bool open;  /* until all its chunk runs were delivered */
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead; /* copied by each worker */
	struct host_digest *digest;
	const uint8_t *view;	/* of a source that is memory, or NULL */
	uint64_t size;		/* bytes to read behind the header, or SGPU_SIZE_UNKNOWN */
	uint64_t runs, next;	/* how many, UINT64_MAX while unknown; the next to be claimed */
	uint64_t last_sequence; /* of the last chunk run */
	uint64_t ended;		/* chunk runs that were delivered */
	/* Writers of one file exclude each other in the kernel. Two of them at once keep the file
	 * busy; more would only burn time there. */
	pthread_mutex_t writing[2];
};

struct host_run {
	struct host_part *of;
	uint64_t sequence; /* counted over all parts, in the order of claims */
	uint64_t index;	   /* within its part */
	uint64_t turn;	   /* among those for ordered sinks */
	size_t size;	   /* bytes read */
	bool last;	   /* of its part */
};

struct host_move {
	struct sgpu_host_move *move;
	struct host_part *parts;

	/* Belongs to the worker that is `claiming`: that claims a chunk run and, from an ordered
	 * source, reads it. */
	size_t at;		  /* the first part of which not every chunk run was claimed */
	size_t end;		  /* parts from here on are not claimed any more */
	size_t latest;		  /* the part of the last claim */
	uint64_t sequence, turns; /* given so far */

	pthread_mutex_t lock;
	pthread_cond_t claim_free;
	bool claiming;
	pthread_cond_t turn_came;
	uint64_t turn;				    /* of the next write to an ordered sink */
	uint64_t bytes_in;			    /* of all parts */
	const struct sgpu_transfer_source *reading; /* an ordered one, or NULL */
	bool failed;
	/* The lowest chunk run that failed, of the lowest part: which error is reported must not
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
	size_t capacity; /* of each */
};

/* ---- host_part.c ---- */
/* Prepares it and reads its header. In the claim. */
SGPU_MUST_CHECK int sgpu_host_part_begin(struct host_part *part, struct sgpu_error *error);
/* After its last run: whether its digest is the demanded one, if any. */
SGPU_MUST_CHECK int sgpu_host_part_check(const struct host_part *part, struct sgpu_error *error);
/* Closes its ends, and wipes. Accepts one that is not open. */
void sgpu_host_part_end(struct host_part *part);
/* Fills worker->in with the run's bytes. Finds the end of a source of unknown size. */
SGPU_MUST_CHECK int sgpu_host_run_read(struct host_worker *worker, struct host_run *run,
				       struct sgpu_error *error);
/* Opens, seals or copies: *data, *size are what is to be delivered. SGPU_EAUTH: *bad is the chunk,
 * and what is to be delivered are the chunks before it. */
SGPU_MUST_CHECK int sgpu_host_run_transform(struct host_worker *worker, const struct host_run *run,
					    const uint8_t **data, size_t *size, uint64_t *bad,
					    struct sgpu_error *error);

#endif
