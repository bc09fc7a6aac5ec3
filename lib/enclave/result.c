/* SPDX-License-Identifier: Apache-2.0
 *
 * Departures: what an operation wrote leaves the device piece by piece. What is to be masked is sealed on the
 * device first, under a key of its own, so that host memory only ever sees ciphertext of it.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "enclave/run.h"

enum { HUGE_PAGE = 2 << 20 };

struct sgpu_run_leaving {
	int row;
	bool sealed;
	int pieces;
	uint64_t actual;
	struct sgpu_device_key *key;
	struct sgpu_task *seal, *copy; /* by piece */
};

static void free_leaving(struct sgpu_run_leaving **leaving)
{
	if (!*leaving) {
		return;
	}
	sgpu_device_key_free(&(*leaving)->key);
	free((*leaving)->seal);
	free((*leaving)->copy);
	free(*leaving);
	*leaving = NULL;
}

static void has_left(void *argument)
{
	sgpu_run_post(argument);
}

static int prepare_keys(struct sgpu_run *run, int segment, struct sgpu_sealed_keys *keys, struct sgpu_error *error)
{
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;
	int rc = sgpu_batch_segment_key(run->batch, run->batch_key, run->manifest->segments[segment].id, true, key,
					context, &context_size, error);

	if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, context, context_size, keys, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

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

/* Memory for the payload and the tasks. The size is real: the device holds that much. */
static int make_leaving(struct sgpu_run *run, int segment, uint64_t actual, struct sgpu_run_leaving **leaving,
			struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	struct sgpu_run_leaving *l = calloc(1, sizeof(*l));
	size_t pieces;

	*leaving = l;
	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->sealed = run->batch->segments[s->in_batch].masking == SGPU_MASKING_AES_GCM;
	l->actual = actual;
	l->pieces = (int)(actual / SGPU_RUN_PIECE + (l->sealed || actual % SGPU_RUN_PIECE != 0));
	l->row = run->rows.operations + run->rows.inputs + run->next_out_row++ % run->rows.outputs;
	s->out_size = actual;
	s->out_actual = actual;
	if (l->sealed && !sgpu_sealed_size(actual, &s->out_size)) {
		return sgpu_fail(error, SGPU_EINVALID, "it is too large to be sealed");
	}
	pieces = (size_t)l->pieces + 1;
	l->seal = calloc(pieces, sizeof(*l->seal));
	l->copy = calloc(pieces, sizeof(*l->copy));
	s->out_data = payload_memory(s->out_size);
	if (!l->seal || !l->copy || !s->out_data) {
		return sgpu_fail_nomem(error);
	}
	return SGPU_OK;
}

static int seal_slot(struct sgpu_run *run, int row, sgpu_devptr *memory, struct sgpu_error *error)
{
	sgpu_devptr *slot = &run->out_slots[row - run->rows.operations - run->rows.inputs];
	int rc = *slot ? SGPU_OK : sgpu_device_alloc(run->device, SGPU_RUN_SEALED_PIECE, slot, error);

	*memory = *slot;
	return rc;
}

/* Work of a stream runs in order, so that one slot a stream is enough. */
static int enqueue_sealed(struct sgpu_run *run, int segment, struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	struct sgpu_run_leaving *l = s->leaving;
	sgpu_devptr from = run->buffers[run->plan->out_buffer[segment]].memory, slot = 0;
	struct sgpu_sealed_keys keys = { 0 };
	int rc = seal_slot(run, l->row, &slot, error);

	if (rc == SGPU_OK) {
		rc = prepare_keys(run, segment, &keys, error);
	}
	if (rc == SGPU_OK) {
		sgpu_sealed_header(&keys, s->out_data);
		rc = sgpu_device_key_load(stream, &keys, &l->key, error);
	}
	sgpu_wipe(&keys, sizeof(keys));
	if (rc != SGPU_OK) {
		return rc;
	}
	for (int i = 0; rc == SGPU_OK && i < l->pieces; i++) {
		bool last = i == l->pieces - 1;
		uint64_t at = (uint64_t)i * SGPU_RUN_PIECE, size = last ? l->actual - at : SGPU_RUN_PIECE;
		uint64_t to = SGPU_SEALED_HEADER + (uint64_t)i * SGPU_RUN_SEALED_PIECE;
		uint64_t sealed = last ? s->out_size - to : SGPU_RUN_SEALED_PIECE;

		/* The end mark may be all that is left: nothing is read for it, and nothing lies behind. */
		rc = sgpu_device_seal_chunks(stream, l->key, (uint64_t)i * SGPU_RUN_PIECE_CHUNKS, last,
					     size == 0 ? from : from + at, size, slot, &l->seal[i]);
		if (rc == SGPU_OK) {
			rc = sgpu_copy_out(stream, s->out_data + to, slot, sealed, &l->copy[i]);
		}
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "the device refused a piece: %s", sgpu_strerror(rc));
}

static int enqueue_plain(struct sgpu_run *run, int segment, struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	struct sgpu_run_leaving *l = s->leaving;
	sgpu_devptr from = run->buffers[run->plan->out_buffer[segment]].memory;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < l->pieces; i++) {
		uint64_t at = (uint64_t)i * SGPU_RUN_PIECE;
		uint64_t size = l->actual - at < SGPU_RUN_PIECE ? l->actual - at : SGPU_RUN_PIECE;

		rc = sgpu_copy_out(stream, s->out_data + at, from + at, size, &l->copy[i]);
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "the device refused a copy: %s", sgpu_strerror(rc));
}

