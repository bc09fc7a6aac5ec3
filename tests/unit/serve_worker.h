/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker of sgpu-serve, which is the test's program once more, confined as it always is, and both
 * its sides: its supervisor and its clients. Tests begin(), and end() or check_end().
 */
#ifndef SERVE_WORKER_H
#define SERVE_WORKER_H

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "run_harness.h"

#include <sgpu/keys.h>

#include "remote/carrier.h"

#include "../../tools/common/cli.h"
#include "../../tools/sgpu-enclave/serving.h"
#include "../../tools/sgpu-serve/serve.h"
#include "lying.h"

enum { SUBMISSIONS = 8, HELD_MAX = 24, ROUNDS = 300, PATIENCE_MS = 60000, BATCH_BYTES = 1000 };

static struct {
	struct process process;
	struct world_random random;
	int held[HELD_MAX]; /* clients' ends of connections */
	unsigned at;
	int batch;
	char *key;
	bool logs; /* the next worker does */
} w;

/* ---- the supervisor's side ---- */
/* What the worker says: nothing but that its counters have changed. */
static inline void hear_notes(void)
{
	struct sgpu_greeting note;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		rc = wire_receive(w.process.control, WIRE_NOTE, &note, sizeof(note), NULL, 0, NULL);
	}
	CHECK(rc == SGPU_ETIMEOUT || rc == SGPU_ECANCELED);
	process_look(&w.process);
}

static inline bool is_idle(void)
{
	const struct process *p = &w.process;

	hear_notes();
	return process_in_flight(p) == 0 && process_requests(p) == 0 &&
	       p->said.ended == p->handed && p->said.requests_ended == p->requests;
}

static inline bool until_idle(void)
{
	for (int i = 0; i < PATIENCE_MS && !is_idle(); i++) {
		usleep(1000);
	}
	return is_idle();
}

/* Starts a worker, and returns whether it says that it is ready. */
static inline bool start_one(uint64_t seed, enum wire_sessions whose, bool modules)
{
	static char *arguments[] = { "worker", "-k", NULL, "--serve", "3", "-q", NULL, NULL };
	static struct server server;
	struct wire_ready ready = { .kid_count = 0 };

	memset(&w.process, 0, sizeof(w.process));
	world_seed(&w.random, seed);
	arguments[2] = w.key;
	arguments[5] = w.logs ? "-v" : "-q";
	arguments[6] = modules ? "--allow-modules" : NULL;
	server = (struct server){
		.arguments = arguments,
		.enclave_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC),
		.begin = { .leases = 1 << 20, .submissions = SUBMISSIONS, .sessions = whose }
	};
	for (int i = 0; i < HELD_MAX; i++) {
		w.held[i] = -1;
	}
	CHECK(process_start(&server, &w.process, &error) == SGPU_OK);
	close(server.enclave_fd);
	CHECK(poll(&(struct pollfd){ .fd = w.process.control, .events = POLLIN }, 1, PATIENCE_MS) ==
	      1);
	return wire_receive(w.process.control, WIRE_READY, &ready, sizeof(ready), NULL, 0, NULL) ==
	       SGPU_OK;
}

static inline void begin(uint64_t seed)
{
	const struct tenant_rule rule = { .sessions = TENANT_SESSIONS_MAX };

	CHECK(start_one(seed, WIRE_SESSIONS_ANY, false));
	CHECK(process_limit(&w.process, &rule));
}

