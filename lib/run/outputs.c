/* SPDX-License-Identifier: Apache-2.0
 *
 * Results. One that is to be masked is first sealed on the device, under a key of its own, so that
 * host memory only ever holds its ciphertext. Small ones follow their operation on its stream, to
 * staging memory that is theirs until the operation is known to have succeeded; large ones are
 * transfers that begin then.
 *
 * A device that pins host memory copies a result of moderate size straight to the buffer where it
 * waits for the response. Larger results would pin too much memory, so the engine copies them in
 * pieces. If the response goes to a file and its layout is known in advance, results are written to
 * their places in that file without waiting. Results that have a region or a lease do not wait
 * either.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/io.h"
#include "run/private.h"
#include "stage/stage.h"

enum { HUGE_PAGE = 2 << 20 };

/* A small result in staging memory. */
struct small {
	struct sgpu_staging_buffer *staging;
	uint8_t *host;
	struct sgpu_task copy, seal;
};

struct output {
	struct output *next; /* among the transfers under way */
	struct sgpu_outputs *all;
	int segment;
	struct sgpu_transfer *transfer;
	struct small *small; /* if it follows its operation */
	uint8_t *data;
	uint8_t *leased;	   /* its place in a lease, or NULL */
	bool pinned;		   /* data is from sgpu_host_alloc */
	struct sgpu_source region; /* where it goes, if the batch names a region for it */
	char *text;
	struct sgpu_output_end end;
};

struct sgpu_outputs {
	struct sgpu_run *run;
	/* Where results go in the response's file before it is complete: offsets, by segment of the
	 * manifest; 0: not to the file. NULL: none goes there. */
	uint64_t *places;
	struct output *list; /* by segment of the manifest */
	struct output *under_way;
	struct sgpu_error file_error; /* of writing to the file */
	uint64_t pinned;	      /* bytes of pinned memory that results have */
};

static const struct sgpu_batch_segment *in_batch(const struct output *output)
{
	return sgpu_run_segment(output->all->run, output->segment);
}

static int number_in_batch(const struct output *output)
{
	return output->all->run->job.in_batch[output->segment];
}

/* Returns the device that wrote the output, from which it leaves. */
static int device_of(const struct output *output)
{
	const struct sgpu_plan *plan = output->all->run->job.plan;

	return plan->buffers[plan->out_buffer[output->segment]].device;
}

static const struct sgpu_run_device *run_device(const struct output *output)
{
	return &output->all->run->devices[device_of(output)];
}