int sgpu_result_start(struct sgpu_run *run, int segment, uint64_t actual, struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	struct sgpu_stream *stream = NULL;
	int rc = make_leaving(run, segment, actual, &s->leaving, error);

	if (rc == SGPU_OK) {
		rc = sgpu_run_stream(run, s->leaving->row, &stream, error);
	}
	if (rc == SGPU_OK && s->leaving->sealed) {
		rc = enqueue_sealed(run, segment, stream, error);
	} else if (rc == SGPU_OK) {
		rc = enqueue_plain(run, segment, stream, error);
	}
	if (rc == SGPU_OK && sgpu_stream_callback(stream, has_left, &s->left) == SGPU_OK) {
		return SGPU_OK;
	}
	/* Nothing may still write to what is freed here. */
	if (stream && sgpu_stream_sync(stream, NULL) != SGPU_OK && rc == SGPU_OK) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "the device failed");
	}
	if (rc == SGPU_OK) {
		has_left(&s->left);
		return SGPU_OK;
	}
	free_leaving(&s->leaving);
	free(s->out_data);
	s->out_data = NULL;
	return rc;
}

static int first_failure(const struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	for (int i = 0; i < l->pieces; i++) {
		const struct sgpu_task *bad = l->seal[i].code != SGPU_OK ? &l->seal[i] : &l->copy[i];

		if (bad->code != SGPU_OK) {
			return sgpu_fail(error, bad->code, "%s", bad->error.text[0] ? bad->error.text :
					 sgpu_strerror(bad->code));
		}
	}
	return SGPU_OK;
}

int sgpu_result_end(struct sgpu_run *run, int segment, struct sgpu_error *error)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	struct sgpu_run_leaving *l = s->leaving;
	const char *id = run->manifest->segments[segment].id;
	int rc = first_failure(l, error);

	for (int i = 0; i < l->pieces; i++) {
		uint64_t left = l->actual - (uint64_t)i * SGPU_RUN_PIECE;
		uint64_t bytes = left < SGPU_RUN_PIECE ? left : SGPU_RUN_PIECE;

		sgpu_span_add(run, SGPU_SPAN_SEAL, l->row, id, l->seal[i].begin_ns, l->seal[i].end_ns, bytes);
		sgpu_span_add(run, SGPU_SPAN_COPY_OUT, l->row, id, l->copy[i].begin_ns, l->copy[i].end_ns, bytes);
	}
	free_leaving(&s->leaving);
	if (rc != SGPU_OK) {
		free(s->out_data);
		s->out_data = NULL;
	}
	return rc;
}
