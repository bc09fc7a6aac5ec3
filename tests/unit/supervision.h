/* SPDX-License-Identifier: Apache-2.0
 *
 * A supervisor of sgpu-serve whose steps are taken by a test, one at a time. The workers that
 * it starts are the test's program once more, and give away what they got; so what a worker says,
 * and what stands in its counters, is said by the test, which is its clients, too.
 */
#ifndef SUPERVISION_H
#define SUPERVISION_H

#include <signal.h>
#include <stddef.h>
#include <sys/un.h>

#include <jansson.h>

#include <sgpu/base.h>

#include "../../tools/sgpu-serve/supervisor.h"
#include "lying.h"
#include "unit.h"

enum {
	HONEST = 3001,
	LIAR = 3002,
	WORKERS = 3,
	RUNNING = 2,
	PUPPETS_MAX = 32,
	CLIENTS_MAX = 480,
	KEPT_MAX = 512
};
enum { PATIENCE_S = 60, ROUNDS = 400 };

/* A worker process, whose side is taken here. */
struct puppet {
	int line; /* open: its process lives; -1: there is none */
	int control, counters_fd;
	struct serve_counters *counters;
	uid_t uid;	    /* whose connections it got; 0: nobody's yet */
	bool deaf;	    /* it reads nothing */
	int kept[KEPT_MAX]; /* connections that it neither answers nor closes */
	int kept_count;
};

struct client {
	int fd; /* -1: there is none */
	uid_t uid;
	bool answered;
};

static struct supervision {
	struct server server;
	struct service_socket socket;
	struct supervisor s;
	struct world_random random;
	struct puppet puppets[PUPPETS_MAX];
	struct client clients[CLIENTS_MAX];
	char address[64];
	int listener, batch;
	bool lies;		 /* those of LIAR do as they like */
	unsigned before;	 /* descriptors that were open */
	unsigned sent;		 /* batches of all */
	unsigned came, answered; /* those of HONEST */
	unsigned refused;	 /* of LIAR's */
	unsigned died;		 /* workers of LIAR's */
	bool delayed;		 /* no worker may start, for a while */
	bool running;
} w;

/* ---- what a worker process does ---- */
static struct sockaddr_un address_of(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);
	return address;
}

static int be_puppet(const char *name)
{
	const struct sockaddr_un address = address_of(name);
	const int fds[] = { RUNNER_CONTROL_FD },
		  line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char byte = 0;

	if (connect(line, (const struct sockaddr *)&address, sizeof(address)) == 0) {
		send_bytes(line, &byte, 1, fds, 1);
		close(RUNNER_CONTROL_FD);
		(void)!recv(line, &byte, 1, 0);
	}
	return 0;
}

/* ---- the workers' side ---- */
static void forget_puppet(struct puppet *p)
{
	const int fds[] = { p->line, p->control, p->counters_fd };

	w.died += p->uid == LIAR;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(fds); i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
		}
	}
	for (int i = 0; i < p->kept_count; i++) {
		close(p->kept[i]);
	}
	munmap(p->counters, sizeof(*p->counters));
	*p = (struct puppet){ .line = -1 };
}

static void take_puppets(void)
{
	struct wire_ready ready = { .kid_count = 0 };
	struct wire_begin begin;
	char data[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))), byte;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = data,
				 .msg_controllen = sizeof(data) };
	const int line = accept4(w.listener, NULL, NULL, SOCK_CLOEXEC);
	struct puppet *p = w.puppets;
	int control, counters;

	if (line < 0) {
		return;
	}
	while (p->line >= 0) {
		p++;
	}
	CHECK(recvmsg(line, &packet, MSG_CMSG_CLOEXEC) == 1 &&
	      packet.msg_controllen == sizeof(data));
	memcpy(&control, CMSG_DATA(CMSG_FIRSTHDR(&packet)), sizeof(control));
	CHECK(wire_receive(control, WIRE_BEGIN, &begin, sizeof(begin), &counters, 1, NULL) ==
	      SGPU_OK);
	*p = (struct puppet){ .line = line, .control = control, .counters_fd = counters };
	p->counters =
		mmap(NULL, sizeof(*p->counters), PROT_READ | PROT_WRITE, MAP_SHARED, counters, 0);
	CHECK(p->counters != MAP_FAILED);
	(void)sgpu_wire_send(p->control, WIRE_READY, &ready, sizeof(ready), NULL,
			     0); /* unless it is to end already */
}

static void note(struct puppet *p)
{
	struct sgpu_greeting message;

	(void)sgpu_wire_send(p->control, WIRE_NOTE, &message, sizeof(message), NULL, 0);
}

static void answer(int connection)
{
	static struct wire_answer message;

	message = (struct wire_answer){ .error.code = SGPU_OK };
	(void)sgpu_wire_send(connection, WIRE_ANSWER, &message, sizeof(message), NULL, 0);
}

/* A connection has come: the client is answered, or not, or twice, and the connection is closed, or
 * kept. */
