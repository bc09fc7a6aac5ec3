/* SPDX-License-Identifier: Apache-2.0
 *
 * Small payloads: read into staging memory, one after the other, and enqueued together; kernels
 * open them there, or where they lie.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "run/private.h"

enum { GROUP_MAX = 64, GROUP_BUFFERS = 16, LINE = 64 };

/* A small payload on its way. */
struct member {
	struct sgpu_payload *of;
	struct sgpu_task copy, check;
	uint8_t digest[SGPU_KT128_SIZE];
};

/* Small payloads of one device that are enqueued together. */
struct sgpu_group {
	struct sgpu_group *next;
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
	struct sgpu_payload *p = member->of;
	struct sgpu_run *run = p->run;
	const uint64_t bytes = p->size - p->header;
	uint64_t paths[SGPU_PATHS] = { 0 };
	struct sgpu_stream *stream;

	if (bad->code == SGPU_EAUTH) {
		sgpu_input_fail_unverified(p, bad->bad_chunk);
	} else if (bad->code != SGPU_OK) {
		sgpu_input_fail(p, bad->code, bad->error.text);
	} else if (!p->sealed && !sgpu_equal(p->of->kt128, member->digest, SGPU_KT128_SIZE)) {
		sgpu_input_fail_unverified(p, 0);
		if (sgpu_run_plan_stream(run, p->device, &stream, NULL) == SGPU_OK) {
			(void)!sgpu_device_clear(stream, p->memory, bytes, NULL);
			run->unsure = true;
		}
	}
	sgpu_payload_note(p, p->sealed ? SGPU_SPAN_OPEN : SGPU_SPAN_COPY_IN, member->check.begin_ns,
			  member->check.end_ns, bytes);
	paths[!run->runner->pins ? SGPU_PATH_PAGEABLE
	      : p->leased	 ? SGPU_PATH_REGISTERED
				 : SGPU_PATH_PINNED] = p->code == SGPU_OK ? bytes : 0;
	sgpu_trace_paths(run, false, paths);
	sgpu_input_end(p);
}

static void end_group(struct sgpu_run *run, struct sgpu_group *group)
{
	for (int i = 0; i < group->buffer_count; i++) {
		sgpu_staging_give(run->devices[group->device]->engine, group->buffers[i]);
	}
	sgpu_event_free(&group->ended);
	for (int i = 0; i < group->count; i++) {
		end_member(&group->members[i]);
	}
	free(group);
}

/* Fails a group of whose work some was not enqueued, or cannot be asked for. */
static void fail_group(struct sgpu_run *run, struct sgpu_group *group, int rc, const char *text)
{
	struct sgpu_stream *stream;

	if (sgpu_run_plan_stream(run, group->device, &stream, NULL) != SGPU_OK) {
		stream = NULL; /* then nothing was enqueued */
	}
	if (stream) {
		(void)!sgpu_stream_sync(stream, NULL);
	}
	for (int i = 0; i < group->count; i++) {
		struct member *member = &group->members[i];
		const struct sgpu_payload *p = member->of;

		if (member->check.code == SGPU_OK && member->copy.code == SGPU_OK) {
			member->check.code = sgpu_fail(&member->check.error, rc, "%s",
						       text[0] ? text : sgpu_strerror(rc));
		}
		if (stream) {
			(void)!sgpu_device_clear(stream, p->memory, p->of->size, NULL);
		}
	}
	if (stream) {
		(void)!sgpu_stream_sync(stream, NULL);
	}
	end_group(run, group);
}

void sgpu_inputs_flush(struct sgpu_run *run)
{
	struct sgpu_group *group = run->filling, **last = &run->enqueued;
	struct sgpu_stream *stream = NULL;
	struct sgpu_error error = { 0 };
	int rc;

	if (!group) {
		return;
	}
	run->filling = NULL;
	if (group->count == 0) { /* its payloads are moved as large ones */
		end_group(run, group);
		return;
	}
	rc = sgpu_run_plan_stream(run, group->device, &stream, &error);
	rc = rc ? rc
		: sgpu_event_create(run->devices[group->device]->device, &group->ended, &error);
	rc = rc ? rc : sgpu_enqueue(stream, group->works, group->work_count);
	rc = rc ? rc : sgpu_event_record(stream, group->ended);
	if (rc != SGPU_OK) {
		fail_group(run, group, rc, error.text);
		return;
	}
	while (*last) {
		last = &(*last)->next;
	}
	*last = group;
}

