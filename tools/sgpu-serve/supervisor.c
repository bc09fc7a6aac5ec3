/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop over the listening socket, connections that no worker has yet, and workers. Nothing in
 * the loop blocks. Of what clients send, it reads only the head of a message, which says what they
 * ask for.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "host/host.h"
#include "supervisor.h"

#define SECOND UINT64_C(1000000000)
#define SPEAK_NS (10 * SECOND)	/* for a connection to say what it wants */
#define WAIT_NS (60 * SECOND)	/* for a caller to get a worker; not for a turn */
#define GIVE_UP_NS (5 * SECOND) /* for a worker to wipe its keys and end */
#define PAUSE_NS (SECOND / 10)	/* after descriptors, threads or memory ran out */
enum { LONGEST_MS = 3600000 };
#define LACK_LOOK_NS (SECOND / 4) /* between looks for a free worker, while tenants have none */

/* Returns the uid that stands for all users whom this user namespace does not map; (uid_t)-1: the
 * first line of its map, "first inside, first outside, count", has all. */
static uid_t unmapped_uid(void)
{
	enum { USUAL = 65534 };
	unsigned long first, users;
	char text[64];
	uint64_t uid;

	if (sgpu_peek_line("/proc/self/uid_map", text, sizeof(text)) &&
	    sscanf(text, "%10lu %*u %10lu", &first, &users) == 2 && first == 0 &&
	    users == UINT32_MAX) {
		return (uid_t)-1;
	}
	if (!sgpu_peek_line("/proc/sys/kernel/overflowuid", text, sizeof(text)) ||
	    sgpu_parse_u64(text, "a user", 0, UINT32_MAX - 1, &uid, NULL) != SGPU_OK) {
		uid = USUAL;
	}
	return (uid_t)uid;
}

void callers_hang_up(struct caller *caller)
{
	closing_take(caller->fd);
	*caller = (struct caller){ .fd = -1 };
}

static void refuse_by(struct caller *caller, const struct sgpu_error *error)
{
	wire_refuse(caller->fd, error);
	callers_hang_up(caller);
}

void callers_refuse(struct caller *caller, int rc, const char *format, ...)
{
	struct sgpu_error error = { 0 };
	va_list arguments;

	va_start(arguments, format);
	sgpu_vfail(&error, rc, format, arguments);
	va_end(arguments);
	if (caller->tenant && rc == SGPU_ERETRY) {
		caller->tenant->sums[SERVE_OVER_QUOTA]++;
	}
	refuse_by(caller, &error);
}

/* Returns the caller to refuse for a new one: the first silent one, since clients normally send a
 * message immediately; else the last of the user with most waiting callers; NULL if each user has
 * one. */
static struct caller *find_dispensable(struct supervisor *s)
{
	unsigned of_tenant[SUPERVISOR_TENANTS_MAX] = { 0 }, most = 1;
	struct caller *found = NULL;

	for (struct caller *c = s->callers; c < s->callers + SUPERVISOR_CALLERS_MAX; c++) {
		if (c->tenant) {
			const unsigned count = ++of_tenant[c->tenant - s->tenants];

			most = count > most ? count : most;
		} else if (!found || c->since_ns < found->since_ns) {
			found = c;
		}
	}
	if (found) {
		return found;
	}
	for (int i = 0; most > 1 && i < SUPERVISOR_CALLERS_MAX; i++) {
		struct caller *c = &s->callers[i];

		if (of_tenant[c->tenant - s->tenants] == most &&
		    (!found || c->order > found->order)) {
			found = c;
		}
	}
	return found;
}

/* Returns a place for a connection, if need be by refusing another caller; NULL: there is none. */
static struct caller *make_place(struct supervisor *s)
{
	struct caller *caller;

	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		if (s->callers[i].fd < 0) {
			return &s->callers[i];
		}
	}
	caller = find_dispensable(s);
	if (caller) {
		callers_refuse(caller, SGPU_ERETRY, "too many connections wait");
	}
	return caller;
}

