/* SPDX-License-Identifier: Apache-2.0
 *
 * Departures: what an operation wrote leaves the device piece by piece. What is to be masked is sealed on the
 * device first, under a key of its own, so that host memory only ever sees ciphertext of it. Where the device copies
 * beside the rest, a piece is copied out while the next one is sealed.
 *
 * A device that pins host memory copies a result of moderate size straight to where it waits for the response. Larger
 * ones would pin more than a machine may have to spare; they go through the drain.
 */
#include "run/transfers.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

static const char *deadline_text = "the deadline passed";

static void free_leaving(struct sgpu_run_leaving **leaving)
{
	if (!*leaving) {
		return;
	}
	sgpu_device_key_free(&(*leaving)->key);
	free((*leaving)->pieces);
	free(*leaving);
	*leaving = NULL;
}

/* ---- memory ---- */
/* Memory that is written once from end to end: with pages of 2 MiB where the kernel gives them, since the faults on
 * small ones would cost as much as the copy. */
static uint8_t *payload_memory(uint64_t size)
{
	uint64_t whole = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	void *data;

	if (size < 2 * HUGE_PAGE || size > SIZE_MAX - HUGE_PAGE) {
		return malloc(size ? size : 1);
	}
	data = aligned_alloc(HUGE_PAGE, whole);
	if (data && madvise(data, whole, MADV_HUGEPAGE) != 0) {
		return data; /* small pages do as well */
	}
	return data;
}

static int make_memory(struct sgpu_transfers *run, struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[l->segment];
	void *data = NULL;

	if (run->base->traits->pins && s->out_size > 0 && s->out_size <= run->base->traits->pinned_max - run->pinned_out &&
	    sgpu_host_alloc(run->base->traits->device, s->out_size, &data, NULL) == SGPU_OK) {
		run->pinned_out += s->out_size;
		s->out_pinned = true;
		l->path = SGPU_PATH_PINNED;
	} else {
		data = payload_memory(s->out_size);
		l->path = SGPU_PATH_PAGEABLE;
		l->drained = run->base->traits->engines && s->out_size > 0;
	}
	s->out_data = data;
	return data ? SGPU_OK : sgpu_fail_nomem(error);
}

static void drop_result(struct sgpu_transfers *run, int segment)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	void *data = s->out_data;

	if (s->out_pinned) {
		sgpu_host_free(run->base->traits->device, &data, s->out_size);
		run->pinned_out -= s->out_size;
	}
	free(data);
	s->out_data = NULL;
	s->out_pinned = false;
}

/* ---- pieces ---- */
static int make_pieces(struct sgpu_transfers *run, struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	uint64_t at = 0, most = run->base->traits->piece;
	int count = l->sealed && l->actual == 0;

	if (l->drained && most > SGPU_RUN_PIECE_COPIED) {
		most = SGPU_RUN_PIECE_COPIED;
	}
	for (uint64_t left = l->actual; left > 0; count++) {
		left -= sgpu_piece_next(left, most);
	}
	l->pieces = calloc((size_t)count + 1, sizeof(*l->pieces));
	if (!l->pieces) {
		return sgpu_fail_nomem(error);
	}
	for (l->piece_count = 0; l->piece_count < count; l->piece_count++) {
		struct sgpu_run_out_piece *piece = &l->pieces[l->piece_count];

		piece->at = at;
		piece->size = sgpu_piece_next(l->actual - at, most);
		at += piece->size;
	}
	return SGPU_OK;
}

/* The size is real: the device holds that much. */
static int make_leaving(struct sgpu_transfers *run, int segment, uint64_t actual, struct sgpu_run_leaving **leaving,
			struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	struct sgpu_run_leaving *l = calloc(1, sizeof(*l));
	int rc;

	*leaving = l;
	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->run = run;
	l->segment = segment;
	l->left = &s->left;
	l->sealed = run->job->batch->segments[run->job->in_batch[segment]].masking == SGPU_MASKING_AES_GCM;
	l->actual = actual;
	s->out_size = actual;
	s->end.actual = actual;
	if (l->sealed && !sgpu_sealed_size(actual, &s->out_size)) {
		return sgpu_fail(error, SGPU_EINVALID, "it is too large to be sealed");
	}
	rc = sgpu_memory_get(run->base->memory, run->job->plan->out_buffer[segment], &l->memory, error);
	if (rc == SGPU_OK) {
		rc = make_memory(run, l, error);
	}
	if (rc == SGPU_OK) {
		rc = make_pieces(run, l, error);
	}
	l->lane = &run->lanes[l->drained ? run->lane_count : run->next_lane++ % run->lane_count];
	return rc;
}

