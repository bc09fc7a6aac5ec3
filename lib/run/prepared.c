/* SPDX-License-Identifier: Apache-2.0
 *
 * See job.h.
 */
#include "run/job.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "run/plan.h"
#include "run/private.h"

enum {
	ENGINE_STREAMS =
		8, /* of operations, on a device with engines: what its driver gives queues to */
};

struct sgpu_prepared_table {
	pthread_mutex_t mutex;
	uint64_t uses;
	int count;
	struct sgpu_prepared *jobs[SGPU_PREPARED_MAX];
};

struct sgpu_prepared *sgpu_prepared_create(struct sgpu_manifest **manifest)
{
	struct sgpu_prepared *p = calloc(1, sizeof(*p));

	if (!p) {
		sgpu_manifest_free(manifest);
		return NULL;
	}
	atomic_init(&p->references, 1);
	p->manifest = *manifest;
	*manifest = NULL;
	return p;
}

void sgpu_prepared_drop(struct sgpu_prepared **prepared)
{
	struct sgpu_prepared *p = *prepared;

	*prepared = NULL;
	if (p && atomic_fetch_sub(&p->references, 1) == 1) {
		sgpu_plan_free(&p->plan);
		sgpu_manifest_free(&p->manifest);
		free(p);
	}
}

int sgpu_prepared_table_create(struct sgpu_prepared_table **table, struct sgpu_error *error)
{
	*table = calloc(1, sizeof(**table));
	if (!*table) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&(*table)->mutex, NULL);
	return SGPU_OK;
}

void sgpu_prepared_table_free(struct sgpu_prepared_table **table)
{
	struct sgpu_prepared_table *t = *table;

	if (!t) {
		return;
	}
	for (int i = 0; i < t->count; i++) {
		sgpu_prepared_drop(&t->jobs[i]);
	}
	pthread_mutex_destroy(&t->mutex);
	free(t);
	*table = NULL;
}

/* The mutex is held. */
static struct sgpu_prepared *find_job(struct sgpu_prepared_table *table, const uint8_t *sha256)
{
	for (int i = 0; i < table->count; i++) {
		if (memcmp(table->jobs[i]->manifest->sha256, sha256, SGPU_SHA256_SIZE) == 0) {
			table->jobs[i]->last_use = ++table->uses;
			return table->jobs[i];
		}
	}
	return NULL;
}

struct sgpu_prepared *sgpu_prepared_find(struct sgpu_prepared_table *table,
					 const uint8_t sha256[SGPU_SHA256_SIZE])
{
	struct sgpu_prepared *found;

	pthread_mutex_lock(&table->mutex);
	found = find_job(table, sha256);
	if (found) {
		atomic_fetch_add(&found->references, 1);
	}
	pthread_mutex_unlock(&table->mutex);
	return found;
}

static bool depends_on_batch(const struct sgpu_manifest *manifest)
{
	for (int i = 0; i < manifest->segment_count; i++) {
		if (manifest->segments[i].size_of_file) {
			return true;
		}
	}
	return false;
}

/* The place of a new job: behind the others, or that of the one that was not used for the longest
 * time. */
static struct sgpu_prepared **find_place(struct sgpu_prepared_table *table)
{
	int oldest = 0;

	if (table->count < SGPU_PREPARED_MAX) {
		return &table->jobs[table->count++];
	}
	for (int i = 1; i < SGPU_PREPARED_MAX; i++) {
		if (table->jobs[i]->last_use < table->jobs[oldest]->last_use) {
			oldest = i;
		}
	}
	return &table->jobs[oldest];
}

void sgpu_prepared_keep(struct sgpu_prepared_table *table, struct sgpu_prepared *prepared)
{
	struct sgpu_prepared *forgotten = NULL, **place;

	if (prepared->manifest->canonical_size > SGPU_PREPARED_TEXT_MAX ||
	    depends_on_batch(prepared->manifest)) {
		return;
	}
	pthread_mutex_lock(&table->mutex);
	if (!find_job(table, prepared->manifest->sha256)) {
		place = find_place(table);
		forgotten = *place;
		atomic_fetch_add(&prepared->references, 1);
		prepared->last_use = ++table->uses;
		*place = prepared;
	}
	pthread_mutex_unlock(&table->mutex);
	sgpu_prepared_drop(&forgotten);
}

int sgpu_prepared_plan(struct sgpu_prepared *prepared, const struct sgpu_run_base *base,
		       struct sgpu_error *error)
{
	const int streams = ENGINE_STREAMS * base->device_count;
	struct sgpu_plan *plan;
	int rc = sgpu_plan_create_limited(prepared->manifest, base->device_count,
					  &base->traits->costs, SGPU_PLAN_MATRIX_MAX,
					  &prepared->plan, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	plan = prepared->plan;
	/* Operations use few streams in turn: beyond some they share a queue of the driver. */
	if (base->traits->opens_on_device && plan->stream_count > streams) {
		for (int i = 0; i < prepared->manifest->operation_count; i++) {
			plan->stream[i] %= streams;
		}
		plan->stream_count = streams;
	}
	sgpu_prepared_keep(base->prepared, prepared);
	return SGPU_OK;
}