bool callers_accept(struct supervisor *s, struct caller **accepted)
{
	const bool room = closing_room() > SUPERVISOR_CALLERS_MAX + SUPERVISOR_ACCEPT_AT_ONCE;
	struct caller *place, caller = { .fd = -1 };
	struct ucred peer;
	int silent = 0;
	socklen_t size = sizeof(peer);

	*accepted = NULL;
	caller.fd = room ? accept4(s->socket->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
	if (caller.fd < 0) {
		if (!room || errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		    errno == ENOBUFS) {
			s->accept_ns = sgpu_now_ns() + PAUSE_NS;
		}
		return false;
	}
	if (getsockopt(caller.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
	    size != sizeof(peer)) {
		callers_hang_up(&caller);
		return true;
	}
	caller.uid = peer.uid;
	caller.since_ns = sgpu_now_ns();
	if (peer.uid == s->unmapped) {
		callers_refuse(
			&caller, SGPU_EPOLICY,
			"the kernel does not say whose this connection is: the server's user "
			"namespace does not map its user, and calls all such users %lu",
			(unsigned long)peer.uid);
		return true;
	}
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		const struct caller *c = &s->callers[i];

		silent += c->fd >= 0 && !c->tenant && c->uid == peer.uid;
	}
	if (silent >= SUPERVISOR_SILENT_MAX) {
		callers_refuse(&caller, SGPU_ERETRY,
			       "user %lu has %d connections that wait, which is the limit",
			       (unsigned long)peer.uid, SUPERVISOR_SILENT_MAX);
		return true;
	}
	place = make_place(s);
	if (place) {
		*place = caller;
		*accepted = place;
	} else {
		callers_refuse(&caller, SGPU_ERETRY, "too many connections wait");
	}
	return true;
}

/* Reads what a caller wants, until the server stops, which refuses silent callers. */
static void hear(struct supervisor *s, struct caller *caller)
{
	struct sgpu_error error = { 0 };
	enum wire_kind kind;
	char *text;
	int rc = wire_peek(caller->fd, &kind, &error);

	if (rc == SGPU_ETIMEOUT) {
		return;
	}
	if (rc == SGPU_OK && (kind == WIRE_SUBMIT || wire_is_request(kind))) {
		turns_ask(s, caller, kind != WIRE_SUBMIT);
	} else if (rc == SGPU_OK && kind == WIRE_STATUS) {
		/* The message is not read: its descriptors would have to be closed here. */
		text = supervisor_status(s, caller->uid);
		if (text && strlen(text) <= WIRE_TEXT_MAX) {
			(void)!wire_say_text(caller->fd, WIRE_STATUS_IS, text, strlen(text), NULL);
		}
		free(text);
		callers_hang_up(caller);
	} else if (rc == SGPU_ECANCELED) {
		callers_hang_up(caller);
	} else if (rc != SGPU_OK) {
		refuse_by(caller, &error);
	} else {
		callers_refuse(caller, SGPU_EINVALID,
			       "the message is none that a client begins with");
	}
}

static bool is_waiting_batch(const struct caller *caller)
{
	return caller->fd >= 0 && caller->tenant && !caller->request;
}

static void refuse_all(struct supervisor *s, bool batches_too)
{
	for (struct caller *c = s->callers; c < s->callers + SUPERVISOR_CALLERS_MAX; c++) {
		if (c->fd >= 0 && (batches_too || !is_waiting_batch(c))) {
			callers_refuse(c, SGPU_EUNAVAILABLE, "the server is stopping");
		}
	}
}

static void end_workers(struct supervisor *s)
{
	s->ending = true;
	refuse_all(s, true);
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		if (s->processes[i].pid) {
			workers_dismiss(s, &s->processes[i]);
		}
	}
}

/* At the first signal, runs and waiting batches go on until the deadline; the second ends the
 * workers. */
static void stop(struct supervisor *s)
{
	const bool again = s->stopping;

	s->stop_ns = again ? 0 : sgpu_now_ns() + s->server->drain_ns;
	s->stopping = true;
	service_notify("STOPPING=1");
	service_close(s->socket);
	refuse_all(s, false);
	if (again) {
		end_workers(s);
	}
}

/* Whether a batch that may still run waits. None may if the first worker did not start. */
static bool has_waiting_batch(const struct supervisor *s)
{
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		if (is_waiting_batch(&s->callers[i])) {
			return !s->status && sgpu_now_ns() < s->stop_ns;
		}
	}
	return false;
}

static void take_signal(struct supervisor *s)
{
	const char *path = s->server->tenants;
	struct sgpu_error error = { 0 };
	int number;

	while ((number = runner_take_signal(s->signal_fd))) {
		switch (number) {
		case SIGCHLD:
			workers_reap(s);
			break;
		case SIGHUP:
			if (s->stopping) {
				break;
			}
			/* A wrong file leaves the rules as they were. */
			if (path && tenant_rules_load(path, &s->rules, &error) == SGPU_OK) {
				turns_apply_rules(s);
				cli_note("what users get is read again from '%s'", path);
			} else if (path) {
				cli_warning("%s: the limits and shares that were read before stay "
					    "in force",
					    error.text);
			}
			workers_reload(s);
			break;
		default:
			cli_note("%s", s->stopping ? "what runs is stopped"
						   : "no new work is taken; what is here may end");
			stop(s);
		}
	}
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a == 0 ? b : b == 0 || a < b ? a : b;
}

/* Refuses callers and ends workers whose time is over. Returns when to look next, or 0. */
static uint64_t check_deadlines(struct supervisor *s)
{
	const uint64_t now = sgpu_now_ns();
	uint64_t next = s->accept_ns > now ? s->accept_ns : 0;

	next = sooner(next, closing_due_ns());
	next = s->lacking + s->awaiting ? sooner(next, now + LACK_LOOK_NS) : next;
	next = s->start_ns > now ? sooner(next, s->start_ns) : next;
	next = s->stopping && !s->ending ? sooner(next, s->stop_ns) : next;
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		struct caller *c = &s->callers[i];
		const uint64_t end =
			!c->tenant ? c->since_ns + SPEAK_NS : c->tenant->lacks_ns + WAIT_NS;

		if (c->fd < 0 || (c->tenant && c->tenant->lacks_ns == 0)) {
			continue;
		}
		if (now < end) {
			next = sooner(next, end);
		} else {
			callers_refuse(c, SGPU_ERETRY, "%s",
				       c->tenant ? "no worker has become free"
						 : "nothing was asked for");
		}
	}
	for (struct process *p = s->processes; p < s->processes + SERVE_WORKERS_MAX; p++) {
		if (p->pid && p->draining && now >= p->deadline_ns) {
			if (p->control < 0) {
				kill(p->pid, SIGKILL);
			} else {
				close(p->control);
				p->control = -1;
			}
			p->deadline_ns = now + GIVE_UP_NS;
		}
		next = p->pid && p->draining ? sooner(next, p->deadline_ns) : next;
	}
	return next;
}

