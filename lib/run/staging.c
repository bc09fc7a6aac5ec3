/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots: the staging memory of a loader, and a piece's way through one. Where the device copies beside the rest, the
 * copy of one piece overlaps with the opening of the one before it: a stream or two copy, another opens, and an event
 * stands between. The memory is made as it is needed, so that a source that is slower than the device pins little.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/transfers.h"

enum { PAGE = 4096 };

static struct sgpu_run_slot *find_slot(struct sgpu_run_loader *loader)
{
	for (int i = 0; i < loader->slot_count; i++) {
		if (!loader->slots[i].busy) {
			return &loader->slots[i];
		}
	}
	return NULL;
}

struct sgpu_run_slot *sgpu_slot_take(struct sgpu_run_loader *loader)
{
	struct sgpu_transfers *run = loader->run;
	struct sgpu_run_slot *slot;

	pthread_mutex_lock(&run->mutex);
	while (!(slot = find_slot(loader))) {
		pthread_cond_wait(&run->slot_free, &run->mutex);
	}
	slot->busy = true;
	pthread_mutex_unlock(&run->mutex);
	memset(&slot->copy, 0, sizeof(slot->copy));
	memset(&slot->open, 0, sizeof(slot->open));
	return slot;
}

void sgpu_slot_give(struct sgpu_run_slot *slot)
{
	struct sgpu_transfers *run = slot->loader->run;

	pthread_mutex_lock(&run->mutex);
	slot->busy = false;
	pthread_cond_broadcast(&run->slot_free);
	pthread_mutex_unlock(&run->mutex);
}

void sgpu_slots_wait(struct sgpu_run_loader *loader)
{
	struct sgpu_transfers *run = loader->run;

	pthread_mutex_lock(&run->mutex);
	for (int i = 0; i < loader->slot_count; i++) {
		while (loader->slots[i].busy) {
			pthread_cond_wait(&run->slot_free, &run->mutex);
		}
	}
	pthread_mutex_unlock(&run->mutex);
}

/* From the device's pool; when it has none left, any memory will do. */
static int make_host(struct sgpu_run_slot *slot, struct sgpu_error *error)
{
	uint64_t size = slot->loader->slot_size;

	slot->lent = sgpu_stock_take_host(slot->loader->run->base->stock, size, &slot->host, NULL) == SGPU_OK;
	if (!slot->lent) {
		slot->host = aligned_alloc(PAGE, size);
	}
	return slot->host ? SGPU_OK : sgpu_fail_nomem(error);
}

/* Small ones all at once, which costs as much as one of them. */
static int make_device(struct sgpu_run_slot *slot, struct sgpu_error *error)
{
	struct sgpu_run_loader *loader = slot->loader;
	uint64_t size = loader->slot_size;
	int rc;

	if (!loader->are_small) {
		return sgpu_stock_take_memory(loader->run->base->stock, size, &slot->device, error);
	}
	rc = sgpu_stock_take_memory(loader->run->base->stock, size * (uint64_t)loader->slot_count, &loader->together, error);
	for (int i = 0; rc == SGPU_OK && i < loader->slot_count; i++) {
		loader->slots[i].device = loader->together + (uint64_t)i * size;
	}
	return rc;
}

int sgpu_slot_fill(struct sgpu_run_slot *slot, bool host, bool device, enum sgpu_transfer_path *path, struct sgpu_error *error)
{
	struct sgpu_run_loader *loader = slot->loader;
	int rc = SGPU_OK;

	if (host && !slot->host) {
		rc = make_host(slot, error);
	}
	if (rc == SGPU_OK && device && !slot->device) {
		rc = make_device(slot, error);
	}
	*path = slot->lent && loader->run->base->traits->pins ? SGPU_PATH_PINNED : SGPU_PATH_PAGEABLE;
	return rc;
}

static int copy_row(const struct sgpu_run_slot *slot)
{
	const struct sgpu_run_loader *loader = slot->loader;

	return loader->first_row + (int)(slot - loader->slots) % loader->copy_count;
}

static int open_row(const struct sgpu_run_slot *slot)
{
	const struct sgpu_run_loader *loader = slot->loader;

	return loader->apart ? loader->first_row + loader->copy_count : copy_row(slot);
}

