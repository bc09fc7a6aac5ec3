/* SPDX-License-Identifier: Apache-2.0 */
#include "lease.h"

#include <string.h>

#include "base/io.h"

enum { LEASE_PATIENCE_S = 90 }; /* the server may have to start a worker */

int lease_client_open(const char *socket, const uint8_t batch_id[SGPU_BATCH_ID_SIZE],
		      const char *id, uint64_t size, struct lease_client *client,
		      struct sgpu_error *error)
{
	struct wire_lease asked = { .size = size };
	struct wire_lease_is answer;
	int rc;

	*client = (struct lease_client)LEASE_CLIENT_INIT;
	memcpy(asked.batch_id, batch_id, sizeof(asked.batch_id));
	if (id) {
		memcpy(asked.id, id, SGPU_REGION_ID_TEXT);
	}
	rc = ask_open(socket, WIRE_LEASE, &asked, sizeof(asked), &client->connection, error);
	rc = rc ? rc : ask_wait(client->connection, LEASE_PATIENCE_S, error);
	rc = rc ? rc
		: wire_fault(wire_receive(client->connection, WIRE_LEASE_IS, &answer,
					  sizeof(answer), &client->pool, 1, error),
			     error);
	if (rc == SGPU_OK) {
		answer.lease.id[SGPU_REGION_ID_TEXT] = '\0';
		client->lease = answer.lease;
		rc = (id && strcmp(answer.lease.id, id) != 0) || (!id && answer.lease.size != size)
			     ? sgpu_fail(error, SGPU_EINVALID,
					 "the server gives another lease than the one that was "
					 "asked for")
			     : sgpu_lease_check(client->pool, answer.pool_size, &answer.lease,
						error);
	}
	if (rc < 0) {
		lease_client_close(client);
	}
	return rc;
}

int lease_client_done(struct lease_client *client, struct sgpu_error *error)
{
	int rc;

	(void)wire_say(client->connection, WIRE_LEASE_DONE);
	rc = ask_wait(client->connection, LEASE_PATIENCE_S, error);
	rc = rc ? rc : wire_fault(wire_hear(client->connection, WIRE_LEASE_DONE, error), error);
	lease_client_close(client);
	return rc;
}

void lease_client_close(struct lease_client *client)
{
	sgpu_close(client->connection);
	sgpu_close(client->pool);
	client->connection = client->pool = -1;
}
