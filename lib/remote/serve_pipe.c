/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's side of a session over a pipe or a socket.
 */
#include <sys/mman.h>

#include <sgpu/session.h>

#include "base/io.h"
#include "remote/carrier.h"
#include "channel/group.h"

struct service {
	uint8_t area[SGPU_AREA_SIZE]; /* page-aligned */
	int in, out;
	struct sgpu_group_server *server;
	uint8_t message[SGPU_MESSAGE_MAX], answer[SGPU_MESSAGE_MAX];
};

static int serve_frames(struct service *s, struct sgpu_error *error)
{
	struct sgpu_remote_frame f;
	size_t answered = 0;

	for (;;) {
		int rc = sgpu_remote_frame_read(s->in, &f, s->message, error);

		if (rc < 0 || (f.kind == 0 && f.size == 0)) {
			return rc;
		}
		if (f.kind == SGPU_FRAME_PUT) {
			rc = sgpu_remote_frame_bytes(s->in, s->area + f.offset, (size_t)f.size,
						     error);
		} else if (f.kind == SGPU_FRAME_GET) {
			rc = sgpu_write(s->out, "a session", s->area + f.offset, (size_t)f.size,
					error);
		} else {
			rc = sgpu_group_server_handle(s->server, s->message, (size_t)f.size,
						      s->answer, &answered, error);
			rc = rc ? rc : sgpu_message_write(s->out, s->answer, answered, error);
		}
		if (rc < 0) {
			return rc;
		}
	}
}

int sgpu_remote_serve(struct sgpu_secure *context, uint64_t memory_limit,
		      const struct sgpu_session_authority *authority, int in, int out,
		      struct sgpu_error *error)
{
	struct sgpu_group_config config = { .area_size = SGPU_AREA_SIZE,
					    .memory_limit = memory_limit,
					    .jobs = &sgpu_remote_jobs,
					    .authority = authority };
	struct service *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (s == MAP_FAILED) {
		return sgpu_fail_nomem(error);
	}
	s->in = in;
	s->out = out;
	config.area = s->area;
	rc = sgpu_group_server_create(context, &config, &s->server, error);
	rc = rc ? rc : serve_frames(s, error);
	sgpu_group_server_free(&s->server);
	munmap(s, sizeof(*s));
	return rc;
}