/* A piece has been brought in and opened, or not. This may be a callback, which may ask nothing of the device. */
static void piece_done(struct sgpu_run_slot *slot)
{
	struct sgpu_transfers *run = slot->loader->run;
	int segment = slot->segment;
	const char *id = run->job->manifest->segments[segment].id;
	const struct sgpu_task *bad = slot->copy.code != SGPU_OK ? &slot->copy : &slot->open;

	if (bad->code == SGPU_EAUTH) {
		char text[128];

		snprintf(text, sizeof(text), "chunk %llu does not verify", (unsigned long long)bad->bad_chunk);
		sgpu_load_fail(run, segment, SGPU_EAUTH, text);
	} else if (bad->code != SGPU_OK) {
		sgpu_load_fail(run, segment, bad->code,
			       bad->error.text[0] ? bad->error.text : sgpu_strerror(bad->code));
	}
	sgpu_trace_add(run->base->trace, SGPU_SPAN_COPY_IN, copy_row(slot), id, slot->copy.begin_ns, slot->copy.end_ns,
		       slot->bytes);
	sgpu_trace_add(run->base->trace, SGPU_SPAN_OPEN, open_row(slot), id, slot->open.begin_ns, slot->open.end_ns,
		       slot->bytes);
	sgpu_slot_give(slot);
	sgpu_load_release(run, segment);
}

static void part_done(void *argument)
{
	struct sgpu_run_slot *slot = argument;

	if (atomic_fetch_sub(&slot->ends, 1) == 1) {
		piece_done(slot);
	}
}

/* The outcome of what is on a stream is known to those who hear from that stream, and to nobody else. */
static void hear_from(struct sgpu_run_slot *slot, struct sgpu_stream *stream)
{
	atomic_fetch_add(&slot->ends, 1);
	if (sgpu_stream_callback(stream, part_done, slot) == SGPU_OK) {
		return;
	}
	if (sgpu_stream_sync(stream, NULL) != SGPU_OK) {
		sgpu_load_fail(slot->loader->run, slot->segment, SGPU_EDEVICE, "the device failed");
	}
	part_done(slot);
}

static int enqueue(struct sgpu_run_slot *slot, const struct sgpu_slot_piece *piece, struct sgpu_error *error)
{
	struct sgpu_transfers *run = slot->loader->run;
	struct sgpu_stream *copy = NULL, *opens = NULL;
	int rc = sgpu_run_stream(run, copy_row(slot), &copy, error);

	if (rc == SGPU_OK && piece->key) {
		rc = sgpu_run_stream(run, open_row(slot), &opens, error);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_copy_in(copy, piece->key ? slot->device : piece->to, piece->from, piece->bytes, &slot->copy);
	if (rc == SGPU_OK && piece->key && opens != copy) {
		rc = sgpu_run_follow(run, copy, opens, error);
	}
	if (rc == SGPU_OK && piece->key) {
		rc = sgpu_device_open_chunks(opens, piece->key, piece->chunk, piece->last, slot->device, piece->bytes,
					     piece->to, &slot->open);
	}
	if (piece->key && opens != copy) {
		hear_from(slot, opens);
	}
	hear_from(slot, copy);
	if (rc != SGPU_OK && error->code != rc) {
		sgpu_fail(error, rc, "the device refused a piece: %s", sgpu_strerror(rc));
	}
	return rc;
}

void sgpu_slot_send(struct sgpu_run_slot *slot, const struct sgpu_slot_piece *piece)
{
	struct sgpu_transfers *run = slot->loader->run;
	struct sgpu_error error = { 0 };
	int rc;

	slot->segment = piece->segment;
	slot->bytes = piece->bytes;
	atomic_store(&slot->ends, 1);
	atomic_fetch_add(&run->segments[piece->segment].pending, 1);
	rc = enqueue(slot, piece, &error);
	if (rc != SGPU_OK) {
		sgpu_load_fail(run, piece->segment, rc, error.text);
	}
	part_done(slot);
}

void sgpu_slots_free(struct sgpu_transfers *run)
{
	struct sgpu_stock *stock = run->base->stock;

	for (int l = 0; l < SGPU_RUN_LOADERS; l++) {
		struct sgpu_run_loader *loader = &run->loaders[l];

		for (int i = 0; i < loader->slot_count; i++) {
			struct sgpu_run_slot *slot = &loader->slots[i];

			if (slot->lent) {
				sgpu_stock_give_host(stock, &slot->host, loader->slot_size);
			}
			free(slot->host);
			slot->host = NULL;
			if (!loader->are_small) {
				sgpu_stock_give_memory(stock, &slot->device, loader->slot_size);
			}
		}
		sgpu_stock_give_memory(stock, &loader->together, loader->slot_size * (uint64_t)loader->slot_count);
	}
}