/* Sources of events: workers and callers by their indices, then these. */
enum { SIGNALS = SERVE_WORKERS_MAX + SUPERVISOR_CALLERS_MAX, LISTENER, PLACES };

/* Of open descriptors only, since poll() takes no more entries than RLIMIT_NOFILE. */
struct waits {
	struct pollfd fds[PLACES];
	int places[PLACES];
	nfds_t count;
};

static void add(struct waits *w, int place, int fd, short events)
{
	if (fd >= 0) {
		w->fds[w->count] = (struct pollfd){ .fd = fd, .events = events };
		w->places[w->count++] = place;
	}
}

static void wait_for_events(struct supervisor *s, uint64_t next, int most_ms, struct waits *w)
{
	const uint64_t now = sgpu_now_ns(), left_ms = next > now ? (next - now) / 1000000 + 1 : 0;
	int timeout = next == 0 ? -1 : left_ms < LONGEST_MS ? (int)left_ms : LONGEST_MS;

	w->count = 0;
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		add(w, i, s->processes[i].pid ? s->processes[i].control : -1, POLLIN);
	}
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		/* Of a caller that waits, only its hang-up is noticed. */
		add(w, SERVE_WORKERS_MAX + i, s->callers[i].fd, s->callers[i].tenant ? 0 : POLLIN);
	}
	add(w, SIGNALS, s->signal_fd, POLLIN);
	add(w, LISTENER, now >= s->accept_ns ? s->socket->fd : -1, POLLIN);
	timeout = most_ms >= 0 && (timeout < 0 || timeout > most_ms) ? most_ms : timeout;
	if (poll(w->fds, w->count, timeout) < 0) {
		w->count = 0;
	}
}

static void serve_event(struct supervisor *s, int place)
{
	struct caller *caller;

	if (place < SERVE_WORKERS_MAX) {
		if (s->processes[place].pid) {
			workers_hear(s, &s->processes[place]);
		}
	} else if (place < SIGNALS) {
		struct caller *c = &s->callers[place - SERVE_WORKERS_MAX];

		if (c->fd >= 0 && c->tenant) {
			callers_hang_up(c);
		} else if (c->fd >= 0) {
			hear(s, c);
		}
	} else if (place == SIGNALS) {
		take_signal(s);
	} else {
		/* Most callers have sent their message by now, and need no other poll. */
		for (int i = 0; i < SUPERVISOR_ACCEPT_AT_ONCE && s->socket->fd >= 0 &&
				callers_accept(s, &caller);
		     i++) {
			if (caller) {
				hear(s, caller);
			}
		}
	}
}

int supervisor_begin(struct supervisor *s, const struct server *server,
		     struct service_socket *socket)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD, 0 };
	struct sgpu_error error = { 0 };

	*s = (struct supervisor){ .server = server,
				  .socket = socket,
				  .started_ns = sgpu_now_ns(),
				  .unmapped = unmapped_uid() };
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		s->callers[i].fd = -1;
	}
	if (tenant_rules_load(server->tenants, &s->rules, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	s->signal_fd = runner_signal_fd(numbers);
	if (s->signal_fd < 0) {
		return cli_fail(SGPU_ESYSTEM, "cannot wait for signals: %s", strerror(errno));
	}
	return 0;
}

bool supervisor_step(struct supervisor *s, int most_ms)
{
	static struct waits w;
	bool goes_on;

	workers_keep(s);
	wait_for_events(s, check_deadlines(s), most_ms, &w);
	for (nfds_t i = 0; i < w.count; i++) {
		if (w.fds[i].revents) {
			serve_event(s, w.places[i]);
		}
	}
	turns_give(s);
	closing_do(false); /* it tries again; closing_room() bounds what waits */
	if (s->status && !s->stopping) {
		stop(s);
	}
	if (s->stopping && !s->ending && !has_waiting_batch(s)) {
		end_workers(s);
	}
	goes_on = !s->ending;
	for (int i = 0; !goes_on && i < SERVE_WORKERS_MAX; i++) {
		goes_on = s->processes[i].pid != 0;
	}
	return goes_on;
}

int supervise(const struct server *server, struct service_socket *socket)
{
	static struct supervisor s;
	const int status = supervisor_begin(&s, server, socket);

	if (status != 0) {
		return status;
	}
	while (supervisor_step(&s, -1)) {
	}
	closing_do(true);
	close(s.signal_fd);
	return s.status;
}
