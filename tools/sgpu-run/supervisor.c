/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop over the listening socket, connections that no worker has yet, and workers. Nothing in it blocks, and none of
 * what clients send is read but the first bytes of a message, which say what is asked for.
 */
#include "supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "undertaker.h"
#include "wire.h"

#define SECOND UINT64_C(1000000000)
#define SPEAK_NS (10 * SECOND)   /* for a connection to say what it wants */
#define WAIT_NS (60 * SECOND)    /* for a worker */
#define GIVE_UP_NS (5 * SECOND)  /* for a worker to wipe and end */
#define ACCEPT_PAUSE_NS (SECOND / 10)
enum { ACCEPT_AT_ONCE = 64 };    /* before others are heard */

/* ---- callers ---- */
static void hang_up(struct caller *caller)
{
	undertaker_take(caller->fd);
	caller->fd = -1;
}

static void refuse_by(struct caller *caller, const struct sgpu_error *error)
{
	wire_refuse(caller->fd, error);
	hang_up(caller);
}

static void SGPU_PRINTF(3, 4) refuse(struct caller *caller, int code, const char *format, ...)
{
	struct sgpu_error error = { 0 };
	va_list arguments;

	va_start(arguments, format);
	sgpu_vfail(&error, code, format, arguments);
	va_end(arguments);
	refuse_by(caller, &error);
}

static unsigned count_callers(const struct supervisor *s, uid_t uid)
{
	unsigned count = 0;

	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		count += s->callers[i].fd >= 0 && s->callers[i].uid == uid;
	}
	return count;
}

static struct caller *find_free_caller(struct supervisor *s)
{
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		if (s->callers[i].fd < 0) {
			return &s->callers[i];
		}
	}
	return NULL;
}

/* The silent one that came first; of those that wait, the last one of the user who has most. Who speaks at once is heard
 * before it is their turn. */
static struct caller *find_dispensable(struct supervisor *s)
{
	struct caller *found = NULL;
	unsigned most = 1;

	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		struct caller *c = &s->callers[i];

		if (c->fd >= 0 && !c->waits && (!found || c->since_ns < found->since_ns)) {
			found = c;
		}
	}
	for (int i = 0; !found && i < SUPERVISOR_CALLERS_MAX; i++) {
		most = count_callers(s, s->callers[i].uid) > most ? count_callers(s, s->callers[i].uid) : most;
	}
	for (int i = 0; most > 1 && i < SUPERVISOR_CALLERS_MAX; i++) {
		struct caller *c = &s->callers[i];

		if (count_callers(s, c->uid) == most && (!found || c->since_ns > found->since_ns)) {
			found = c;
		}
	}
	return found;
}

/* A place for a connection, if need be another's; NULL: there is none. */
static struct caller *make_place(struct supervisor *s)
{
	struct caller *caller = find_free_caller(s);

	if (!caller) {
		caller = find_dispensable(s);
		if (caller) {
			refuse(caller, SGPU_ERETRY, "too many connections wait");
		}
	}
	return caller;
}