static void take_connection(struct puppet *p, int connection, const struct wire_take *take)
{
	const bool lies = take->uid == LIAR && w.lies;
	const uint32_t times = lies ? drawn(&w.random, 3) : 1;

	p->uid = (uid_t)take->uid;
	for (uint32_t i = 0; i < times; i++) {
		answer(connection);
	}
	if (lies && drawn(&w.random, 2) && p->kept_count < KEPT_MAX) {
		p->kept[p->kept_count++] = connection;
		return;
	}
	close(connection);
	if (!lies) {
		atomic_fetch_add(take->request ? &p->counters->requests_ended : &p->counters->ended,
				 1);
		note(p);
	}
}

/* As a worker does. One that is to end does. */
static void hear_supervisor(struct puppet *p)
{
	static union {
		struct wire_take take;
		struct wire_limits limits;
		struct sgpu_greeting plain;
	} message;
	enum wire_kind kind;
	int connection, rc;

	while ((rc = wire_peek(p->control, &kind, NULL)) == SGPU_OK) {
		rc = wire_receive(p->control, kind, &message, message_size(kind), &connection,
				  kind == WIRE_TAKE, NULL);
		CHECK(rc == SGPU_OK);
		if (kind == WIRE_TAKE && rc == SGPU_OK) {
			take_connection(p, connection, &message.take);
		}
		if (kind == WIRE_DRAIN && p->kept_count == 0) {
			rc = SGPU_ECANCELED;
			break;
		}
	}
	if (rc == SGPU_ECANCELED) {
		forget_puppet(p);
	}
}

static void set_counters(struct puppet *p, bool random, uint64_t value)
{
	_Atomic uint64_t *words = (void *)p->counters;

	for (size_t i = 0; i < sizeof(*p->counters) / sizeof(*words); i++) {
		const uint64_t any = world_next(&w.random);

		words[i] = !random	  ? value
			   : any % 4 == 0 ? any
			   : any % 4 == 1 ? any % 16
			   : any % 4 == 2 ? 0
					  : UINT64_MAX;
	}
}

static void do_something_wrong(struct puppet *p)
{
	switch (drawn(&w.random, 12)) {
	case 0:
		set_counters(p, false, UINT64_MAX);
		break;
	case 1:
		set_counters(p, false, 0);
		break;
	case 2:
		CHECK(ftruncate(p->counters_fd, drawn(&w.random, 8192)) != 0);
		break;
	case 3:
		lie(&w.random, p->control, 1 + drawn(&w.random, WIRE_KINDS - 1));
		break;
	case 4:
		for (int i = 0; i < 200; i++) {
			note(p);
		}
		break;
	case 5:
		p->deaf = true;
		break;
	case 6:
		if (drawn(&w.random, 4) == 0) {
			close(p->control); /* its process stays */
			p->control = -1;
			p->deaf = true;
		}
		break;
	case 7:
		if (drawn(&w.random, 4) == 0) {
			forget_puppet(p);
		}
		break;
	default:
		set_counters(p, true, 0);
		note(p);
	}
}

static void work(void)
{
	char byte;

	take_puppets();
	for (int i = 0; i < PUPPETS_MAX; i++) {
		struct puppet *p = &w.puppets[i];

		if (p->line < 0) {
			continue;
		}
		if (!p->deaf) {
			hear_supervisor(p);
		}
		if (p->line >= 0 && p->uid == LIAR && w.lies) {
			do_something_wrong(p);
		}
		if (p->line >= 0 && recv(p->line, &byte, 1, MSG_DONTWAIT) == 0) {
			forget_puppet(p); /* killed */
		}
	}
}

static struct puppet *puppet_of(uid_t uid)
{
	for (int i = 0; i < PUPPETS_MAX; i++) {
		if (w.puppets[i].line >= 0 && w.puppets[i].uid == uid) {
			return &w.puppets[i];
		}
	}
	return NULL;
}

/* ---- the clients' side ---- */
/* A connection as callers_accept leaves it, but of any user. */
static struct client *connect_as(uid_t uid)
{
	struct client *client = NULL;
	int ends[2];

	for (int i = 0; i < CLIENTS_MAX; i++) {
		client = !client && w.clients[i].fd < 0 ? &w.clients[i] : client;
	}
	for (int i = 0; client && i < SUPERVISOR_CALLERS_MAX; i++) {
		struct caller *caller = &w.s.callers[i];

		if (caller->fd < 0 &&
		    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
			*caller = (struct caller){ .fd = ends[1],
						   .uid = uid,
						   .since_ns = sgpu_now_ns() };
			*client = (struct client){ .fd = ends[0], .uid = uid };
			return client;
		}
	}
	return NULL;
}

static struct client *submit_as(uid_t uid)
{
	static struct wire_submit message;
	struct client *client = connect_as(uid);
	const int fds[] = { w.batch, w.batch, w.batch };

