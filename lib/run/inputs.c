/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs. An input has arrived only when every tag and the end mark, or the digest, have verified
 * on the device's own copy; until then no operation that reads it is enqueued.
 *
 * Small payloads go together (small.c), large ones are transfers.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "batch/tar.h"
#include "run/input.h"

/* ---- the end of an input ---- */
/* Frees the resources of an input that has ended, and tells the graph. */
void sgpu_input_end(struct input *input)
{
	struct sgpu_run *run = input_run(input);

	sgpu_run_drop_key(run, input_number(input), false);
	sgpu_source_close(&input->file);
	sgpu_transfer_free(&input->transfer);
	sgpu_graph_arrived(run, input->segment, input->code, input->text);
	if (input->code == SGPU_OK) {
		sgpu_moves_make(run, input->segment);
	}
}

void sgpu_input_fail(struct input *input, int rc, const char *text)
{
	input->begun = true;
	input->code = sgpu_run_failure(input_run(input), "segment", input_segment(input)->id, rc,
				       text, &input->text);
}

/* Fails an input whose chunk number `chunk` or whose digest does not verify. */
void sgpu_input_fail_unverified(struct input *input, uint64_t chunk)
{
	char text[64] = "its kt128 is not the one that the batch names";

	if (input_segment(input)->sealed) {
		snprintf(text, sizeof(text), "chunk %llu does not verify",
			 (unsigned long long)chunk);
	}
	sgpu_input_fail(input, SGPU_EAUTH, text);
}

void sgpu_input_miss(struct input *input, int rc, const char *text)
{
	sgpu_input_fail(input, rc == SGPU_OK ? SGPU_EINVALID : rc, text);
	sgpu_input_end(input);
}

/* ---- where the bytes come from ---- */
static int read_tar(void *context, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error)
{
	struct input *input = context;

	(void)position;
	input->all->tar_code = sgpu_tar_read(input_run(input)->tar, data, size, error);
	return input->all->tar_code;
}

/* Whether reading so many bytes of the batch has to wait for whoever writes it. */
static bool tar_waits(const struct sgpu_tar_reader *tar, uint64_t size)
{
	struct pollfd fd = { .fd = tar->fd, .events = POLLIN };
	int there = 0;

	if (tar->seekable || poll(&fd, 1, 0) < 0 || fd.revents & (POLLHUP | POLLERR)) {
		return false;
	}
	return !(fd.revents & POLLIN) ||
	       (ioctl(tar->fd, FIONREAD, &there) == 0 && (uint64_t)there < size);
}

static bool payload_waits(void *context)
{
	const struct input *input = context;

	return tar_waits(input_run(input)->tar, SGPU_TRANSFER_SLICE);
}

/* Reads bytes of a payload that is not in a lease, in order. */
int sgpu_input_read(struct input *input, uint64_t from, void *data, size_t size,
		    struct sgpu_error *error)
{
	size_t got = 0;
	int rc;

	if (input->file.fd < 0) {
		return read_tar(input, from, data, size, error);
	}
	rc = sgpu_pread(input->file.fd, input->file.name, data, size, input->file.offset + from,
			&got, error);
	return rc != SGPU_OK || got == size
		       ? rc
		       : sgpu_fail(error, SGPU_ESYSTEM, "'%s' ends too early", input->file.name);
}

/* If the batch is a file, notes where a large payload lies in it, so that workers read it. */
static void find_in_file(struct input *input)
{
	const struct sgpu_tar_reader *tar = input_run(input)->tar;

	if (!sgpu_run_is_small(input_size(input)) && tar->seekable) {
		input->file = (struct sgpu_source){ .fd = tar->fd,
						    .offset = tar->position,
						    .size = input_size(input) };
		snprintf(input->file.name, sizeof(input->file.name), "%s", tar->name);
	}
}

/* The index has verified, so a payload that begins otherwise is not the owner's. */
static int check_header(struct input *input, const uint8_t header[SGPU_SEALED_HEADER],
			struct sgpu_error *error)
{
	atomic_fetch_add(&input_run(input)->trace.bytes_in, SGPU_SEALED_HEADER);
	return sgpu_equal(header, input_segment(input)->header, SGPU_SEALED_HEADER)
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EAUTH,
				   "the payload does not begin as the index says");
}

