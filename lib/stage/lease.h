/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases: ranges of one memory file, the pool of a worker process, by which payloads come and go
 * without a pipe. The pool stays mapped and registered with the device. Its clients, of one user,
 * get its descriptor: they may write to all of it at any time, and cannot change its size. An id of
 * 128 random bits names a range.
 *
 * A lease belongs to one batch and goes one way. It is held by whoever fills it, then free to be
 * taken once, then held by whoever took it, and ends. While nobody holds it, it ends with its time.
 * A range is cleared before it is given again. */
#ifndef SGPU_STAGE_LEASE_H
#define SGPU_STAGE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/batch.h>
#include <sgpu/error.h>

#include "stage/stage.h"

enum { SGPU_LEASES_MAX = 1024 }; /* of a pool at a time */
#define SGPU_LEASE_LIFE_NS UINT64_C(60000000000)
#define SGPU_LEASE_POOL_MAX (UINT64_C(1) << 46) /* bytes */

struct sgpu_lease {
	char id[SGPU_REGION_ID_TEXT + 1]; /* 32 hexadecimal digits */
	uint64_t offset, size;		  /* in the pool's file; bytes */
};

/* ---- the worker's side ---- */
struct sgpu_lease_pool;

struct sgpu_lease_pool_config {
	uint64_t size;	  /* bytes; rounded up to whole pages of 2 MiB */
	uint64_t life_ns; /* how long a lease that nobody holds stays; 0: SGPU_LEASE_LIFE_NS */
	/* NULL, or told how many leases and bytes of them there are whenever that changes: on any
	 * thread; it calls nothing here. */
	void (*changed)(void *argument, unsigned leases, uint64_t bytes);
	void *argument;
};

/* Makes the file, on huge pages where there are any, gets all of its pages, and starts a thread
 * that clears ranges. Errors: SGPU_EUSAGE (size), SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_lease_pool_create(const struct sgpu_lease_pool_config *config,
					   struct sgpu_lease_pool **pool, struct sgpu_error *error);
/* Nobody uses it any more. Accepts NULL; clears the caller's pointer. */
void sgpu_lease_pool_free(struct sgpu_lease_pool **pool);

struct sgpu_lease_pool_info {
	int fd;		     /* the pool's; stays open until sgpu_lease_pool_free */
	uint8_t *memory;     /* all of it */
	uint64_t size, page; /* page: leases begin at multiples of it */
	enum sgpu_page_kind pages;
};
void sgpu_lease_pool_get_info(const struct sgpu_lease_pool *pool,
			      struct sgpu_lease_pool_info *info);

/* A lease for this batch, held by the caller: for the payloads of its inputs, or for its results.
 * Waits while ranges are being cleared that would do. Errors: SGPU_EUSAGE if it is empty or larger
 * than the pool; SGPU_ERETRY if there is no room, or SGPU_LEASES_MAX are there. */
SGPU_MUST_CHECK int sgpu_lease_create(struct sgpu_lease_pool *pool,
				      const uint8_t batch_id[SGPU_BATCH_ID_SIZE], bool results,
				      uint64_t size, struct sgpu_lease *lease,
				      struct sgpu_error *error);
/* Lets go of a lease: it can be taken from now on, for its time. */
void sgpu_lease_offer(struct sgpu_lease_pool *pool, const char *id);
/* Takes a lease that was offered; the caller holds it. Errors: SGPU_ESYSTEM if there is none of
 * this id, it is held, or it goes the other way; SGPU_EPOLICY if it was made for another batch, and
 * then it stays as it is. */
SGPU_MUST_CHECK int sgpu_lease_take(struct sgpu_lease_pool *pool, const char *id,
				    const uint8_t batch_id[SGPU_BATCH_ID_SIZE], bool results,
				    struct sgpu_lease *lease, struct sgpu_error *error);
/* The caller, who holds it, has no more use for it. */
void sgpu_lease_end(struct sgpu_lease_pool *pool, const char *id);

/* ---- the client's side ---- */
/* Checks a pool's file that another process has sent: a memory file of this size, sealed, in which
 * the lease lies. Errors: SGPU_EINVALID, SGPU_EPOLICY, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_lease_check(int fd, uint64_t pool_size, const struct sgpu_lease *lease,
				     struct sgpu_error *error);
/* Maps the range of a lease that was checked. Errors: SGPU_ESYSTEM. */
struct sgpu_lease_mapping {
	uint8_t *memory;
	uint64_t size; /* as it was mapped: whole pages */
};
SGPU_MUST_CHECK int sgpu_lease_map(int fd, const struct sgpu_lease *lease,
				   struct sgpu_lease_mapping *mapping, struct sgpu_error *error);
/* Accepts one that was unmapped. */
void sgpu_lease_unmap(struct sgpu_lease_mapping *mapping);

#endif
