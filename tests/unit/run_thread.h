/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs on threads of their own. One thread of the test calls these.
 */
#ifndef RUN_THREAD_H
#define RUN_THREAD_H

#include <pthread.h>
#include <stdlib.h>

#include "run/run.h"

struct run_thread {
	struct run_thread *next;
	struct sgpu_run *run;
	pthread_t thread;
	bool joined;
	int code;
	struct sgpu_error error;
};
static struct run_thread *run_threads;

static void *run_on_thread(void *argument)
{
	struct run_thread *thread = argument;

	thread->code = sgpu_run_batch(thread->run, &thread->error);
	return NULL;
}

/* Starts to run a batch, and returns. */
static inline int submit_run(struct sgpu_runner *runner, const struct sgpu_submission *submission,
			     struct sgpu_run **run, struct sgpu_error *why)
{
	struct run_thread *thread;
	int rc = sgpu_run_create(runner, submission, run, why);

	if (rc != SGPU_OK) {
		return rc;
	}
	thread = calloc(1, sizeof(*thread));
	if (!thread) {
		abort();
	}
	thread->run = *run;
	thread->next = run_threads;
	run_threads = thread;
	if (pthread_create(&thread->thread, NULL, run_on_thread, thread)) {
		abort();
	}
	return SGPU_OK;
}

/* Returns what the batch came to, as often as it is asked. */
static inline int wait_run(struct sgpu_run *run, struct sgpu_error *why)
{
	struct run_thread *thread = run_threads;

	while (thread->run != run) {
		thread = thread->next;
	}
	if (!thread->joined) {
		pthread_join(thread->thread, NULL);
		thread->joined = true;
	}
	if (thread->code != SGPU_OK) {
		*why = thread->error;
	}
	return thread->code;
}

/* Cancels the run if it has not ended, and frees it. */
static inline void end_run(struct sgpu_run **run)
{
	struct run_thread **link = &run_threads, *thread;
	struct sgpu_error ignored;

	if (!*run) {
		return;
	}
	sgpu_run_cancel(*run);
	(void)wait_run(*run, &ignored);
	while ((*link)->run != *run) {
		link = &(*link)->next;
	}
	thread = *link;
	*link = thread->next;
	free(thread);
	sgpu_run_free(run);
}

#endif
