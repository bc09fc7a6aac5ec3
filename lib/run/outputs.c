/* SPDX-License-Identifier: Apache-2.0
 *
 * Each output is a transfer of the engine. A result that is to be masked is first sealed on the
 * device, under a key of its own, so that host memory only ever holds its ciphertext.
 *
 * A device that pins host memory copies a result of moderate size straight to the buffer where it
 * waits for the response. Larger results would pin too much memory, so the engine copies them in
 * pieces. If the response goes to a file and its layout is known in advance, results are written to
 * their places in that file without waiting. Results that have a region or a lease do not wait
 * either.
 */
#include "base/io.h"
#include "run/outputs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "run/job.h"
#include "run/inputs.h"
#include "run/loop.h"
#include "run/memory.h"
#include "run/private.h"

enum { HUGE_PAGE = 2 << 20 };

struct output {
	struct sgpu_note left;
	struct sgpu_outputs *all;
	int segment;
	struct sgpu_transfer *transfer; /* for the loop only */
	struct sgpu_device_key *key;
	uint8_t header[SGPU_SEALED_HEADER]; /* made with the key */
	uint8_t *data;
	uint8_t *leased;	   /* its place in a lease, or NULL */
	bool pinned;		   /* data is from sgpu_host_alloc */
	struct sgpu_source region; /* where it goes, if the batch names a region for it */
	int code;		   /* of the transfer */
	char *text;
	struct sgpu_output_end end;
};

struct sgpu_outputs {
	struct sgpu_run_base *base;
	/* Where results go in the response's file before it is complete: offsets, by segment of the
	 * manifest; 0: not to the file. NULL: none goes there. */
	uint64_t *places;
	void (*left)(void *owner);
	void *owner;
	const struct sgpu_job *job;
	struct output *list;	      /* by segment of the manifest */
	struct sgpu_error file_error; /* of writing to the file */
	uint64_t pinned;	      /* bytes of pinned memory that results have */
};

static const struct sgpu_batch_segment *in_batch(const struct output *output)
{
	return &output->all->job->batch->segments[output->all->job->in_batch[output->segment]];
}

/* Returns the device that wrote the output, from which it leaves. */
static int device_of(const struct output *output)
{
	const struct sgpu_plan *plan = output->all->job->plan;

	return plan->buffers[plan->out_buffer[output->segment]].device;
}

static const struct sgpu_run_device *run_device(const struct output *output)
{
	return &output->all->base->devices[device_of(output)];
}

static bool is_sealed(const struct output *output)
{
	return in_batch(output)->masking == SGPU_MASKING_AES_GCM;
}

/* ---- memory ---- */
/* Allocates memory that is written once from end to end, in pages of 2 MiB if there are any, since
 * faults on small pages cost as much as the copy. */
static uint8_t *large_memory(uint64_t size)
{
	uint64_t whole = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	void *data;

	if (size < 2 * HUGE_PAGE || size > SIZE_MAX - HUGE_PAGE) {
		return malloc(size ? size : 1);
	}
	data = aligned_alloc(HUGE_PAGE, whole);
	if (data) {
		(void)!madvise(data, whole, MADV_HUGEPAGE); /* small pages will do */
	}
	return data;
}

static int make_memory(struct output *output, struct sgpu_error *error)
{
	struct sgpu_outputs *all = output->all;
	const struct sgpu_run_traits *traits = all->base->traits;
	const uint64_t size = output->end.size;
	void *data = NULL;
	int rc = sgpu_limit_take(SGPU_HOST_MEMORY, size, error);

	if (rc < 0) {
		return rc;
	}
	if (traits->pins && size > 0 && size <= traits->pinned_max - all->pinned &&
	    sgpu_host_alloc(run_device(output)->device, size, &data, NULL) == SGPU_OK) {
		all->pinned += size;
		output->pinned = true;
	} else {
		data = large_memory(size);
	}
	if (!data) {
		sgpu_limit_give(SGPU_HOST_MEMORY, size);
		return sgpu_fail_nomem(error);
	}
	output->data = data;
	return SGPU_OK;
}

static void drop_memory(struct output *output)
{
	void *data = output->data;

	if (data) {
		sgpu_limit_give(SGPU_HOST_MEMORY, output->end.size);
	}
	if (output->pinned) {
		sgpu_host_free(run_device(output)->device, &data, output->end.size);
		output->all->pinned -= output->end.size;
	}
	free(data);
	output->data = NULL;
	output->pinned = false;
}

/* ---- the transfer ---- */
static int put_header(struct output *output, struct sgpu_error *error)
{
	const struct sgpu_run_base *base = output->all->base;
	const size_t size = sizeof(output->header);

	if (output->data || output->leased) {
		memcpy(output->data ? output->data : output->leased, output->header, size);
		return SGPU_OK;
	}
	if (output->region.fd >= 0) {
		return sgpu_pwrite(output->region.fd, output->region.name, output->header, size,
				   output->region.offset, error);
	}
	return sgpu_pwrite(base->submission.out_fd, base->submission.out_name, output->header, size,
			   output->end.place, error);
}

