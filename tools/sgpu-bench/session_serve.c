/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker of the case session: another sgpu-bench with the verb `open`, how it is started, and what it serves.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/remote.h>

#include "secure/group.h"

#include "cases.h"

enum { MEMORY_FD = 3, AREA_FD = 4, GIVEN_MAX = 5, GIVEN_FROM = 16 };

/* ---- the worker ---- */
static const struct sgpu_pipe standard = { STDIN_FILENO, STDOUT_FILENO };

/* Items that nobody sealed: what the sealing of a group costs is seen beside it. */
static int serve_plain(struct sgpu_secure *context, struct sgpu_error *error)
{
	static const struct sgpu_group_config config;
	static uint8_t message[SGPU_MESSAGE_MAX], answer[SGPU_MESSAGE_MAX];
	struct sgpu_group_worker *worker = NULL;
	size_t size = 0, answer_size = 0;
	int rc = sgpu_group_worker_create(context, &config, &worker, error);

	while (rc == SGPU_OK) {
		rc = sgpu_message_read(standard.in, message, &size, error);
		if (rc < 0 || size == 0) {
			break;
		}
		sgpu_group_worker_run(worker, message, size, answer, &answer_size);
		rc = sgpu_message_write(standard.out, answer, answer_size, error);
	}
	sgpu_group_worker_free(&worker);
	return rc;
}

static int serve_sealed(struct sgpu_secure *context, struct sgpu_error *error)
{
	static const struct sgpu_group_config config;
	struct sgpu_group_server *server = NULL;
	int rc = sgpu_group_server_create(context, &config, &server, error);

	rc = rc ? rc : sgpu_group_serve(server, &standard, error);
	sgpu_group_server_free(&server);
	return rc;
}

static int serve_session(struct sgpu_secure *context, struct sgpu_error *error)
{
	return sgpu_remote_serve(context, 0, NULL, standard.in, standard.out, error);
}

static int serve_ring(struct sgpu_secure *context, struct sgpu_error *error)
{
	const struct sgpu_remote_ring ring = { .memory = MEMORY_FD, .area = AREA_FD, .bell = STDIN_FILENO };
	struct sgpu_remote_service *service = NULL;
	int rc = sgpu_remote_service_create(context, 0, NULL, &ring, &service, error);

	rc = rc ? rc : sgpu_remote_service_run(service, error);
	sgpu_remote_service_free(&service);
	return rc;
}

int bench_serve(const char *selector, const char *what, struct sgpu_error *error)
{
	static const struct {
		const char *what;
		int (*serve)(struct sgpu_secure *context, struct sgpu_error *error);
	} services[] = { { "plain", serve_plain }, { "sealed", serve_sealed }, { "session", serve_session },
			 { "ring", serve_ring } };
	struct sgpu_secure *context = NULL;
	struct sgpu_device *device = NULL;
	size_t i = 0;
	int rc;

	while (i < SGPU_ARRAY_LENGTH(services) && strcmp(what, services[i].what) != 0) {
		i++;
	}
	if (i == SGPU_ARRAY_LENGTH(services)) {
		return sgpu_fail(error, SGPU_EUSAGE, "--serve '%s' is none of 'plain', 'sealed', 'session' and 'ring'",
				 SGPU_EXCERPT(what));
	}
	rc = sgpu_device_open(selector, NULL, &device, error);
	rc = rc ? rc : sgpu_secure_create(device, NULL, &context, error);
	rc = rc ? rc : services[i].serve(context, error);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return rc;
}

/* ---- how it is started, and how it ends ---- */
static void end_descriptor(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	(void)bench, (void)size;
	close((int)what);
}

static void end_child(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	(void)bench, (void)size;
	(void)waitpid((pid_t)what, NULL, 0);
}

/* The caller's descriptors are copied to high numbers first, so that none of them is in the place of another one. */
int bench_start(struct sgpu_bench *bench, const char *option, const char *value, const int *given, int count,
		struct sgpu_error *error)
{
	extern char **environ;
	const char *const arguments[] = { "sgpu-bench", "open", "--device", bench->info.selector, option, value, NULL };
	posix_spawn_file_actions_t actions;
	int high[GIVEN_MAX], rc = posix_spawn_file_actions_init(&actions);
	pid_t child = 0;

	if (rc != 0) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < count; i++) {
		high[i] = fcntl(given[i], F_DUPFD_CLOEXEC, GIVEN_FROM);
		rc = rc ? rc : high[i] < 0 ? errno : posix_spawn_file_actions_adddup2(&actions, high[i], i);
	}
	rc = rc ? rc : posix_spawn(&child, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	for (int i = 0; i < count; i++) {
		if (high[i] >= 0) {
			close(high[i]);
		}
	}
	return rc ? sgpu_fail(error, SGPU_ESYSTEM, "cannot start another sgpu-bench: %s", strerror(rc)) :
	       sgpu_bench_keep(bench, end_child, (uintptr_t)child, 0, error);
}

int bench_start_pipe(struct sgpu_bench *bench, const char *option, const char *value, struct sgpu_pipe *ends,
		     struct sgpu_error *error)
{
	int to[2], from[2], rc;

	if (pipe2(to, O_CLOEXEC) != 0) {
		return sgpu_fail_errno(error, "cannot make a pipe");
	}
	if (pipe2(from, O_CLOEXEC) != 0) {
		close(to[0]);
		close(to[1]);
		return sgpu_fail_errno(error, "cannot make a pipe");
	}
	rc = bench_start(bench, option, value, (const int[]){ to[0], from[1] }, 2, error);
	close(to[0]);
	close(from[1]);
	*ends = (struct sgpu_pipe){ from[0], to[1] };
	for (int i = 0; i < 2; i++) { /* the second one also after an error: to keep it is to close it */
		const int kept = sgpu_bench_keep(bench, end_descriptor, (uintptr_t)(i ? to[1] : from[0]), 0, error);

		rc = rc ? rc : kept;
	}
	return rc;
}
