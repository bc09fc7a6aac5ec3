/* SPDX-License-Identifier: Apache-2.0
 *
 * Small payloads: read into staging memory, one after the other, and enqueued together; kernels
 * open them there, or where they lie.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "run/input.h"

enum { GROUP_MAX = 64, GROUP_BUFFERS = 16, LINE = 64 };

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

static void end_member(const struct member *member)
{
	const struct sgpu_task *bad = member->copy.code != SGPU_OK ? &member->copy : &member->check;
	struct input *input = member->input;
	struct sgpu_run *run = input_run(input);
	const bool sealed = input_segment(input)->sealed;
	const uint64_t bytes = input_size(input) - input_header(input);
	uint64_t paths[SGPU_PATHS] = { 0 };
	struct sgpu_stream *stream;

	if (bad->code == SGPU_EAUTH) {
		sgpu_input_fail_unverified(input, bad->bad_chunk);
	} else if (bad->code != SGPU_OK) {
		sgpu_input_fail(input, bad->code, bad->error.text);
	} else if (!sealed &&
		   !sgpu_equal(input_segment(input)->kt128, member->digest, SGPU_KT128_SIZE)) {
		sgpu_input_fail_unverified(input, 0);
		if (sgpu_run_plan_stream(run, input_device(input), &stream, NULL) == SGPU_OK) {
			(void)!sgpu_device_clear(stream, input_memory(input), bytes, NULL);
			run->unsure = true;
		}
	}
	sgpu_trace_step(
		&run->trace, input_device(input),
		&(struct sgpu_transfer_span){ .step = sealed ? SGPU_STEP_OPEN : SGPU_STEP_COPY_IN,
					      .row = SGPU_ENGINE_OPEN,
					      .begin_ns = member->check.begin_ns,
					      .end_ns = member->check.end_ns,
					      .bytes = bytes },
		input_segment(input)->id);
	paths[!run->runner->traits.pins			 ? SGPU_PATH_PAGEABLE
	      : input_kind(input) == SGPU_LOCATION_LEASE ? SGPU_PATH_REGISTERED
							 : SGPU_PATH_PINNED] =
		input->code == SGPU_OK ? bytes : 0;
	sgpu_trace_paths(&run->trace, false, paths);
	sgpu_input_end(input);
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

/* Fails a group of whose work some was not enqueued, or cannot be asked for. */
static void fail_group(struct sgpu_inputs *inputs, struct group *group, int rc, const char *text)
{
	struct sgpu_stream *stream;

	if (sgpu_run_plan_stream(inputs->run, group->device, &stream, NULL) != SGPU_OK) {
		stream = NULL; /* then nothing was enqueued */
	}
	if (stream) {
		(void)!sgpu_stream_sync(stream, NULL);
	}
	for (int i = 0; i < group->count; i++) {
		struct member *member = &group->members[i];
		const struct input *input = member->input;

		if (member->check.code == SGPU_OK && member->copy.code == SGPU_OK) {
			member->check.code = sgpu_fail(&member->check.error, rc, "%s",
						       text[0] ? text : sgpu_strerror(rc));
		}
		if (stream) {
			(void)!sgpu_device_clear(stream, input_memory(input),
						 input_segment(input)->size, NULL);
		}
	}
	if (stream) {
		(void)!sgpu_stream_sync(stream, NULL);
	}
	end_group(inputs, group);
}