	if (client) {
		w.sent++;
		w.came += uid == HONEST;
		CHECK(sgpu_wire_send(client->fd, WIRE_SUBMIT, &message, sizeof(message), fds, 3));
	}
	return client;
}

static void leave(struct client *client)
{
	close(client->fd);
	*client = (struct client){ .fd = -1 };
}

/* What a client is told; the last is the end of its connection. */
static void hear_answers(void)
{
	static union {
		struct sgpu_greeting header;
		struct wire_answer answer;
		uint8_t bytes[MESSAGE_MAX];
	} message;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &w.clients[i];
		ssize_t got = 1;

		while (c->fd >= 0 && got > 0) {
			got = recv(c->fd, &message, sizeof(message), MSG_DONTWAIT);
			if (got > 0 && message.header.kind == WIRE_ANSWER) {
				c->answered = message.answer.error.code == SGPU_OK;
				w.refused += c->uid == LIAR && !c->answered;
			}
		}
		if (c->fd >= 0 && got == 0) {
			CHECK(c->answered || c->uid != HONEST);
			w.answered += c->uid == HONEST && c->answered;
			leave(c);
		}
	}
}

/* ---- all together ---- */
static void begin(uint64_t seed, unsigned in_flight)
{
	static char *arguments[] = { "test_supervisor", "--puppet", NULL, NULL };
	struct sockaddr_un address;

	memset(&w, 0, sizeof(w));
	world_seed(&w.random, seed);
	snprintf(w.address, sizeof(w.address), "sgpu-test-%d", (int)getpid());
	address = address_of(w.address);
	arguments[2] = w.address;
	w.server = (struct server){ .workers = WORKERS,
				    .running = RUNNING,
				    .submissions = 64,
				    .enclave_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC),
				    .arguments = arguments };
	w.socket.fd = -1;
	w.batch = memfd_create("batch", MFD_CLOEXEC);
	w.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	for (int i = 0; i < PUPPETS_MAX; i++) {
		w.puppets[i].line = -1;
	}
	for (int i = 0; i < CLIENTS_MAX; i++) {
		w.clients[i].fd = -1;
	}
	CHECK(bind(w.listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	      listen(w.listener, 16) == 0);
	CHECK(supervisor_begin(&w.s, &w.server, &w.socket) == 0);
	w.s.rules.others.in_flight = in_flight;
	w.before = count_open();
	w.running = true;
}

static void step(void)
{
	w.running = supervisor_step(&w.s, 5);
	w.delayed = w.delayed || w.s.start_ns > sgpu_now_ns();
	work();
	hear_answers();
}

/* Goes on until it holds; not for ever. */
static bool until(bool (*holds)(void))
{
	const uint64_t end = sgpu_now_ns() + PATIENCE_S * UINT64_C(1000000000);

	while (!holds() && sgpu_now_ns() < end) {
		step();
	}
	return holds();
}

static bool all_are_answered(void)
{
	return w.answered == w.came;
}

static bool liar_has_a_worker(void)
{
	return puppet_of(LIAR) != NULL;
}

static bool liar_has_none(void)
{
	return puppet_of(LIAR) == NULL;
}

static bool has_ended(void)
{
	return !w.running;
}

/* Root sees an object in which a liar has at most what was sent, whatever else it says of itself.
 */
static void check_status(void)
{
	char *text = supervisor_status(&w.s, 0);
	json_t *status = text ? json_loads(text, 0, NULL) : NULL, *tenant;
	size_t i;

	CHECK(json_is_object(status));
	json_array_foreach (json_object_get(json_object_get(status, "status"), "tenants"), i,
			    tenant) {
		CHECK(json_integer_value(json_object_get(tenant, "in_flight")) <= w.sent);
	}
	json_decref(status);
	free(text);
}

/* Everybody leaves; the supervisor ends with its workers, and keeps nothing open. */
static void end(void)
{
	w.lies = false;
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (w.clients[i].fd >= 0) {
			leave(&w.clients[i]);
		}
	}
	for (int i = 0; i < PUPPETS_MAX; i++) {
		if (w.puppets[i].line >= 0 && (w.puppets[i].deaf || w.puppets[i].kept_count > 0)) {
			forget_puppet(&w.puppets[i]);
		}
	}
	CHECK(kill(getpid(), SIGTERM) == 0);
	CHECK(until(has_ended) && w.s.status == 0);
	closing_do(true);
	/* A worker that was killed while it started may still be heard of. */
	for (int ms = 0; work(), count_open() != w.before && ms < 5000; ms++) {
		usleep(1000);
	}
	CHECK(count_open() == w.before);
	close(w.server.enclave_fd);
	close(w.s.signal_fd);
	close(w.listener);
	close(w.batch);
}

/* A worker of LIAR's that has a connection, and keeps it. */
static struct puppet *begin_lying(unsigned in_flight)
{
	begin(LYING_SEED, in_flight);
	CHECK(submit_as(LIAR) && until(liar_has_a_worker));
	return puppet_of(LIAR);
}

#endif
