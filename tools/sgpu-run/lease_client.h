/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases of a server, as its clients have them. sgpu-seal is built with this, ask.c, wire.c and
 * service.c.
 */
#ifndef SGPU_RUN_LEASE_CLIENT_H
#include "stage/lease.h"

#define SGPU_RUN_LEASE_CLIENT_H

/* A lease that is this process's, for as long as it is open. */
struct lease_client {
	int connection; /* -1: none */
	int pool;	/* the pool's file */
	struct sgpu_lease lease;
};
#define LEASE_CLIENT_INIT                    \
	{                                    \
		.connection = -1, .pool = -1 \
	}

/* Asks the server at `socket` (an option, or NULL; see sgpu_service_find) for a lease of `size`
 * bytes for the payloads of a batch, or, with an id, for the lease of a batch's results. Errors:
 * those of the server (SGPU_ERETRY: no room; SGPU_EUNAVAILABLE: it gives none), and of
 * sgpu_service_connect. */
SGPU_MUST_CHECK int lease_client_open(const char *socket,
				      const uint8_t batch_id[SGPU_BATCH_ID_SIZE], const char *id,
				      uint64_t size, struct lease_client *client,
				      struct sgpu_error *error);
/* It is filled, and free to be taken by its batch; or it has been read, and ends. Errors:
 * SGPU_ESYSTEM. */
SGPU_MUST_CHECK int lease_client_done(struct lease_client *client, struct sgpu_error *error);
/* One that is not done: what was not filled ends, what was not read stays for its time. */
void lease_client_close(struct lease_client *client);

#endif
