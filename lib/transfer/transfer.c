/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a transfer: how it starts, what it moves, how it ends.
 */
#include "transfer/engine.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>


enum { ORDERED_OUT_BUFFERS = 2, LARGE_MIN = 4, DIRECT_MIN_RUNS = 8 };

/* ---- what is moved ---- */
uint64_t sgpu_transfer_bytes(const struct sgpu_transfer *transfer)
{
	const struct sgpu_transfer_request *request = &transfer->request;
	bool seals = request->key && request->direction == SGPU_TRANSFER_OUT;

	return request->size + (seals ? transfer->plan.total * SGPU_TAG_SIZE : 0);
}

uint64_t sgpu_transfer_position(const struct sgpu_transfer *transfer, uint64_t chunk)
{
	return chunk * (transfer->request.key ? SGPU_SEALED_CHUNK : SGPU_CHUNK);
}

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
	transfer->plan.total = request->size / unit + (request->size % unit != 0);
	if (request->key && !in) {
		transfer->plan.total = request->size / unit + (request->last || request->size % unit != 0);
	}
	return SGPU_OK;
}

/* Where the bytes lie. Registering them takes its time, which counts as reading. */
static void look_at_ends(struct sgpu_transfer *transfer)
{
	const struct sgpu_transfer_request *request = &transfer->request;
	uint64_t bytes = sgpu_transfer_bytes(transfer), begin = sgpu_now_ns();

	if (sgpu_transfer_is_ordered(transfer)) {
		return;
	}
	if (request->direction == SGPU_TRANSFER_OUT && request->sink.view) {
		transfer->memory = request->sink.view(request->sink.context, bytes, &transfer->registered);
	} else if (request->direction == SGPU_TRANSFER_IN && request->source.view) {
		transfer->memory = (uint8_t *)(uintptr_t)request->source.view(request->source.context, bytes,
									       &transfer->registered);
		if (transfer->memory && request->source.read) {
			sgpu_transfer_span(transfer, SGPU_STEP_READ, -1, begin, sgpu_now_ns(), bytes);
		}
	}
	transfer->direct = transfer->memory && (transfer->registered || !transfer->engine->pins);
}