static sgpu_devptr memory_of(const struct output *output)
{
	const struct sgpu_run *run = output->all->run;

	return run->memory.buffers[run->job.plan->out_buffer[output->segment]];
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
	const struct sgpu_run_traits *traits = &all->run->runner->traits;
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

/* ---- where outputs go ---- */
static void fail_output(struct output *output, int rc, const char *text)
{
	char *why;

	output->end.code = sgpu_run_failure(output->all->run, "segment", in_batch(output)->id, rc,
					    text ? text : "", &why);
	free(output->text);
	output->text = why;
	output->end.text = why ? why : sgpu_strerror(output->end.code);
	drop_memory(output);
}

/* Decides where the output goes: to a lease, to a region, to its place in the file, else to memory.
 */
static int find_place(struct output *output, struct sgpu_error *error)
{
	struct sgpu_run *run = output->all->run;
	const struct sgpu_location *place = in_batch(output)->place;

	if (place && place->kind == SGPU_LOCATION_LEASE) {
		output->leased = sgpu_lent_output(run->lent, place);
		return SGPU_OK;
	}
	if (place) {
		return sgpu_leases_source(run->leases, place, output->end.size, true,
					  &output->region, error);
	}
	if (output->all->places && output->all->places[output->segment] > 0) {
		output->end.place = output->all->places[output->segment];
		return SGPU_OK;
	}
	return make_memory(output, error);
}

/* Writes bytes of the payload to their place, from `at` on. */
static int put(struct output *output, uint64_t at, const void *bytes, size_t size,
	       struct sgpu_error *error)
{
	const struct sgpu_run *run = output->all->run;

	if (output->data || output->leased) {
		memcpy((output->data ? output->data : output->leased) + at, bytes, size);
		return SGPU_OK;
	}
	if (output->region.fd >= 0) {
		return sgpu_pwrite(output->region.fd, output->region.name, bytes, size,
				   output->region.offset + at, error);
	}
	return sgpu_pwrite(run->submission.out_fd, run->submission.out_name, bytes, size,
			   output->end.place + at, error);
}

static int put_header(struct output *output, struct sgpu_error *error)
{
	return is_sealed(output)
		       ? put(output, 0,
			     sgpu_run_result_header(output->all->run, number_in_batch(output)),
			     SGPU_SEALED_HEADER, error)
		       : SGPU_OK;
}

static int set_size(struct output *output, uint64_t actual, struct sgpu_error *error)
{
	output->end.size = output->end.actual = actual;
	return is_sealed(output) && !sgpu_sealed_size(actual, &output->end.size)
		       ? sgpu_fail(error, SGPU_EINVALID, "it is too large to be sealed")
		       : SGPU_OK;
}

static void drop_small(struct output *output)
{
	if (output->small) {
		sgpu_staging_give(run_device(output)->engine, output->small->staging);
		free(output->small);
		output->small = NULL;
	}
}

/* Ends an output. rc: SGPU_OK, or why it failed. */
static void end_output(struct output *output, int rc, const char *text)
{
	struct sgpu_outputs *all = output->all;

	sgpu_run_drop_key(all->run, number_in_batch(output), true);
	sgpu_source_close(&output->region);
	if ((rc == SGPU_ESYSTEM || rc == SGPU_ENOSPACE) && output->end.place > 0) {
		(void)sgpu_fail(&all->file_error, rc, "%s", text ? text : "");
	}
	if (rc != SGPU_OK) {
		fail_output(output, rc, text);
	} else {
		output->end.whole = true;
		output->end.data = output->data;
		atomic_fetch_add(&all->run->trace.bytes_out, output->data ? 0 : output->end.size);
	}
	drop_small(output); /* the text may lie in its task */
}

/* ---- small outputs ---- */
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

/* Takes staging memory that the device reaches; NULL: there is none now. */
static struct small *new_small(struct output *output, uint64_t size)
{
	struct sgpu_engine *engine = run_device(output)->engine;
	struct small *small = calloc(1, sizeof(*small));
	void *host = NULL;

	if (!small || sgpu_staging_take(engine, &small->staging, &host, NULL) != SGPU_OK ||
	    !small->staging) {
		free(small);
		return NULL;
	}
	small->host = host;
	if (is_sealed(output) && !sgpu_device_reaches(run_device(output)->device, host,
						      sgpu_run_sealed_size(size, true), true)) {
		sgpu_staging_give(engine, small->staging);
		free(small);
		return NULL;
	}
	return small;
}

/* Enqueues the sealing, or the copy and the digest, of an output to staging memory. What cannot
 * follow now begins when the operation has ended. */
static void follow(struct output *output, struct sgpu_stream *stream, uint64_t size)
{
	struct sgpu_run *run = output->all->run;
	const struct sgpu_plan *plan = run->job.plan;
	struct sgpu_device_key *key = NULL;
	struct small *small;
	int rc;

	if (!is_sealed(output) && plan->buffers[plan->out_buffer[output->segment]].shared) {
		return; /* if the operation does not run, another segment's plaintext is there */
	}
	if ((is_sealed(output) &&
	     sgpu_run_key(run, number_in_batch(output), true, &key, NULL) != SGPU_OK) ||
	    !(small = new_small(output, size))) {
		return;
	}
	output->small = small;
	const struct sgpu_work seal = { .kind = SGPU_WORK_SEAL_TO,
					.in = memory_of(output),
					.to = small->host,
					.size = size,
					.key = key,
					.last = true,
					.alone = true,
					.task = &small->seal };
	const struct sgpu_work copy[] = { { .kind = SGPU_WORK_COPY_OUT,
					    .in = memory_of(output),
					    .to = small->host,
					    .size = size,
					    .task = &small->copy },
					  { .kind = SGPU_WORK_DIGEST,
					    .in = memory_of(output),
					    .to = output->end.digest,
					    .size = size,
					    .task = &small->seal } };

	rc = key ? sgpu_enqueue(stream, &seal, 1) : sgpu_enqueue(stream, copy, 2);
	if (rc != SGPU_OK && small->copy.code == SGPU_OK && small->seal.code == SGPU_OK) {
		small->seal.code = rc;
	}
}

void sgpu_outputs_follow(struct sgpu_run *run, int operation, const struct sgpu_op_call *call,
			 struct sgpu_stream *stream)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];

	if (call->op->at_most && call->op->at_most(call)) {
		return; /* only the operation knows how large its outputs are */
	}
	for (int i = 0; i < op->arg_count; i++) {
		const struct sgpu_segment *s = &run->job.manifest->segments[op->args[i].segment];
		uint64_t size = 0;

		if (op->args[i].output && sgpu_segment_is_output(s) &&
		    sgpu_type_bytes(&s->type, &size) && size <= SGPU_TRANSFER_SMALL) {
			follow(&run->outputs->list[op->args[i].segment], stream, size);
		}
	}
}

