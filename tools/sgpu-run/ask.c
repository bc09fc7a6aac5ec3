/* SPDX-License-Identifier: Apache-2.0
 *
 * See wire.h.
 */
#include "base/io.h"
#include "wire.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "remote/greeting.h"

#define SECOND UINT64_C(1000000000)
enum { LOOK_MS = 1000 };

int ask_error(int connection, struct sgpu_error *error)
{
	struct wire_answer *answer = calloc(1, sizeof(*answer));
	int rc = answer ? wire_receive(connection, WIRE_ANSWER, answer, sizeof(*answer), NULL, 0,
				       error)
			: sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		wire_clean(answer);
		rc = answer->error.code;
		if (error) {
			*error = answer->error;
		}
		rc = rc < 0 ? rc
			    : sgpu_fail(error, SGPU_ESYSTEM, "the server answers something else");
	}
	free(answer);
	return rc;
}

int ask_open(const char *socket, enum wire_kind kind, void *message, size_t size, int *connection,
	     struct sgpu_error *error)
{
	struct sgpu_service_path path;
	int rc = sgpu_service_find(socket, &path, error);

	if (rc == SGPU_OK) {
		rc = sgpu_service_connect(&path, connection, error);
	}
	if (rc == SGPU_OK) {
		/* One that refuses at once may have said so and closed. */
		(void)wire_send(*connection, kind, message, size, NULL, 0);
	}
	return rc;
}

int ask_wait(int connection, unsigned patience_s, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();
	struct pollfd wait = { .fd = connection, .events = POLLIN };
	enum wire_kind kind;
	int rc = SGPU_ETIMEOUT;

	while (rc == SGPU_ETIMEOUT && sgpu_now_ns() - begin < patience_s * SECOND) {
		if (poll(&wait, 1, LOOK_MS) > 0) {
			rc = wire_peek(connection, &kind, error);
		} else if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "stopped");
		}
	}
	if (rc == SGPU_OK && kind == WIRE_ANSWER) {
		return ask_error(connection, error);
	}
	if (rc == SGPU_ETIMEOUT) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the server does not answer");
	}
	return rc == SGPU_ECANCELED
		       ? sgpu_fail(error, SGPU_ESYSTEM, "the server, or its worker, has ended")
		       : rc;
}

int ask_server(const char *socket, enum wire_kind kind, void *message, size_t message_size,
	       enum wire_kind expected, unsigned patience_s, char **text, size_t *size,
	       struct sgpu_error *error)
{
	int connection = -1, file = -1,
	    rc = ask_open(socket, kind, message, message_size, &connection, error);

	*text = NULL;
	*size = 0;
	if (rc < 0) {
		return rc;
	}
	rc = ask_wait(connection, patience_s, error);
	if (rc == SGPU_OK) {
		rc = wire_hear(connection, expected, &file, error);
	}
	close(connection);
	if (rc < 0) {
		return rc;
	}
	*text = calloc(1, WIRE_TEXT_MAX + 1);
	rc = *text ? wire_read_text(file, "the server's answer", *text, WIRE_TEXT_MAX, size, error)
		   : sgpu_fail_nomem(error);
	close(file);
	if (rc < 0) {
		free(*text);
		*text = NULL;
	}
	return rc;
}

/* ---- leases ---- */
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
	if (rc == SGPU_OK) {
		rc = ask_wait(client->connection, LEASE_PATIENCE_S, error);
	}
	rc = rc ? rc
		: wire_receive(client->connection, WIRE_LEASE_IS, &answer, sizeof(answer),
			       &client->pool, 1, error);
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

	(void)wire_say(client->connection, WIRE_LEASE_DONE, -1);
	rc = ask_wait(client->connection, LEASE_PATIENCE_S, error);
	if (rc == SGPU_OK) {
		rc = wire_hear(client->connection, WIRE_LEASE_DONE, NULL, error);
	}
	lease_client_close(client);
	return rc;
}

void lease_client_close(struct lease_client *client)
{
	sgpu_close(client->connection);
	sgpu_close(client->pool);
	client->connection = client->pool = -1;
}
