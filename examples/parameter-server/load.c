/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients. Each thread has some of the connections and sends its share of the requests: at a given
 * rate, whether answers come or not, or one on each connection as soon as the last is answered. The
 * time of a request counts from the moment at which it was due, so that a server that is late for
 * one is late for those behind it, too.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include <sgpu/base.h>

#include "parameters.h"

/* Requests of a connection that have no answer yet: sockets have room for all of them and for their
 * answers, so that neither side waits for the other to read. */
enum { OPEN_MAX = 16, HEAD = 8, WEIGHT = sizeof(double), THREADS_MAX = PARAMETERS_CONNECTIONS_MAX };
#define SECOND 1000000000u

struct link {
	int socket;
	uint64_t sent, answered;
	uint64_t due[OPEN_MAX];
	unsigned char in[PARAMETERS_ITEMS_MAX * WEIGHT]; /* of an answer */
	size_t in_size;
};

struct client {
	pthread_t thread;
	const struct parameters_load *load;
	struct link *links;
	size_t count;
	uint64_t requests, sent, answered;
	uint64_t begin, end, interval; /* ns */
	uint64_t seed;
	double changes;
	uint64_t *times; /* of each request, ns */
	int code;
	struct sgpu_error error;
};

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 24;
}

size_t parameters_make_request(unsigned char *request, uint64_t items, uint64_t *seed,
			       double *changes)
{
	struct parameters_item item;

	memcpy(request, &items, HEAD);
	for (uint64_t i = 0; i < items; i++) {
		const uint64_t number = next_random(seed);

		item.key = parameters_key(number % PARAMETERS_FEATURES);
		item.change = number >> 20 & 1 ? (double)(1 + (number >> 21) % 8) : 0;
		*changes += item.change;
		memcpy(request + HEAD + i * sizeof(item), &item, sizeof(item));
	}
	return HEAD + items * sizeof(item);
}

static int send_whole(int socket, const void *data, size_t size, struct sgpu_error *error)
{
	const char *from = data;
	ssize_t done;

	while (size) {
		done = send(socket, from, size, MSG_NOSIGNAL);
		if (done < 0 && errno != EINTR) {
			return sgpu_fail_errno(error, "cannot send a request");
		}
		from += done > 0 ? done : 0;
		size -= done > 0 ? (size_t)done : 0;
	}
	return SGPU_OK;
}

static int send_request(struct client *client, struct link *link, uint64_t due)
{
	unsigned char request[PARAMETERS_REQUEST_MAX];
	const size_t size = parameters_make_request(request, client->load->items, &client->seed,
						    &client->changes);

	link->due[link->sent++ % OPEN_MAX] = due;
	client->sent++;
	return send_whole(link->socket, request, size, &client->error);
}

/* One request on each connection that has none open. */
static int send_next(struct client *client)
{
	int rc = SGPU_OK;

	for (size_t i = 0; i < client->count && rc == SGPU_OK; i++) {
		struct link *link = &client->links[i];

		if (client->sent < client->requests && link->sent == link->answered) {
			rc = send_request(client, link, sgpu_now_ns());
		}
	}
	return rc;
}

/* What is due, on the connections in turns. *wait: nanoseconds until the next is due; UINT64_MAX:
 * an answer must come first. */
static int send_due(struct client *client, uint64_t *wait)
{
	int rc = SGPU_OK;

	*wait = UINT64_MAX;
	while (rc == SGPU_OK && client->sent < client->requests) {
		struct link *link = &client->links[client->sent % client->count];
		const uint64_t due = client->begin + client->sent * client->interval;
		const uint64_t now = sgpu_now_ns();

		if (link->sent - link->answered == OPEN_MAX) {
			break;
		}
		if (due > now) {
			*wait = due - now;
			break;
		}
		rc = send_request(client, link, due);
	}
	return rc;
}

static int take_answer(struct client *client, struct link *link, uint64_t now)
{
	const unsigned items = client->load->items;
	double weight;

	if (link->answered == link->sent) {
		return sgpu_fail(&client->error, SGPU_EDIFFERS, "an answer to no request");
	}
	for (unsigned i = 0; i < items; i++) {
		memcpy(&weight, link->in + i * WEIGHT, WEIGHT);
		if (!(weight >= 0 && isfinite(weight))) {
			return sgpu_fail(&client->error, SGPU_EDIFFERS, "a weight of %g", weight);
		}
	}
	client->times[client->answered++] = now - link->due[link->answered++ % OPEN_MAX];
	client->end = now;
	link->in_size = 0;
	return SGPU_OK;
}

/* Reads as far as there is something. */
static int take_answers(struct client *client, struct link *link)
{
	const size_t whole = client->load->items * WEIGHT;
	ssize_t got;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && link->answered < link->sent) {
		got = recv(link->socket, link->in + link->in_size, whole - link->in_size,
			   MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
			return SGPU_OK;
		}
		if (got <= 0) {
			return got < 0 ? sgpu_fail_errno(&client->error, "cannot read an answer")
				       : sgpu_fail(&client->error, SGPU_ESYSTEM,
						   "the server has closed the connection");
		}
		link->in_size += (size_t)got;
		if (link->in_size == whole) {
			rc = take_answer(client, link, sgpu_now_ns());
		}
	}
	return rc;
}

