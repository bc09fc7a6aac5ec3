/* SPDX-License-Identifier: Apache-2.0
 *
 * Each input is a transfer of the engine. It has arrived only when every tag and the end mark, or
 * the digest, have verified on the device's own copy; until then no operation may read it.
 */
#include "base/io.h"
#include "stage/stage.h"
#include "run/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "batch/tar.h"
#include "run/job.h"
#include "run/loop.h"
#include "run/memory.h"
#include "run/private.h"

enum { READ_AHEAD_MAX = 256 }; /* most payloads in memory that are not on the device yet */

struct input {
	struct sgpu_note arrived;
	struct sgpu_inputs *all;
	int segment;
	bool begun;    /* set by the reader: a note will be posted */
	bool prepared; /* its header and its key are valid */
	struct sgpu_transfer *_Atomic transfer;
	struct sgpu_device_key *key;
	struct sgpu_source file; /* file or region with the payload; fd -1: none */
	uint8_t *payload;	 /* the payload, if the reader has read it whole; from malloc */
	int code;
	char *text; /* why it failed */
};

struct sgpu_inputs {
	struct sgpu_run_base *base;
	const struct sgpu_job *job;
	struct input *list; /* by segment of the manifest */
	struct sgpu_tar_reader *tar;
	int tar_code;	       /* SGPU_OK, or why the batch itself cannot be read any more */
	atomic_int read_ahead; /* payloads in memory */
};

static const struct sgpu_batch_segment *in_batch(const struct input *input)
{
	return &input->all->job->batch->segments[input->all->job->in_batch[input->segment]];
}

static bool is_inline(const struct input *input)
{
	return in_batch(input)->location.kind == SGPU_LOCATION_INLINE;
}

static bool is_leased(const struct input *input)
{
	return in_batch(input)->location.kind == SGPU_LOCATION_LEASE;
}

static bool is_piped(const struct input *input)
{
	return is_inline(input) && input->file.fd < 0;
}

static uint64_t payload_size(const struct input *input)
{
	return sgpu_batch_payload_size(input->all->job->batch,
				       input->all->job->in_batch[input->segment]);
}

static uint64_t header_size(const struct input *input)
{
	return in_batch(input)->sealed ? SGPU_SEALED_HEADER : 0;
}

/* ---- where the bytes come from ---- */
static const uint8_t *leased_payload(const struct input *input)
{
	return sgpu_lent_input(input->all->base->lent, &in_batch(input)->location);
}

static int read_tar(void *context, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error)
{
	struct input *input = context;
	int rc = sgpu_tar_read(input->all->tar, data, size, error);

	(void)position;
	input->all->tar_code = rc;
	return rc;
}

static int read_header(struct input *input, uint8_t header[SGPU_SEALED_HEADER],
		       struct sgpu_error *error)
{
	size_t got = 0;
	int rc;

	atomic_fetch_add(&input->all->base->trace->bytes_in, SGPU_SEALED_HEADER);
	if (input->payload || is_leased(input)) {
		memcpy(header, input->payload ? input->payload : leased_payload(input),
		       SGPU_SEALED_HEADER);
		return SGPU_OK;
	}
	if (is_piped(input)) {
		return read_tar(input, 0, header, SGPU_SEALED_HEADER, error);
	}
	rc = sgpu_pread(input->file.fd, input->file.name, header, SGPU_SEALED_HEADER,
			input->file.offset, &got, error);
	return rc != SGPU_OK || got == SGPU_SEALED_HEADER
		       ? rc
		       : sgpu_fail(error, SGPU_ESYSTEM, "'%s' ends too early", input->file.name);
}

