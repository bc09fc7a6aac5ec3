/* SPDX-License-Identifier: Apache-2.0
 *
 * A session with a worker of `sgpu-serve`: a connection to the server passes the shared memory's
 * descriptors, and is then the bell. The server's texts are made printable.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/io.h"
#include "remote/client.h"
#include "remote/greeting.h"
#include "remote/carrier.h"

/* PATIENCE_MS: for the server, which may have to start a worker first. */
enum { PATIENCE_MS = 90000, WAIT_MS = 50, OWNED = 3 };

static int send_files(int connection, const int files[2], struct sgpu_error *error)
{
	struct sgpu_greeting greeting;

	/* A server that refuses may already have answered and closed. */
	return sgpu_wire_send(connection, SGPU_GREETING_SESSION, &greeting, sizeof(greeting), files,
			      2) ||
			       errno == EPIPE || errno == ECONNRESET
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot ask for a session");
}

static int hear_server(int connection, struct sgpu_error *error)
{
	struct sgpu_refusal_of_session answer = { .greeting = { .kind = 0 } };
	struct pollfd heard = { .fd = connection, .events = POLLIN };
	const uint64_t end = sgpu_now_ns() + PATIENCE_MS * UINT64_C(1000000);
	struct iovec part = { .iov_base = &answer, .iov_len = sizeof(answer) };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t got;
	int ready;

	/* Each wait is short, since a signal may come just before poll(). */
	do {
		ready = poll(&heard, 1, WAIT_MS);
	} while ((ready == 0 || (ready < 0 && errno == EINTR)) && !sgpu_io_interrupted() &&
		 sgpu_now_ns() < end);
	if (ready <= 0) {
		return sgpu_io_interrupted()
			       ? sgpu_fail(error, SGPU_ECANCELED, "interrupted")
			       : sgpu_fail(error, SGPU_ESYSTEM, "the server does not answer");
	}
	if (sgpu_wire_receive(connection, &packet, 0, &got) != SGPU_OK ||
	    got < (ssize_t)sizeof(answer.greeting) ||
	    answer.greeting.magic != SGPU_GREETING_MAGIC) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the server has ended, or is none");
	}
	if (answer.greeting.kind == SGPU_GREETING_TAKEN) {
		return SGPU_OK;
	}
	if (answer.greeting.kind != SGPU_GREETING_REFUSED || got < (ssize_t)sizeof(answer)) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the server does not know sessions");
	}
	if (answer.error.code == SGPU_OK ||
	    sgpu_error_by_name(sgpu_error_name(answer.error.code)) != answer.error.code) {
		answer.error.code = SGPU_ESYSTEM;
	}
	(void)sgpu_fail(error, answer.error.code, "%.*s", SGPU_ERROR_TEXT_MAX - 1,
			answer.error.text);
	(void)sgpu_hint(error, "%.*s", SGPU_ERROR_HINT_MAX - 1, answer.error.hint);
	return answer.error.code;
}

int sgpu_remote_connect(const char *socket, const struct sgpu_key *owner,
			const struct sgpu_key *runner, struct sgpu_remote **remote,
			struct sgpu_error *error)
{
	int owned[OWNED] = { -1, -1, -1 }; /* the ring's memory, the area, the bell */
	struct sgpu_service_path path;
	struct sgpu_remote_ring ring;
	struct sgpu_carrier *carrier;
	int rc = sgpu_service_find(socket, &path, error);

	*remote = NULL;
	rc = rc ? rc : sgpu_service_connect(&path, &owned[2], error);
	rc = rc ? rc : sgpu_link_create(&owned[0], &owned[1], error);
	rc = rc ? rc : send_files(owned[2], owned, error);
	rc = rc ? rc : hear_server(owned[2], error);
	ring = (struct sgpu_remote_ring){ .memory = owned[0], .area = owned[1], .bell = owned[2] };
	rc = rc ? rc : sgpu_carrier_ring(&ring, &carrier, error);
	if (rc < 0) {
		goto out;
	}
	carrier->patience_ns = PATIENCE_MS * UINT64_C(1000000);
	rc = sgpu_remote_open_carrier(carrier, owner, runner, remote, error);
	if (rc == SGPU_OK) {
		memcpy((*remote)->owned, owned, sizeof(owned));
		carrier->patience_ns = 0;
		return SGPU_OK;
	}
out:
	for (int i = 0; i < OWNED; i++) {
		sgpu_close(owned[i]);
	}
	return rc;
}
