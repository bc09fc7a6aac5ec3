/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions of a client to a server. See wire.h.
 */
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "wire.h"

#define SECOND UINT64_C(1000000000)
enum { LOOK_MS = 1000 };

int ask_open(const char *socket, enum wire_kind kind, void *message, size_t size, int *connection,
	     struct sgpu_error *error)
{
	struct sgpu_service_path path;
	int rc = sgpu_service_find(socket, &path, error);

	rc = rc ? rc : sgpu_service_connect(&path, connection, error);
	if (rc == SGPU_OK) {
		/* If the server has refused already and closed, its answer is read next. */
		(void)sgpu_wire_send(*connection, kind, message, size, NULL, 0);
	}
	return rc;
}

int ask_wait(int connection, unsigned patience_s, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();
	struct pollfd wait = { .fd = connection, .events = POLLIN };
	enum wire_kind kind;
	int rc = SGPU_ETIMEOUT;

	while (rc == SGPU_ETIMEOUT && sgpu_now_ns() - begin < patience_s * SECOND) {
		if (poll(&wait, 1, LOOK_MS) > 0) {
			rc = wire_fault(wire_peek(connection, &kind, error), error);
		} else if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "stopped");
		}
	}
	if (rc == SGPU_OK && kind == WIRE_ANSWER) {
		return ask_error(connection, error);
	}
	if (rc == SGPU_ETIMEOUT) {
		sgpu_fail(error, SGPU_ESYSTEM, "the server does not answer");
		return sgpu_set_retryable(error);
	}
	if (rc == SGPU_ECANCELED) {
		sgpu_fail(error, SGPU_ESYSTEM, "the server, or its worker, has ended");
		return sgpu_set_retryable(error);
	}
	return rc;
}

int ask_server(const char *socket, enum wire_kind kind, void *message, size_t message_size,
	       enum wire_kind expected, unsigned patience_s, char **text, size_t *size,
	       struct sgpu_error *error)
{
	int connection = -1, file = -1,
	    rc = ask_open(socket, kind, message, message_size, &connection, error);

	*text = NULL;
	*size = 0;
	if (rc < 0) {
		return rc;
	}
	rc = ask_wait(connection, patience_s, error);
	rc = rc ? rc : wire_fault(wire_hear(connection, expected, &file, error), error);
	close(connection);
	/* Reading any but a memory file may never return. The kernel knows of seals without asking
	 * a file system. */
	if (rc == SGPU_OK && fcntl(file, F_GET_SEALS) < 0) {
		close(file);
		rc = sgpu_fail(error, SGPU_EINVALID, "the server's answer is not in a memory file");
	}
	return rc < 0 ? rc
		      : wire_take_text(file, "the server's answer", WIRE_TEXT_MAX, text, size,
				       error);
}