static int load_key(struct input *input, struct sgpu_stream *stream, struct sgpu_error *error)
{
	const struct sgpu_job *job = input->all->job;
	uint8_t header[SGPU_SEALED_HEADER], key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_sealed_keys keys = { 0 };
	size_t context_size = 0;
	int rc = read_header(input, header, error);

	rc = rc ? rc
		: sgpu_batch_segment_key(job->batch, job->batch_key, in_batch(input)->id, NULL, key,
					 context, &context_size, error);
	if (rc == SGPU_OK) {
		/* The index has verified, so a payload that begins otherwise is not the owner's. */
		rc = sgpu_equal(header, in_batch(input)->header, sizeof(header))
			     ? sgpu_sealed_keys_open(key, context, context_size, header, &keys,
						     error)
			     : sgpu_fail(error, SGPU_EAUTH,
					 "the payload does not begin as the index says");
		rc = rc == SGPU_EKEY ? SGPU_EAUTH : rc;
	}
	rc = rc ? rc : sgpu_device_key_load(stream, &keys, &input->key, error);
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

/* ---- the transfer ---- */
static int device_of(const struct input *input)
{
	const struct sgpu_plan *plan = input->all->job->plan;

	return plan->buffers[plan->in_buffer[input->segment]].device;
}

static struct sgpu_engine *engine_of(const struct input *input)
{
	return input->all->base->devices[device_of(input)].engine;
}

static int prepare_input(void *argument, struct sgpu_stream *stream,
			 struct sgpu_transfer_request *request, struct sgpu_error *error)
{
	struct input *input = argument;
	struct sgpu_run_base *base = input->all->base;
	int rc = SGPU_OK;

	request->memory = base->memory->buffers[base->job->plan->in_buffer[input->segment]];
	if (!is_inline(input) && !is_leased(input)) {
		rc = sgpu_leases_source(base->leases, &in_batch(input)->location,
					payload_size(input), false, &input->file, error);
	}
	if (rc == SGPU_OK && in_batch(input)->sealed) {
		rc = load_key(input, stream, error);
		request->key = input->key;
	}
	bool region = in_batch(input)->location.kind == SGPU_LOCATION_REGION;
	if (rc == SGPU_OK && !is_piped(input) && !is_leased(input)) {
		rc = sgpu_source_from_file(engine_of(input), input->file.fd, input->file.name,
					   input->file.offset + header_size(input), region,
					   &request->source, error);
	}
	input->prepared = rc == SGPU_OK;
	return rc;
}

static void note_span(void *argument, const struct sgpu_transfer_span *span)
{
	struct input *input = argument;
	struct sgpu_run_base *base = input->all->base;

	if (span->step != SGPU_STEP_READ || !input->payload) {
		sgpu_trace_step(base->trace, device_of(input), span, in_batch(input)->id);
	}
	if (span->step == SGPU_STEP_COPY_IN) {
		atomic_fetch_add(&base->trace->bytes_in, span->bytes);
	}
}

static void fail_input(struct input *input, int rc, const char *text)
{
	input->code = sgpu_run_failure(input->all->base, "segment", in_batch(input)->id, rc, text,
				       &input->text);
}

/* Fails an input whose chunk number `chunk` or whose digest does not verify. */
static void fail_unverified(struct input *input, uint64_t chunk)
{
	char text[64] = "its kt128 is not the one that the batch names";

	if (in_batch(input)->sealed) {
		snprintf(text, sizeof(text), "chunk %llu does not verify",
			 (unsigned long long)chunk);
	}
	fail_input(input, SGPU_EAUTH, text);
}

/* May be called by a callback of the device. */
static void note_done(void *argument, const struct sgpu_transfer_result *result)
{
	struct input *input = argument;
	struct sgpu_run_base *base = input->all->base;

	if (result->code == SGPU_EAUTH && input->prepared) {
		fail_unverified(input, result->bad_chunk);
	} else if (result->code != SGPU_OK) {
		fail_input(input, result->code, result->error.text);
	}
	sgpu_trace_paths(base->trace, false, result->bytes);
	sgpu_loop_post(base->loop, &input->arrived);
}

static void miss_input(struct input *input, int rc, const char *text)
{
	input->begun = true;
	fail_input(input, rc == SGPU_OK ? SGPU_EINVALID : rc, text);
	sgpu_loop_post(input->all->base->loop, &input->arrived);
}

/* Returns whether the input was started; else it has failed. */
static bool start_input(struct input *input)
{
	const bool sealed = in_batch(input)->sealed;
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.last = sealed,
		.size = payload_size(input) - header_size(input),
		.digested = !sealed,
		.expected = in_batch(input)->kt128,
		.rank = input->all->base->rank,
		.source = { .read = is_piped(input) ? read_tar : NULL,
			    .ordered = is_piped(input),
			    .context = input },
		.prepare = prepare_input,
		.span = note_span,
		.done = note_done,
		.argument = input,
	};
	struct sgpu_run_base *base = input->all->base;
	struct sgpu_transfer *transfer;
	struct sgpu_error error = { 0 };
	int rc;

	input->begun = true;
	if (input->payload) {
		request.source =
			sgpu_source_from_memory(input->payload + header_size(input), false);
		request.queued = true;
	} else if (is_leased(input)) {
		request.source = sgpu_source_from_memory(leased_payload(input) + header_size(input),
							 base->job->options->leases_registered);
		request.queued = base->many && request.size <= SGPU_TRANSFER_SMALL;
	}
	rc = sgpu_transfer_start(engine_of(input), &request, &transfer, &error);
	if (rc != SGPU_OK) {
		miss_input(input, rc, error.text);
		return false;
	}
	atomic_store(&input->transfer, transfer);
	rc = atomic_load(&base->stop);
	if (rc != SGPU_OK) {
		sgpu_transfer_cancel(transfer, rc); /* sgpu_inputs_stop may have missed it */
	}
	return true;
}