/* Checks the header, of which the client may change its own copy in a lease, and gets the key. */
int sgpu_input_prepare(struct input *input, const uint8_t *from, struct sgpu_device_key **key,
		       struct sgpu_error *error)
{
	uint8_t header[SGPU_SEALED_HEADER];
	int rc = SGPU_OK;

	*key = NULL;
	if (!input_segment(input)->sealed) {
		return SGPU_OK;
	}
	if (from) {
		memcpy(header, from, sizeof(header));
	} else {
		rc = sgpu_input_read(input, 0, header, sizeof(header), error);
	}
	rc = rc ? rc : check_header(input, header, error);
	return rc ? rc : sgpu_run_key(input_run(input), input_number(input), false, key, error);
}

/* ---- large payloads ---- */
/* Whether the run has nothing under way but the reading of this input, which may be NULL. */
static bool has_nothing_else(const struct sgpu_run *run, const struct input *input)
{
	const struct sgpu_inputs *inputs = run->inputs;
	const bool alone = !inputs->under_way || (inputs->under_way == input && !input->next &&
						  sgpu_transfer_is_idle(input->transfer));

	return alone && !inputs->enqueued && !sgpu_operations_pending(run) &&
	       !sgpu_outputs_pending(run);
}

/* Goes on with whatever there is while the payload's next bytes are not there yet. */
static void go_on(void *context)
{
	struct input *input = context;
	struct sgpu_run *run = input_run(input);
	uint64_t since = sgpu_now_ns();

	while (payload_waits(input)) {
		if (sgpu_run_advance(run)) { /* what has arrived may start something */
			since = sgpu_now_ns();
		} else if (has_nothing_else(run, input)) {
			return;
		} else {
			sgpu_run_pause(run, since);
		}
	}
}

static void note_span(void *argument, const struct sgpu_transfer_span *span)
{
	struct input *input = argument;

	sgpu_trace_step(&input_run(input)->trace, input_device(input), span,
			input_segment(input)->id);
	if (span->step == (input_segment(input)->sealed ? SGPU_STEP_OPEN : SGPU_STEP_COPY_IN)) {
		atomic_fetch_add(&input_run(input)->trace.bytes_in, span->bytes);
	}
}

static int find_source(struct input *input, struct sgpu_transfer_source *source,
		       struct sgpu_error *error)
{
	const struct sgpu_run *run = input_run(input);

	if (input_kind(input) == SGPU_LOCATION_LEASE) {
		*source = sgpu_source_from_memory(
			sgpu_lent_input(run->lent, &input_segment(input)->location) +
				input_header(input),
			run->job.options->leases_registered);
		return SGPU_OK;
	}
	if (input->file.fd < 0) {
		*source = (struct sgpu_transfer_source){ .read = read_tar,
							 .waits = payload_waits,
							 .meanwhile = go_on,
							 .ordered = true,
							 .context = input };
		return SGPU_OK;
	}
	return sgpu_source_from_file(input_engine(input), input->file.fd, input->file.name,
				     input->file.offset + input_header(input),
				     input_kind(input) == SGPU_LOCATION_REGION, source, error);
}

static int begin_large(struct input *input, struct sgpu_error *error)
{
	struct sgpu_run *run = input_run(input);
	const bool sealed = input_segment(input)->sealed;
	const uint8_t *lent = input_kind(input) == SGPU_LOCATION_LEASE
				      ? sgpu_lent_input(run->lent, &input_segment(input)->location)
				      : NULL;
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.last = sealed,
		.memory = input_memory(input),
		.size = input_size(input) - input_header(input),
		.digested = !sealed,
		.expected = input_segment(input)->kt128,
		.rank = run->rank,
		.span = note_span,
		.argument = input,
	};
	int rc = sgpu_input_prepare(input, lent, &request.key, error);

	rc = rc ? rc
		: sgpu_run_get_stream(run, input_device(input), SGPU_RUN_COPY_IN, &request.copy,
				      error);
	rc = rc ? rc
		: sgpu_run_get_stream(run, input_device(input), SGPU_RUN_OPEN, &request.crypt,
				      error);
	rc = rc ? rc : find_source(input, &request.source, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_transfer_begin(input_engine(input), &request, &input->transfer, error);
	if (rc != SGPU_OK && request.source.close) {
		request.source.close(request.source.context);
	}
	return rc;
}

