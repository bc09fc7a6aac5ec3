/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the case session to a worker in another process, over pipes: in sealed groups, in messages that are not sealed,
 * and the same requests as direct calls of a secure context in this process. A request clears 4 KiB.
 */
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "secure/group.h"

#include "cases.h"
#include "memory.h"

enum { BYTES = 4096, REQUESTS = 64 };

static const struct sgpu_item alloc_item = { .kind = SGPU_ITEM_ALLOC, .size = BYTES };
static const struct sgpu_item clear_item = { .kind = SGPU_ITEM_CLEAR, .size = BYTES };

/* ---- the worker, in the verb `open` of another sgpu-bench ---- */
/* Items that nobody sealed: what the sealing of a group costs is seen beside it. */
static int serve_plain(struct sgpu_secure *context, const struct sgpu_pipe *pipe, struct sgpu_error *error)
{
	static const struct sgpu_group_config config;
	static uint8_t message[SGPU_MESSAGE_MAX], answer[SGPU_MESSAGE_MAX];
	struct sgpu_group_worker *worker = NULL;
	size_t size = 0, answer_size = 0;
	int rc = sgpu_group_worker_create(context, &config, &worker, error);

	while (rc == SGPU_OK) {
		rc = sgpu_message_read(pipe->in, message, &size, error);
		if (rc < 0 || size == 0) {
			break;
		}
		sgpu_group_worker_run(worker, message, size, answer, &answer_size);
		rc = sgpu_message_write(pipe->out, answer, answer_size, error);
	}
	sgpu_group_worker_free(&worker);
	return rc;
}

int bench_serve(const char *selector, bool sealed, struct sgpu_error *error)
{
	static const struct sgpu_group_config config;
	const struct sgpu_pipe pipe = { STDIN_FILENO, STDOUT_FILENO };
	struct sgpu_group_server *server = NULL;
	struct sgpu_secure *context = NULL;
	struct sgpu_device *device = NULL;
	int rc = sgpu_device_open(selector, NULL, &device, error);

	rc = rc ? rc : sgpu_secure_create(device, NULL, &context, error);
	if (rc == SGPU_OK && !sealed) {
		rc = serve_plain(context, &pipe, error);
	} else if (rc == SGPU_OK) {
		rc = sgpu_group_server_create(context, &config, &server, error);
		rc = rc == SGPU_OK ? sgpu_group_serve(server, &pipe, error) : rc;
	}
	sgpu_group_server_free(&server);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return rc;
}

/* ---- this side ---- */
struct side {
	pid_t child;                   /* 0: there is none */
	struct sgpu_pipe pipe;
	struct sgpu_group_client *client; /* of the sealed side */
	struct sgpu_device *device;    /* of the direct side */
	struct sgpu_stream *stream;
	sgpu_devptr memory;
	int requests;
};

int bench_start(struct sgpu_bench *bench, const char *option, const char *value, pid_t *child, struct sgpu_pipe *pipe,
		struct sgpu_error *error)
{
	extern char **environ;
	const char *const arguments[] = { "sgpu-bench", "open", "--device", bench->info.selector, option, value, NULL };
	posix_spawn_file_actions_t actions;
	int to[2], from[2], rc;