/* ---- all inputs ---- */
/* If the batch is a file, notes where a large payload lies in it, so that all cores read it. */
static void find_in_file(struct input *input)
{
	const struct sgpu_tar_reader *tar = input->all->tar;
	const uint64_t size = payload_size(input);

	if (size > SGPU_TRANSFER_SMALL && tar->seekable) {
		input->file = (struct sgpu_source){ .fd = tar->fd,
						    .offset = tar->position,
						    .size = size };
		snprintf(input->file.name, sizeof(input->file.name), "%s", tar->name);
	}
}

static int bring_inline(struct sgpu_inputs *inputs, struct input *input, struct sgpu_error *error)
{
	int rc = SGPU_OK;
	bool piped;

	find_in_file(input);
	piped = is_piped(input); /* asked first: once started, the input may end and its file be
				    closed */
	/* If the transfer cannot start, the reader skips the payload on its way to the next one. */
	if (!start_input(input)) {
		return SGPU_OK;
	}
	if (piped) {
		rc = sgpu_transfer_pump(atomic_load(&input->transfer), error);
	} else {
		sgpu_tar_consumed(inputs->tar, payload_size(input));
	}
	return inputs->tar_code != SGPU_OK ? rc : SGPU_OK;
}

/* Brings in one of many small payloads: the reader only reads it, and workers do the rest, several
 * at a time. */
static int bring_small(struct sgpu_inputs *inputs, struct input *input, struct sgpu_error *error)
{
	const uint64_t size = payload_size(input), begin = sgpu_now_ns();
	int rc;

	input->payload = malloc(size + 1);
	rc = input->payload ? read_tar(input, 0, input->payload, size, error)
			    : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		atomic_fetch_add(&inputs->read_ahead, 1);
		sgpu_trace_add(inputs->base->trace, SGPU_SPAN_READ, -1, in_batch(input)->id, begin,
			       sgpu_now_ns(), size);
		(void)start_input(input);
	}
	return rc;
}

static bool is_small_of_many(const struct input *input)
{
	return input->all->base->many && payload_size(input) <= SGPU_TRANSFER_SMALL &&
	       atomic_load(&input->all->read_ahead) < READ_AHEAD_MAX;
}

static int read_batch(struct sgpu_inputs *inputs, struct sgpu_error *error)
{
	const struct sgpu_job *job = inputs->job;
	struct input *input;
	int index = -1, stop, rc;

	do {
		rc = sgpu_batch_next_payload(inputs->tar, job->batch, &index, error);
		if (rc == SGPU_OK && index >= 0) {
			input = &inputs->list[job->to_manifest[index]];
			rc = is_small_of_many(input) ? bring_small(inputs, input, error)
						     : bring_inline(inputs, input, error);
			stop = atomic_load(&inputs->base->stop);
			rc = stop ? sgpu_fail(error, stop, "the run was stopped") : rc;
		}
	} while (rc == SGPU_OK && index >= 0);
	return rc;
}

