/* SPDX-License-Identifier: Apache-2.0
 *
 * See ask.h.
 */
#include "ask.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "service.h"

#define SECOND UINT64_C(1000000000)
enum { LOOK_MS = 1000 };

static int read_answer(int fd, size_t most, char **text, size_t *size, struct sgpu_error *error)
{
	int rc;

	*text = calloc(1, most + 1);
	if (!*text) {
		return sgpu_fail_nomem(error);
	}
	rc = wire_read_text(fd, "the server's answer", *text, most, size, error);
	if (rc < 0) {
		free(*text);
		*text = NULL;
	}
	return rc;
}

/* An answer in place of the one that is expected is an error. */
static int receive_answer(int connection, const struct ask *ask, char **text, size_t *size, struct sgpu_error *error)
{
	struct wire_answer *answer;
	struct wire_plain message;
	enum wire_kind kind;
	int file = -1, rc = wire_peek(connection, &kind, error);

	if (rc < 0) {
		return rc;
	}
	if (kind != WIRE_ANSWER) {
		rc = wire_receive(connection, ask->expected, &message, sizeof(message), &file, 1, error);
		if (rc == SGPU_OK) {
			rc = read_answer(file, ask->most, text, size, error);
			close(file);
		}
		return rc;
	}
	answer = calloc(1, sizeof(*answer));
	rc = answer ? wire_receive(connection, kind, answer, sizeof(*answer), NULL, 0, error) : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		wire_clean(answer);
		*error = answer->error;
		rc = error->code < 0 ? error->code : sgpu_fail(error, SGPU_ESYSTEM, "the server answers something else");
	}
	free(answer);
	return rc;
}

static int wait_for_answer(int connection, const struct ask *ask, char **text, size_t *size, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();
	struct pollfd wait = { .fd = connection, .events = POLLIN };
	int rc = SGPU_ETIMEOUT;

	while (rc == SGPU_ETIMEOUT && sgpu_now_ns() - begin < ask->patience_s * SECOND) {
		if (poll(&wait, 1, LOOK_MS) > 0) {
			rc = receive_answer(connection, ask, text, size, error);
		} else if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "stopped");
		}
	}
	if (rc == SGPU_ETIMEOUT) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the server does not answer");
	}
	return rc == SGPU_ECANCELED ? sgpu_fail(error, SGPU_ESYSTEM, "the server, or its worker, has ended") : rc;
}

int ask_server(const char *socket, const struct ask *ask, char **text, size_t *size, struct sgpu_error *error)
{
	struct service_path path;
	int connection = -1, rc = service_find(socket, &path, error);

	*text = NULL;
	*size = 0;
	if (rc == SGPU_OK) {
		rc = service_connect(&path, &connection, error);
	}
	if (rc < 0) {
		return rc;
	}
	/* One that refuses at once may have said so and closed. */
	(void)wire_send(connection, ask->kind, ask->message, ask->size, NULL, 0);
	rc = wait_for_answer(connection, ask, text, size, error);
	close(connection);
	return rc;
}