/* It has been told, or has told itself, to end. */
static inline void check_end(void)
{
	int status = -1;

	CHECK(waitpid(w.process.pid, &status, 0) == w.process.pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	process_bury(&w.process);
}

static inline void let_go(int *held)
{
	if (*held >= 0) {
		close(*held);
		*held = -1;
	}
}

static inline void let_all_go(void)
{
	for (int i = 0; i < HELD_MAX; i++) {
		let_go(&w.held[i]);
	}
}

static inline void end(void)
{
	let_all_go();
	CHECK(until_idle());
	close(w.process.control);
	w.process.control = -1;
	check_end();
}

/* One that is not a connection, too. It is closed here. */
static inline void hand_over(int connection, uint64_t uid, bool request)
{
	struct wire_take take = { .uid = uid,
				  .since_ns = drawn(&w.random, 8) ? sgpu_now_ns()
								  : world_next(&w.random),
				  .request = request };

	while (!sgpu_wire_send(w.process.control, WIRE_TAKE, &take, sizeof(take), &connection, 1)) {
		REQUIRE(poll(&(struct pollfd){ .fd = w.process.control, .events = POLLOUT }, 1,
			     PATIENCE_MS) == 1);
		hear_notes();
	}
	*(request ? &w.process.requests : &w.process.handed) += 1;
	close(connection);
}

/* ---- the clients' side ---- */
/* The client's end is held until so many others have come, or it is let go of; `far` is the
 * worker's. */
static inline int *connect_client(int *far)
{
	int *held = &w.held[w.at++ % HELD_MAX], ends[2] = { -1, -1 };

	let_go(held);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	*held = ends[0];
	*far = ends[1];
	return held;
}

/* With an offset of its own. */
static inline int open_batch(void)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", w.batch);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static inline void send_submission(int client, int in, int out)
{
	static struct wire_submit message;

	(void)sgpu_wire_send(client, WIRE_SUBMIT, &message, sizeof(message),
			     (const int[]){ in, out, in }, 3);
}

/* A batch as it should be: it is answered, once, and has a response. */
static inline void submit_honestly(void)
{
	static union {
		struct sgpu_greeting header;
		struct wire_answer answer;
	} message;
	const int in = open_batch(), out = memfd_create("response", MFD_CLOEXEC);
	int far, answers = 0, *client = connect_client(&far);

	send_submission(*client, in, out);
	hand_over(far, geteuid(), false);
	while (poll(&(struct pollfd){ .fd = *client, .events = POLLIN }, 1, PATIENCE_MS) == 1 &&
	       recv(*client, &message, sizeof(message), 0) > 0) {
		answers += message.header.kind == WIRE_ANSWER;
	}
	if (answers == 1 && message.answer.error.code != SGPU_OK) {
		printf("# %s\n", message.answer.error.text);
	}
	CHECK(answers == 1 && message.answer.error.code == SGPU_OK &&
	      lseek(out, 0, SEEK_END) > BATCH_BYTES);
	let_go(client);
	close(in);
	close(out);
}

/* What comes is no batch, or no place for a response, or the batch never comes to its end. */
static inline unsigned count_threads(pid_t pid)
{
	char path[32];
	unsigned count = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && readdir(tasks)) {
		count++;
	}
	closedir(tasks);
	return count - 2; /* . and .. */
}

static inline void prepare(void)
{
	char x[2 * SGPU_KEY_SIZE], d[2 * SGPU_KEY_SIZE];
	struct job job;
	FILE *file;

	CHECK(sgpu_key_generate(SGPU_KEY_X25519, &owner, &error) == SGPU_OK);
	sgpu_base64url_encode(owner.public_half, 32, x);
	sgpu_base64url_encode(owner.secret, sizeof(owner.secret), d);
	file = fdopen(new_file(&w.key), "w");
	CHECK(file &&
	      fprintf(file, "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"%s\",\"d\":\"%s\"}", x,
		      d) > 0 &&
	      fclose(file) == 0);
	make_job(&job, BATCH_BYTES);
	w.batch = sign_and_write(&job);
	free_job(&job);
}

static inline int be_worker(int argc, char **argv)
{
	static struct run_request request;
	static struct enclave enclave = { .request = &request };
	char **none;
	int status = cli_read(argc, argv, &request, &none);

	return enclave_end(&enclave, status ? status : serve(&enclave));
}

/* With arguments, this program is the worker. */
static inline void worker_main(int argc, char **argv)
{
	static const struct cli_verb verbs[] = { { "", "", "a worker", batch_rows, be_worker },
						 { .name = NULL } };
	static const struct cli_tool tool = { .name = "worker", .verbs = verbs };

	if (argc > 1) {
		exit(cli_main(&tool, argc, argv));
	}
	prepare();
}

#endif
