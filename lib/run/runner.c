/* SPDX-License-Identifier: Apache-2.0
 *
 * A runner: made once a process for a device, so that a batch makes no thread, stream or staging memory.
 */
#include "run/runner.h"

#include <stdlib.h>

#include <sgpu/base.h>

#include "run/loop.h"
#include "run/prepared.h"
#include "run/streams.h"
#include "run/threads.h"

void sgpu_runner_add(struct sgpu_runner *runner, struct sgpu_runner_entry *entry)
{
	pthread_mutex_lock(&runner->mutex);
	entry->next = runner->entries;
	runner->entries = entry;
	pthread_mutex_unlock(&runner->mutex);
	sgpu_loop_expect(runner->loop, false);
	sgpu_loop_wake(runner->loop); /* it may have a deadline */
}

void sgpu_runner_remove(struct sgpu_runner *runner, struct sgpu_runner_entry *entry)
{
	struct sgpu_runner_entry **link = &runner->entries;

	while (*link != entry) {
		link = &(*link)->next;
	}
	*link = entry->next;
	sgpu_loop_expect(runner->loop, true);
}

/* Cancellations and deadlines. */
static uint64_t tick(void *argument)
{
	struct sgpu_runner *runner = argument;
	uint64_t when = 0;

	pthread_mutex_lock(&runner->mutex);
	for (struct sgpu_runner_entry *entry = runner->entries; entry; entry = entry->next) {
		when = sgpu_sooner(when, entry->look(entry));
	}
	pthread_mutex_unlock(&runner->mutex);
	return when;
}

int sgpu_runner_create(const struct sgpu_runner_config *config, struct sgpu_runner **runner, struct sgpu_error *error)
{
	struct sgpu_runner *r = calloc(1, sizeof(*r));
	struct sgpu_engine_config engine;
	struct sgpu_loop_config loop;
	int rc;

	*runner = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&r->mutex, NULL);
	pthread_cond_init(&r->ended, NULL);
	sgpu_presence_init(&r->presence, config->device);
	rc = sgpu_run_learn_traits(config, &r->traits, error);
	if (rc < 0) {
		goto out;
	}
	rc = sgpu_streams_create(config->device, &r->streams, error);
	if (rc < 0) {
		goto out;
	}
	rc = sgpu_threads_create(r->traits.spin_ns, &r->threads, error);
	if (rc < 0) {
		goto out;
	}
	engine = (struct sgpu_engine_config){ .workers = config->jobs, .pinned_max = config->pinned_max,
					      .shared_files = config->shared_files };
	rc = sgpu_engine_create(config->device, &engine, &r->engine, error);
	if (rc < 0) {
		goto out;
	}
	rc = sgpu_prepared_table_create(&r->prepared, error);
	if (rc < 0) {
		goto out;
	}
	loop = (struct sgpu_loop_config){ .tick = tick, .argument = r, .spin_ns = r->traits.spin_ns };
	rc = sgpu_loop_create(&loop, &r->loop, error);
	if (rc < 0) {
		goto out;
	}
	*runner = r;
	return SGPU_OK;
out:
	sgpu_runner_free(&r);
	return rc;
}

void sgpu_runner_free(struct sgpu_runner **runner)
{
	struct sgpu_runner *r = runner ? *runner : NULL;

	if (!r) {
		return;
	}
	sgpu_threads_free(&r->threads);
	sgpu_loop_free(&r->loop);
	sgpu_engine_free(&r->engine);
	sgpu_prepared_table_free(&r->prepared);
	sgpu_streams_free(&r->streams);
	sgpu_presence_clear(&r->presence);
	pthread_cond_destroy(&r->ended);
	pthread_mutex_destroy(&r->mutex);
	free(r);
	*runner = NULL;
}
