/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine: workers and staging buffers, which transfers of several threads share.
 *
 * Why transfers never deadlock: a chunk run takes at most one staging buffer before it begins, and
 * gives it back without taking another. A buffer in use comes back: a file or memory fills or
 * empties it, and streams complete their work. For each that a pipe fills, which may take for ever,
 * the limit is one higher. The limit is at least one, so some transfer goes on.
 */
#include "transfer/engine.h"

#include <stdlib.h>

#include <sgpu/base.h>

enum { PAGE = 4096, SMALL_BUFFERS = 256, LARGE_MIN = 4 };
#define MIB ((uint64_t)1 << 20)

static uint64_t or_else(uint64_t wanted, uint64_t standard)
{
	return wanted ? wanted : standard;
}

/* The defaults were the best sizes on an H200 with 16 cores. */
static void configure(struct sgpu_engine *engine, const struct sgpu_engine_config *wanted)
{
	const struct sgpu_engine_config none = { .workers = 0 }, *w = wanted ? wanted : &none;

	engine->config = (struct sgpu_engine_config){
		.workers = w->workers ? w->workers : sgpu_cpu_count(),
		.pinned_max = or_else(w->pinned_max, 64 * MIB),
		.staged_run = or_else(w->staged_run, 2 * MIB),
		.direct_run = or_else(w->direct_run, 32 * MIB),
		.direct_count = w->direct_count ? w->direct_count : 3,
		.last_run = or_else(w->last_run, MIB),
		.kept_max = or_else(w->kept_max, sgpu_host_memory_installed() / 4),
		.shared_files = w->shared_files,
	};
}

static uint64_t buffer_size(uint64_t chunks)
{
	return (chunks * SGPU_SEALED_CHUNK + PAGE - 1) / PAGE * PAGE;
}

static void setup_staging(struct sgpu_engine *engine)
{
	const struct sgpu_engine_config *config = &engine->config;
	uint64_t last = config->last_run / SGPU_CHUNK, count;
	struct sgpu_staging_pool *pools = engine->staging;

	pools[SGPU_STAGING_SMALL].size = buffer_size(SGPU_TRANSFER_SMALL / SGPU_CHUNK + 2);
	pools[SGPU_STAGING_SMALL].limit = SMALL_BUFFERS;
	pools[SGPU_STAGING_LARGE].size =
		buffer_size(sgpu_chunk_run_most(config->staged_run / SGPU_CHUNK, last));
	count = config->pinned_max / pools[SGPU_STAGING_LARGE].size;
	pools[SGPU_STAGING_LARGE].limit = count < 1 ? 1 : (unsigned)count;
	pools[SGPU_STAGING_DIRECT].size =
		buffer_size(sgpu_chunk_run_most(config->direct_run / SGPU_CHUNK, last));
	pools[SGPU_STAGING_DIRECT].limit = 2 * config->direct_count; /* in both directions */
}

int sgpu_engine_create(struct sgpu_device *device, const struct sgpu_engine_config *config,
		       struct sgpu_engine **engine, struct sgpu_error *error)
{
	struct sgpu_engine *new = calloc(1, sizeof(*new));
	struct sgpu_device_info info;
	int rc;

	*engine = NULL;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->device = device;
	pthread_mutex_init(&new->mutex, NULL);
	pthread_mutex_init(&new->keeping, NULL);
	configure(new, config);
	rc = sgpu_device_get_info(device, &info, error);
	if (rc == SGPU_OK) {
		new->pins = info.pins_host_memory;
		new->registers = info.registers;
		setup_staging(new);
		new->pool = sgpu_device_pool(device);
		new->owns_pool = !new->pool;
		rc = new->pool ? SGPU_OK : sgpu_pool_create(new->config.workers, &new->pool, error);
	}
	if (rc != SGPU_OK) {
		sgpu_engine_free(&new);
	}
	*engine = new;
	return rc;
}

static void free_staging(struct sgpu_engine *engine)
{
	for (int i = 0; i < SGPU_STAGING_CLASSES; i++) {
		struct sgpu_staging_pool *pool = &engine->staging[i];
		struct sgpu_staging_buffer *buffer;

		while ((buffer = pool->free)) {
			pool->free = buffer->next;
			if (buffer->lent) {
				sgpu_host_free(engine->device, &buffer->host, pool->size);
			} else {
				sgpu_free_wiped(&buffer->host, buffer->host ? pool->size : 0);
			}
			sgpu_device_free(engine->device, &buffer->device, pool->size);
			free(buffer);
		}
	}
}

void sgpu_engine_free(struct sgpu_engine **engine)
{
	struct sgpu_engine *e = engine ? *engine : NULL;

	if (!e) {
		return;
	}
	if (e->owns_pool) {
		sgpu_pool_free(&e->pool);
	}
	free_staging(e);
	sgpu_kept_free(e);
	pthread_mutex_destroy(&e->keeping);
	pthread_mutex_destroy(&e->mutex);
	sgpu_free_wiped(engine, sizeof(*e));
}