/* Makes the output's key and its header, and starts to load the key onto the device. */
static int make_key(struct output *output, struct sgpu_stream *stream, struct sgpu_error *error)
{
	const struct sgpu_job *job = output->all->job;
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_sealed_keys keys = { 0 };
	size_t context_size = 0;
	int rc = sgpu_batch_segment_key(job->batch, job->batch_key, in_batch(output)->id,
					job->response_id, key, context, &context_size, error);

	rc = rc ? rc : sgpu_sealed_keys_new(key, context, context_size, &keys, error);
	if (rc == SGPU_OK) {
		sgpu_sealed_header(&keys, output->header);
		rc = sgpu_device_key_load(stream, &keys, &output->key, error);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

static int prepare_sealed(void *argument, struct sgpu_stream *stream,
			  struct sgpu_transfer_request *request, struct sgpu_error *error)
{
	struct output *output = argument;
	int rc = output->key ? SGPU_OK : make_key(output, stream, error);

	rc = rc ? rc : put_header(output, error);
	request->key = output->key;
	return rc;
}

static void note_span(void *argument, const struct sgpu_transfer_span *span)
{
	const struct output *output = argument;

	sgpu_trace_step(output->all->base->trace, device_of(output), span, in_batch(output)->id);
}

/* May be called by a callback of the device. */
static void note_done(void *argument, const struct sgpu_transfer_result *result)
{
	struct output *output = argument;
	struct sgpu_run_base *base = output->all->base;

	output->code = result->code;
	if (result->code != SGPU_OK) {
		output->text = sgpu_run_text("%s", result->error.text);
	}
	memcpy(output->end.digest, result->digest, sizeof(output->end.digest));
	sgpu_trace_paths(base->trace, true, result->bytes);
	sgpu_loop_post(base->loop, &output->left);
}

static void fail_output(struct output *output, int rc, const char *text)
{
	char *why;

	output->end.code = sgpu_run_failure(output->all->base, "segment", in_batch(output)->id, rc,
					    text ? text : "", &why);
	free(output->text);
	output->text = why;
	output->end.text = why ? why : sgpu_strerror(output->end.code);
	drop_memory(output);
}

static void note_left(struct sgpu_note *note)
{
	struct output *output = note->owner;
	struct sgpu_outputs *all = output->all;

	sgpu_device_key_free(&output->key);
	sgpu_transfer_free(&output->transfer);
	if ((output->code == SGPU_ESYSTEM || output->code == SGPU_ENOSPACE) &&
	    output->end.place > 0) {
		(void)sgpu_fail(&all->file_error, output->code, "%s",
				output->text ? output->text : "");
	}
	if (output->code != SGPU_OK) {
		fail_output(output, output->code, output->text);
	} else {
		output->end.whole = true;
		output->end.data = output->data;
		atomic_fetch_add(&all->base->trace->bytes_out, output->data ? 0 : output->end.size);
	}
	all->base->under_way--;
	all->left(all->owner);
}

/* Decides where the output goes: to a lease, to a region, to its place in the file, else to memory.
 */
static int make_sink(struct output *output, struct sgpu_transfer_sink *sink,
		     struct sgpu_error *error)
{
	const struct sgpu_outputs *all = output->all;
	struct sgpu_run_base *base = all->base;
	const uint64_t header = is_sealed(output) ? SGPU_SEALED_HEADER : 0;
	const struct sgpu_location *place = in_batch(output)->place;
	int rc;

	if (place && place->kind == SGPU_LOCATION_LEASE) {
		output->leased = sgpu_lent_output(base->lent, place);
		*sink = sgpu_sink_to_memory(output->leased + header,
					    base->job->options->leases_registered);
		return SGPU_OK;
	}
	if (place) {
		rc = sgpu_leases_source(base->leases, place, output->end.size, true,
					&output->region, error);
		return rc != SGPU_OK ? rc
				     : sgpu_sink_to_file(run_device(output)->engine,
							 output->region.fd, output->region.name,
							 output->region.offset + header, true, sink,
							 error);
	}
	if (all->places && all->places[output->segment] > 0) {
		output->end.place = all->places[output->segment];
		return sgpu_sink_to_file(run_device(output)->engine, base->submission.out_fd,
					 base->submission.out_name, output->end.place + header,
					 false, sink, error);
	}
	rc = make_memory(output, error);
	if (rc == SGPU_OK) {
		*sink = sgpu_sink_to_memory(output->data + header, output->pinned);
	}
	return rc;
}

static int start_output(struct output *output, uint64_t actual, struct sgpu_error *error)
{
	struct sgpu_run_base *base = output->all->base;
	const bool sealed = is_sealed(output);
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_OUT,
		.last = sealed,
		.size = actual,
		.digested = !sealed,
		.rank = base->rank,
		.queued = base->many,
		.prepare = sealed ? prepare_sealed : NULL,
		.span = note_span,
		.done = note_done,
		.argument = output,
	};
	int rc;

	output->end.size = output->end.actual = actual;
	if (sealed && !sgpu_sealed_size(actual, &output->end.size)) {
		return sgpu_fail(error, SGPU_EINVALID, "it is too large to be sealed");
	}
	request.memory = base->memory->buffers[base->job->plan->out_buffer[output->segment]];
	rc = make_sink(output, &request.sink, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_transfer_start(run_device(output)->engine, &request, &output->transfer, error);
	if (rc != SGPU_OK && request.sink.close) {
		request.sink.close(request.sink.context);
	}
	return rc;
}

/* ---- the outputs of an operation ---- */
/* Computes the bytes of an output. The operation may report fewer elements than its type has, never
 * more. */
static int actual_size(const struct sgpu_segment *s, const struct sgpu_op_call *call,
		       uint64_t elements, uint64_t *actual, struct sgpu_error *error)
{
	const uint64_t size = sgpu_dtype_size(s->type.dtype);
	bool at_most = call->op->at_most && call->op->at_most(call);

	if (!sgpu_type_bytes(&s->type, actual) || (at_most && elements > *actual / size)) {
		return sgpu_fail(error, SGPU_EDEVICE,
				 "the operation reports more elements than there can be");
	}
	*actual = at_most ? elements * size : *actual;
	return SGPU_OK;
}

void sgpu_outputs_start(struct sgpu_outputs *outputs, int operation,
			const struct sgpu_op_call *call, uint64_t elements)
{
	const struct sgpu_operation *op = &outputs->job->manifest->operations[operation];

	for (int i = 0; i < op->arg_count; i++) {
		const struct sgpu_segment *s =
			&outputs->job->manifest->segments[op->args[i].segment];
		struct output *output = &outputs->list[op->args[i].segment];
		struct sgpu_error error = { 0 };
		uint64_t actual = 0;
		int rc = atomic_load(&outputs->base->stop);

		if (!op->args[i].output || !sgpu_segment_is_output(s)) {
			continue;
		}
		rc = rc ? rc : actual_size(s, call, elements, &actual, &error);
		rc = rc ? rc : start_output(output, actual, &error);
		if (rc != SGPU_OK) {
			fail_output(output, rc, error.text);
		} else {
			outputs->base->under_way++;
		}
	}
}

void sgpu_output_prepare(struct sgpu_outputs *outputs, int segment, struct sgpu_stream *stream)
{
	if (is_sealed(&outputs->list[segment])) {
		(void)!make_key(&outputs->list[segment], stream, NULL);
	}
}

void sgpu_outputs_stop(struct sgpu_outputs *outputs, int rc)
{
	for (int i = 0; i < outputs->job->manifest->segment_count; i++) {
		if (outputs->list[i].transfer) {
			sgpu_transfer_cancel(outputs->list[i].transfer, rc);
		}
	}
}

bool sgpu_outputs_placed(const struct sgpu_outputs *outputs)
{
	return outputs->places != NULL;
}

int sgpu_outputs_file_failure(const struct sgpu_outputs *outputs, struct sgpu_error *error)
{
	if (outputs->file_error.code != SGPU_OK) {
		*error = outputs->file_error;
	}
	return outputs->file_error.code;
}

const struct sgpu_output_end *sgpu_output_get(const struct sgpu_outputs *outputs, int segment)
{
	return &outputs->list[segment].end;
}

/* ---- creation ---- */
int sgpu_outputs_create(struct sgpu_run_base *base, void (*left)(void *owner), void *owner,
			struct sgpu_outputs **outputs, struct sgpu_error *error)
{
	const int count = base->job->manifest->segment_count;
	struct sgpu_outputs *made = calloc(1, sizeof(*made));

	*outputs = made;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->base = base;
	made->job = base->job;
	made->left = left;
	made->owner = owner;
	made->list = calloc((size_t)count + 1, sizeof(*made->list));
	if (!made->list) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < count; i++) {
		made->list[i].all = made;
		made->list[i].segment = i;
		made->list[i].region.fd = -1;
		made->list[i].left = (struct sgpu_note){ .handle = note_left,
							 .owner = &made->list[i],
							 .index = i };
	}
	return sgpu_respond_plan(base, &made->places, error);
}

void sgpu_outputs_free(struct sgpu_outputs **outputs)
{
	struct sgpu_outputs *made = *outputs;

	if (!made) {
		return;
	}
	for (int i = 0; made->list && i < made->job->manifest->segment_count; i++) {
		sgpu_device_key_free(&made->list[i].key);
		drop_memory(&made->list[i]);
		free(made->list[i].text);
	}
	free(made->list);
	free(made->places);
	free(made);
	*outputs = NULL;
}
