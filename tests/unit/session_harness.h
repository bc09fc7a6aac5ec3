/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of sessions: a worker in a process of its own that serves one session over pipes, and
 * what the session asks.
 */
#ifndef SESSION_HARNESS_H
#define SESSION_HARNESS_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "remote/carrier.h"
#include "channel/group.h"

#include "channel_check.h"
#include "device_harness.h"
#include "hello_harness.h"

enum { AREA = 1 << 20, SHOWN = 4096, LIMIT = 8 << 20, SHOW_BYTES = 1 << 20 };

static struct sgpu_error error;
static uint8_t *area;  /* shared with every worker */
static uint8_t *shown; /* SHOWN bytes, shared as well: what the job "show" has seen */

/* ---- jobs, which are pretended: each works on one range ---- */
struct job_run {
	struct sgpu_task task;
	struct sgpu_device_range range;
};

/* Adds one to every byte. */
static int add(struct sgpu_launch *launch, void *argument)
{
	const struct job_run *run = argument;

	(void)launch;
	for (uint64_t i = 0; i < run->range.size; i++) {
		((uint8_t *)(uintptr_t)run->range.address)[i]++;
	}
	return SGPU_OK;
}

static int show(struct sgpu_launch *launch, void *argument)
{
	const struct job_run *run = argument;

	(void)launch;
	memcpy(shown, (const void *)(uintptr_t)run->range.address, (size_t)run->range.size);
	return SGPU_OK;
}

enum { ADD, SHOW };
static const struct job_kind {
	const char *text;
	sgpu_launch_fn run;
} kinds_of_jobs[] = { [ADD] = { "add", add }, [SHOW] = { "show", show } };

static int job_load(struct sgpu_device *on, const char *text, size_t size, uint64_t most,
		    void **job, uint64_t *bytes, struct sgpu_error *why)
{
	(void)on;
	(void)most;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(kinds_of_jobs); i++) {
		if (size == strlen(kinds_of_jobs[i].text) &&
		    memcmp(text, kinds_of_jobs[i].text, size) == 0) {
			*job = (void *)(uintptr_t)&kinds_of_jobs[i];
			*bytes = i == SHOW ? SHOW_BYTES : 0;
			return SGPU_OK;
		}
	}
	return sgpu_fail(why, SGPU_EUSAGE, "there is no job '%.*s'", (int)size, text);
}

static void job_free(void **job)
{
	*job = NULL;
}

static int job_start(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges,
		     int count, void **run, struct sgpu_error *why)
{
	const struct job_kind *kind = job;
	struct job_run *new = *run = calloc(1, sizeof(*new));

	if (!new || count != 1 || ranges[0].size > SHOWN) {
		return sgpu_fail(why, SGPU_EUSAGE, "a job takes one range");
	}
	new->range = ranges[0];
	return sgpu_device_launch_on(stream, kind->run, new, ranges, 1, &new->task);
}

static int job_end(void **run, struct sgpu_error *why)
{
	struct job_run *ended = *run;
	int rc = ended ? ended->task.code : SGPU_OK;

	if (rc < 0) {
		*why = ended->task.error;
	}
	free(ended);
	*run = NULL;
	return rc;
}

static const struct sgpu_group_jobs jobs = { job_load, job_free, job_start, job_end };

/* ---- the worker's process ---- */
struct ends {
	int in, out;
};

struct worker_process {
	pid_t pid;
	struct ends pipe; /* this side of it */
	struct sgpu_carrier *carrier;
};

/* Until the session ends. */
static inline int serve_pipe(struct sgpu_group_server *server, const struct ends *pipe,
			     struct sgpu_error *why)
{
	uint8_t *message = malloc(2 * (size_t)SGPU_MESSAGE_MAX),
		*answer = message ? message + SGPU_MESSAGE_MAX : NULL;
	struct sgpu_remote_frame frame;
	size_t answer_size = 0;
	int rc = message ? sgpu_remote_frame_read(pipe->in, &frame, message, why)
			 : sgpu_fail_nomem(why);

