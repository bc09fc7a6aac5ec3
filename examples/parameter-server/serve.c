/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's loop, on one thread: waits for sockets, receives from all that have something,
 * and sends to all what answers their whole requests. What a client does not take is kept, and
 * nothing more is received from it until it does.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "parameters.h"

enum { HEAD = 8, ITEM = sizeof(struct parameters_item), WEIGHT = sizeof(double) };

struct connection {
	int socket;
	size_t in_size, out_size, sent;
	bool gone;  /* of no more use */
	bool waits; /* for the client to take what is in `out` */
	/* Two of the largest, so that a request can follow another. */
	unsigned char in[2 * (HEAD + PARAMETERS_ITEMS_MAX * ITEM)];
	unsigned char out[2 * PARAMETERS_ITEMS_MAX * WEIGHT];
};

struct server {
	const struct parameters_service *service;
	struct connection *connections;
	size_t count;
	uint64_t requests;
};

/* Answers the request at the begin of `in`. Returns how many bytes it has, 0 if it has not come
 * whole or the answer has no room, -1 if it is none. */
static int answer(struct server *server, struct connection *c, const unsigned char *in, size_t size)
{
	struct parameters_item item;
	uint64_t items;
	double weight;

	if (size < HEAD) {
		return 0;
	}
	memcpy(&items, in, HEAD);
	if (items > PARAMETERS_ITEMS_MAX) {
		return -1;
	}
	if (size < HEAD + items * ITEM ||
	    sizeof(c->out) - c->out_size < (items ? items : 1) * WEIGHT) {
		return 0;
	}
	for (uint64_t i = 0; i < (items ? items : 1); i++) {
		if (items) {
			memcpy(&item, in + HEAD + i * ITEM, ITEM);
			weight = parameters_update(server->service->model, item.key, item.change);
		} else {
			weight = parameters_sum(server->service->model);
		}
		memcpy(c->out + c->out_size, &weight, WEIGHT);
		c->out_size += WEIGHT;
	}
	server->requests++;
	return (int)(HEAD + items * ITEM);
}

/* Returns false if the client has sent what is no request. */
static bool answer_all(struct server *server, struct connection *c)
{
	size_t taken = 0;
	int size;

	while ((size = answer(server, c, c->in + taken, c->in_size - taken)) > 0) {
		taken += (size_t)size;
	}
	c->in_size -= taken;
	memmove(c->in, c->in + taken, c->in_size);
	return size == 0;
}

/* What one turn of the loop works with: calls that are made together, and whose they are. */
struct turn {
	struct sgpu_rpc_io ios[PARAMETERS_CONNECTIONS_MAX];
	struct connection *of[PARAMETERS_CONNECTIONS_MAX];
	size_t count;
};

static void add_call(struct turn *turn, struct connection *c, void *data, size_t size)
{
	turn->ios[turn->count] =
		(struct sgpu_rpc_io){ .fd = c->socket, .data = data, .size = size };
	turn->of[turn->count++] = c;
}

/* From those that have something and have taken what they were sent. */
static int receive_all(struct server *server, const struct pollfd *fds, struct sgpu_error *error)
{
	const size_t most = server->service->read_max;
	struct turn turn = { .count = 0 };
	int rc;

	for (size_t i = 0; i < server->count; i++) {
		struct connection *c = &server->connections[i];
		const size_t room = sizeof(c->in) - c->in_size;

		c->waits = c->out_size && !fds[i].revents;
		if (fds[i].revents && !c->out_size) {
			add_call(&turn, c, c->in + c->in_size, most && most < room ? most : room);
		}
	}
	rc = sgpu_rpc_call_all(server->service->rpc, SGPU_RPC_RECV, turn.ios, turn.count, error);
	for (size_t i = 0; i < turn.count && rc == SGPU_OK; i++) {
		const struct sgpu_rpc_io *io = &turn.ios[i];
		struct connection *c = turn.of[i];

		c->in_size += io->done;
		c->gone = io->code == SGPU_ESYSTEM || (io->code == SGPU_OK && !io->done) ||
			  !answer_all(server, c);
	}
	return rc;
}

/* Answers, until each client has to do something: to take them, or to send requests. */
static int send_all(struct server *server, struct sgpu_error *error)
{
	struct turn turn;
	int rc = SGPU_OK;

	do {
		turn.count = 0;
		for (size_t i = 0; i < server->count; i++) {
			struct connection *c = &server->connections[i];

			if (!c->gone && !c->waits && c->out_size) {
				add_call(&turn, c, c->out + c->sent, c->out_size - c->sent);
			}
		}
		rc = sgpu_rpc_call_all(server->service->rpc, SGPU_RPC_SEND, turn.ios, turn.count,
				       error);
		for (size_t i = 0; i < turn.count && rc == SGPU_OK; i++) {
			struct connection *c = turn.of[i];

			c->sent += turn.ios[i].done;
			c->gone = turn.ios[i].code == SGPU_ESYSTEM;
			c->waits = c->sent < c->out_size;
			if (!c->waits) {
				c->sent = c->out_size = 0;
				c->gone = c->gone || !answer_all(server, c);
			}
		}
	} while (rc == SGPU_OK && turn.count);
	return rc;
}

/* Until one of the sockets has something to do. A call that fails for good, as when the threads
 * outside have gone, fails here, too. */
static int serve_once(struct server *server, struct sgpu_error *error)
{
	struct pollfd fds[PARAMETERS_CONNECTIONS_MAX];
	size_t kept = 0, ready;
	int rc;

	for (size_t i = 0; i < server->count; i++) {
		const struct connection *c = &server->connections[i];

		fds[i] = (struct pollfd){ .fd = c->socket,
					  .events = c->out_size ? POLLOUT : POLLIN };
	}
	rc = sgpu_rpc_poll(server->service->rpc, fds, server->count, -1, &ready, error);
	if (rc < 0) {
		return rc == SGPU_ERETRY ? SGPU_OK : rc;
	}
	rc = receive_all(server, fds, error);
	rc = rc ? rc : send_all(server, error);
	for (size_t i = 0; i < server->count && rc == SGPU_OK; i++) {
		if (!server->connections[i].gone && kept++ != i) {
			server->connections[kept - 1] = server->connections[i];
		}
	}
	server->count = rc == SGPU_OK ? kept : server->count;
	return rc;
}

int parameters_serve(const struct parameters_service *service, uint64_t *requests,
		     struct sgpu_error *error)
{
	const uint64_t most = service->requests_max ? service->requests_max : UINT64_MAX;
	struct server server = { .service = service, .count = service->count };
	int rc = SGPU_OK;

	*requests = 0;
	if (service->count < 1 || service->count > PARAMETERS_CONNECTIONS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "%zu connections", service->count);
	}
	server.connections = calloc(service->count, sizeof(*server.connections));
	if (!server.connections) {
		return sgpu_fail_nomem(error);
	}
	for (size_t i = 0; i < service->count; i++) {
		server.connections[i].socket = service->sockets[i];
	}
	while (rc == SGPU_OK && server.count && server.requests < most) {
		rc = serve_once(&server, error);
	}
	*requests = server.requests;
	free(server.connections);
	return rc;
}
