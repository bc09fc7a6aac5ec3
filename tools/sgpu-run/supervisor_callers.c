/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections from the moment at which they are taken until a worker has them, or they are refused.
 */
#include "supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "wire.h"

#define ACCEPT_PAUSE_NS UINT64_C(100000000)

/* Lines of "first inside, first outside, count", which need not be in order. */
bool callers_are_mapped(const char *map)
{
	unsigned long long known = 0, before, first, count;
	int length;

	do {
		before = known;
		for (const char *line = map;
		     sscanf(line, "%10llu %*u %10llu%n", &first, &count, &length) == 2;
		     line += length) {
			known = first <= known && known < first + count ? first + count : known;
		}
	} while (known != before && known < UINT32_MAX);
	return known >= UINT32_MAX;
}

uid_t callers_unmapped_uid(void)
{
	enum { MAP_SIZE = 1 << 14, USUAL = 65534 }; /* the kernel takes 340 lines */
	char map[MAP_SIZE], text[16];
	uint64_t uid;

	if (sgpu_peek("/proc/self/uid_map", map, sizeof(map)) && callers_are_mapped(map)) {
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

void callers_refuse_by(struct caller *caller, const struct sgpu_error *error)
{
	wire_refuse(caller->fd, error);
	callers_hang_up(caller);
}

void callers_refuse(struct caller *caller, int code, const char *format, ...)
{
	struct sgpu_error error = { 0 };
	va_list arguments;

	va_start(arguments, format);
	sgpu_vfail(&error, code, format, arguments);
	va_end(arguments);
	callers_refuse_by(caller, &error);
}

static unsigned count_silent(const struct supervisor *s, uid_t uid)
{
	unsigned count = 0;

	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		count += s->callers[i].fd >= 0 && !s->callers[i].tenant && s->callers[i].uid == uid;
	}
	return count;
}

/* The silent one that came first; of those that wait, the last one of the user who has most. Who
 * speaks at once is heard before it is their turn. */
static struct caller *find_dispensable(struct supervisor *s)
{
	unsigned of_tenant[SUPERVISOR_TENANTS_MAX] = { 0 }, most = 1;
	struct caller *found = NULL;

	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		struct caller *c = &s->callers[i];

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

/* A place for a connection, if need be another's; NULL: there is none. */
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
		if (caller->tenant) {
			caller->tenant->sums[SERVE_OVER_QUOTA]++;
		}
		callers_refuse(caller, SGPU_ERETRY, "too many connections wait");
	}
	return caller;
}

bool callers_accept(struct supervisor *s, struct caller **accepted)
{
	const bool room = closing_room() > SUPERVISOR_CALLERS_MAX + SUPERVISOR_ACCEPT_AT_ONCE;
	struct caller *place, caller = { .fd = -1 };
	struct ucred peer;
	socklen_t size = sizeof(peer);

	*accepted = NULL;
	caller.fd = room ? accept4(s->socket->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
	if (caller.fd < 0) {
		if (!room || errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		    errno == ENOBUFS) {
			s->accept_ns = sgpu_now_ns() + ACCEPT_PAUSE_NS;
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
	if (count_silent(s, peer.uid) >= SUPERVISOR_SILENT_MAX) {
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