int sgpu_inputs_bring(struct sgpu_inputs *inputs, struct sgpu_tar_reader *tar,
		      struct sgpu_error *error)
{
	const struct sgpu_manifest *m = inputs->job->manifest;
	int rc;

	inputs->tar = tar;
	for (int i = 0; i < m->segment_count && atomic_load(&inputs->base->stop) == SGPU_OK; i++) {
		if (sgpu_segment_is_input(&m->segments[i]) && !is_inline(&inputs->list[i])) {
			(void)start_input(&inputs->list[i]);
		}
	}
	rc = read_batch(inputs, error);
	if (rc != SGPU_OK) {
		sgpu_run_stop(inputs->base, rc);
	}
	for (int i = 0; i < m->segment_count; i++) {
		if (sgpu_segment_is_input(&m->segments[i]) && !inputs->list[i].begun) {
			miss_input(&inputs->list[i],
				   rc != SGPU_OK ? rc : atomic_load(&inputs->base->stop),
				   "it did not arrive");
		}
	}
	return rc;
}

int sgpu_input_end(const struct sgpu_inputs *inputs, int segment, const char **text)
{
	*text = inputs->list[segment].text;
	return inputs->list[segment].code;
}

void sgpu_input_drop(struct sgpu_inputs *inputs, int segment)
{
	struct input *input = &inputs->list[segment];

	sgpu_device_key_free(&input->key);
	sgpu_source_close(&input->file);
	if (input->payload) {
		free(input->payload);
		input->payload = NULL;
		atomic_fetch_sub(&inputs->read_ahead, 1);
	}
}

void sgpu_inputs_stop(struct sgpu_inputs *inputs, int rc)
{
	for (int i = 0; i < inputs->job->manifest->segment_count; i++) {
		struct sgpu_transfer *transfer = atomic_load(&inputs->list[i].transfer);

		if (transfer) {
			sgpu_transfer_cancel(transfer, rc);
		}
	}
}

/* ---- creation ---- */
static int take_regions(struct sgpu_run_base *base, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = base->job->batch;
	int rc = sgpu_leases_create(base->job->options->files, &base->leases, error);

	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		const struct sgpu_location *const both[] = { &batch->segments[i].location,
							     batch->segments[i].place };
		struct sgpu_source source = { .fd = -1 };

		/* If a region cannot be taken, the segments that need it fail later. */
		for (int k = 0; k < 2; k++) {
			if (both[k] && both[k]->kind == SGPU_LOCATION_REGION &&
			    sgpu_leases_source(base->leases, both[k], 0, k == 1, &source, NULL) ==
				    SGPU_OK) {
				sgpu_source_close(&source);
			}
		}
	}
	return rc;
}

int sgpu_inputs_create(struct sgpu_run_base *base, void (*arrived)(struct sgpu_note *note),
		       void *owner, struct sgpu_inputs **inputs, struct sgpu_error *error)
{
	const int count = base->job->manifest->segment_count;
	struct sgpu_inputs *made = calloc(1, sizeof(*made));

	*inputs = made;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->base = base;
	made->job = base->job;
	made->list = calloc((size_t)count + 1, sizeof(*made->list));
	if (!made->list) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < count; i++) {
		made->list[i] = (struct input){
			.all = made,
			.segment = i,
			.file = { .fd = -1 },
			.arrived = { .handle = arrived, .owner = owner, .index = i }
		};
	}
	return take_regions(base, error);
}

void sgpu_inputs_free(struct sgpu_inputs **inputs)
{
	struct sgpu_inputs *made = *inputs;

	if (!made) {
		return;
	}
	for (int i = 0; made->list && i < made->job->manifest->segment_count; i++) {
		struct sgpu_transfer *transfer = atomic_load(&made->list[i].transfer);

		sgpu_transfer_free(&transfer);
		free(made->list[i].payload);
		free(made->list[i].text);
	}
	free(made->list);
	free(made);
	*inputs = NULL;
}