/* ---- staging buffers ---- */
unsigned sgpu_staging_most(const struct sgpu_engine *engine, enum sgpu_staging_class class)
{
	const struct sgpu_staging_pool *pool = &engine->staging[class];
	uint64_t most = pool->earned / pool->size;

	if (class != SGPU_STAGING_LARGE || most >= pool->limit) {
		return pool->limit;
	}
	return most < LARGE_MIN ? (LARGE_MIN < pool->limit ? LARGE_MIN : pool->limit)
				: (unsigned)most;
}

/* Takes a buffer if `most` do not exist; gives NULL otherwise. The mutex is held. */
static int take(struct sgpu_engine *engine, enum sgpu_staging_class class, unsigned most,
		struct sgpu_staging_buffer **buffer)
{
	struct sgpu_staging_pool *pool = &engine->staging[class];

	*buffer = pool->free;
	if (*buffer) {
		pool->free = (*buffer)->next;
	} else if (pool->made < most) {
		*buffer = calloc(1, sizeof(**buffer));
		if (!*buffer) {
			return SGPU_ENOMEM;
		}
		(*buffer)->class = class;
		pool->made++;
	}
	return SGPU_OK;
}

void sgpu_staging_give(struct sgpu_engine *engine, struct sgpu_staging_buffer *buffer)
{
	struct sgpu_staging_pool *pool = &engine->staging[buffer->class];

	sgpu_staging_filled(engine, buffer);
	pthread_mutex_lock(&engine->mutex);
	buffer->next = pool->free;
	pool->free = buffer;
	pthread_mutex_unlock(&engine->mutex);
}

void sgpu_staging_filled(struct sgpu_engine *engine, struct sgpu_staging_buffer *buffer)
{
	if (buffer->filled) {
		pthread_mutex_lock(&engine->mutex);
		buffer->filled = false;
		engine->staging[buffer->class].filled--;
		pthread_mutex_unlock(&engine->mutex);
	}
}

int sgpu_staging_fill(struct sgpu_engine *engine, struct sgpu_staging_buffer *buffer, bool host,
		      bool device, struct sgpu_error *error)
{
	uint64_t size = engine->staging[buffer->class].size;

	if (host && !buffer->host) {
		/* Pinned memory comes from the device's pool; if that is empty, any will do. */
		buffer->lent =
			sgpu_host_alloc(engine->device, size, &buffer->host, NULL) == SGPU_OK;
		if (!buffer->lent) {
			buffer->host = aligned_alloc(PAGE, size);
		}
		if (!buffer->host) {
			return sgpu_fail_nomem(error);
		}
	}
	return device && !buffer->device
		       ? sgpu_device_alloc(engine->device, size, &buffer->device, error)
		       : SGPU_OK;
}

int sgpu_staging_take(struct sgpu_engine *engine, struct sgpu_staging_buffer **buffer, void **host,
		      struct sgpu_error *error)
{
	int rc;

	pthread_mutex_lock(&engine->mutex);
	rc = take(engine, SGPU_STAGING_SMALL, SMALL_BUFFERS, buffer);
	pthread_mutex_unlock(&engine->mutex);
	if (rc != SGPU_OK || !*buffer) {
		return rc == SGPU_OK ? rc : sgpu_fail_nomem(error);
	}
	rc = sgpu_staging_fill(engine, *buffer, true, false, error);
	*host = (*buffer)->host;
	if (rc != SGPU_OK) {
		sgpu_staging_give(engine, *buffer);
		*buffer = NULL;
	}
	return rc;
}

void sgpu_staging_leave(struct sgpu_transfer *transfer)
{
	struct sgpu_transfer **link = &transfer->engine->waiting;

	if (!transfer->waits) {
		return;
	}
	pthread_mutex_lock(&transfer->engine->mutex);
	while (*link != transfer) {
		link = &(*link)->next;
	}
	*link = transfer->next;
	transfer->waits = false;
	pthread_mutex_unlock(&transfer->engine->mutex);
}

int sgpu_staging_await(struct sgpu_transfer *transfer, enum sgpu_staging_class class,
		       struct sgpu_staging_buffer **buffer, struct sgpu_error *error)
{
	struct sgpu_engine *engine = transfer->engine;
	struct sgpu_staging_pool *pool = &engine->staging[class];
	const bool fills = transfer->request.end.ordered;
	bool behind = false; /* a transfer of a lower rank waits for a buffer of the class */
	int rc = SGPU_OK;

	*buffer = NULL;
	pthread_mutex_lock(&engine->mutex);
	for (const struct sgpu_transfer *t = engine->waiting; t; t = t->next) {
		behind |= t != transfer && t->class == class &&
			  t->request.rank < transfer->request.rank;
	}
	if (!behind) {
		rc = take(engine, class, sgpu_staging_most(engine, class) + pool->filled + fills,
			  buffer);
	}
	if (*buffer && fills) {
		(*buffer)->filled = true;
		pool->filled++;
	}
	if (rc == SGPU_OK && !*buffer && !transfer->waits) {
		transfer->waits = true;
		transfer->next = engine->waiting;
		engine->waiting = transfer;
	}
	pthread_mutex_unlock(&engine->mutex);
	if (*buffer) {
		sgpu_staging_leave(transfer);
	}
	return rc == SGPU_OK ? rc : sgpu_fail_nomem(error);
}