/* One connection; false: there is none, or it has to wait. */
static bool accept_one(struct supervisor *s)
{
	const bool room = undertaker_room() > SUPERVISOR_CALLERS_MAX + ACCEPT_AT_ONCE;
	struct caller *place, caller = { .fd = -1 };
	struct ucred peer;
	socklen_t size = sizeof(peer);

	caller.fd = room ? accept4(s->socket->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
	if (caller.fd < 0) {
		if (!room || errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			s->accept_ns = sgpu_now_ns() + ACCEPT_PAUSE_NS;
		}
		return false;
	}
	if (getsockopt(caller.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || size != sizeof(peer)) {
		hang_up(&caller);
		return true;
	}
	caller.uid = peer.uid;
	caller.since_ns = sgpu_now_ns();
	if (count_callers(s, peer.uid) >= SUPERVISOR_CALLERS_OF_ONE) {
		refuse(&caller, SGPU_ERETRY, "user %lu has %d connections that wait, which is the limit",
		       (unsigned long)peer.uid, SUPERVISOR_CALLERS_OF_ONE);
		return true;
	}
	place = make_place(s);
	if (place) {
		*place = caller;
	} else {
		refuse(&caller, SGPU_ERETRY, "too many connections wait");
	}
	return true;
}

/* ---- tenants ---- */
static bool has_process(const struct supervisor *s, const struct tenant *tenant)
{
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		if (s->processes[i].pid && s->processes[i].tenant == tenant) {
			return true;
		}
	}
	return false;
}

static struct tenant *find_tenant(struct supervisor *s, uid_t uid)
{
	struct tenant *oldest = NULL;

	for (int i = 0; i < SUPERVISOR_TENANTS_MAX; i++) {
		struct tenant *t = &s->tenants[i];

		if (t->used && t->uid == uid) {
			return t;
		}
	}
	for (int i = 0; i < SUPERVISOR_TENANTS_MAX; i++) {
		struct tenant *t = &s->tenants[i];

		if (!t->used) {
			oldest = t;
			break;
		}
		if (!has_process(s, t) && (!oldest || t->last_ns < oldest->last_ns)) {
			oldest = t;
		}
	}
	if (oldest) {
		*oldest = (struct tenant){ .used = true, .uid = uid };
	}
	return oldest;
}

/* The tenant's, or a spare one, which is the tenant's from then on. */
static struct process *find_process(struct supervisor *s, struct tenant *tenant)
{
	if (!tenant->process) {
		tenant->process = workers_find_spare(s);
		if (tenant->process) {
			tenant->process->tenant = tenant;
			cli_detail("worker %d is user %lu's", (int)tenant->process->pid, (unsigned long)tenant->uid);
		}
	}
	return tenant->process;
}

/* From here on the supervisor has no part in it. False: it waits for a worker. */
static bool hand_over(struct supervisor *s, struct caller *caller)
{
	struct tenant *tenant = find_tenant(s, caller->uid);
	struct process *p = tenant ? find_process(s, tenant) : NULL;
	struct wire_take take = { .uid = caller->uid };

	if (!p) {
		return false;
	}
	tenant->last_ns = sgpu_now_ns();
	if (process_in_flight(p) >= s->server->submissions) {
		refuse(caller, SGPU_ERETRY, "user %lu has %u submissions under way, which is the limit",
		       (unsigned long)caller->uid, s->server->submissions);
	} else if (!wire_send(p->control, WIRE_TAKE, &take, sizeof(take), &caller->fd, 1)) {
		refuse(caller, SGPU_ERETRY, "the worker of user %lu takes no more", (unsigned long)caller->uid);
	} else {
		p->handed++;
		hang_up(caller);
	}
	return true;
}

/* What was asked is not read: what came with it would be closed here. */
static void answer_status(const struct supervisor *s, struct caller *caller)
{
	struct wire_status *answer = calloc(1, sizeof(*answer));
	char *text = supervisor_status(s, caller->uid);

	if (answer && text && strlen(text) < sizeof(answer->text)) {
		memcpy(answer->text, text, strlen(text));
		(void)wire_send(caller->fd, WIRE_STATUS_IS, answer, sizeof(*answer), NULL, 0);
	}
	free(answer);
	free(text);
	hang_up(caller);
}

static void hear(struct supervisor *s, struct caller *caller)
{
	struct sgpu_error error = { 0 };
	enum wire_kind kind;
	int rc = wire_peek(caller->fd, &kind, &error);

	if (rc == SGPU_ETIMEOUT) {
		return;
	}
	if (rc == SGPU_OK && kind == WIRE_SUBMIT && !s->stopping) {
		caller->waits = !hand_over(s, caller);
		caller->since_ns = sgpu_now_ns();
	} else if (rc == SGPU_OK && kind == WIRE_STATUS) {
		answer_status(s, caller);
	} else if (rc == SGPU_ECANCELED) {
		hang_up(caller);
	} else if (s->stopping) {
		refuse(caller, SGPU_EUNAVAILABLE, "the server is stopping");
	} else if (rc != SGPU_OK) {
		refuse_by(caller, &error);
	} else {
		refuse(caller, SGPU_EINVALID, "the message is none that a client begins with");
	}
}

/* Those that wait get what has become free, the first come first. */
static void serve_waiting(struct supervisor *s)
{
	for (;;) {
		struct caller *first = NULL;

		for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
			struct caller *c = &s->callers[i];
			struct tenant *t = c->fd >= 0 && c->waits ? find_tenant(s, c->uid) : NULL;

			if (t && (t->process || workers_find_spare(s)) && (!first || c->since_ns < first->since_ns)) {
				first = c;
			}
		}
		if (!first || !hand_over(s, first)) {
			return;
		}
	}
}

/* ---- the end ---- */
/* The first time, what runs may go on until the deadline. */
static void stop(struct supervisor *s)
{
	const bool again = s->stopping;

	s->stop_ns = again ? 0 : sgpu_now_ns() + s->server->drain_ns;
	s->stopping = true;
	service_notify("STOPPING=1");
	service_close(s->socket);
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		if (s->callers[i].fd >= 0) {
			refuse(&s->callers[i], SGPU_EUNAVAILABLE, "the server is stopping");
		}
	}
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		if (s->processes[i].pid) {
			workers_dismiss(s, &s->processes[i]);
		}
	}
}


