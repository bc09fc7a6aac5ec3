/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's loop, on one thread: waits for sockets, reads what has come, answers all whole
 * requests of a connection with one send. What a client does not take is kept, and nothing more is
 * read from it until it does.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "parameters.h"

enum { HEAD = 8, ITEM = sizeof(struct parameters_item), WEIGHT = sizeof(double) };

struct connection {
	int socket;
	size_t in_size, out_size, sent;
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

/* Sends and answers until the client has to do something: to take answers, or to send requests.
 * *gone: the connection is of no more use. */
static int advance(struct server *server, struct connection *c, bool *gone,
		   struct sgpu_error *error)
{
	size_t done;
	int rc;

	for (;;) {
		if (!answer_all(server, c)) {
			*gone = true;
			return SGPU_OK;
		}
		if (c->sent == c->out_size) {
			c->sent = c->out_size = 0;
			return SGPU_OK;
		}
		rc = sgpu_rpc_send(server->service->rpc, c->socket, c->out + c->sent,
				   c->out_size - c->sent, &done, error);
		if (rc < 0) {
			*gone = rc == SGPU_ESYSTEM;
			return rc == SGPU_ERETRY || rc == SGPU_ESYSTEM ? SGPU_OK : rc;
		}
		c->sent += done;
		if (c->sent == c->out_size) {
			c->sent = c->out_size = 0;
		}
		if (!c->in_size) {
			return SGPU_OK;
		}
	}
}

static int serve_connection(struct server *server, struct connection *c, short events, bool *gone,
			    struct sgpu_error *error)
{
	const size_t most = server->service->read_max;
	size_t room = sizeof(c->in) - c->in_size, done = 0;
	int rc;

	room = most && most < room ? most : room;
	if (!(events & POLLOUT)) {
		rc = sgpu_rpc_recv(server->service->rpc, c->socket, c->in + c->in_size, room, &done,
				   error);
		if (rc == SGPU_ERETRY) {
			return SGPU_OK;
		}
		if (rc < 0 || !done) {
			*gone = rc == SGPU_OK || rc == SGPU_ESYSTEM;
			return *gone ? SGPU_OK : rc;
		}
		c->in_size += done;
	}
	return advance(server, c, gone, error);
}

/* Until one of the sockets has something to do. A call that fails for good, as when the threads
 * outside have gone, fails here, too. */
static int serve_once(struct server *server, struct sgpu_error *error)
{
	struct pollfd fds[PARAMETERS_CONNECTIONS_MAX];
	const size_t count = server->count;
	size_t kept = 0, ready;
	int rc;

	for (size_t i = 0; i < count; i++) {
		const struct connection *c = &server->connections[i];

		fds[i] = (struct pollfd){ .fd = c->socket,
					  .events = c->out_size ? POLLOUT : POLLIN };
	}
	rc = sgpu_rpc_poll(server->service->rpc, fds, count, -1, &ready, error);
	if (rc < 0) {
		return rc == SGPU_ERETRY ? SGPU_OK : rc;
	}
	for (size_t i = 0; rc == SGPU_OK && i < count; i++) {
		bool gone = false;

		if (fds[i].revents) {
			rc = serve_connection(server, &server->connections[i], fds[i].revents,
					      &gone, error);
		}
		if (!gone) {
			if (kept != i) {
				server->connections[kept] = server->connections[i];
			}
			kept++;
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