static void end_large(struct input *input, const struct sgpu_transfer_result *result)
{
	struct sgpu_run *run = input_run(input);

	if (result->code == SGPU_EAUTH) {
		sgpu_input_fail_unverified(input, result->bad_chunk);
	} else if (result->code != SGPU_OK) {
		sgpu_input_fail(input, result->code, result->error.text);
	}
	sgpu_trace_paths(&run->trace, false, result->bytes);
	sgpu_input_end(input);
}

/* Returns when all of the payload was read. */
static void read_large(struct input *input)
{
	struct sgpu_run *run = input_run(input);
	uint64_t since = sgpu_now_ns();

	while (input->transfer && !sgpu_transfer_has_read(input->transfer)) {
		if (sgpu_run_advance(run) || (input->transfer && has_nothing_else(run, input) &&
					      sgpu_transfer_block(input->transfer))) {
			since = sgpu_now_ns();
		} else {
			sgpu_run_pause(run, since);
		}
	}
}

/* Goes on with whatever there is while the batch's next payload, or the beginning of a large one,
 * is not there yet. */
static void await_tar(struct sgpu_inputs *inputs)
{
	const uint64_t size = SGPU_TAR_BLOCK + SGPU_TRANSFER_SMALL, since = sgpu_now_ns();
	struct sgpu_run *run = inputs->run;

	if (tar_waits(run->tar, size)) {
		sgpu_inputs_flush(inputs);
	}
	while (tar_waits(run->tar, size) &&
	       (sgpu_run_advance(run) || !has_nothing_else(run, NULL))) {
		sgpu_run_pause(run, since);
	}
}

/* Brings in a payload, and returns when it was read. */
static void bring(struct input *input)
{
	struct sgpu_inputs *inputs = input->all;
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	if (input_kind(input) != SGPU_LOCATION_INLINE && input_kind(input) != SGPU_LOCATION_LEASE) {
		rc = sgpu_leases_source(input_run(input)->leases, &input_segment(input)->location,
					input_size(input), false, &input->file, &error);
	}
	if (rc == SGPU_OK && sgpu_run_is_small(input_size(input)) &&
	    sgpu_input_bring_small(input)) {
		return;
	}
	sgpu_inputs_flush(inputs); /* its payloads must not wait for this one */
	input->begun = true;
	rc = rc ? rc : begin_large(input, &error);
	if (rc != SGPU_OK) {
		sgpu_input_miss(input, rc, error.text);
		return;
	}
	input->next = inputs->under_way;
	inputs->under_way = input;
	read_large(input);
}

/* ---- all inputs ---- */
static int bring_inline(struct sgpu_inputs *inputs, struct input *input, struct sgpu_error *error)
{
	struct sgpu_tar_reader *tar = inputs->run->tar;

	find_in_file(input);
	if (input->file.fd >= 0) {
		sgpu_tar_consumed(tar, input_size(input));
	}
	bring(input);
	return inputs->tar_code == SGPU_OK
		       ? SGPU_OK
		       : sgpu_fail(error, inputs->tar_code, "%s", input->text ? input->text : "");
}

static int read_batch(struct sgpu_inputs *inputs, struct sgpu_error *error)
{
	struct sgpu_run *run = inputs->run;
	int index = -1, stop, rc;

	do {
		await_tar(inputs);
		rc = sgpu_batch_next_payload(run->tar, run->job.batch, &index, error);
		if (rc == SGPU_OK && index >= 0) {
			rc = bring_inline(inputs, &inputs->list[run->job.to_manifest[index]],
					  error);
			(void)sgpu_run_advance(run);
			stop = atomic_load(&run->stop);
			rc = stop ? sgpu_fail(error, stop, "the run was stopped") : rc;
		}
	} while (rc == SGPU_OK && index >= 0);
	return rc;
}

