/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases: ranges of a worker process's pool, a memory file through which payloads and results pass
 * without a pipe. The pool stays mapped and registered with the device. The worker's clients, all
 * of one user, get the file's descriptor: they can write to all of the file at any time, but not
 * resize it. A lease's id is 128 random bits.
 *
 * A lease is for one batch, for its payloads or its results. First its maker holds it, to fill it;
 * then it is offered, and can be taken once until it expires; then its taker holds it until it
 * ends. A range is cleared before it is used again. */
#ifndef SGPU_STAGE_LEASE_H
#define SGPU_STAGE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/batch.h>
#include <sgpu/error.h>

#include "stage/stage.h"

enum { SGPU_LEASES_MAX = 1024 }; /* in a pool at a time */
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
	uint64_t life_ns; /* how long an offered lease can be taken; 0: SGPU_LEASE_LIFE_NS */
	/* NULL, or called on any thread with the new number and bytes of the leases. It must not
	 * call functions of this header. */
	void (*changed)(unsigned leases, uint64_t bytes);
};

/* Makes the pool's file with all of its pages, and starts a thread that clears ranges. Errors:
 * SGPU_EUSAGE (size), SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_lease_pool_create(const struct sgpu_lease_pool_config *config,
					   struct sgpu_lease_pool **pool, struct sgpu_error *error);
/* The pool must not be in use. Accepts a pointer to NULL; clears it. */
void sgpu_lease_pool_free(struct sgpu_lease_pool **pool);

struct sgpu_lease_pool_info {
	int fd;		 /* the pool's file, open until sgpu_lease_pool_free */
	uint8_t *memory; /* the whole pool */
	uint64_t size;
};
void sgpu_lease_pool_get_info(const struct sgpu_lease_pool *pool,
			      struct sgpu_lease_pool_info *info);

/* Makes a lease that the caller holds, for the batch's payloads or its results. If there is no
 * room, waits until ranges are cleared. Errors: SGPU_EUSAGE if it is empty or larger than the pool;
 * SGPU_ERETRY if there is no room, or there are SGPU_LEASES_MAX leases. */
SGPU_MUST_CHECK int sgpu_lease_create(struct sgpu_lease_pool *pool,
				      const uint8_t batch_id[SGPU_BATCH_ID_SIZE], bool results,
				      uint64_t size, struct sgpu_lease *lease,
				      struct sgpu_error *error);
/* Stops holding a lease: it can be taken until it expires. */
void sgpu_lease_offer(struct sgpu_lease_pool *pool, const char *id);
/* Takes an offered lease; the caller then holds it. Errors: SGPU_ESYSTEM if no lease has this id,
 * or it is held, expired, or for results instead of inputs or the reverse; SGPU_EPOLICY if it is
 * for another batch; it then stays offered. */
SGPU_MUST_CHECK int sgpu_lease_take(struct sgpu_lease_pool *pool, const char *id,
				    const uint8_t batch_id[SGPU_BATCH_ID_SIZE], bool results,
				    struct sgpu_lease *lease, struct sgpu_error *error);
/* The caller holds it; its range is cleared. */
void sgpu_lease_end(struct sgpu_lease_pool *pool, const char *id);

/* The leases that one batch holds; zeroed, except for what is borrowed. */
struct sgpu_leases {
	struct sgpu_lease_pool *pool;
	const uint8_t *batch_id;
	struct sgpu_lease *inputs;
	int input_count;
	struct sgpu_lease results; /* id "": there is none */
	bool offered;
};
/* Takes the lease of a segment's payload, unless the batch has it. Errors: those of
 * sgpu_lease_take; SGPU_EINVALID: the payload is not in it. */
SGPU_MUST_CHECK int sgpu_leases_take(struct sgpu_leases *leases,
				     const struct sgpu_batch_segment *segment, uint64_t size,
				     struct sgpu_error *error);
/* Makes a lease for the batch's results, and says where it is. False: there is no room. */
bool sgpu_leases_results(struct sgpu_leases *leases, uint64_t size, struct sgpu_location *location);
/* Where a payload in one of the leases is, or goes. */
uint8_t *sgpu_leases_at(const struct sgpu_leases *leases, const struct sgpu_location *location);
/* Lets others take the results' lease; and ends it, unless somebody has taken it. */
void sgpu_leases_offer(struct sgpu_leases *leases);
void sgpu_leases_withdraw(struct sgpu_leases *leases);
/* Ends the leases, except the results' lease if it was offered. */
void sgpu_leases_free(struct sgpu_leases *leases);

/* ---- the client's side ---- */
/* A pool's file from another process must be a sealed memory file of this size that contains the
 * lease. Errors: SGPU_EINVALID, SGPU_EPOLICY, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_lease_check(int fd, uint64_t pool_size, const struct sgpu_lease *lease,
				     struct sgpu_error *error);
/* A mapping of a lease that was checked. Errors: SGPU_ESYSTEM. */
struct sgpu_lease_mapping {
	uint8_t *memory;
	uint64_t size;
};
SGPU_MUST_CHECK int sgpu_lease_map(int fd, const struct sgpu_lease *lease,
				   struct sgpu_lease_mapping *mapping, struct sgpu_error *error);
/* Accepts a mapping that was unmapped. */
void sgpu_lease_unmap(struct sgpu_lease_mapping *mapping);

#endif