/* What kind of staging buffers, how many, and how large the runs are. */
static void plan_runs(struct sgpu_transfer *transfer)
{
	const struct sgpu_engine_config *config = &transfer->engine->config;
	const struct sgpu_transfer_request *request = &transfer->request;
	uint64_t bytes = sgpu_transfer_bytes(transfer), large = transfer->engine->staging[SGPU_STAGING_LARGE].size;
	bool in = request->direction == SGPU_TRANSFER_IN, ordered = sgpu_transfer_is_ordered(transfer);
	struct sgpu_run_plan *plan = &transfer->plan;

	plan->largest = config->staged_run / SGPU_CHUNK;
	transfer->most_buffers = transfer->most_moves = UINT_MAX;
	if (bytes <= SGPU_TRANSFER_SMALL) {
		transfer->class = transfer->direct && !request->key ? SGPU_STAGING_NONE : SGPU_STAGING_SMALL;
		plan->largest = plan->total;
	} else if (!transfer->direct || (request->key && bytes < DIRECT_MIN_RUNS * config->staged_run)) {
		/* Pinning costs more than a copy: no more than a quarter of what is moved. */
		transfer->class = SGPU_STAGING_LARGE;
		transfer->most_buffers = bytes / 4 / large < UINT_MAX ? (unsigned)(bytes / 4 / large) : UINT_MAX;
		if (transfer->most_buffers < LARGE_MIN) {
			transfer->most_buffers = LARGE_MIN;
		}
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
	bool in = sgpu_transfer_is_in(transfer);
	struct sgpu_transfer_request *request = &transfer->request;
	struct sgpu_stream *stream = NULL;
	int rc = SGPU_OK;

	transfer->class = SGPU_STAGING_NONE;
	if (request->prepare) {
		rc = sgpu_transfer_get_stream(transfer, in ? SGPU_ENGINE_OPEN : SGPU_ENGINE_SEAL, &stream, error);
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

/* ---- failures ---- */
void sgpu_transfer_failed(struct sgpu_transfer *transfer, uint64_t at, int code, const struct sgpu_error *error)
{
	struct sgpu_transfer_result *result = &transfer->result;

	if (transfer->cancelled || (transfer->failed && transfer->failed_at <= at)) {
		return;
	}
	transfer->failed = true;
	transfer->failed_at = at;
	result->code = code;
	result->bad_chunk = transfer->request.first + at;
	if (error && error->text[0]) {
		result->error = *error;
		result->error.code = code;
	} else {
		sgpu_fail(&result->error, code, "%s", sgpu_strerror(code));
	}
}

void sgpu_transfer_cancel(struct sgpu_transfer *transfer, int code)
{
	struct sgpu_engine *engine = transfer->engine;

	pthread_mutex_lock(&engine->mutex);
	if (transfer->phase < SGPU_PHASE_ENDING) {
		if (!transfer->failed) {
			sgpu_transfer_failed(transfer, 0, code, NULL);
		}
		transfer->cancelled = true;
		sgpu_transfer_post(transfer);
	}
	pthread_mutex_unlock(&engine->mutex);
}

/* ---- the end ---- */
/* Nothing that was not verified stays readable, on the device or in the caller's memory. */
static void clear_destination(struct sgpu_transfer *transfer)
{
	const struct sgpu_transfer_request *request = &transfer->request;
	struct sgpu_stream *stream;

	if (request->direction == SGPU_TRANSFER_OUT) {
		if (transfer->memory && !request->sink.write) {
			sgpu_wipe(transfer->memory, sgpu_transfer_bytes(transfer));
		}
		return;
	}
	if (transfer->touched && request->size > 0 &&
	    sgpu_engine_get_stream(transfer->engine, SGPU_ENGINE_OPEN, &stream, NULL) == SGPU_OK &&
	    sgpu_device_clear(stream, request->memory,
			      request->key ? sgpu_opened_size(request->size) : request->size, NULL) == SGPU_OK) {
		(void)!sgpu_stream_sync(stream, NULL); /* a device that fails here reaches nothing any more */
	}
}

static void close_end(const struct sgpu_transfer_request *request)
{
	if (request->direction == SGPU_TRANSFER_IN && request->source.close) {
		request->source.close(request->source.context);
	} else if (request->direction == SGPU_TRANSFER_OUT && request->sink.close) {
		request->sink.close(request->sink.context);
	}
}

void sgpu_transfer_end(struct sgpu_transfer *transfer)
{
	if (transfer->failed) {
		clear_destination(transfer);
	}
	close_end(&transfer->request);
	sgpu_transfer_tell(transfer);
}

void sgpu_transfer_tell(struct sgpu_transfer *transfer)
{
	struct sgpu_engine *engine = transfer->engine;

	pthread_mutex_lock(&engine->mutex);
	sgpu_transfer_unqueue(transfer);
	transfer->phase = SGPU_PHASE_ENDED;
	if (transfer->granted) {
		sgpu_staging_give(engine, transfer->granted);
		transfer->granted = NULL;
	}
	if (transfer->extra > 0) {
		engine->staging[transfer->class].extra -= transfer->extra;
	}
	transfer->result.end_ns = sgpu_now_ns();
	pthread_mutex_unlock(&engine->mutex);
	if (transfer->request.done) {
		transfer->request.done(transfer->request.argument, &transfer->result);
	}
	pthread_mutex_lock(&engine->mutex);
	atomic_store(&transfer->told, true);
	engine->open--;
	pthread_cond_broadcast(&engine->changed);
	pthread_mutex_unlock(&engine->mutex);
	sgpu_transfer_unref(transfer);
}

void sgpu_transfer_unref(struct sgpu_transfer *transfer)
{
	if (atomic_fetch_sub(&transfer->references, 1) == 1) {
		sgpu_free_wiped(&transfer, sizeof(*transfer));
	}
}

/* ---- the caller's ---- */
static int check_request(const struct sgpu_engine *engine, const struct sgpu_transfer_request *request,
			 struct sgpu_error *error)
{
	bool in = request->direction == SGPU_TRANSFER_IN;
	bool ordered = in ? request->source.ordered : request->sink.ordered;
	bool reads = in ? request->source.read != NULL : request->sink.write != NULL;
	bool views = in ? request->source.view != NULL : request->sink.view != NULL;

	if (!engine->device) {
		return sgpu_fail(error, SGPU_EUSAGE, "the engine has no device");
	}
	if (!request->prepare && !reads && (ordered || !views)) {
		return sgpu_fail(error, SGPU_EUSAGE, "a transfer lacks a source or a sink");
	}
	return SGPU_OK;
}

/* Outputs wait for what makes them. */
static int wait_for_data(struct sgpu_engine *engine, struct sgpu_event *after, struct sgpu_error *error)
{
	static const enum sgpu_engine_stream which[] = { SGPU_ENGINE_SEAL, SGPU_ENGINE_COPY_OUT };
	struct sgpu_stream *stream;
	int rc = SGPU_OK;

	for (size_t i = 0; rc == SGPU_OK && after && i < SGPU_ARRAY_LENGTH(which); i++) {
		rc = sgpu_engine_get_stream(engine, which[i], &stream, error);
		if (rc == SGPU_OK) {
			rc = sgpu_stream_wait(stream, after);
		}
	}
	return rc;
}

/* How many runs the calling thread enqueues at once: of a small transfer, or of memory that is
 * read by the device. */
static unsigned runs_at_once(const struct sgpu_engine *engine, const struct sgpu_transfer_request *request)
{
	bool in = request->direction == SGPU_TRANSFER_IN;
	bool is_memory = in ? request->source.view && !request->source.read :
			      request->sink.view && !request->sink.write;

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
	int rc = check_request(engine, request, error);

	*transfer = NULL;
	if (rc == SGPU_OK) {
		rc = sgpu_engine_start_workers(engine, error);
	}
	if (rc == SGPU_OK && request->direction == SGPU_TRANSFER_OUT) {
		rc = wait_for_data(engine, request->after, error);
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
	new->request.after = NULL;
	/* The other streams have been told to wait for the event. */
	new->small_stream = engine->spreads && request->size <= SGPU_TRANSFER_SMALL && !request->after ?
				    (int)(atomic_fetch_add(&engine->next_small, 1) % SGPU_ENGINE_SMALL_STREAMS) :
				    SGPU_ENGINE_NOT_SMALL;
	new->result.begin_ns = sgpu_now_ns();
	atomic_store(&new->references, 3); /* the caller's, the engine's, and this call's */
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

int sgpu_transfer_wait(struct sgpu_transfer *transfer, struct sgpu_transfer_result *result)
{
	struct sgpu_engine *engine = transfer->engine;
	uint64_t limit = sgpu_now_ns() + 2 * sgpu_workers_spin(engine->workers);
	unsigned rounds = 0;

	while (!atomic_load(&transfer->told) && sgpu_now_ns() < limit) {
		sgpu_worker_pause(&rounds);
	}
	pthread_mutex_lock(&engine->mutex);
	while (!atomic_load(&transfer->told)) {
		pthread_cond_wait(&engine->changed, &engine->mutex);
	}
	pthread_mutex_unlock(&engine->mutex);
	if (result) {
		*result = transfer->result;
	}
	return transfer->result.code;
}

void sgpu_transfer_free(struct sgpu_transfer **transfer)
{
	if (transfer && *transfer) {
		sgpu_transfer_unref(*transfer);
		*transfer = NULL;
	}
}

int sgpu_transfer_sync(struct sgpu_engine *engine, const struct sgpu_transfer_request *request,
		       struct sgpu_transfer_result *result)
{
	bool ordered = request->direction == SGPU_TRANSFER_IN ? request->source.ordered : request->sink.ordered;
	struct sgpu_transfer *transfer = NULL;
	struct sgpu_error error = { 0 };
	int rc = sgpu_transfer_start(engine, request, &transfer, &error);

	if (rc != SGPU_OK) {
		close_end(request);
		if (result) {
			memset(result, 0, sizeof(*result));
			result->code = rc;
			result->error = error;
		}
		return rc;
	}
	if (ordered) {
		rc = sgpu_transfer_pump(transfer, &error);
		if (rc != SGPU_OK) {
			sgpu_transfer_cancel(transfer, rc);
		}
	}
	rc = sgpu_transfer_wait(transfer, result);
	sgpu_transfer_free(&transfer);
	return rc;
}

const char *sgpu_transfer_path_name(enum sgpu_transfer_path path)
{
	static const char *const names[SGPU_PATHS] = {
		[SGPU_PATH_REGISTERED] = "registered",
		[SGPU_PATH_PINNED] = "pinned",
		[SGPU_PATH_PAGEABLE] = "pageable",
	};

	return (unsigned)path < SGPU_PATHS ? names[path] : "unknown";
}