	while (rc == SGPU_OK && frame.size > 0) {
		rc = sgpu_group_server_handle(server, message, (size_t)frame.size, answer,
					      &answer_size, why);
		if (rc == SGPU_OK) {
			rc = sgpu_message_write(pipe->out, answer, answer_size, why);
		}
		if (rc == SGPU_OK) {
			rc = sgpu_remote_frame_read(pipe->in, &frame, message, why);
		}
	}
	free(message);
	return rc;
}

/* Serves one session. Returns minus the code that serving ended with, or 100: something was left.
 */
static inline int serve(const struct ends *pipe)
{
	const struct sgpu_group_config config = { .area = area,
						  .area_size = AREA,
						  .memory_limit = LIMIT,
						  .jobs = &jobs,
						  .authority = &anybody };
	struct sgpu_device *device = open_test_device(1, 0);
	struct sgpu_group_server *server = NULL;
	struct sgpu_secure *context = NULL;
	struct sgpu_secure_stats before, after;
	int rc = sgpu_secure_create(device, NULL, &context, &error);

	if (rc == SGPU_OK) {
		sgpu_secure_get_stats(context, &before);
		rc = sgpu_group_server_create(context, &config, &server, &error);
	}
	if (rc == SGPU_OK) {
		rc = serve_pipe(server, pipe, &error);
		sgpu_group_server_free(&server);
		sgpu_secure_get_stats(context, &after);
		if (after.used_bytes != before.used_bytes ||
		    sgpu_processor_check(sgpu_secure_processor(context), &error) != SGPU_OK) {
			rc = -100;
		}
	}
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return -rc;
}

static inline struct worker_process start_worker(void)
{
	struct worker_process w = { .pid = -1 };
	int to[2], from[2];

	fflush(stdout);
	if (pipe(to) != 0 || pipe(from) != 0 || (w.pid = fork()) < 0) {
		abort();
	}
	if (w.pid == 0) {
		close(to[1]);
		close(from[0]);
		_exit(serve(&(struct ends){ to[0], from[1] }));
	}
	close(to[0]);
	close(from[1]);
	w.pipe = (struct ends){ from[0], to[1] };
	if (sgpu_carrier_pipe(from[0], to[1], &w.carrier, &error) < 0) {
		abort();
	}
	return w;
}

/* The end of the pipe; the code with which serving ended. */
static inline int end_worker(struct worker_process *w)
{
	int status = -1;

	w->carrier->calls->close(w->carrier);
	close(w->pipe.out);
	waitpid(w->pid, &status, 0);
	close(w->pipe.in);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -1000;
}

/* ---- what a session asks ---- */
static inline int send_items(struct sgpu_group_client *client, const struct sgpu_item *items,
			     int count)
{
	int rc = SGPU_OK;

	error.text[0] = '\0';
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_group_client_add(client, &items[i], &error);
	}
	return rc == SGPU_OK ? sgpu_group_client_send(client, &error) : rc;
}
#define SEND(client, items) send_items(client, items, (int)SGPU_ARRAY_LENGTH(items))

/* An item that runs a job on one range. `tail` holds TAIL bytes. */
enum { TAIL = 64 };
static inline struct sgpu_item job_item(int job, uint32_t buffer, uint64_t offset, uint64_t size,
					uint8_t *tail)
{
	const struct sgpu_remote_range range = { buffer, offset, size };
	static uint8_t whole[SGPU_ITEM_RANGES_MAX];
	struct sgpu_item item = { .kind = SGPU_ITEM_JOB_RUN,
				  .object = (uint32_t)job,
				  .tail = tail };

	item.tail_size = sgpu_item_ranges_encode(&range, 1, whole);
	memcpy(tail, whole, item.tail_size);
	return item;
}

/* An item that loads a job under its number. */
static inline struct sgpu_item job_item_load(int job)
{
	const char *text = kinds_of_jobs[job].text;

	return (struct sgpu_item){ .kind = SGPU_ITEM_JOB_LOAD,
				   .object = (uint32_t)job,
				   .tail = (const uint8_t *)text,
				   .tail_size = (uint32_t)strlen(text) };
}

static inline void share_area(void)
{
	area = mmap(NULL, AREA + SHOWN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED) {
		abort();
	}
	shown = area + AREA;
	signal(SIGPIPE, SIG_IGN);
}

#endif
