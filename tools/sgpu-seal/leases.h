/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads and results in leases of a server of this machine.
 */
#ifndef SGPU_SEAL_LEASES_H
#define SGPU_SEAL_LEASES_H

#include <sgpu/batch.h>

#include "transfer/transfer.h"
#include "wire.h"
#include "parts.h"

/* ---- sealing into one ---- */
struct seal_lease {
	bool wanted;
	const char *socket; /* of the server, or NULL */
	uint64_t size;	    /* of all payloads so far */
	struct lease_client client;
	struct sgpu_lease_mapping mapping;
};
#define SEAL_LEASE_INIT                     \
	{                                   \
		.client = LEASE_CLIENT_INIT \
	}

/* A place for a payload of `size` bytes. */
SGPU_MUST_CHECK int seal_lease_place(struct seal_lease *lease, uint64_t size,
				     struct sgpu_location *location, struct sgpu_error *error);
/* Gets the lease for all that was placed, and names it in the batch. */
SGPU_MUST_CHECK int seal_lease_open(struct seal_lease *lease, struct sgpu_batch *batch,
				    struct sgpu_error *error);
/* The part that was added last goes to its place. */
void seal_lease_sink(struct seal_lease *lease, const struct sgpu_location *location,
		     struct sgpu_host_part *part);
/* All is in its place: the batch can take it. */
SGPU_MUST_CHECK int seal_lease_filled(struct seal_lease *lease, struct sgpu_error *error);
void seal_lease_close(struct seal_lease *lease);

/* ---- opening from one ---- */
enum { OPEN_LEASES_MAX = 8 }; /* that a response may name: a server names one */
struct open_leases {
	const char *socket;
	struct lease_client list[OPEN_LEASES_MAX];
	int count;
	bool read_all; /* no output is left in them that was not wanted */
};
/* Gets those that the response names for these outputs: is_wanted(argument, i) says which. */
SGPU_MUST_CHECK int open_leases_get(struct open_leases *leases, const struct sgpu_batch *response,
				    bool (*is_wanted)(const void *argument, int segment),
				    const void *argument, struct sgpu_error *error);
/* Where an output lies that is in one of them: its descriptor stays the lease's. */
void open_leases_source(const struct open_leases *leases, const struct sgpu_batch *response,
			int segment, struct sgpu_source *source);
/* All that was wanted has been read: what nobody can want any more ends. */
void open_leases_release(struct open_leases *leases);
void open_leases_close(struct open_leases *leases);

#endif