/* Brings a small output, whose operation has succeeded, from staging memory to its place. */
static void place_small(struct output *output)
{
	const uint64_t header = is_sealed(output) ? SGPU_SEALED_HEADER : 0;
	const struct small *small = output->small;
	const struct sgpu_task *bad = small->copy.code != SGPU_OK ? &small->copy : &small->seal;
	struct sgpu_run *run = output->all->run;
	struct sgpu_error error = { 0 };
	uint64_t paths[SGPU_PATHS] = { 0 }, bytes;
	int rc = bad->code;

	bytes = output->end.size - header;
	sgpu_trace_step(&run->trace, device_of(output),
			&(struct sgpu_transfer_span){ .step = header > 0 ? SGPU_STEP_SEAL
									 : SGPU_STEP_COPY_OUT,
						      .row = SGPU_ENGINE_SEAL,
						      .begin_ns = small->seal.begin_ns,
						      .end_ns = small->seal.end_ns,
						      .bytes = bytes },
			in_batch(output)->id);
	if (rc != SGPU_OK) {
		end_output(output, rc, bad->error.text);
		return;
	}
	paths[run->runner->traits.pins ? SGPU_PATH_PINNED : SGPU_PATH_PAGEABLE] = bytes;
	sgpu_trace_paths(&run->trace, true, paths);
	rc = find_place(output, &error);
	rc = rc ? rc : put_header(output, &error);
	rc = rc ? rc : put(output, header, small->host, (size_t)bytes, &error);
	end_output(output, rc, error.text);
}

/* ---- large outputs ---- */
static void note_span(void *argument, const struct sgpu_transfer_span *span)
{
	const struct output *output = argument;

	sgpu_trace_step(&output->all->run->trace, device_of(output), span, in_batch(output)->id);
}

static int make_sink(struct output *output, struct sgpu_transfer_sink *sink,
		     struct sgpu_error *error)
{
	const struct sgpu_run *run = output->all->run;
	const uint64_t header = is_sealed(output) ? SGPU_SEALED_HEADER : 0;
	struct sgpu_engine *engine = run_device(output)->engine;

	if (output->leased) {
		*sink = sgpu_sink_to_memory(output->leased + header,
					    run->job.options->leases_registered);
	} else if (output->data) {
		*sink = sgpu_sink_to_memory(output->data + header, output->pinned);
	} else if (output->region.fd >= 0) {
		return sgpu_sink_to_file(engine, output->region.fd, output->region.name,
					 output->region.offset + header, true, sink, error);
	} else {
		return sgpu_sink_to_file(engine, run->submission.out_fd, run->submission.out_name,
					 output->end.place + header, false, sink, error);
	}
	return SGPU_OK;
}

static int begin_large(struct output *output, struct sgpu_error *error)
{
	struct sgpu_run *run = output->all->run;
	const bool sealed = is_sealed(output);
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_OUT,
		.last = sealed,
		.memory = memory_of(output),
		.size = output->end.actual,
		.digested = !sealed,
		.rank = run->rank,
		.span = note_span,
		.argument = output,
	};
	int rc = sealed ? sgpu_run_key(run, number_in_batch(output), true, &request.key, error)
			: SGPU_OK;

	rc = rc ? rc : find_place(output, error);
	rc = rc ? rc : put_header(output, error);
	rc = rc ? rc
		: sgpu_run_get_stream(run, device_of(output), SGPU_RUN_COPY_OUT, &request.copy,
				      error);
	rc = rc ? rc
		: sgpu_run_get_stream(run, device_of(output), SGPU_RUN_SEAL, &request.crypt, error);
	rc = rc ? rc : make_sink(output, &request.sink, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_transfer_begin(run_device(output)->engine, &request, &output->transfer, error);
	if (rc != SGPU_OK && request.sink.close) {
		request.sink.close(request.sink.context);
	}
	return rc;
}

