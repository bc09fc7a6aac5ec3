/* SPDX-License-Identifier: Apache-2.0
 *
 * How a transfer begins: its bytes, their memory, its staging buffers and its chunk runs.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "transfer/engine.h"

enum { DIRECT_MIN_RUNS = 8 };

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
		/* Devices open over three times as fast as buses move: take most of the rest. */
		run.count = sgpu_min_u64(run.count, max_u64(rest / 4 * 3, plan->at_end));
	}
	run.count = sgpu_min_u64(run.count, rest);
	/* Adds a small rest. No run is the last chunk alone: if empty, it lies past the end. */
	left = rest - run.count;
	if (left < 2 || left < plan->rest) {
		run.count = rest;
	}
	return run;
}

/* A largest run with the small rest that may be added. */
uint64_t sgpu_chunk_run_most(uint64_t largest, uint64_t last)
{
	return largest + last / 2 + 2;
}

/* ---- a transfer ---- */
static int plan_chunks(struct sgpu_transfer *t, struct sgpu_error *error)
{
	const struct sgpu_transfer_request *request = &t->request;
	uint64_t unit = request->key && sgpu_transfer_is_in(t) ? SGPU_SEALED_CHUNK : SGPU_CHUNK,
		 end;

	if (!sgpu_add_u64(request->size, (request->size / SGPU_CHUNK + 1) * SGPU_TAG_SIZE, &end) ||
	    (request->key && !sgpu_transfer_is_in(t) && !request->last &&
	     request->size % SGPU_CHUNK != 0)) {
		return sgpu_fail(error, SGPU_EUSAGE, "a transfer of %llu bytes has no whole chunks",
				 (unsigned long long)request->size);
	}
	t->plan.total =
		request->size / unit + (request->size % unit != 0 ||
					(request->key && !sgpu_transfer_is_in(t) && request->last));
	return SGPU_OK;
}

/* Finds the source's or sink's memory. Time to register it counts as reading. */
static void look_at_ends(struct sgpu_transfer *t)
{
	const struct sgpu_endpoint *end = &t->request.end;
	const bool in = sgpu_transfer_is_in(t);
	uint64_t bytes = sgpu_transfer_bytes(t), begin = sgpu_now_ns();

	t->memory = end->memory;
	t->registered = end->registered;
	if (end->view) {
		t->memory = end->view(end->context, bytes, !in, &t->registered);
		if (t->memory && in) {
			sgpu_transfer_note(t, SGPU_STEP_READ, begin, sgpu_now_ns(), bytes);
		}
	}
	t->direct = t->memory && (t->registered || !t->engine->pins);
}

static void plan_runs(struct sgpu_transfer *t)
{
	struct sgpu_engine *engine = t->engine;
	const struct sgpu_engine_config *config = &engine->config;
	const bool sealed = t->request.key != NULL, live = t->request.end.live;
	const bool in = sgpu_transfer_is_in(t);
	const uint64_t bytes = sgpu_transfer_bytes(t), last = config->last_run / SGPU_CHUNK;
	struct sgpu_run_plan *plan = &t->plan;

	plan->largest = config->staged_run / SGPU_CHUNK;
	t->most_moves = SGPU_MOVES_MAX;
	if (bytes <= SGPU_TRANSFER_SMALL) {
		t->class = t->direct && !sealed ? SGPU_STAGING_NONE : SGPU_STAGING_SMALL;
		plan->largest = plan->total;
	} else if (!(t->direct || live) ||
		   (sealed && bytes < DIRECT_MIN_RUNS * config->staged_run)) {
		t->class = SGPU_STAGING_LARGE;
		pthread_mutex_lock(&engine->mutex);
		engine->staging[SGPU_STAGING_LARGE].earned += bytes / 4;
		pthread_mutex_unlock(&engine->mutex);
	} else {
		t->class = sealed ? SGPU_STAGING_DIRECT : SGPU_STAGING_NONE;
		t->most_moves = config->direct_count < SGPU_MOVES_MAX ? config->direct_count
								      : SGPU_MOVES_MAX;
		plan->largest = config->direct_run / SGPU_CHUNK;
	}
	if (sealed && plan->total > (live ? config->staged_run / SGPU_CHUNK : plan->largest)) {
		plan->at_end = in ? last : 0;
		plan->at_begin = live ? sgpu_min_u64(plan->total / 4, plan->largest / 2)
				 : in ? 0
				      : last;
		plan->rest = last / 2;
	}
}

int sgpu_transfer_begin(struct sgpu_engine *engine, const struct sgpu_transfer_request *request,
			struct sgpu_transfer **transfer, struct sgpu_error *error)
{
	struct sgpu_transfer *t = calloc(1, sizeof(*t));
	int rc;

	*transfer = NULL;
	if (!t) {
		return sgpu_fail_nomem(error);
	}
	t->engine = engine;
	t->request = *request;
	t->class = SGPU_STAGING_NONE;
	t->result.begin_ns = sgpu_now_ns();
	rc = plan_chunks(t, error);
	if (rc != SGPU_OK) {
		free(t);
		return rc;
	}
	look_at_ends(t);
	plan_runs(t);
	t->needs_digest = request->digested && !request->key;
	*transfer = t;
	return SGPU_OK;
}
