/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers for their callers: start, cancel, free.
 */
#include "transfer/engine.h"

#include <stdlib.h>

void sgpu_transfer_cancel(struct sgpu_transfer *transfer, int rc)
{
	struct sgpu_engine *engine = transfer->engine;

	pthread_mutex_lock(&engine->mutex);
	if (transfer->phase < SGPU_PHASE_ENDING) {
		if (!transfer->failed) {
			sgpu_transfer_failed(transfer, 0, rc, NULL);
		}
		transfer->cancelled = true;
		sgpu_transfer_post(transfer);
	}
	pthread_mutex_unlock(&engine->mutex);
}

/* ---- starting ---- */
static int check_request(const struct sgpu_transfer_request *request, struct sgpu_error *error)
{
	bool in = request->direction == SGPU_TRANSFER_IN;
	bool ordered = in ? request->source.ordered : request->sink.ordered;
	bool reads = in ? request->source.read != NULL : request->sink.write != NULL;
	bool views = in ? request->source.view != NULL : request->sink.view != NULL;

	if (!request->prepare && !reads && (ordered || !views)) {
		return sgpu_fail(error, SGPU_EUSAGE, "a transfer lacks a source or a sink");
	}
	return SGPU_OK;
}

/* How many moves the calling thread enqueues itself: for a small transfer, or a source or sink in
 * memory. */
static unsigned runs_at_once(const struct sgpu_engine *engine,
			     const struct sgpu_transfer_request *request)
{
	bool in = request->direction == SGPU_TRANSFER_IN;
	bool is_memory = in ? request->source.view && !request->source.read
			    : request->sink.view && !request->sink.write;

	if ((in ? request->source.ordered : request->sink.ordered) || request->queued ||
	    (request->prepare && request->size == 0)) {
		return 0;
	}
	if (request->size <= SGPU_TRANSFER_SMALL) {
		return 2; /* a run and a digest */
	}
	return is_memory ? engine->config.direct_count : 0;
}

int sgpu_transfer_start(struct sgpu_engine *engine, const struct sgpu_transfer_request *request,
			struct sgpu_transfer **transfer, struct sgpu_error *error)
{
	unsigned at_once = runs_at_once(engine, request);
	struct sgpu_transfer *new;
	int rc = check_request(request, error);

	*transfer = NULL;
	if (rc == SGPU_OK) {
		rc = sgpu_engine_start_workers(engine, error);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->engine = engine;
	new->request = *request;
	if (engine->spreads && request->size > SGPU_TRANSFER_SMALL) {
		new->second = atomic_fetch_add(&engine->next_large, 1) % 2;
	} else if (engine->spreads) {
		new->small_stream =
			SGPU_ENGINE_SMALL + atomic_fetch_add(&engine->next_small, 1) %
						    (SGPU_ENGINE_STREAMS - SGPU_ENGINE_SMALL);
	}
	new->result.begin_ns = sgpu_now_ns();
	atomic_store(&new->references, 3); /* references of the caller, the engine and this call */
	*transfer = new;
	pthread_mutex_lock(&engine->mutex);
	engine->open++;
	if (at_once == 0 && !sgpu_transfer_is_ordered(new)) {
		sgpu_transfer_post(new);
	}
	pthread_mutex_unlock(&engine->mutex);
	if (at_once > 0) {
		sgpu_transfer_begin(new, at_once);
	}
	sgpu_transfer_unref(new);
	return SGPU_OK;
}

void sgpu_transfer_free(struct sgpu_transfer **transfer)
{
	if (transfer && *transfer) {
		sgpu_transfer_unref(*transfer);
		*transfer = NULL;
	}
}
