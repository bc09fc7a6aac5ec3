/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine under sgpu_seal_stream and sgpu_open_stream: workers that each take a group of chunks from the input,
 * transform it, and deliver it. Private to lib/seal.
 */
#ifndef SGPU_SEAL_TRANSFER_H
#define SGPU_SEAL_TRANSFER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/seal.h>

enum {
	/* Chunks that a worker takes at once: both of its buffers fit a core's second-level cache. */
	SGPU_GROUP_CHUNKS = 16,
	SGPU_GROUP_PLAIN = SGPU_GROUP_CHUNKS * SGPU_CHUNK,
	SGPU_GROUP_SEALED = SGPU_GROUP_CHUNKS * SGPU_SEALED_CHUNK,
};

struct sgpu_transfer {
	struct sgpu_seal_job *job;
	bool opening;
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead;      /* what each worker copies */
	struct sgpu_seal_end in, out; /* offsets: where group 0 starts */
	uint64_t in_size;            /* bytes behind the header, or SGPU_SIZE_UNKNOWN */
	uint64_t groups;             /* of a known size; the last one is never full */
	unsigned jobs;

	int pipe_out;                /* a non-blocking description of an output pipe, or -1 */
	/* One positioned write at a time: file systems take turns inside anyway, but they spin. */
	pthread_mutex_t writing;

	/* all below: under `lock` */
	pthread_mutex_t lock;
	pthread_cond_t turn;         /* somebody's turn to read or write may have come */
	pthread_cond_t finished;     /* a worker ended */
	uint64_t next_group;         /* the next to be read */
	uint64_t next_write;         /* the group whose turn it is on a stream */
	bool reading;                /* a worker reads from a stream */
	bool ended;                  /* no group is left to take */
	bool canceled;
	bool failed;
	uint64_t failed_group;       /* the lowest that failed: which error is reported must not depend on timing */
	struct sgpu_error error;
	unsigned running;
	uint64_t bytes_in, bytes_out;
};

struct sgpu_transfer_worker {
	struct sgpu_transfer *transfer;
	struct sgpu_aead *aead;
	uint8_t *in, *out;
	size_t in_capacity, out_capacity;
	bool own_thread;             /* not the caller's: signals do not reach it */
	pthread_t thread;
};

/* One group on its way. */
struct sgpu_group {
	uint64_t index;
	size_t size;                 /* bytes read */
	bool last;
};

/* Runs the workers until all is done. On an error the lowest failed group's is in *error. */
SGPU_MUST_CHECK int sgpu_transfer_run(struct sgpu_transfer *transfer, struct sgpu_error *error);

/* Records an error of a group; it counts unless a lower group failed too. */
void sgpu_transfer_fail(struct sgpu_transfer *transfer, uint64_t group, const struct sgpu_error *error,
			uint64_t bad_chunk);

/* Whether a group need not be finished: the transfer is canceled, or a group before it failed. */
bool sgpu_transfer_moot(struct sgpu_transfer *transfer, uint64_t group);

/* Reads and writes on streams, in the worker's turn. A worker's thread never blocks in the kernel, where no signal
 * would reach it: SGPU_ECANCELED when its group has become moot meanwhile. */
SGPU_MUST_CHECK int sgpu_transfer_read(struct sgpu_transfer_worker *worker, uint64_t group, size_t size, size_t *got,
				       struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_transfer_write(struct sgpu_transfer_worker *worker, uint64_t group, size_t size,
					struct sgpu_error *error);
/* Before and after: what those two need to know about the ends. */
void sgpu_transfer_open_streams(struct sgpu_transfer *transfer);
void sgpu_transfer_close_streams(struct sgpu_transfer *transfer);

/* The next group's bytes into worker->in; *taken is false when there is none. */
SGPU_MUST_CHECK int sgpu_transfer_take(struct sgpu_transfer_worker *worker, struct sgpu_group *group, bool *taken,
				       struct sgpu_error *error);
/* `size` bytes of worker->out to where they belong, or in their turn. `whole` says that the group is complete. */
SGPU_MUST_CHECK int sgpu_transfer_deliver(struct sgpu_transfer_worker *worker, const struct sgpu_group *group,
					  size_t size, bool whole, struct sgpu_error *error);

#endif