/* Finds room for a payload in the group's staging memory; NULL: there is none. */
static uint8_t *find_room(const struct sgpu_payload *p, struct sgpu_group *group)
{
	const uint64_t room = (p->size + LINE - 1) / LINE * LINE;
	struct sgpu_staging_buffer *buffer = NULL;
	void *host = NULL;
	uint8_t *at;

	if (room > group->left) {
		if (group->buffer_count == GROUP_BUFFERS ||
		    sgpu_staging_take(p->run->devices[p->device]->engine, &buffer, &host, NULL) !=
			    SGPU_OK ||
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
static void add_work(struct sgpu_payload *p, struct sgpu_group *group, const uint8_t *from)
{
	struct member *member = &group->members[group->count++];
	struct sgpu_work *works = &group->works[group->work_count];
	const uint64_t size = p->size - p->header;

	if (p->sealed) {
		works[0] = (struct sgpu_work){ .kind = SGPU_WORK_OPEN_FROM,
					       .from = from + p->header,
					       .out = p->memory,
					       .size = size,
					       .key = p->key,
					       .last = true,
					       .alone = !p->leased,
					       .task = &member->check };
		group->work_count++;
	} else {
		works[0] = (struct sgpu_work){ .kind = SGPU_WORK_COPY_IN,
					       .from = from,
					       .out = p->memory,
					       .size = size,
					       .task = &member->copy };
		works[1] = (struct sgpu_work){ .kind = SGPU_WORK_DIGEST,
					       .in = p->memory,
					       .to = member->digest,
					       .size = size,
					       .task = &member->check };
		group->work_count += 2;
	}
	atomic_fetch_add(&p->run->bytes_in, size);
	member->of = p;
}

/* The group for one more payload of that device; NULL: out of memory. */
static struct sgpu_group *group_for(struct sgpu_run *run, int device)
{
	if (run->filling && (run->filling->device != device || run->filling->count == GROUP_MAX)) {
		sgpu_inputs_flush(run);
	}
	if (!run->filling) {
		run->filling = calloc(1, sizeof(*run->filling));
		if (run->filling) {
			run->filling->device = device;
		}
	}
	return run->filling;
}

bool sgpu_input_bring_small(struct sgpu_payload *p)
{
	struct sgpu_run *run = p->run;
	struct sgpu_group *group = group_for(run, p->device);
	const uint64_t begin = sgpu_now_ns();
	uint8_t *at = !group ? NULL : p->leased ? p->leased : find_room(p, group);
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	if (!at ||
	    (p->sealed && !sgpu_device_reaches(run->devices[p->device]->device, at + p->header,
					       p->size - p->header, false))) {
		return false;
	}
	p->begun = true;
	if (!p->leased) {
		rc = sgpu_input_read(p, 0, at, p->size, &error);
		sgpu_payload_note(p, SGPU_SPAN_READ, begin, sgpu_now_ns(), p->size);
	}
	rc = rc ? rc : sgpu_input_prepare(p, at, &error);
	if (rc != SGPU_OK) {
		sgpu_input_miss(p, rc, error.text);
	} else {
		add_work(p, group, at);
	}
	return true;
}

bool sgpu_inputs_end_groups(struct sgpu_run *run)
{
	bool any = false, done = false;

	while (run->enqueued) {
		struct sgpu_group *group = run->enqueued;
		struct sgpu_error error = { 0 };
		const int rc = sgpu_event_query(group->ended, &done, &error);

		if (rc == SGPU_OK && !done) {
			break;
		}
		run->enqueued = group->next;
		if (rc == SGPU_OK) {
			end_group(run, group);
		} else { /* the device is lost, or still at work */
			fail_group(run, group, rc, error.text);
		}
		any = true;
	}
	return any;
}

void sgpu_inputs_sync(struct sgpu_run *run)
{
	struct sgpu_stream *stream;

	if (run->enqueued &&
	    sgpu_run_plan_stream(run, run->enqueued->device, &stream, NULL) == SGPU_OK) {
		(void)!sgpu_stream_sync(stream, NULL); /* its tasks tell of failures */
	}
}
