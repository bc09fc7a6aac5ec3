/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs. An input has arrived only when every tag and the end mark, or the digest, have verified
 * on the device's own copy; until then no operation that reads it is enqueued.
 *
 * Small payloads are read into staging memory, one after the other, and enqueued together; kernels
 * open them there, or where they lie. Large ones are transfers.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "batch/tar.h"
#include "run/private.h"
#include "stage/stage.h"

enum { GROUP_MAX = 64, GROUP_BUFFERS = 16, LINE = 64 };

struct input {
	struct input *next; /* among the transfers under way */
	struct sgpu_inputs *all;
	int segment;
	bool begun;
	bool prepared; /* its header and its key are valid */
	struct sgpu_transfer *transfer;
	struct sgpu_source file; /* file or region with the payload; fd -1: none */
	int code;
	char *text; /* why it failed */
};

/* A small payload on its way. */
struct member {
	struct input *input;
	struct sgpu_task copy, check;
	uint8_t digest[SGPU_KT128_SIZE];
};

/* Small payloads of one device that are enqueued together. */
struct group {
	struct group *next;
	int device, count, work_count, buffer_count;
	struct member members[GROUP_MAX];
	struct sgpu_work works[2 * GROUP_MAX];
	struct sgpu_staging_buffer *buffers[GROUP_BUFFERS];
	uint8_t *slab; /* where the next payload may begin, and how many bytes are left there */
	uint64_t left;
	struct sgpu_event *ended;
};

struct sgpu_inputs {
	struct input *list; /* by segment of the manifest */
	struct input *under_way;
	struct group *filling;	/* not enqueued yet, or NULL */
	struct group *enqueued; /* oldest first */
	int tar_code;		/* SGPU_OK, or why the batch itself cannot be read any more */
	struct sgpu_run *run;
};

static struct sgpu_run *run_of(const struct input *input)
{
	return input->all->run;
}

static const struct sgpu_batch_segment *in_batch(const struct input *input)
{
	return sgpu_run_segment(run_of(input), input->segment);
}

static int number_in_batch(const struct input *input)
{
	return run_of(input)->job.in_batch[input->segment];
}

static enum sgpu_location_kind kind_of(const struct input *input)
{
	return in_batch(input)->location.kind;
}

static uint64_t payload_size(const struct input *input)
{
	return sgpu_batch_payload_size(run_of(input)->job.batch, number_in_batch(input));
}

static uint64_t header_size(const struct input *input)
{
	return in_batch(input)->sealed ? SGPU_SEALED_HEADER : 0;
}

static int device_of(const struct input *input)
{
	const struct sgpu_plan *plan = run_of(input)->job.plan;

	return plan->buffers[plan->in_buffer[input->segment]].device;
}

static struct sgpu_engine *engine_of(const struct input *input)
{
	return run_of(input)->devices[device_of(input)].engine;
}

static sgpu_devptr memory_of(const struct input *input)
{
	const struct sgpu_run *run = run_of(input);

	return run->memory.buffers[run->job.plan->in_buffer[input->segment]];
}

/* ---- the end of an input ---- */
/* Frees the resources of an input that has ended, and tells the graph. */
static void end_input(struct input *input)
{
	struct sgpu_run *run = run_of(input);

	sgpu_run_drop_key(run, number_in_batch(input));
	sgpu_source_close(&input->file);
	sgpu_transfer_free(&input->transfer);
	sgpu_graph_arrived(run, input->segment, input->code, input->text);
	if (input->code == SGPU_OK) {
		sgpu_moves_make(run, input->segment);
	}
}

