/* SPDX-License-Identifier: Apache-2.0
 *
 * See wire.h.
 */
#include "base/io.h"
#include "wire.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "remote/greeting.h"

#define SECOND UINT64_C(1000000000)
enum { LOOK_MS = 1000 };

int ask_error(int connection, struct sgpu_error *error)
{
	struct wire_answer *answer = calloc(1, sizeof(*answer));
	int rc = answer ? wire_receive(connection, WIRE_ANSWER, answer, sizeof(*answer), NULL, 0,
				       error)
			: sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		wire_clean(answer);
		rc = answer->error.code;
		if (error) {
			*error = answer->error;
		}
		rc = rc < 0 ? rc
			    : sgpu_fail(error, SGPU_ESYSTEM, "the server answers something else");
	}
	free(answer);
	return rc;
}

int ask_open(const char *socket, enum wire_kind kind, void *message, size_t size, int *connection,
	     struct sgpu_error *error)
{
	struct sgpu_service_path path;
	int rc = sgpu_service_find(socket, &path, error);

	if (rc == SGPU_OK) {
		rc = sgpu_service_connect(&path, connection, error);
	}
	if (rc == SGPU_OK) {
		/* One that refuses at once may have said so and closed. */
		(void)wire_send(*connection, kind, message, size, NULL, 0);
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
			rc = wire_peek(connection, &kind, error);
		} else if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "stopped");
		}
	}
	if (rc == SGPU_OK && kind == WIRE_ANSWER) {
		return ask_error(connection, error);
	}
	if (rc == SGPU_ETIMEOUT) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the server does not answer");
	}
	return rc == SGPU_ECANCELED
		       ? sgpu_fail(error, SGPU_ESYSTEM, "the server, or its worker, has ended")
		       : rc;
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
	if (rc == SGPU_OK) {
		rc = wire_hear(connection, expected, &file, error);
	}
	close(connection);
	if (rc < 0) {
		return rc;
	}
	*text = calloc(1, WIRE_TEXT_MAX + 1);
	rc = *text ? wire_read_text(file, "the server's answer", *text, WIRE_TEXT_MAX, size, error)
		   : sgpu_fail_nomem(error);
	close(file);
	if (rc < 0) {
		free(*text);
		*text = NULL;
	}
	return rc;
}
