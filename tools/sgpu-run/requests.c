/* SPDX-License-Identifier: Apache-2.0
 *
 * See requests.h.
 */
#include "requests.h"

#include <unistd.h>

#include <sgpu/base.h>

static struct {
	struct serve_counters *counters;
	int wake_fd;
	atomic_uint under_way;
	_Atomic uint64_t press_ns;
	atomic_bool worn_out;
} r;

/* Those that a worker of this version knows. */
static request_fn find_request(enum wire_kind kind)
{
	switch (kind) {
	case WIRE_LEASE:
		return serve_lease;
	case WIRE_QUOTE:
		return serve_quote;
	case WIRE_SESSION:
		return session_take;
	default:
		return NULL;
	}
}

void requests_open(struct serve_counters *counters, int wake_fd)
{
	r.counters = counters;
	r.wake_fd = wake_fd;
}

void requests_take(const struct request *request)
{
	const request_fn fn = find_request(request->kind);
	struct sgpu_error error = { 0 };

	atomic_fetch_add(&r.under_way, 1);
	if (fn) {
		fn(request);
	} else {
		sgpu_fail(&error, SGPU_EUNAVAILABLE, "the server does not know such a request");
		requests_refuse(request->connection, &error);
	}
}

void requests_press(uint64_t until_ns)
{
	atomic_store(&r.press_ns, until_ns);
}

bool requests_pressed(void)
{
	return sgpu_now_ns() < atomic_load(&r.press_ns);
}

unsigned requests_under_way(void)
{
	return atomic_load(&r.under_way);
}

void requests_end(int connection)
{
	const uint64_t one = 1;
	struct wire_plain note;

	close(connection);
	atomic_fetch_add(&r.counters->requests_ended, 1);
	(void)wire_send(SERVE_CONTROL_FD, WIRE_NOTE, &note, sizeof(note), NULL, 0);
	atomic_fetch_sub(&r.under_way, 1);
	(void)!write(r.wake_fd, &one, sizeof(one));
}

void requests_refuse(int connection, const struct sgpu_error *error)
{
	wire_refuse(connection, error);
	requests_end(connection);
}

void requests_wear_out(void)
{
	const uint64_t one = 1;

	atomic_store(&r.worn_out, true);
	(void)!write(r.wake_fd, &one, sizeof(one));
}

bool requests_worn_out(void)
{
	return atomic_load(&r.worn_out);
}
