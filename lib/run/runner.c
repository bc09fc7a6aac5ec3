/* SPDX-License-Identifier: Apache-2.0
 *
 * A runner: made once a process for its devices, so that a batch makes no thread, stream or staging
 * memory.
 */
#include "run/runner.h"

#include <stdlib.h>

#include <sgpu/base.h>

#include "run/links.h"
#include "run/loop.h"
#include "run/prepared.h"
#include "run/streams.h"
#include "run/threads.h"
#include "transfer/transfer.h"

void sgpu_runner_add(struct sgpu_runner *runner, struct sgpu_runner_entry *entry)
{
	pthread_mutex_lock(&runner->mutex);
	entry->first = 0;
	for (int i = 1; i < runner->device_count; i++) {
		entry->first = runner->begun[i] < runner->begun[entry->first] ? i : entry->first;
	}
	runner->begun[entry->first]++;
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
	runner->begun[entry->first]--;
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

static int make_device(struct sgpu_runner *r, struct sgpu_device *device,
		       const struct sgpu_engine_config *engine, struct sgpu_error *error)
{
	struct sgpu_run_device *d = &r->devices[r->device_count];
	int rc;

	*d = (struct sgpu_run_device){ .number = r->device_count++, .device = device };
	rc = sgpu_streams_create(device, &d->streams, error);
	return rc == SGPU_OK ? sgpu_engine_create(device, engine, &d->engine, error) : rc;
}

int sgpu_runner_create(const struct sgpu_runner_config *config, struct sgpu_runner **runner,
		       struct sgpu_error *error)
{
	struct sgpu_runner *r = calloc(1, sizeof(*r));
	const struct sgpu_engine_config engine = { .workers = config->jobs,
						   .pinned_max = config->pinned_max,
						   .shared_files = config->shared_files };
	struct sgpu_loop_config loop;
	int rc;

	*runner = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&r->mutex, NULL);
	pthread_cond_init(&r->ended, NULL);
	sgpu_presence_init(&r->presence, r->devices, config->more_count + 1);
	if (config->more_count < 0 || config->more_count >= SGPU_RUN_DEVICES_MAX) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "a runner has 1 to %d devices",
			       SGPU_RUN_DEVICES_MAX);
		goto out;
	}
	rc = sgpu_run_learn_traits(config, &r->traits, error);
	if (rc < 0) {
		goto out;
	}
	rc = sgpu_threads_create(r->traits.spin_ns, &r->threads, error);
	if (rc < 0) {
		goto out;
	}
	rc = make_device(r, config->device, &engine, error);
	for (int i = 0; rc == SGPU_OK && i < config->more_count; i++) {
		rc = make_device(r, config->more[i], &engine, error);
	}
	if (rc < 0) {
		goto out;
	}
	rc = sgpu_links_create(&r->links, error);
	if (rc < 0) {
		goto out;
	}
	rc = sgpu_prepared_table_create(&r->prepared, error);
	if (rc < 0) {
		goto out;
	}
	loop = (struct sgpu_loop_config){ .tick = tick,
					  .argument = r,
					  .spin_ns = r->traits.spin_ns };
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
	for (int i = 0; i < r->device_count; i++) {
		sgpu_engine_free(&r->devices[i].engine);
		sgpu_streams_free(&r->devices[i].streams);
	}
	sgpu_links_free(&r->links);
	sgpu_prepared_table_free(&r->prepared);
	sgpu_presence_clear(&r->presence);
	pthread_cond_destroy(&r->ended);
	pthread_mutex_destroy(&r->mutex);
	free(r);
	*runner = NULL;
}