static void fail_input(struct input *input, int rc, const char *text)
{
	input->begun = true;
	input->code = sgpu_run_failure(run_of(input), "segment", in_batch(input)->id, rc, text,
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

static void miss_input(struct input *input, int rc, const char *text)
{
	fail_input(input, rc == SGPU_OK ? SGPU_EINVALID : rc, text);
	end_input(input);
}

/* ---- where the bytes come from ---- */
static int read_tar(void *context, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error)
{
	struct input *input = context;

	(void)position;
	input->all->tar_code = sgpu_tar_read(run_of(input)->tar, data, size, error);
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

	return tar_waits(run_of(input)->tar, 1);
}

/* Reads bytes of a payload that is not in a lease, in order. */
static int read_payload(struct input *input, uint64_t from, void *data, size_t size,
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
	const struct sgpu_tar_reader *tar = run_of(input)->tar;

	if (!sgpu_run_is_small(payload_size(input)) && tar->seekable) {
		input->file = (struct sgpu_source){ .fd = tar->fd,
						    .offset = tar->position,
						    .size = payload_size(input) };
		snprintf(input->file.name, sizeof(input->file.name), "%s", tar->name);
	}
}

/* The index has verified, so a payload that begins otherwise is not the owner's. */
static int check_header(struct input *input, const uint8_t header[SGPU_SEALED_HEADER],
			struct sgpu_error *error)
{
	atomic_fetch_add(&run_of(input)->trace.bytes_in, SGPU_SEALED_HEADER);
	return sgpu_equal(header, in_batch(input)->header, SGPU_SEALED_HEADER)
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EAUTH,
				   "the payload does not begin as the index says");
}

/* Checks the header, of which the client may change its own copy in a lease, and gets the key. */
static int prepare_sealed(struct input *input, const uint8_t *from, struct sgpu_device_key **key,
			  struct sgpu_error *error)
{
	uint8_t header[SGPU_SEALED_HEADER];
	int rc = SGPU_OK;

	*key = NULL;
	if (!in_batch(input)->sealed) {
		return SGPU_OK;
	}
	if (from) {
		memcpy(header, from, sizeof(header));
	} else {
		rc = read_payload(input, 0, header, sizeof(header), error);
	}
	rc = rc ? rc : check_header(input, header, error);
	return rc ? rc : sgpu_run_key(run_of(input), number_in_batch(input), key, error);
}

/* ---- small payloads ---- */
static void end_member(const struct member *member)
{
	const struct sgpu_task *bad = member->copy.code != SGPU_OK ? &member->copy : &member->check;
	struct input *input = member->input;
	struct sgpu_run *run = run_of(input);
	const bool sealed = in_batch(input)->sealed;
	const uint64_t bytes = payload_size(input) - header_size(input);
	uint64_t paths[SGPU_PATHS] = { 0 };
	struct sgpu_stream *stream;

	if (bad->code == SGPU_EAUTH) {
		fail_unverified(input, bad->bad_chunk);
	} else if (bad->code != SGPU_OK) {
		fail_input(input, bad->code, bad->error.text);
	} else if (!sealed &&
		   !sgpu_equal(in_batch(input)->kt128, member->digest, SGPU_KT128_SIZE)) {
		fail_unverified(input, 0);
		if (sgpu_run_plan_stream(run, device_of(input), &stream, NULL) == SGPU_OK) {
			(void)!sgpu_device_clear(stream, memory_of(input), bytes, NULL);
			run->unsure = true;
		}
	}
	sgpu_trace_step(
		&run->trace, device_of(input),
		&(struct sgpu_transfer_span){ .step = sealed ? SGPU_STEP_OPEN : SGPU_STEP_COPY_IN,
					      .row = SGPU_ENGINE_OPEN,
					      .begin_ns = member->check.begin_ns,
					      .end_ns = member->check.end_ns,
					      .bytes = bytes },
		in_batch(input)->id);
	paths[!run->runner->traits.pins		      ? SGPU_PATH_PAGEABLE
	      : kind_of(input) == SGPU_LOCATION_LEASE ? SGPU_PATH_REGISTERED
						      : SGPU_PATH_PINNED] =
		input->code == SGPU_OK ? bytes : 0;
	sgpu_trace_paths(&run->trace, false, paths);
	end_input(input);
}

static void end_group(struct sgpu_inputs *inputs, struct group *group)
{
	const struct sgpu_run_device *device = &inputs->run->devices[group->device];

	for (int i = 0; i < group->buffer_count; i++) {
		sgpu_staging_give(device->engine, group->buffers[i]);
	}
	sgpu_event_free(&group->ended);
	for (int i = 0; i < group->count; i++) {
		end_member(&group->members[i]);
	}
	free(group);
}

/* Enqueues the group that is being filled. */
static void flush(struct sgpu_inputs *inputs)
{
	struct group *group = inputs->filling, **last = &inputs->enqueued;
	struct sgpu_run *run = inputs->run;
	struct sgpu_stream *stream = NULL;
	struct sgpu_error error = { 0 };
	int rc;

	if (!group) {
		return;
	}
	inputs->filling = NULL;
	rc = sgpu_run_plan_stream(run, group->device, &stream, &error);
	rc = rc ? rc : sgpu_event_create(run->devices[group->device].device, &group->ended, &error);
	rc = rc ? rc : sgpu_enqueue(stream, group->works, group->work_count);
	rc = rc ? rc : sgpu_event_record(stream, group->ended);
	if (rc != SGPU_OK) { /* of what was enqueued nobody must hear any more */
		(void)!(stream ? sgpu_stream_sync(stream, NULL) : SGPU_OK);
		for (int i = 0; i < group->count; i++) {
			struct member *member = &group->members[i];
			const struct input *input = member->input;

			if (member->check.code == SGPU_OK && member->copy.code == SGPU_OK) {
				member->check.code =
					sgpu_fail(&member->check.error, rc, "%s",
						  error.text[0] ? error.text : sgpu_strerror(rc));
			}
			(void)!sgpu_device_clear(stream, memory_of(input), in_batch(input)->size,
						 NULL);
		}
		(void)!(stream ? sgpu_stream_sync(stream, NULL) : SGPU_OK);
		end_group(inputs, group);
		return;
	}
	while (*last) {
		last = &(*last)->next;
	}
	*last = group;
}

/* Finds room for a payload in the group's staging memory; NULL: there is none. */
static uint8_t *find_room(struct input *input, struct group *group, uint64_t size)
{
	const uint64_t room = (size + LINE - 1) / LINE * LINE;
	struct sgpu_staging_buffer *buffer = NULL;
	void *host = NULL;
	uint8_t *at;

	if (room > group->left) {
		if (group->buffer_count == GROUP_BUFFERS ||
		    sgpu_staging_take(engine_of(input), &buffer, &host, NULL) != SGPU_OK ||
		    !buffer) {
			return NULL;
		}
		group->buffers[group->buffer_count++] = buffer;
		group->slab = host;
		group->left = SGPU_TRANSFER_SMALL + 2 * SGPU_CHUNK;
	}
	at = group->slab;
	group->slab += room;
	group->left -= room;
	return at;
}

/* Adds the work of a payload at `from` to the group. */
static void add_work(struct input *input, struct group *group, const uint8_t *from,
		     struct sgpu_device_key *key)
{
	struct member *member = &group->members[group->count++];
	struct sgpu_work *works = &group->works[group->work_count];
	const uint64_t size = payload_size(input) - header_size(input);

	if (key) {
		works[0] = (struct sgpu_work){ .kind = SGPU_WORK_OPEN_FROM,
					       .from = from + SGPU_SEALED_HEADER,
					       .out = memory_of(input),
					       .size = size,
					       .key = key,
					       .last = true,
					       .alone = kind_of(input) != SGPU_LOCATION_LEASE,
					       .task = &member->check };
		group->work_count++;
	} else {
		works[0] = (struct sgpu_work){ .kind = SGPU_WORK_COPY_IN,
					       .from = from,
					       .out = memory_of(input),
					       .size = size,
					       .task = &member->copy };
		works[1] = (struct sgpu_work){ .kind = SGPU_WORK_DIGEST,
					       .in = memory_of(input),
					       .to = member->digest,
					       .size = size,
					       .task = &member->check };
		group->work_count += 2;
	}
	atomic_fetch_add(&run_of(input)->trace.bytes_in, size);
	member->input = input;
}

/* The group for one more payload of the input's device; NULL: out of memory. */
static struct group *group_for(struct input *input)
{
	struct sgpu_inputs *inputs = input->all;

	if (inputs->filling &&
	    (inputs->filling->device != device_of(input) || inputs->filling->count == GROUP_MAX)) {
		flush(inputs);
	}
	if (!inputs->filling) {
		inputs->filling = calloc(1, sizeof(*inputs->filling));
		if (inputs->filling) {
			inputs->filling->device = device_of(input);
		}
	}
	return inputs->filling;
}

/* Brings in a small payload. Returns false if it has to be brought in as a large one. */
static bool bring_small(struct input *input)
{
	const uint64_t size = payload_size(input), begin = sgpu_now_ns();
	const bool leased = kind_of(input) == SGPU_LOCATION_LEASE;
	const uint8_t *from =
		leased ? sgpu_lent_input(run_of(input)->lent, &in_batch(input)->location) : NULL;
	struct group *group = group_for(input);
	struct sgpu_device_key *key = NULL;
	struct sgpu_error error = { 0 };
	uint8_t *staged = group && !leased ? find_room(input, group, size) : NULL;
	int rc = SGPU_OK;

	if (!group || (!leased && !staged) ||
	    (in_batch(input)->sealed &&
	     !sgpu_device_reaches(run_of(input)->devices[device_of(input)].device,
				  (leased ? from : staged) + SGPU_SEALED_HEADER,
				  size - SGPU_SEALED_HEADER, false))) {
		return false;
	}
	input->begun = true;
	if (staged) {
		rc = read_payload(input, 0, staged, size, &error);
		from = staged;
		sgpu_trace_add(&run_of(input)->trace, SGPU_SPAN_READ, -1, in_batch(input)->id,
			       begin, sgpu_now_ns(), size);
	}
	rc = rc ? rc : prepare_sealed(input, from, &key, &error);
	if (rc != SGPU_OK) {
		miss_input(input, rc, error.text);
	} else {
		add_work(input, group, from, key);
	}
	return true;
}

/* ---- large payloads ---- */
static void note_span(void *argument, const struct sgpu_transfer_span *span)
{
	struct input *input = argument;

	sgpu_trace_step(&run_of(input)->trace, device_of(input), span, in_batch(input)->id);
	if (span->step == (in_batch(input)->sealed ? SGPU_STEP_OPEN : SGPU_STEP_COPY_IN)) {
		atomic_fetch_add(&run_of(input)->trace.bytes_in, span->bytes);
	}
}

static int find_source(struct input *input, struct sgpu_transfer_source *source,
		       struct sgpu_error *error)
{
	const struct sgpu_run *run = run_of(input);

	if (kind_of(input) == SGPU_LOCATION_LEASE) {
		*source = sgpu_source_from_memory(
			sgpu_lent_input(run->lent, &in_batch(input)->location) + header_size(input),
			run->job.options->leases_registered);
		return SGPU_OK;
	}
	if (input->file.fd < 0) {
		*source = (struct sgpu_transfer_source){
			.read = read_tar, .waits = payload_waits, .ordered = true, .context = input
		};
		return SGPU_OK;
	}
	return sgpu_source_from_file(engine_of(input), input->file.fd, input->file.name,
				     input->file.offset + header_size(input),
				     kind_of(input) == SGPU_LOCATION_REGION, source, error);
}

static int begin_large(struct input *input, struct sgpu_error *error)
{
	struct sgpu_run *run = run_of(input);
	const bool sealed = in_batch(input)->sealed;
	const uint8_t *lent = kind_of(input) == SGPU_LOCATION_LEASE
				      ? sgpu_lent_input(run->lent, &in_batch(input)->location)
				      : NULL;
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.last = sealed,
		.memory = memory_of(input),
		.size = payload_size(input) - header_size(input),
		.digested = !sealed,
		.expected = in_batch(input)->kt128,
		.rank = run->rank,
		.span = note_span,
		.argument = input,
	};
	int rc = prepare_sealed(input, lent, &request.key, error);

	rc = rc ? rc
		: sgpu_run_get_stream(run, device_of(input), SGPU_RUN_COPY_IN, &request.copy,
				      error);
	rc = rc ? rc
		: sgpu_run_get_stream(run, device_of(input), SGPU_RUN_OPEN, &request.crypt, error);
	rc = rc ? rc : find_source(input, &request.source, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	input->prepared = true;
	rc = sgpu_transfer_begin(engine_of(input), &request, &input->transfer, error);
	if (rc != SGPU_OK && request.source.close) {
		request.source.close(request.source.context);
	}
	return rc;
}

static void end_large(struct input *input, const struct sgpu_transfer_result *result)
{
	struct sgpu_run *run = run_of(input);

	if (result->code == SGPU_EAUTH) {
		fail_unverified(input, result->bad_chunk);
	} else if (result->code != SGPU_OK) {
		fail_input(input, result->code, result->error.text);
	}
	sgpu_trace_paths(&run->trace, false, result->bytes);
	end_input(input);
}

/* Whether the run has nothing under way but this input, which may be NULL. */
static bool has_nothing_else(const struct sgpu_run *run, const struct input *input)
{
	const struct sgpu_inputs *inputs = run->inputs;

	return !inputs->enqueued &&
	       (!inputs->under_way || (inputs->under_way == input && !input->next)) &&
	       !sgpu_operations_pending(run) && !sgpu_outputs_pending(run);
}

/* Returns when all of the payload was read. While that has to wait, whatever else there is goes
 * on. */
static void read_large(struct input *input)
{
	struct sgpu_run *run = run_of(input);
	uint64_t since = sgpu_now_ns();

	while (input->transfer && !sgpu_transfer_has_read(input->transfer)) {
		if (sgpu_run_advance(run)) {
			since = sgpu_now_ns();
		} else if (input->transfer && has_nothing_else(run, input) &&
			   payload_waits(input)) {
			(void)sgpu_transfer_block(input->transfer);
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
		flush(inputs);
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

	if (kind_of(input) != SGPU_LOCATION_INLINE && kind_of(input) != SGPU_LOCATION_LEASE) {
		rc = sgpu_leases_source(run_of(input)->leases, &in_batch(input)->location,
					payload_size(input), false, &input->file, &error);
	}
	if (rc == SGPU_OK && sgpu_run_is_small(payload_size(input)) && bring_small(input)) {
		return;
	}
	flush(inputs); /* its payloads must not wait for this one */
	input->begun = true;
	rc = rc ? rc : begin_large(input, &error);
	if (rc != SGPU_OK) {
		miss_input(input, rc, error.text);
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
		sgpu_tar_consumed(tar, payload_size(input));
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
		    kind_of(&inputs->list[i]) != SGPU_LOCATION_INLINE) {
			bring(&inputs->list[i]);
		}
	}
	rc = read_batch(inputs, error);
	flush(inputs);
	if (rc != SGPU_OK) {
		sgpu_run_stop(run, rc);
	}
	for (int i = 0; i < m->segment_count; i++) {
		if (sgpu_segment_is_input(&m->segments[i]) && !inputs->list[i].begun) {
			miss_input(&inputs->list[i], rc != SGPU_OK ? rc : atomic_load(&run->stop),
				   "it did not arrive");
		}
	}
	return rc;
}

bool sgpu_inputs_advance(struct sgpu_run *run)
{
	struct sgpu_inputs *inputs = run->inputs;
	bool any = false, done = false;

	while (inputs->enqueued) {
		struct group *group = inputs->enqueued;

		if (sgpu_event_query(group->ended, &done, NULL) == SGPU_OK && !done) {
			break;
		}
		inputs->enqueued = group->next;
		end_group(inputs, group);
		any = true;
	}
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
	    sgpu_run_plan_stream(run, run->inputs->enqueued->device, &stream, NULL) == SGPU_OK) {
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