	if (pipe2(to, O_CLOEXEC) != 0) {
		return sgpu_fail_errno(error, "cannot make a pipe");
	}
	if (pipe2(from, O_CLOEXEC) != 0) {
		close(to[0]);
		close(to[1]);
		return sgpu_fail_errno(error, "cannot make a pipe");
	}
	rc = posix_spawn_file_actions_init(&actions);
	if (rc == 0) {
		rc = posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
		rc = rc ? rc : posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
		rc = rc ? rc : posix_spawn(child, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)arguments,
					   environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(to[0]);
	close(from[1]);
	*pipe = (struct sgpu_pipe){ from[0], to[1] };
	return rc ? sgpu_fail(error, SGPU_ESYSTEM, "cannot start another sgpu-bench: %s", strerror(rc)) : SGPU_OK;
}

static void end(struct side *side)
{
	sgpu_group_client_close(&side->client);
	if (side->pipe.in > 0) {
		close(side->pipe.out);
		close(side->pipe.in);
	}
	if (side->child > 0) {
		(void)waitpid(side->child, NULL, 0);
	}
}

static int run_direct(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;
	struct sgpu_task tasks[REQUESTS] = { { 0 } };
	uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < s->requests; i++) {
		rc = sgpu_device_clear(s->stream, s->memory, BYTES, &tasks[i]);
	}
	rc = bench_finish(s->stream, rc, tasks, s->requests, "clear device memory", error);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int send_plain(struct side *s, const struct sgpu_item *item, int count, struct sgpu_error *error)
{
	static uint8_t items[SGPU_GROUP_BYTES], answer[SGPU_MESSAGE_MAX];
	size_t size = 0, answer_size = 0;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_item_encode(item, items, &size, error);
	}
	rc = rc == SGPU_OK ? sgpu_pipe_exchange(&s->pipe, items, size, answer, &answer_size, error) : rc;
	if (rc == SGPU_OK && answer_size != 4 + (size_t)count * 8) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "a request over a pipe failed");
	}
	return rc;
}

static int send_sealed(struct side *s, const struct sgpu_item *item, int count, struct sgpu_error *error)
{
	struct sgpu_item_result results[REQUESTS];
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_group_client_add(s->client, item, error);
	}
	return rc == SGPU_OK ? sgpu_group_client_send(s->client, results, error) : rc;
}

static int run_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)ns;
	return send_plain(s, &clear_item, s->requests, error);
}

static int run_sealed(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;

	(void)ns;
	return send_sealed(s, &clear_item, s->requests, error);
}

static int measure(struct sgpu_bench *bench, struct side sides[3], struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "direct call", .run = run_direct, .argument = &sides[0] },
		{ .name = "plain message", .run = run_plain, .argument = &sides[1] },
		{ .name = "sealed group", .run = run_sealed, .argument = &sides[2] },
	};
	int rc = SGPU_OK;

	for (int requests = 1; rc == SGPU_OK && requests <= REQUESTS; requests *= REQUESTS) {
		const struct sgpu_bench_point point = { .parameters = { { "what", "pipe", 0 },
									{ "requests", NULL, (uint64_t)requests } } };

		sides[0].requests = sides[1].requests = sides[2].requests = requests;
		rc = sgpu_bench_measure(bench, &point, variants, 3, error);
	}
	return rc;
}

int bench_session_pipe(struct sgpu_bench *bench, struct sgpu_secure *context, struct sgpu_error *error)
{
	struct side sides[3] = { { .device = sgpu_secure_device(context) } };
	struct sgpu_key owner = { 0 };
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);

	rc = rc == SGPU_OK ? sgpu_stream_create(sides[0].device, &sides[0].stream, error) : rc;
	rc = rc == SGPU_OK ? sgpu_device_alloc(sides[0].device, BYTES, &sides[0].memory, error) : rc;
	rc = rc == SGPU_OK ? bench_start(bench, "--serve", "plain", &sides[1].child, &sides[1].pipe, error) : rc;
	rc = rc == SGPU_OK ? send_plain(&sides[1], &alloc_item, 1, error) : rc;
	rc = rc == SGPU_OK ? bench_start(bench, "--serve", "sealed", &sides[2].child, &sides[2].pipe, error) : rc;
	if (rc == SGPU_OK) {
		rc = sgpu_group_client_open(&owner, NULL, sgpu_pipe_exchange, &sides[2].pipe, &sides[2].client, error);
	}
	rc = rc == SGPU_OK ? send_sealed(&sides[2], &alloc_item, 1, error) : rc;
	rc = rc == SGPU_OK ? measure(bench, sides, error) : rc;
	end(&sides[2]);
	end(&sides[1]);
	sgpu_stream_free(&sides[0].stream);
	sgpu_device_free(sides[0].device, &sides[0].memory, BYTES);
	sgpu_key_clear(&owner);
	return rc;
}
