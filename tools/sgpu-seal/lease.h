/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's side of leases of a server.
 */
#ifndef SGPU_SEAL_LEASE_H
#define SGPU_SEAL_LEASE_H

#include "runner/wire.h"

/* A lease, which this process holds while the connection is open. */
struct lease_client {
	int connection; /* -1: none */
	int pool;	/* the pool's file */
	struct sgpu_lease lease;
};
#define LEASE_CLIENT_INIT                    \
	{                                    \
		.connection = -1, .pool = -1 \
	}

/* Asks the server at `socket` (see sgpu_service_find) for a lease of `size` bytes for a batch's
 * payloads or, if `id` is given, for lease `id` with its results. Errors: the server's
 * (SGPU_ERETRY: no room; SGPU_EUNAVAILABLE: it has no pool), and those of sgpu_service_connect. */
SGPU_MUST_CHECK int lease_client_open(const char *socket,
				      const uint8_t batch_id[SGPU_BATCH_ID_SIZE], const char *id,
				      uint64_t size, struct lease_client *client,
				      struct sgpu_error *error);
/* Tells the server that the lease is filled, so that its batch can take it, or has been read.
 * Closes the client. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int lease_client_done(struct lease_client *client, struct sgpu_error *error);
/* Gives the lease up. Without lease_client_done, a lease to be filled ends, and a lease to be read
 * can be taken again until it expires. */
void lease_client_close(struct lease_client *client);

#endif