/* Of what lies on the device, which nothing changes any more. */
static int start_digest(struct sgpu_transfers *run, struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	uint8_t *digest = run->segments[l->segment].end.digest;
	struct sgpu_stream *stream = NULL;
	int rc;

	if (l->actual == 0) {
		sgpu_kt128(NULL, 0, NULL, 0, digest, SGPU_KT128_SIZE);
		return SGPU_OK;
	}
	rc = sgpu_run_stream(run, l->lane->seal_row, &stream, error);
	return rc != SGPU_OK ? rc : sgpu_device_digest(stream, l->memory, l->actual, NULL, 0, digest, &l->digest);
}

int sgpu_result_begin(struct sgpu_transfers *run, struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_sealed_keys keys = { 0 };
	struct sgpu_stream *stream = NULL;
	size_t context_size = 0;
	int rc;

	if (!l->sealed) {
		return start_digest(run, l, error);
	}
	rc = sgpu_batch_segment_key(run->job->batch, run->job->batch_key, run->job->manifest->segments[l->segment].id,
				    run->job->response_id, key, context, &context_size, error);
	if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, context, context_size, &keys, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_run_stream(run, l->lane->seal_row, &stream, error);
	}
	if (rc == SGPU_OK) {
		sgpu_sealed_header(&keys, run->segments[l->segment].out_data);
		rc = sgpu_device_key_load(stream, &keys, &l->key, error);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

uint64_t sgpu_result_offset(const struct sgpu_run_leaving *l, int piece, uint64_t *bytes)
{
	const struct sgpu_run_out_piece *p = &l->pieces[piece];

	*bytes = l->sealed ? sgpu_piece_sealed(p->size, piece == l->piece_count - 1) : p->size;
	return l->sealed ? SGPU_SEALED_HEADER + sgpu_piece_sealed(p->at, false) : p->at;
}

/* A slot for what is sealed, once what it last held has been copied out. */
static int take_slot(struct sgpu_transfers *run, struct sgpu_run_lane *lane, struct sgpu_stream *seal, int *slot,
		     struct sgpu_error *error)
{
	int rc = SGPU_OK;

	*slot = lane->seal_row == lane->copy_row ? 0 : (int)(lane->turn++ % SGPU_ARRAY_LENGTH(lane->slots));
	if (!lane->slots[*slot]) {
		rc = sgpu_stock_take_memory(run->base->stock, lane->slot_size, &lane->slots[*slot], error);
	}
	if (rc == SGPU_OK && lane->copied[*slot]) {
		rc = sgpu_stream_wait(seal, lane->copied[*slot]);
		sgpu_event_free(&lane->copied[*slot]);
	}
	return rc;
}

/* Notes when the copy out of a slot has ended. */
static int mark_slot(struct sgpu_transfers *run, struct sgpu_run_lane *lane, struct sgpu_stream *copy, int slot,
		     struct sgpu_error *error)
{
	int rc = sgpu_event_create(run->base->traits->device, &lane->copied[slot], error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_record(copy, lane->copied[slot]);
		if (rc != SGPU_OK) {
			sgpu_event_free(&lane->copied[slot]);
		}
	}
	return rc;
}

static int send_sealed(struct sgpu_transfers *run, struct sgpu_run_leaving *l, int piece, void *to, struct sgpu_stream *copy,
		       struct sgpu_error *error)
{
	struct sgpu_run_lane *lane = l->lane;
	struct sgpu_run_out_piece *p = &l->pieces[piece];
	sgpu_devptr from = l->memory;
	struct sgpu_stream *seal = NULL;
	uint64_t bytes;
	int slot = 0, rc = sgpu_run_stream(run, lane->seal_row, &seal, error);

	(void)sgpu_result_offset(l, piece, &bytes);
	if (rc == SGPU_OK) {
		rc = take_slot(run, lane, seal, &slot, error);
	}
	/* The end mark may be all that is left: nothing is read for it, and nothing lies behind. */
	if (rc == SGPU_OK) {
		rc = sgpu_device_seal_chunks(seal, l->key, p->at / SGPU_CHUNK, piece == l->piece_count - 1,
					     p->size == 0 ? from : from + p->at, p->size, lane->slots[slot], &p->seal);
	}
	if (rc == SGPU_OK && seal != copy) {
		rc = sgpu_run_follow(run, seal, copy, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_copy_out(copy, to, lane->slots[slot], bytes, &p->copy);
	}
	return rc == SGPU_OK && seal != copy ? mark_slot(run, lane, copy, slot, error) : rc;
}

int sgpu_result_send(struct sgpu_transfers *run, struct sgpu_run_leaving *l, int piece, void *to, struct sgpu_error *error)
{
	struct sgpu_run_out_piece *p = &l->pieces[piece];
	struct sgpu_stream *copy = NULL;
	int rc = sgpu_run_stream(run, l->lane->copy_row, &copy, error);

	if (rc == SGPU_OK && l->sealed) {
		rc = send_sealed(run, l, piece, to, copy, error);
	} else if (rc == SGPU_OK) {
		rc = sgpu_copy_out(copy, to, l->memory + p->at, p->size, &p->copy);
	}
	if (rc != SGPU_OK && error->code != rc) {
		sgpu_fail(error, rc, "the device refused a piece: %s", sgpu_strerror(rc));
	}
	return rc;
}

int sgpu_result_settle(struct sgpu_transfers *run, const struct sgpu_run_lane *lane)
{
	const int rows[] = { lane->seal_row, lane->copy_row };
	int code = SGPU_OK;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(rows); i++) {
		struct sgpu_stream *stream = run->streams[rows[i] - run->rows.operations];

		if (stream && sgpu_stream_sync(stream, NULL) != SGPU_OK) {
			code = SGPU_EDEVICE;
		}
	}
	return code;
}

/* ---- the whole payload ---- */
/* The last one's. What follows may free it. */
static void part_left(void *argument)
{
	struct sgpu_run_leaving *l = argument;
	struct sgpu_transfers *run = l->run;
	struct sgpu_note *left = l->left;

	if (atomic_fetch_sub(&l->ends, 1) == 1) {
		sgpu_loop_post(run->base->loop, left);
	}
}

/* The outcome of what is on a stream is known to those who hear from that stream, and to nobody else. */
static void hear_from(struct sgpu_run_leaving *l, struct sgpu_stream *stream)
{
	atomic_fetch_add(&l->ends, 1);
	if (sgpu_stream_callback(stream, part_left, l) == SGPU_OK) {
		return;
	}
	if (sgpu_stream_sync(stream, NULL) != SGPU_OK) {
		l->code = SGPU_EDEVICE;
	}
	part_left(l);
}

static int enqueue_all(struct sgpu_transfers *run, struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	struct sgpu_stream *copy = NULL;
	int rc = sgpu_result_begin(run, l, error);

	for (int i = 0; rc == SGPU_OK && i < l->piece_count; i++) {
		uint64_t bytes, at = sgpu_result_offset(l, i, &bytes);

		rc = sgpu_result_send(run, l, i, run->segments[l->segment].out_data + at, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_run_stream(run, l->lane->copy_row, &copy, error);
	}
	if (rc != SGPU_OK) {
		/* Nothing may still write to what the caller frees then. A device that failed does not. */
		return sgpu_result_settle(run, l->lane) == SGPU_OK ? rc : SGPU_EDEVICE;
	}
	atomic_store(&l->ends, 1);
	if (run->streams[l->lane->seal_row - run->rows.operations] && l->lane->seal_row != l->lane->copy_row) {
		hear_from(l, run->streams[l->lane->seal_row - run->rows.operations]);
	}
	hear_from(l, copy);
	part_left(l);
	return SGPU_OK;
}

static int start_result(struct sgpu_transfers *run, int segment, uint64_t actual, struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	int rc = make_leaving(run, segment, actual, &s->leaving, error);

	if (rc == SGPU_OK && s->leaving->drained) {
		rc = sgpu_drain_add(run, s->leaving, error);
	} else if (rc == SGPU_OK) {
		rc = enqueue_all(run, s->leaving, error);
	}
	if (rc != SGPU_OK) {
		free_leaving(&s->leaving);
		drop_result(run, segment);
	}
	return rc;
}

static int first_failure(const struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	for (int i = 0; i < l->piece_count; i++) {
		const struct sgpu_run_out_piece *p = &l->pieces[i];
		const struct sgpu_task *bad = p->seal.code != SGPU_OK ? &p->seal : &p->copy;

		if (bad->code != SGPU_OK) {
			return sgpu_fail(error, bad->code, "%s", bad->error.text[0] ? bad->error.text :
					 sgpu_strerror(bad->code));
		}
	}
	if (l->digest.code != SGPU_OK) {
		return sgpu_fail(error, l->digest.code, "%s", l->digest.error.text[0] ? l->digest.error.text :
				 sgpu_strerror(l->digest.code));
	}
	return l->code == SGPU_OK ? SGPU_OK : sgpu_fail(error, l->code, "%s", l->error.text[0] ? l->error.text :
							sgpu_strerror(l->code));
}

static int end_result(struct sgpu_transfers *run, int segment, struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	struct sgpu_run_leaving *l = s->leaving;
	const char *id = run->job->manifest->segments[segment].id;
	int rc = first_failure(l, error);

	for (int i = 0; i < l->piece_count; i++) {
		const struct sgpu_run_out_piece *p = &l->pieces[i];

		sgpu_trace_add(run->base->trace, SGPU_SPAN_SEAL, l->lane->seal_row, id, p->seal.begin_ns, p->seal.end_ns, p->size);
		sgpu_trace_add(run->base->trace, SGPU_SPAN_COPY_OUT, l->lane->copy_row, id, p->copy.begin_ns, p->copy.end_ns,
			      p->size);
	}
	if (rc == SGPU_OK) {
		sgpu_trace_path(run->base->trace, true, l->path, s->out_size);
	} else {
		drop_result(run, segment);
	}
	free_leaving(&s->leaving);
	return rc;
}

static void fail_output(struct sgpu_transfers *run, int segment, int code, const char *text)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	bool late = atomic_load(&run->base->stop) == SGPU_ETIMEOUT;

	s->end.code = late ? SGPU_ETIMEOUT : code;
	s->out_text = sgpu_run_text("segment '%s' failed: %s", run->job->manifest->segments[segment].id,
				    late ? deadline_text : text[0] ? text : sgpu_strerror(code));
}

static void note_left(struct sgpu_note *note)
{
	struct sgpu_transfers *run = note->owner;
	struct sgpu_error error = { 0 };
	int rc = end_result(run, note->index, &error);

	run->outputs_open--;
	if (rc != SGPU_OK) {
		fail_output(run, note->index, rc, error.text);
	}
	run->left(run->owner);
}

/* How many bytes of an output there are: what the operation says may be less than its type, and never more. */
static int actual_size(const struct sgpu_segment *s, const struct sgpu_op_call *call, uint64_t elements,
		       uint64_t *actual, struct sgpu_error *error)
{
	const uint64_t size = sgpu_dtype_size(s->type.dtype);
	bool at_most = call->op->at_most && call->op->at_most(call);

	if (!sgpu_type_bytes(&s->type, actual) || (at_most && elements > *actual / size)) {
		return sgpu_fail(error, SGPU_EDEVICE, "the operation reports more elements than there can be");
	}
	*actual = at_most ? elements * size : *actual;
	return SGPU_OK;
}

void sgpu_outputs_start(struct sgpu_transfers *run, int operation, const struct sgpu_op_call *call, uint64_t elements)
{
	const struct sgpu_operation *op = &run->job->manifest->operations[operation];

	for (int i = 0; i < op->arg_count; i++) {
		int segment = op->args[i].segment;
		const struct sgpu_segment *s = &run->job->manifest->segments[segment];
		struct sgpu_error error = { 0 };
		uint64_t actual = 0;
		int rc = atomic_load(&run->base->stop);

		if (!op->args[i].output || !sgpu_segment_is_output(s)) {
			continue;
		}
		if (rc == SGPU_OK) {
			rc = actual_size(s, call, elements, &actual, &error);
		}
		run->segments[segment].left = (struct sgpu_note){ .handle = note_left, .owner = run, .index = segment };
		if (rc == SGPU_OK) {
			rc = start_result(run, segment, actual, &error);
		}
		if (rc != SGPU_OK) {
			fail_output(run, segment, rc, error.text);
		} else {
			run->outputs_open++;
		}
	}
}

bool sgpu_outputs_idle(const struct sgpu_transfers *run)
{
	return run->outputs_open == 0;
}

const struct sgpu_output_end *sgpu_output_get(struct sgpu_transfers *run, int segment)
{
	struct sgpu_run_segment *s = &run->segments[segment];

	s->end.text = s->out_text;
	s->end.data = s->end.code == SGPU_OK ? s->out_data : NULL;
	s->end.size = s->out_size;
	return &s->end;
}

void sgpu_outputs_drop(struct sgpu_transfers *run)
{
	for (int i = 0; i < run->job->manifest->segment_count; i++) {
		drop_result(run, i);
	}
}

void sgpu_lanes_free(struct sgpu_transfers *run)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(run->lanes); i++) {
		struct sgpu_run_lane *lane = &run->lanes[i];

		for (size_t k = 0; k < SGPU_ARRAY_LENGTH(lane->slots); k++) {
			sgpu_event_free(&lane->copied[k]);
			sgpu_stock_give_memory(run->base->stock, &lane->slots[k], lane->slot_size);
		}
	}
}