static int wait_for_answers(struct client *client, uint64_t wait)
{
	struct pollfd fds[PARAMETERS_CONNECTIONS_MAX];
	const struct timespec limit = { (time_t)(wait / SECOND), (long)(wait % SECOND) };
	int rc = SGPU_OK;

	for (size_t i = 0; i < client->count; i++) {
		fds[i] = (struct pollfd){ .fd = client->links[i].socket, .events = POLLIN };
	}
	if (ppoll(fds, client->count, wait == UINT64_MAX ? NULL : &limit, NULL) < 0) {
		return errno == EINTR ? SGPU_OK : sgpu_fail_errno(&client->error, "cannot poll");
	}
	for (size_t i = 0; rc == SGPU_OK && i < client->count; i++) {
		if (fds[i].revents) {
			rc = take_answers(client, &client->links[i]);
		}
	}
	return rc;
}

static void *run_client(void *argument)
{
	struct client *client = argument;
	uint64_t wait = UINT64_MAX;

	(void)prctl(PR_SET_TIMERSLACK, 1000ul); /* requests are due to the microsecond */
	client->begin = client->end = sgpu_now_ns();
	client->code = SGPU_OK;
	while (client->code == SGPU_OK && client->answered < client->requests) {
		client->code = client->interval ? send_due(client, &wait) : send_next(client);
		if (client->code == SGPU_OK) {
			client->code = wait_for_answers(client, wait);
		}
	}
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void summarize(const struct client *clients, unsigned count, uint64_t *times,
		      uint64_t requests, struct parameters_result *result)
{
	uint64_t begin = UINT64_MAX, end = 0;

	for (unsigned i = 0; i < count; i++) {
		begin = clients[i].begin < begin ? clients[i].begin : begin;
		end = clients[i].end > end ? clients[i].end : end;
		result->changes += clients[i].changes;
	}
	qsort(times, requests, sizeof(*times), by_value);
	result->ns = end - begin;
	result->p50_ns = times[(requests * 50 + 99) / 100 - 1];
	result->p99_ns = times[(requests * 99 + 99) / 100 - 1];
}

int parameters_send_load(const int *sockets, size_t count, const struct parameters_load *load,
			 struct parameters_result *result, struct sgpu_error *error)
{
	const unsigned threads = load->threads;
	struct client *clients = NULL;
	struct link *links = NULL;
	uint64_t *times = NULL, *next;
	unsigned started = 0;
	int rc = SGPU_OK, failed;

	*result = (struct parameters_result){ 0 };
	if (threads < 1 || threads > count || count > PARAMETERS_CONNECTIONS_MAX ||
	    load->requests < threads || load->items < 1 || load->items > PARAMETERS_ITEMS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%llu requests of %u items, from %u threads over %zu connections",
				 (unsigned long long)load->requests, load->items, threads, count);
	}
	clients = calloc(threads, sizeof(*clients));
	links = calloc(count, sizeof(*links));
	times = calloc(load->requests, sizeof(*times));
	if (!clients || !links || !times) {
		rc = sgpu_fail_nomem(error);
		goto out;
	}
	next = times;
	for (size_t i = 0; i < count; i++) {
		links[i].socket = sockets[i];
	}
	for (unsigned i = 0; i < threads && rc == SGPU_OK; i++) {
		struct client *c = &clients[i];
		const size_t first = i * count / threads;

		c->load = load;
		c->links = links + first;
		c->count = (i + 1) * count / threads - first;
		c->requests = (i + 1) * load->requests / threads - i * load->requests / threads;
		c->interval = load->rate > 0 ? (uint64_t)(1e9 * threads / load->rate) : 0;
		c->seed = load->seed * THREADS_MAX + i;
		c->times = next;
		next += c->requests;
		failed = pthread_create(&c->thread, NULL, run_client, c);
		if (failed) {
			rc = sgpu_fail(error, SGPU_ESYSTEM, "cannot start a client: %s",
				       strerror(failed));
		}
		started += !failed;
	}
	for (unsigned i = 0; i < started; i++) {
		pthread_join(clients[i].thread, NULL);
		if (clients[i].code < 0 && rc == SGPU_OK) {
			rc = clients[i].code;
			*error = clients[i].error;
		}
	}
	if (rc == SGPU_OK) {
		summarize(clients, threads, times, load->requests, result);
	}
out:
	free(clients);
	free(links);
	free(times);
	return rc;
}

int parameters_ask_sum(int socket, double *sum, struct sgpu_error *error)
{
	const uint64_t items = 0;
	int rc = send_whole(socket, &items, sizeof(items), error);

	if (rc == SGPU_OK && recv(socket, sum, sizeof(*sum), MSG_WAITALL) != sizeof(*sum)) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "the server gives no sum");
	}
	return rc;
}
