/* SPDX-License-Identifier: Apache-2.0
 *
 * Staging buffers: taken by one chunk run at a time, made when none is free, and kept. A free one
 * goes to a waiting live copy, else to the first waiting transfer by rank and time.
 */
#include "transfer/engine.h"

#include <stdlib.h>

enum { PAGE = 4096, LARGE_MIN = 4 };

unsigned sgpu_staging_most(const struct sgpu_engine *engine, enum sgpu_staging_class class)
{
	const struct sgpu_staging_pool *pool = &engine->staging[class];
	uint64_t most = pool->earned / pool->size;

	if (class != SGPU_STAGING_LARGE || most >= pool->limit) {
		return pool->limit;
	}
	return most < LARGE_MIN ? LARGE_MIN : (unsigned)most;
}

int sgpu_staging_take(struct sgpu_engine *engine, enum sgpu_staging_class class, unsigned most,
		      struct sgpu_staging_buffer **buffer)
{
	struct sgpu_staging_pool *pool = &engine->staging[class];
	unsigned bound = (most < pool->limit ? most : pool->limit) + pool->extra;

	*buffer = pool->free;
	if (*buffer) {
		pool->free = (*buffer)->next;
	} else if (pool->made < bound) {
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

	buffer->next = pool->free;
	pool->free = buffer;
	if (engine->waiting_live > 0 && buffer->class == SGPU_STAGING_LARGE) {
		pthread_cond_broadcast(&engine->changed);
	} else {
		sgpu_staging_share(engine, buffer->class);
	}
}

void sgpu_staging_share(struct sgpu_engine *engine, enum sgpu_staging_class class)
{
	struct sgpu_staging_pool *pool = &engine->staging[class];
	struct sgpu_staging_buffer *buffer = NULL;
	struct sgpu_transfer *next;

	while ((next = pool->starved.head) &&
	       sgpu_staging_take(engine, class, sgpu_staging_most(engine, class), &buffer) ==
		       SGPU_OK &&
	       buffer) {
		next->granted = buffer;
		sgpu_transfer_unqueue(next);
		sgpu_transfer_post(next);
	}
}

int sgpu_staging_fill(struct sgpu_engine *engine, struct sgpu_staging_buffer *buffer, bool host,
		      bool device, struct sgpu_error *error)
{
	uint64_t size = engine->staging[buffer->class].size;

	if (host && !buffer->host) {
		/* Pinned memory comes from the device's pool; if the pool is empty, any memory will
		 * do. */
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

void sgpu_staging_free(struct sgpu_engine *engine)
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