bool sgpu_outputs_advance(struct sgpu_run *run)
{
	bool any = false;

	for (struct output **link = &run->outputs->under_way; *link;) {
		struct output *output = *link;
		const struct sgpu_transfer_result *result;

		any |= sgpu_transfer_step(output->transfer);
		result = sgpu_transfer_end(output->transfer);
		if (!result) {
			link = &output->next;
			continue;
		}
		*link = output->next;
		memcpy(output->end.digest, result->digest, sizeof(output->end.digest));
		sgpu_trace_paths(&run->trace, true, result->bytes);
		end_output(output, result->code, result->error.text);
		sgpu_transfer_free(&output->transfer);
	}
	return any;
}

/* ---- the outputs of an operation ---- */
void sgpu_outputs_begin(struct sgpu_run *run, int operation, const struct sgpu_op_call *call,
			bool failed, uint64_t elements)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];

	for (int i = 0; i < op->arg_count; i++) {
		const struct sgpu_segment *s = &run->job.manifest->segments[op->args[i].segment];
		struct output *output = &run->outputs->list[op->args[i].segment];
		struct sgpu_error error = { 0 };
		uint64_t actual = 0;
		int rc = atomic_load(&run->stop);

		if (!op->args[i].output || !sgpu_segment_is_output(s)) {
			continue;
		}
		if (failed) {
			drop_small(output);
			continue;
		}
		rc = rc ? rc : actual_size(s, call, elements, &actual, &error);
		rc = rc ? rc : set_size(output, actual, &error);
		if (rc == SGPU_OK && output->small) {
			place_small(output);
			continue;
		}
		rc = rc ? rc : begin_large(output, &error);
		if (rc != SGPU_OK) {
			end_output(output, rc, error.text);
		} else {
			output->next = run->outputs->under_way;
			run->outputs->under_way = output;
		}
	}
}

void sgpu_outputs_stop(struct sgpu_run *run, int rc)
{
	for (struct output *o = run->outputs->under_way; o; o = o->next) {
		sgpu_transfer_stop(o->transfer, rc);
	}
}

bool sgpu_outputs_pending(const struct sgpu_run *run)
{
	return run->outputs->under_way != NULL;
}

bool sgpu_outputs_placed(const struct sgpu_run *run)
{
	return run->outputs->places != NULL;
}

int sgpu_outputs_file_failure(const struct sgpu_run *run, struct sgpu_error *error)
{
	if (run->outputs->file_error.code != SGPU_OK) {
		*error = run->outputs->file_error;
	}
	return run->outputs->file_error.code;
}

const struct sgpu_output_end *sgpu_output_get(const struct sgpu_run *run, int segment)
{
	return &run->outputs->list[segment].end;
}

/* ---- creation ---- */
int sgpu_outputs_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const int count = run->job.manifest->segment_count;
	struct sgpu_outputs *made = calloc(1, sizeof(*made));

	run->outputs = made;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->run = run;
	made->list = calloc((size_t)count + 1, sizeof(*made->list));
	if (!made->list) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < count; i++) {
		made->list[i].all = made;
		made->list[i].segment = i;
		made->list[i].region.fd = -1;
	}
	return sgpu_respond_plan(run, &made->places, error);
}

void sgpu_outputs_free(struct sgpu_run *run)
{
	struct sgpu_outputs *made = run->outputs;

	if (!made) {
		return;
	}
	for (int i = 0; made->list && i < run->job.manifest->segment_count; i++) {
		drop_small(&made->list[i]);
		drop_memory(&made->list[i]);
		free(made->list[i].text);
	}
	free(made->list);
	free(made->places);
	free(made);
	run->outputs = NULL;
}
