/* SPDX-License-Identifier: Apache-2.0
 *
 * See serve_prepare.h. A large manifest takes long to parse and to plan, so each request has a thread.
 */
#include "serve_prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "handed.h"
#include "prepared_jobs.h"

enum { AT_ONCE_MAX = 4 };

struct work {
	struct server *server;
	int connection, file;
	struct wire_prepare message;
};

static atomic_uint at_once;

/* A file of a disk could change its mind; one in memory is read as it is. */
static int read_manifest(int file, char **text, size_t *size, struct sgpu_error *error)
{
	if (fcntl(file, F_GET_SEALS) < 0 || !handed_batch_is_taken(file)) {
		return sgpu_fail(error, SGPU_EPOLICY, "the manifest is not a descriptor that a server takes");
	}
	*text = calloc(1, WIRE_TEXT_MAX + 1);
	return *text ? sgpu_pread(file, "the manifest", *text, WIRE_TEXT_MAX, 0, size, error) : sgpu_fail_nomem(error);
}

/* *count: of the jobs that are answered with. */
static int act(const struct work *work, struct sgpu_prepared_job jobs[SGPU_PREPARED_MAX], int *count, struct sgpu_error *error)
{
	struct sgpu_runner *runner = work->server->worker.devices[0].runner;
	char *text = NULL;
	size_t size = 0;
	int rc;

	*count = 0;
	switch (work->message.action) {
	case WIRE_PREPARE_ADD:
		rc = read_manifest(work->file, &text, &size, error);
		if (rc == SGPU_OK) {
			rc = sgpu_runner_prepare(runner, text, size, "the manifest", jobs, error);
		}
		free(text);
		*count = rc == SGPU_OK;
		return rc;
	case WIRE_PREPARE_LIST:
		*count = sgpu_runner_list_prepared(runner, jobs);
		return SGPU_OK;
	case WIRE_PREPARE_FORGET:
		return sgpu_runner_forget(runner, work->message.sha256, error);
	default:
		return sgpu_fail(error, SGPU_EINVALID, "the message is malformed");
	}
}

static int send_jobs(const struct work *work, const struct sgpu_prepared_job *jobs, int count, struct sgpu_error *error)
{
	json_t *json = prepared_jobs_json(worker_secure_device(&work->server->worker.devices[0]), jobs, count);
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	const int file = text ? memfd_create("sgpu-run prepared", MFD_CLOEXEC) : -1;
	struct wire_plain is;
	int rc = file < 0 ? sgpu_fail_nomem(error) : sgpu_write(file, "a memory file", text, strlen(text), error);

	if (rc == SGPU_OK) {
		(void)wire_send(work->connection, WIRE_PREPARED_IS, &is, sizeof(is), &file, 1);
	}
	if (file >= 0) {
		close(file);
	}
	free(text);
	json_decref(json);
	return rc;
}

static void *answer(void *argument)
{
	struct sgpu_prepared_job jobs[SGPU_PREPARED_MAX];
	struct work *work = argument;
	struct sgpu_error error = { 0 };
	int count, rc = act(work, jobs, &count, &error);

	if (rc == SGPU_OK) {
		rc = send_jobs(work, jobs, count, &error);
	}
	close(work->file);
	atomic_fetch_sub(&at_once, 1);
	if (rc < 0) {
		requests_refuse(work->connection, &error);
	} else {
		requests_end(work->connection);
	}
	free(work);
	return NULL;
}

static int start_thread(struct work *work, struct sgpu_error *error)
{
	sigset_t all, old;
	pthread_t thread;

	if (atomic_fetch_add(&at_once, 1) >= AT_ONCE_MAX) {
		atomic_fetch_sub(&at_once, 1);
		return sgpu_fail(error, SGPU_ERETRY, "%d jobs are being prepared already, which is the limit", AT_ONCE_MAX);
	}
	sigfillset(&all);
	sigdelset(&all, SIGSYS); /* blocked, a refused system call would end the process without a message */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(&thread, NULL, answer, work);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (errno != 0) {
		atomic_fetch_sub(&at_once, 1);
		return sgpu_fail_errno(error, "cannot start a thread");
	}
	pthread_detach(thread);
	return SGPU_OK;
}

void serve_prepare(const struct request *request)
{
	struct work *work = calloc(1, sizeof(*work));
	struct sgpu_error error = { 0 };
	int rc = work ? SGPU_OK : sgpu_fail_nomem(&error);

	if (rc == SGPU_OK) {
		*work = (struct work){ .server = request->server, .connection = request->connection, .file = -1 };
		rc = wire_receive(request->connection, WIRE_PREPARE, &work->message, sizeof(work->message), &work->file, 1,
				  &error);
	}
	if (rc == SGPU_OK) {
		rc = start_thread(work, &error);
	}
	if (rc == SGPU_OK) {
		return; /* the thread has it all */
	}
	if (work && work->file >= 0) {
		close(work->file);
	}
	free(work);
	if (rc == SGPU_ECANCELED || rc == SGPU_ETIMEOUT) {
		requests_end(request->connection);
	} else {
		requests_refuse(request->connection, &error);
	}
}
