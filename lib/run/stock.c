/* SPDX-License-Identifier: Apache-2.0
 *
 * Three lists of idle things under one mutex. Batches of one kind ask for the same sizes again, so memory is found by its
 * exact size.
 */
#include "run/stock.h"

#include <pthread.h>
#include <stdlib.h>

struct block {
	uint64_t size;
	void *host;             /* or */
	sgpu_devptr device;
};

struct shelf {
	struct block *blocks;
	size_t count, capacity;
	uint64_t bytes;
};

struct sgpu_stock {
	struct sgpu_device *device;
	uint64_t keep;
	pthread_mutex_t mutex;
	struct sgpu_stream **streams;
	size_t stream_count, stream_capacity;
	struct shelf host, memory;
};

int sgpu_stock_create(struct sgpu_device *device, uint64_t keep, struct sgpu_stock **stock, struct sgpu_error *error)
{
	*stock = calloc(1, sizeof(**stock));
	if (!*stock) {
		return sgpu_fail_nomem(error);
	}
	(*stock)->device = device;
	(*stock)->keep = keep;
	pthread_mutex_init(&(*stock)->mutex, NULL);
	return SGPU_OK;
}

void sgpu_stock_free(struct sgpu_stock **stock)
{
	struct sgpu_stock *s = *stock;

	if (!s) {
		return;
	}
	for (size_t i = 0; i < s->stream_count; i++) {
		sgpu_stream_free(&s->streams[i]);
	}
	sgpu_stock_trim(s);
	free(s->streams);
	free(s->host.blocks);
	free(s->memory.blocks);
	pthread_mutex_destroy(&s->mutex);
	free(s);
	*stock = NULL;
}

/* ---- streams ---- */
int sgpu_stock_take_stream(struct sgpu_stock *stock, struct sgpu_stream **stream, struct sgpu_error *error)
{
	*stream = NULL;
	pthread_mutex_lock(&stock->mutex);
	if (stock->stream_count > 0) {
		*stream = stock->streams[--stock->stream_count];
	}
	pthread_mutex_unlock(&stock->mutex);
	return *stream ? SGPU_OK : sgpu_stream_create(stock->device, stream, error);
}

void sgpu_stock_give_stream(struct sgpu_stock *stock, struct sgpu_stream **stream)
{
	if (!*stream) {
		return;
	}
	if (sgpu_stream_sync(*stream, NULL) != SGPU_OK) {
		sgpu_stream_free(stream);
		return;
	}
	pthread_mutex_lock(&stock->mutex);
	if (stock->stream_count == stock->stream_capacity) {
		size_t capacity = stock->stream_capacity ? 2 * stock->stream_capacity : 16;
		struct sgpu_stream **more = realloc(stock->streams, capacity * sizeof(struct sgpu_stream *));

		stock->streams = more ? more : stock->streams;
		stock->stream_capacity = more ? capacity : stock->stream_capacity;
	}
	if (stock->stream_count < stock->stream_capacity) {
		stock->streams[stock->stream_count++] = *stream;
		*stream = NULL;
	}
	pthread_mutex_unlock(&stock->mutex);
	sgpu_stream_free(stream);
}

/* ---- memory ---- */
static bool take_block(struct sgpu_stock *stock, struct shelf *shelf, uint64_t size, struct block *block)
{
	bool found = false;

	pthread_mutex_lock(&stock->mutex);
	for (size_t i = shelf->count; i-- > 0 && !found;) {
		if (shelf->blocks[i].size == size) {
			*block = shelf->blocks[i];
			shelf->blocks[i] = shelf->blocks[--shelf->count];
			shelf->bytes -= size;
			found = true;
		}
	}
	pthread_mutex_unlock(&stock->mutex);
	return found;
}

static bool keep_block(struct sgpu_stock *stock, struct shelf *shelf, const struct block *block)
{
	bool kept;

	pthread_mutex_lock(&stock->mutex);
	if (shelf->count == shelf->capacity) {
		size_t capacity = shelf->capacity ? 2 * shelf->capacity : 16;
		struct block *more = realloc(shelf->blocks, capacity * sizeof(*more));

		shelf->blocks = more ? more : shelf->blocks;
		shelf->capacity = more ? capacity : shelf->capacity;
	}
	kept = shelf->count < shelf->capacity && block->size <= stock->keep && shelf->bytes <= stock->keep - block->size;
	if (kept) {
		shelf->blocks[shelf->count++] = *block;
		shelf->bytes += block->size;
	}
	pthread_mutex_unlock(&stock->mutex);
	return kept;
}

static bool take_any(struct sgpu_stock *stock, struct shelf *shelf, struct block *block)
{
	bool found;

	pthread_mutex_lock(&stock->mutex);
	found = shelf->count > 0;
	if (found) {
		*block = shelf->blocks[--shelf->count];
		shelf->bytes -= block->size;
	}
	pthread_mutex_unlock(&stock->mutex);
	return found;
}

void sgpu_stock_trim(struct sgpu_stock *stock)
{
	struct block block;

	while (take_any(stock, &stock->host, &block)) {
		sgpu_host_free(stock->device, &block.host, block.size);
	}
	while (take_any(stock, &stock->memory, &block)) {
		sgpu_device_free(stock->device, &block.device, block.size);
	}
}

int sgpu_stock_take_host(struct sgpu_stock *stock, uint64_t size, void **memory, struct sgpu_error *error)
{
	struct block block;

	if (take_block(stock, &stock->host, size, &block)) {
		*memory = block.host;
		return SGPU_OK;
	}
	return sgpu_host_alloc(stock->device, size, memory, error);
}

void sgpu_stock_give_host(struct sgpu_stock *stock, void **memory, uint64_t size)
{
	const struct block block = { .size = size, .host = *memory };

	if (*memory && keep_block(stock, &stock->host, &block)) {
		*memory = NULL;
	}
	sgpu_host_free(stock->device, memory, size);
}

int sgpu_stock_take_memory(struct sgpu_stock *stock, uint64_t size, sgpu_devptr *memory, struct sgpu_error *error)
{
	struct block block;
	int rc;

	if (take_block(stock, &stock->memory, size, &block)) {
		*memory = block.device;
		return SGPU_OK;
	}
	rc = sgpu_device_alloc(stock->device, size, memory, error);
	if (rc == SGPU_ENOMEM) {
		sgpu_stock_trim(stock);
		rc = sgpu_device_alloc(stock->device, size, memory, error);
	}
	return rc;
}

void sgpu_stock_give_memory(struct sgpu_stock *stock, sgpu_devptr *memory, uint64_t size)
{
	const struct block block = { .size = size, .device = *memory };

	if (*memory && keep_block(stock, &stock->memory, &block)) {
		*memory = 0;
	}
	sgpu_device_free(stock->device, memory, size);
}