static void take_signal(struct supervisor *s, int fd)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGCHLD:
			workers_reap(s);
			break;
		case SIGHUP:
			if (!s->stopping) {
				workers_reload(s);
			}
			break;
		default:
			cli_note("%s", s->stopping ? "what runs is stopped" : "no new work is taken; what runs may end");
			stop(s);
		}
	}
}

/* ---- the loop ---- */
static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a == 0 ? b : b == 0 || a < b ? a : b;
}

/* What is late. Returns when to look again, or 0. */
static uint64_t check_deadlines(struct supervisor *s)
{
	const uint64_t now = sgpu_now_ns();
	uint64_t next = s->accept_ns > now ? s->accept_ns : 0;

	next = s->start_ns > now ? sooner(next, s->start_ns) : next;
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		struct caller *c = &s->callers[i];
		const uint64_t end = c->since_ns + (c->waits ? WAIT_NS : SPEAK_NS);

		if (c->fd >= 0 && now >= end) {
			refuse(c, SGPU_ERETRY, c->waits ? "no worker has become free" : "nothing was asked for");
		} else if (c->fd >= 0) {
			next = sooner(next, end);
		}
	}
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		struct process *p = &s->processes[i];

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

static bool any_process(const struct supervisor *s)
{
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		if (s->processes[i].pid) {
			return true;
		}
	}
	return false;
}

enum { SIGNALS, LISTENER, WORKERS, CALLERS = WORKERS + SERVE_WORKERS_MAX, FDS = CALLERS + SUPERVISOR_CALLERS_MAX };

/* A descriptor of -1 is none that poll looks at. */
static void wait_for_events(struct supervisor *s, int signals, uint64_t next, struct pollfd fds[FDS])
{
	const uint64_t now = sgpu_now_ns();
	int timeout = -1;

	for (int i = 0; i < FDS; i++) {
		fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	}
	fds[SIGNALS].fd = signals;
	fds[LISTENER].fd = now >= s->accept_ns ? s->socket->fd : -1;
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		fds[WORKERS + i].fd = s->processes[i].pid ? s->processes[i].control : -1;
	}
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		/* Of one that waits only its end is heard. */
		fds[CALLERS + i] = (struct pollfd){ .fd = s->callers[i].fd, .events = s->callers[i].waits ? 0 : POLLIN };
	}
	if (next != 0) {
		timeout = next > now ? (int)((next - now) / 1000000 < 3600000 ? (next - now) / 1000000 + 1 : 3600000) : 0;
	}
	if (poll(fds, FDS, timeout) < 0) {
		for (int i = 0; i < FDS; i++) {
			fds[i].revents = 0;
		}
	}
}

static void serve_events(struct supervisor *s, int signals, const struct pollfd fds[FDS])
{
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		if (fds[WORKERS + i].revents && s->processes[i].pid) {
			workers_hear(s, &s->processes[i]);
		}
	}
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		struct caller *c = &s->callers[i];

		if (fds[CALLERS + i].revents && c->fd >= 0 && c->waits) {
			hang_up(c);
		} else if (fds[CALLERS + i].revents && c->fd >= 0) {
			hear(s, c);
		}
	}
	if (fds[SIGNALS].revents) {
		take_signal(s, signals);
	}
	for (int i = 0; fds[LISTENER].revents && s->socket->fd >= 0 && i < ACCEPT_AT_ONCE && accept_one(s); i++) {
	}
}

int supervise(const struct server *server, struct service_socket *socket)
{
	static struct supervisor s;
	static struct pollfd fds[FDS];
	const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
	sigset_t set;
	int signals;

	s = (struct supervisor){ .server = server, .socket = socket, .started_ns = sgpu_now_ns() };
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		s.callers[i].fd = -1;
	}
	sigemptyset(&set);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(numbers); i++) {
		sigaddset(&set, numbers[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0) {
		return cli_fail(SGPU_ESYSTEM, "cannot wait for signals: %s", strerror(errno));
	}
	while (!s.stopping || any_process(&s)) {
		workers_keep(&s);
		wait_for_events(&s, signals, check_deadlines(&s), fds);
		serve_events(&s, signals, fds);
		serve_waiting(&s);
		if (!undertaker_bury()) {
			s.accept_ns = sgpu_now_ns() + ACCEPT_PAUSE_NS;
		}
		if (s.status && !s.stopping) {
			stop(&s);
		}
	}
	close(signals);
	return s.status;
}