int sgpu_inputs_bring(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = run->job.manifest;
	struct sgpu_inputs *inputs = run->inputs;
	int rc;

	for (int i = 0; i < m->segment_count && atomic_load(&run->stop) == SGPU_OK; i++) {
		if (sgpu_segment_is_input(&m->segments[i]) &&
		    input_kind(&inputs->list[i]) != SGPU_LOCATION_INLINE) {
			bring(&inputs->list[i]);
		}
	}
	rc = read_batch(inputs, error);
	sgpu_inputs_flush(inputs);
	if (rc != SGPU_OK) {
		sgpu_run_stop(run, rc);
	}
	for (int i = 0; i < m->segment_count; i++) {
		if (sgpu_segment_is_input(&m->segments[i]) && !inputs->list[i].begun) {
			sgpu_input_miss(&inputs->list[i],
					rc != SGPU_OK ? rc : atomic_load(&run->stop),
					"it did not arrive");
		}
	}
	return rc;
}

bool sgpu_inputs_advance(struct sgpu_run *run)
{
	struct sgpu_inputs *inputs = run->inputs;
	bool any = sgpu_inputs_end_groups(inputs);

	for (struct input **link = &inputs->under_way; *link;) {
		struct input *input = *link;
		const struct sgpu_transfer_result *result;

		any |= sgpu_transfer_step(input->transfer);
		result = sgpu_transfer_end(input->transfer);
		if (result) {
			*link = input->next;
			end_large(input, result);
		} else {
			link = &input->next;
		}
	}
	return any;
}

bool sgpu_inputs_pending(const struct sgpu_run *run)
{
	return run->inputs->enqueued || run->inputs->under_way;
}

void sgpu_inputs_sync(struct sgpu_run *run)
{
	struct sgpu_stream *stream;

	if (run->inputs->enqueued &&
	    sgpu_run_plan_stream(run, sgpu_inputs_group_device(run->inputs), &stream, NULL) ==
		    SGPU_OK) {
		(void)!sgpu_stream_sync(stream, NULL); /* its tasks tell of failures */
	}
}

void sgpu_inputs_stop(struct sgpu_run *run, int rc)
{
	for (struct input *i = run->inputs->under_way; i; i = i->next) {
		sgpu_transfer_stop(i->transfer, rc);
	}
}

/* ---- creation ---- */
static int take_regions(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = run->job.batch;
	int rc = sgpu_leases_create(run->job.options->files, &run->leases, error);

	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		const struct sgpu_location *const both[] = { &batch->segments[i].location,
							     batch->segments[i].place };
		struct sgpu_source source = { .fd = -1 };

		/* If a region cannot be taken, the segments that need it fail later. */
		for (int k = 0; k < 2; k++) {
			if (both[k] && both[k]->kind == SGPU_LOCATION_REGION &&
			    sgpu_leases_source(run->leases, both[k], 0, k == 1, &source, NULL) ==
				    SGPU_OK) {
				sgpu_source_close(&source);
			}
		}
	}
	return rc;
}

int sgpu_inputs_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const int count = run->job.manifest->segment_count;
	struct sgpu_inputs *made = calloc(1, sizeof(*made));

	run->inputs = made;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->run = run;
	made->list = calloc((size_t)count + 1, sizeof(*made->list));
	if (!made->list) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < count; i++) {
		made->list[i] = (struct input){ .all = made, .segment = i, .file = { .fd = -1 } };
	}
	return take_regions(run, error);
}

void sgpu_inputs_free(struct sgpu_run *run)
{
	struct sgpu_inputs *made = run->inputs;

	if (!made) {
		return;
	}
	for (int i = 0; made->list && i < run->job.manifest->segment_count; i++) {
		free(made->list[i].text);
	}
	free(made->list);
	free(made);
	run->inputs = NULL;
}
