/* SPDX-License-Identifier: Apache-2.0
 *
 * See prepared.h.
 */
#include "run/prepared.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "run/plan.h"
#include "run/run.h"

enum {
	ENGINE_STREAMS = 8, /* of operations, on a device with engines: what its driver gives queues to */
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

struct sgpu_prepared *sgpu_prepared_find(struct sgpu_prepared_table *table, const uint8_t sha256[SGPU_SHA256_SIZE])
{
	struct sgpu_prepared *found;

	pthread_mutex_lock(&table->mutex);
	found = find_job(table, sha256);
	if (found) {
		found->uses++;
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

/* The place of a new job: behind the others, or that of the one that was not used for the longest time. There always is
 * one: no more than half of them are pinned. */
static struct sgpu_prepared **find_place(struct sgpu_prepared_table *table)
{
	int oldest = -1;

	if (table->count < SGPU_PREPARED_MAX) {
		return &table->jobs[table->count++];
	}
	for (int i = 0; i < SGPU_PREPARED_MAX; i++) {
		if (!table->jobs[i]->pinned && (oldest < 0 || table->jobs[i]->last_use < table->jobs[oldest]->last_use)) {
			oldest = i;
		}
	}
	return &table->jobs[oldest];
}

/* The mutex is held. Returns the one that is there from then on. */
static struct sgpu_prepared *keep_job(struct sgpu_prepared_table *table, struct sgpu_prepared *prepared,
				      struct sgpu_prepared **forgotten)
{
	struct sgpu_prepared *kept = find_job(table, prepared->manifest->sha256), **place;

	if (!kept) {
		place = find_place(table);
		*forgotten = *place;
		atomic_fetch_add(&prepared->references, 1);
		prepared->last_use = ++table->uses;
		*place = kept = prepared;
	}
	return kept;
}

void sgpu_prepared_keep(struct sgpu_prepared_table *table, struct sgpu_prepared *prepared)
{
	struct sgpu_prepared *forgotten = NULL;

	if (prepared->manifest->canonical_size > SGPU_PREPARED_TEXT_MAX || depends_on_batch(prepared->manifest)) {
		return;
	}
	pthread_mutex_lock(&table->mutex);
	(void)keep_job(table, prepared, &forgotten);
	pthread_mutex_unlock(&table->mutex);
	sgpu_prepared_drop(&forgotten);
}

/* The mutex is held. */
static int count_pinned(const struct sgpu_prepared_table *table)
{
	int count = 0;

	for (int i = 0; i < table->count; i++) {
		count += table->jobs[i]->pinned;
	}
	return count;
}

int sgpu_prepared_pin(struct sgpu_prepared_table *table, struct sgpu_prepared *prepared, struct sgpu_error *error)
{
	struct sgpu_prepared *forgotten = NULL, *known;
	bool room;

	if (prepared->manifest->canonical_size > SGPU_PREPARED_TEXT_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "the manifest has %zu bytes, and only those of at most %d are kept",
				 prepared->manifest->canonical_size, SGPU_PREPARED_TEXT_MAX);
	}
	if (depends_on_batch(prepared->manifest)) {
		return sgpu_fail(error, SGPU_EINVALID, "the size of a module is its batch's to say: it has no data_type_info");
	}
	pthread_mutex_lock(&table->mutex);
	known = find_job(table, prepared->manifest->sha256);
	room = (known && known->pinned) || count_pinned(table) < SGPU_PREPARED_PINNED_MAX;
	if (room) {
		keep_job(table, prepared, &forgotten)->pinned = true;
	}
	pthread_mutex_unlock(&table->mutex);
	sgpu_prepared_drop(&forgotten);
	return room ? SGPU_OK : sgpu_fail(error, SGPU_ERETRY, "%d prepared jobs are kept, which is the limit",
					  SGPU_PREPARED_PINNED_MAX);
}

bool sgpu_prepared_forget(struct sgpu_prepared_table *table, const uint8_t sha256[SGPU_SHA256_SIZE])
{
	struct sgpu_prepared *forgotten = NULL;

	pthread_mutex_lock(&table->mutex);
	for (int i = 0; i < table->count && !forgotten; i++) {
		if (memcmp(table->jobs[i]->manifest->sha256, sha256, SGPU_SHA256_SIZE) == 0) {
			forgotten = table->jobs[i];
			table->jobs[i] = table->jobs[--table->count];
			table->jobs[table->count] = NULL; /* a free place has none to be forgotten */
		}
	}
	pthread_mutex_unlock(&table->mutex);
	const bool found = forgotten != NULL;

	sgpu_prepared_drop(&forgotten);
	return found;
}

/* The mutex is held. */
static struct sgpu_prepared_job describe(const struct sgpu_prepared *prepared)
{
	struct sgpu_prepared_job job = { .pinned = prepared->pinned, .uses = prepared->uses,
					 .operations = prepared->manifest->operation_count,
					 .streams = prepared->plan->stream_count, .device_bytes = prepared->plan->bytes };

	memcpy(job.sha256, prepared->manifest->sha256, sizeof(job.sha256));
	return job;
}

static int compare_last_use(const void *a, const void *b)
{
	const struct sgpu_prepared *const *x = a, *const *y = b;

	return (*x)->last_use > (*y)->last_use ? -1 : (*x)->last_use < (*y)->last_use;
}

int sgpu_prepared_list(struct sgpu_prepared_table *table, struct sgpu_prepared_job jobs[SGPU_PREPARED_MAX])
{
	struct sgpu_prepared *sorted[SGPU_PREPARED_MAX];
	int count;

	pthread_mutex_lock(&table->mutex);
	count = table->count;
	memcpy(sorted, table->jobs, (size_t)count * sizeof(*sorted));
	qsort(sorted, (size_t)count, sizeof(*sorted), compare_last_use);
	for (int i = 0; i < count; i++) {
		jobs[i] = describe(sorted[i]);
	}
	pthread_mutex_unlock(&table->mutex);
	return count;
}

int sgpu_prepared_plan(struct sgpu_prepared *prepared, const struct sgpu_run_traits *traits, struct sgpu_error *error)
{
	const int streams = ENGINE_STREAMS * traits->devices;
	struct sgpu_plan *plan;
	int rc = sgpu_plan_create_limited(prepared->manifest, traits->devices, &traits->costs, SGPU_REACH_OPERATIONS_MAX,
					  &prepared->plan, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	plan = prepared->plan;
	/* Operations use few streams in turn: beyond some they share a queue of the driver. */
	if (traits->opens_on_device && plan->stream_count > streams) {
		for (int i = 0; i < prepared->manifest->operation_count; i++) {
			plan->stream[i] %= streams;
		}
		plan->stream_count = streams;
	}
	return SGPU_OK;
}
