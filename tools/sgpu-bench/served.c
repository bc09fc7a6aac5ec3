/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of a case: its start, its end, and batches for it.
 */
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "sizes.h"
#include "runner/start.h"

enum { LOOK_MS = 10, DEPTH_MAX = 8 };

const char *served_path(const struct served *s, const char *name, char path[SERVED_PATH_MAX])
{
	snprintf(path, SERVED_PATH_MAX, "%s/%s", s->folder, name);
	return path;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)status, (void)kind, (void)place;
	return remove(path);
}

static void end_served(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	const struct served *s = (const struct served *)what;

	(void)bench, (void)size;
	if (s->pid > 0) {
		(void)kill(s->pid, SIGTERM);
		(void)waitpid(s->pid, NULL, 0);
	}
	if (s->folder[0]) {
		(void)nftw(s->folder, remove_one, DEPTH_MAX, FTW_DEPTH | FTW_PHYS);
	}
}

/* Both are in memory, so that no disk works. */
static int make_folder(struct served *s, struct sgpu_error *error)
{
	const char *place = getenv("XDG_RUNTIME_DIR");

	if (!place || strlen(place) > SERVED_FOLDER_MAX / 2) {
		place = "/dev/shm";
	}
	snprintf(s->folder, sizeof(s->folder), "%s/sgpu-bench.XXXXXX", place);
	if (!mkdtemp(s->folder)) {
		s->folder[0] = '\0';
		return sgpu_fail_errno(error, "cannot make a directory in '%s'", place);
	}
	return SGPU_OK;
}

static int find_socket(const struct served *s, struct sgpu_service_path *socket,
		       struct sgpu_error *error)
{
	char path[SERVED_PATH_MAX];

	return sgpu_service_find(served_path(s, SERVED_SOCKET, path), socket, error);
}

static int wait_for(struct served *s, struct sgpu_error *error)
{
	struct sgpu_service_path socket;
	int fd = -1, rc = find_socket(s, &socket, error);

	while (rc == SGPU_OK && fd < 0 && !sgpu_io_interrupted()) {
		fd = sgpu_service_reach(socket.text);
		if (fd < 0 && waitpid(s->pid, NULL, WNOHANG) != 0) {
			s->pid = 0;
			return sgpu_fail(error, SGPU_EDEVICE, "sgpu-serve has ended");
		}
		(void)poll(NULL, 0, fd < 0 ? LOOK_MS : 0);
	}
	sgpu_close(fd);
	return rc || fd >= 0 ? rc : sgpu_fail(error, SGPU_ECANCELED, "interrupted");
}

int served_new(struct sgpu_bench *bench, uint64_t leases, struct served **served,
	       struct sgpu_error *error)
{
	struct served *s = *served = sgpu_bench_new(bench, sizeof(*s), end_served, error);
	char size[24], jobs[16];
	const char *const serve[] = { "sgpu-serve", "-q",	"--device", bench->info.selector,
				      "--jobs",	    jobs,	"--leases", size,
				      "-k",	    SERVED_KEY, "-k",	    SERVED_PAIR,
				      "--sessions", "any",	"--socket", SERVED_SOCKET,
				      "--ahead",    "0",	NULL };
	int rc = s ? make_folder(s, error) : SGPU_ENOMEM;

	if (rc != SGPU_OK) {
		return rc;
	}
	s->bench = bench;
	snprintf(size, sizeof(size), "%llu", (unsigned long long)leases);
	snprintf(jobs, sizeof(jobs), "%u", bench->options.jobs);
	rc = program_run(WORDS("sgpu-seal", "keygen", "-q", "--no-sign", "-o", SERVED_KEY),
			 s->folder, error);
	rc = rc ? rc
		: program_run(WORDS("sgpu-seal", "keygen", "-q", "--x25519", "-o", SERVED_PAIR),
			      s->folder, error);
	rc = rc ? rc : program_start(serve, s->folder, NULL, &s->pid, error);
	return rc ? rc : wait_for(s, error);
}

static int hear(struct link *link, int *connection, struct sgpu_error *error)
{
	static struct wire_answer answer;
	struct pollfd wait = { .fd = *connection, .events = POLLIN };
	enum wire_kind kind;

	while (!sgpu_io_interrupted()) {
		if (poll(&wait, 1, -1) > 0 && wire_peek(*connection, &kind, NULL) == SGPU_OK &&
		    (kind == WIRE_TAKEN || kind == WIRE_QUEUED)) {
			(void)!wire_hear(*connection, kind, NULL);
		} else if (link_hear(link, &answer, connection, error)) {
			return error->code;
		}
	}
	return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
}

/* A connection is for one batch: a server's answer closes it. */
int served_submit(const struct served *s, int batch_fd, int response_fd, bool leased,
		  struct sgpu_error *error)
{
	static struct wire_submit message = { .in_name = "the batch", .out_name = "the response" };
	struct link link = { .control = -1 };
	struct sgpu_service_path socket;
	int connection = -1, rc = find_socket(s, &socket, error);

	message.lease = leased;
	rc = rc ? rc : sgpu_service_connect(&socket, &connection, error);
	rc = rc ? rc : link_submit(&link, &message, batch_fd, response_fd, &connection, error);
	rc = rc ? rc : hear(&link, &connection, error);
	sgpu_close(connection);
	return rc;
}
