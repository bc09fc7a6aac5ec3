/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans a transfer: its source or sink, its staging buffers and its chunk runs.
 */
#include "base/base.h"
#include "transfer/engine.h"

#include <limits.h>

/* ---- chunk runs: small at an end where other stages would wait for a large one ---- */
static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct sgpu_chunk_run sgpu_chunk_run_at(const struct sgpu_run_plan *plan, uint64_t first)
{
	struct sgpu_chunk_run run = { .first = first, .count = plan->largest };
	uint64_t rest = plan->total - first, left;

	if (plan->at_begin) {
		run.count = sgpu_min_u64(
			run.count, max_u64(first, plan->at_begin)); /* all earlier runs together */
	}
	if (plan->at_end) {
		/* A device opens more than three times as fast as the bus moves, so take most of
		 * the rest. */
		run.count = sgpu_min_u64(run.count, max_u64(rest / 4 * 3, plan->at_end));
	}
	run.count = sgpu_min_u64(run.count, rest);
	/* Adds a small rest. The last chunk is never a run of its own: if it is empty, its address
	 * is past the end. */
	left = rest - run.count;
	if (left < 2 || 2 * left < max_u64(plan->at_begin, plan->at_end)) {
		run.count = rest;
	}
	return run;
}

/* A largest run with the small rest that may be added. */
uint64_t sgpu_chunk_run_most(uint64_t largest, uint64_t smallest)
{
	return largest + smallest / 2 + 2;
}

enum { ORDERED_OUT_BUFFERS = 2, DIRECT_MIN_RUNS = 8 };

static int plan_chunks(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	const struct sgpu_transfer_request *request = &transfer->request;
	bool in = request->direction == SGPU_TRANSFER_IN;
	uint64_t unit = request->key && in ? SGPU_SEALED_CHUNK : SGPU_CHUNK, end;

	if (!sgpu_add_u64(request->size, (request->size / SGPU_CHUNK + 1) * SGPU_TAG_SIZE, &end) ||
	    (request->key && !in && !request->last && request->size % SGPU_CHUNK != 0)) {
		return sgpu_fail(error, SGPU_EUSAGE, "a transfer of %llu bytes has no whole chunks",
				 (unsigned long long)request->size);
	}
	transfer->plan.total = request->size / unit + (request->size % unit != 0 ||
						       (request->key && !in && request->last));
	return SGPU_OK;
}

/* Finds the source's or sink's memory. Time to register it counts as reading. */
static void look_at_ends(struct sgpu_transfer *transfer)
{
	const struct sgpu_transfer_request *request = &transfer->request;
	uint64_t bytes = sgpu_transfer_bytes(transfer), begin = sgpu_now_ns();

	if (sgpu_transfer_is_ordered(transfer)) {
		return;
	}
	if (request->direction == SGPU_TRANSFER_OUT && request->sink.view) {
		transfer->memory =
			request->sink.view(request->sink.context, bytes, &transfer->registered);
	} else if (request->direction == SGPU_TRANSFER_IN && request->source.view) {
		transfer->memory =
			request->source.view(request->source.context, bytes, &transfer->registered);
		if (transfer->memory && request->source.read) {
			sgpu_transfer_span(transfer, SGPU_STEP_READ, -1, begin, sgpu_now_ns(),
					   bytes);
		}
	}
	transfer->direct = transfer->memory && (transfer->registered || !transfer->engine->pins);
}

/* Chooses the kind and number of staging buffers and the runs' size. */
static void plan_runs(struct sgpu_transfer *transfer)
{
	const struct sgpu_engine_config *config = &transfer->engine->config;
	const struct sgpu_transfer_request *request = &transfer->request;
	uint64_t bytes = sgpu_transfer_bytes(transfer);
	bool in = request->direction == SGPU_TRANSFER_IN,
	     ordered = sgpu_transfer_is_ordered(transfer);
	struct sgpu_run_plan *plan = &transfer->plan;

	plan->largest = config->staged_run / SGPU_CHUNK;
	transfer->most_moves = UINT_MAX;
	if (bytes <= SGPU_TRANSFER_SMALL) {
		transfer->class =
			transfer->direct && !request->key ? SGPU_STAGING_NONE : SGPU_STAGING_SMALL;
		plan->largest = plan->total;
	} else if (!transfer->direct ||
		   (request->key && bytes < DIRECT_MIN_RUNS * config->staged_run)) {
		transfer->class = SGPU_STAGING_LARGE;
		transfer->earns = bytes / 4;
	} else {
		transfer->class = request->key ? SGPU_STAGING_DIRECT : SGPU_STAGING_NONE;
		transfer->most_moves = config->direct_count;
		plan->largest = config->direct_run / SGPU_CHUNK;
	}
	if (ordered) {
		transfer->extra = in ? 1 : ORDERED_OUT_BUFFERS;
		transfer->most_moves = in ? UINT_MAX : ORDERED_OUT_BUFFERS;
	}
	if (request->key && plan->total > plan->largest) {
		*(in ? &plan->at_end : &plan->at_begin) = config->last_run / SGPU_CHUNK;
	}
}

int sgpu_transfer_prepare(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	struct sgpu_transfer_request *request = &transfer->request;
	struct sgpu_stream *stream = NULL;
	int rc = SGPU_OK;

	transfer->class = SGPU_STAGING_NONE;
	if (request->prepare) {
		rc = sgpu_transfer_get_stream(transfer, sgpu_transfer_crypt_row(transfer), &stream,
					      error);
		if (rc == SGPU_OK) {
			rc = request->prepare(request->argument, stream, request, error);
		}
	}
	if (rc == SGPU_OK) {
		rc = plan_chunks(transfer, error);
	}
	if (rc == SGPU_OK) {
		look_at_ends(transfer);
		plan_runs(transfer);
		transfer->needs_digest = request->digested && !request->key;
	}
	return rc;
}
