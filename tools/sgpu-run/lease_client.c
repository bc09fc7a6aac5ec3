/* SPDX-License-Identifier: Apache-2.0
 *
 * See lease_client.h.
 */
#include "lease_client.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "service.h"
#include "wire.h"

enum { LOOK_MS = 100 };
static const uint64_t PATIENCE_NS = UINT64_C(90000000000); /* the server may have to start a worker */

/* Waits for a message, which is then there. */
static int wait_for_server(const struct lease_client *client, enum wire_kind *kind, struct sgpu_error *error)
{
	struct pollfd server = { .fd = client->connection, .events = POLLIN };
	const uint64_t begin = sgpu_now_ns();
	int rc = SGPU_ETIMEOUT;

	while (rc == SGPU_ETIMEOUT) {
		if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
		}
		if (sgpu_now_ns() - begin > PATIENCE_NS) {
			return sgpu_fail(error, SGPU_ESYSTEM, "the server does not answer");
		}
		rc = poll(&server, 1, LOOK_MS) > 0 ? wire_peek(client->connection, kind, error) : SGPU_ETIMEOUT;
	}
	return rc == SGPU_ECANCELED ? sgpu_fail(error, SGPU_ESYSTEM, "the server has ended, and its leases with it") : rc;
}

/* What comes from another process is made fit to be printed. */
static int receive_refusal(const struct lease_client *client, struct sgpu_error *error)
{
	static struct wire_answer answer;
	struct sgpu_error *e = &answer.error;
	char *const texts[] = { e->text, e->hint };
	const size_t sizes[] = { sizeof(e->text), sizeof(e->hint) };
	int rc = wire_receive(client->connection, WIRE_ANSWER, &answer, sizeof(answer), NULL, 0, error);

	if (rc < 0) {
		return rc;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(texts); i++) {
		texts[i][sizes[i] - 1] = '\0';
		for (char *c = texts[i]; *c; c++) {
			*c = *c >= ' ' && *c <= '~' ? *c : '?';
		}
	}
	if (e->code >= SGPU_OK || e->code < SGPU_ENOSPACE) {
		e->code = SGPU_ESYSTEM;
	}
	if (error) {
		*error = *e;
	}
	return e->code;
}

static int receive_lease(struct lease_client *client, const char *id, uint64_t size, struct sgpu_error *error)
{
	struct wire_lease_is answer;
	int rc = wire_receive(client->connection, WIRE_LEASE_IS, &answer, sizeof(answer), &client->pool, 1, error);

	if (rc < 0) {
		client->pool = -1;
		return rc;
	}
	answer.lease.id[SGPU_REGION_ID_TEXT] = '\0';
	if ((id && strcmp(answer.lease.id, id) != 0) || (!id && answer.lease.size != size)) {
		return sgpu_fail(error, SGPU_EINVALID, "the server gives another lease than the one that was asked for");
	}
	rc = sgpu_lease_check(client->pool, answer.pool_size, &answer.lease, error);
	client->lease = answer.lease;
	return rc;
}

int lease_client_open(const char *socket, const uint8_t batch_id[SGPU_BATCH_ID_SIZE], const char *id, uint64_t size,
		      struct lease_client *client, struct sgpu_error *error)
{
	struct wire_lease asked = { .size = size };
	struct service_path path;
	enum wire_kind kind;
	int rc = service_find(socket, &path, error);

	*client = (struct lease_client)LEASE_CLIENT_INIT;
	if (rc == SGPU_OK) {
		rc = service_connect(&path, &client->connection, error);
	}
	if (rc < 0) {
		return rc;
	}
	memcpy(asked.batch_id, batch_id, sizeof(asked.batch_id));
	if (id) {
		memcpy(asked.id, id, SGPU_REGION_ID_TEXT);
	}
	/* A server that refuses at once may have said so and closed. */
	(void)wire_send(client->connection, WIRE_LEASE, &asked, sizeof(asked), NULL, 0);
	rc = wait_for_server(client, &kind, error);
	if (rc == SGPU_OK) {
		rc = kind == WIRE_ANSWER ? receive_refusal(client, error) : receive_lease(client, id, size, error);
	}
	if (rc < 0) {
		lease_client_close(client);
	}
	return rc;
}

int lease_client_done(struct lease_client *client, struct sgpu_error *error)
{
	struct wire_plain done;
	enum wire_kind kind;
	int rc;

	(void)wire_send(client->connection, WIRE_LEASE_DONE, &done, sizeof(done), NULL, 0);
	rc = wait_for_server(client, &kind, error);
	if (rc == SGPU_OK) {
		rc = kind == WIRE_ANSWER ? receive_refusal(client, error) :
		     wire_receive(client->connection, WIRE_LEASE_DONE, &done, sizeof(done), NULL, 0, error);
	}
	lease_client_close(client);
	return rc;
}

void lease_client_close(struct lease_client *client)
{
	if (client->connection >= 0) {
		close(client->connection);
	}
	if (client->pool >= 0) {
		close(client->pool);
	}
	client->connection = client->pool = -1;
}