/* Enqueues the group that is being filled. */
void sgpu_inputs_flush(struct sgpu_inputs *inputs)
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
	if (group->count == 0) { /* its payloads are moved as large ones */
		end_group(inputs, group);
		return;
	}
	rc = sgpu_run_plan_stream(run, group->device, &stream, &error);
	rc = rc ? rc : sgpu_event_create(run->devices[group->device].device, &group->ended, &error);
	rc = rc ? rc : sgpu_enqueue(stream, group->works, group->work_count);
	rc = rc ? rc : sgpu_event_record(stream, group->ended);
	if (rc != SGPU_OK) {
		fail_group(inputs, group, rc, error.text);
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
		    sgpu_staging_take(input_engine(input), &buffer, &host, NULL) != SGPU_OK ||
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
	const uint64_t size = input_size(input) - input_header(input);

	if (key) {
		works[0] = (struct sgpu_work){ .kind = SGPU_WORK_OPEN_FROM,
					       .from = from + SGPU_SEALED_HEADER,
					       .out = input_memory(input),
					       .size = size,
					       .key = key,
					       .last = true,
					       .alone = input_kind(input) != SGPU_LOCATION_LEASE,
					       .task = &member->check };
		group->work_count++;
	} else {
		works[0] = (struct sgpu_work){ .kind = SGPU_WORK_COPY_IN,
					       .from = from,
					       .out = input_memory(input),
					       .size = size,
					       .task = &member->copy };
		works[1] = (struct sgpu_work){ .kind = SGPU_WORK_DIGEST,
					       .in = input_memory(input),
					       .to = member->digest,
					       .size = size,
					       .task = &member->check };
		group->work_count += 2;
	}
	atomic_fetch_add(&input_run(input)->trace.bytes_in, size);
	member->input = input;
}

/* The group for one more payload of the input's device; NULL: out of memory. */
static struct group *group_for(struct input *input)
{
	struct sgpu_inputs *inputs = input->all;

	if (inputs->filling && (inputs->filling->device != input_device(input) ||
				inputs->filling->count == GROUP_MAX)) {
		sgpu_inputs_flush(inputs);
	}
	if (!inputs->filling) {
		inputs->filling = calloc(1, sizeof(*inputs->filling));
		if (inputs->filling) {
			inputs->filling->device = input_device(input);
		}
	}
	return inputs->filling;
}

/* Brings in a small payload. Returns false if it has to be brought in as a large one. */
bool sgpu_input_bring_small(struct input *input)
{
	const uint64_t size = input_size(input), begin = sgpu_now_ns();
	const bool leased = input_kind(input) == SGPU_LOCATION_LEASE;
	const uint8_t *from =
		leased ? sgpu_lent_input(input_run(input)->lent, &input_segment(input)->location)
		       : NULL;
	struct group *group = group_for(input);
	struct sgpu_device_key *key = NULL;
	struct sgpu_error error = { 0 };
	uint8_t *staged = group && !leased ? find_room(input, group, size) : NULL;
	int rc = SGPU_OK;

	if (!group || (!leased && !staged) ||
	    (input_segment(input)->sealed &&
	     !sgpu_device_reaches(input_run(input)->devices[input_device(input)].device,
				  (leased ? from : staged) + SGPU_SEALED_HEADER,
				  size - SGPU_SEALED_HEADER, false))) {
		return false;
	}
	input->begun = true;
	if (staged) {
		rc = sgpu_input_read(input, 0, staged, size, &error);
		from = staged;
		sgpu_trace_add(&input_run(input)->trace, SGPU_SPAN_READ, -1,
			       input_segment(input)->id, begin, sgpu_now_ns(), size);
	}
	rc = rc ? rc : sgpu_input_prepare(input, from, &key, &error);
	if (rc != SGPU_OK) {
		sgpu_input_miss(input, rc, error.text);
	} else {
		add_work(input, group, from, key);
	}
	return true;
}

bool sgpu_inputs_end_groups(struct sgpu_inputs *inputs)
{
	bool any = false, done = false;

	while (inputs->enqueued) {
		struct group *group = inputs->enqueued;
		struct sgpu_error error = { 0 };
		const int rc = sgpu_event_query(group->ended, &done, &error);

		if (rc == SGPU_OK && !done) {
			break;
		}
		inputs->enqueued = group->next;
		if (rc == SGPU_OK) {
			end_group(inputs, group);
		} else { /* the device is lost, or still at work */
			fail_group(inputs, group, rc, error.text);
		}
		any = true;
	}
	return any;
}

int sgpu_inputs_group_device(const struct sgpu_inputs *inputs)
{
	return inputs->enqueued->device;
}
