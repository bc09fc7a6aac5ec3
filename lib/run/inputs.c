/* SPDX-License-Identifier: Apache-2.0
 *
 * An input has arrived only when every tag and the end mark, or the digest, have verified on the
 * device's own copy. No operation that reads an input is enqueued before.
 *
 * Small payloads are read one after the other into staging memory; one in a lease stays there. A
 * group for one device is enqueued when it is full, when the next payload is large or for another
 * device, before a wait for the writer, and at the end. Its payloads end together. Large ones are
 * transfers.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "batch/tar.h"
#include "run/private.h"

enum { GROUP_MAX = 64, GROUP_BUFFERS = 16, LINE = 64 };

/* Small payloads of one device that are enqueued together. */
struct sgpu_group {
	struct sgpu_group *next;
	int device, count, work_count, buffer_count;
	struct sgpu_staging_buffer *buffers[GROUP_BUFFERS];
	uint8_t *slab; /* where the next payload may begin, and how many bytes are left there */
	uint64_t left;
	struct sgpu_stream *stream; /* of its work, once that is enqueued */
	struct sgpu_event *ended;
	struct sgpu_work works[2 * GROUP_MAX]; /* set as payloads are added, as are members */
	struct sgpu_small members[GROUP_MAX];
	struct sgpu_payload *payloads[GROUP_MAX];
};

/* ---- the end of an input ---- */
/* Frees what the input has; its readers may then start, or fail. text: why it failed, if it did. */
static void end_input(struct sgpu_payload *p, int rc, const char *text)
{
	sgpu_device_key_free(&p->key);
	sgpu_source_close(&p->file);
	if (rc == SGPU_OK) {
		sgpu_moves_make(p->run, p->segment);
	} else {
		p->text = sgpu_run_failure(p->run, "segment", p->of->id, &rc, text);
		p->code = rc;
	}
	p->ended = true;
}

/* ---- where the bytes come from ---- */
static int read_tar(void *context, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error)
{
	struct sgpu_run *run = ((struct sgpu_payload *)context)->run;

	(void)position;
	run->tar_code = sgpu_tar_read(run->tar, data, size, error);
	return run->tar_code;
}

/* How many bytes of the batch can be read without waiting for its writer. */
static uint64_t tar_there(const struct sgpu_tar_reader *tar)
{
	struct pollfd fd = { .fd = tar->fd, .events = POLLIN };
	int there = 0;

	if (tar->seekable || poll(&fd, 1, 0) < 0 || fd.revents & (POLLHUP | POLLERR)) {
		return UINT64_MAX;
	}
	return !(fd.revents & POLLIN)		       ? 0
	       : ioctl(tar->fd, FIONREAD, &there) == 0 ? (uint64_t)there
						       : UINT64_MAX;
}

static bool payload_waits(void *context)
{
	const struct sgpu_payload *p = context;

	return tar_there(p->run->tar) < SGPU_TRANSFER_SLICE;
}

/* Reads bytes of a payload that is not in a lease, in order. */
static int read_bytes(struct sgpu_payload *p, uint64_t from, void *data, size_t size,
		      struct sgpu_error *error)
{
	size_t got = 0;
	int rc;

	if (p->file.fd < 0) {
		return read_tar(p, from, data, size, error);
	}
	rc = sgpu_pread(p->file.fd, p->file.name, data, size, p->file.offset + from, &got, error);
	return rc != SGPU_OK || got == size
		       ? rc
		       : sgpu_fail(error, SGPU_ESYSTEM, "'%s' ends too early", p->file.name);
}

/* Checks a sealed input's header, at `from` or, if NULL, read here, and gets the key. The index has
 * verified: a payload that begins otherwise is not the owner's. The header is copied first, since
 * the client may change it in a lease. */
static int prepare_input(struct sgpu_payload *p, const uint8_t *from, struct sgpu_error *error)
{
	uint8_t header[SGPU_SEALED_HEADER];
	int rc = SGPU_OK;

	if (!p->sealed) {
		return SGPU_OK;
	}
	if (from) {
		memcpy(header, from, sizeof(header));
	} else {
		rc = read_bytes(p, 0, header, sizeof(header), error);
	}
	atomic_fetch_add(&p->run->bytes_in, rc == SGPU_OK ? sizeof(header) : 0);
	if (rc == SGPU_OK && !sgpu_equal(header, p->of->header, sizeof(header))) {
		return sgpu_fail(error, SGPU_EAUTH, "the payload does not begin as the index says");
	}
	return rc ? rc : sgpu_payload_key(p, error);
}

/* ---- small payloads ---- */
/* Ends the inputs of a group of which the device is done. */
static void end_group(struct sgpu_run *run, struct sgpu_group *group)
{
	const int path = run->runner->pins ? SGPU_PATH_PINNED : SGPU_PATH_PAGEABLE;

	for (int i = 0; i < group->buffer_count; i++) {
		sgpu_staging_give(run->devices[group->device]->engine, group->buffers[i]);
	}
	sgpu_event_free(&group->ended);
	for (int i = 0; i < group->count; i++) {
		const struct sgpu_small *m = &group->members[i];
		const struct sgpu_task *bad = m->copy.code != SGPU_OK ? &m->copy : &m->check;
		struct sgpu_payload *p = group->payloads[i];
		const uint64_t bytes = p->size - p->header;
		const char *text = bad->error.text;
		int rc = bad->code;

		if (rc == SGPU_OK && !p->sealed &&
		    !sgpu_equal(p->of->kt128, p->digest, SGPU_KT128_SIZE)) {
			rc = SGPU_EAUTH;
			text = SGPU_TRANSFER_OTHER_DIGEST;
			(void)!sgpu_device_clear(group->stream, p->memory, bytes, NULL);
			run->maybe_busy = true;
		}
		sgpu_payload_note(p, p->sealed ? SGPU_SPAN_OPEN : SGPU_SPAN_COPY_IN,
				  m->check.begin_ns, m->check.end_ns, bytes);
		run->result.paths.in[p->host && run->runner->pins ? SGPU_PATH_REGISTERED : path] +=
			rc == SGPU_OK ? bytes : 0;
		end_input(p, rc, text);
	}
	free(group);
}

/* Fails a group whose work was not all enqueued, or cannot be asked for. */
static void fail_group(struct sgpu_run *run, struct sgpu_group *group, int rc, const char *text)
{
	if (group->stream) {
		(void)!sgpu_stream_sync(group->stream, NULL);
	}
	for (int i = 0; i < group->count; i++) {
		struct sgpu_small *member = &group->members[i];
		const struct sgpu_payload *p = group->payloads[i];

		if (member->check.code == SGPU_OK && member->copy.code == SGPU_OK) {
			member->check.code = sgpu_fail(&member->check.error, rc, "%s",
						       text[0] ? text : sgpu_strerror(rc));
		}
		if (group->stream) {
			(void)!sgpu_device_clear(group->stream, p->memory, p->of->size, NULL);
		}
	}
	if (group->stream) {
		(void)!sgpu_stream_sync(group->stream, NULL);
	}
	end_group(run, group);
}

static void flush_group(struct sgpu_run *run)
{
	struct sgpu_group *group = run->filling, **last = &run->enqueued;
	struct sgpu_error error = { 0 };
	int rc;

	if (!group) {
		return;
	}
	run->filling = NULL;
	if (group->count == 0) { /* its payload failed, or goes as a large one */
		end_group(run, group);
		return;
	}
	rc = sgpu_run_get_stream(run, group->device, SGPU_RUN_PLAN, &group->stream, &error);
	rc = rc ? rc
		: sgpu_event_create(run->devices[group->device]->device, &group->ended, &error);
	rc = rc ? rc : sgpu_enqueue(group->stream, group->works, group->work_count);
	rc = rc ? rc : sgpu_event_record(group->stream, group->ended);
	if (rc != SGPU_OK) {
		fail_group(run, group, rc, error.text);
		return;
	}
	while (*last) {
		last = &(*last)->next;
	}
	*last = group;
}

/* Finds room in the group's staging memory, or NULL. */
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

/* False: a small payload has to be brought in as a large one. */
static bool bring_small(struct sgpu_payload *p)
{
	struct sgpu_run *run = p->run;
	const uint64_t begin = sgpu_now_ns();
	struct sgpu_error error = { 0 };
	struct sgpu_group *group;
	uint8_t *at = p->host;
	int rc = SGPU_OK;

	if (run->filling &&
	    (run->filling->device != p->device || run->filling->count == GROUP_MAX)) {
		flush_group(run);
	}
	if (!run->filling && (run->filling = malloc(sizeof(*run->filling)))) {
		memset(run->filling, 0, offsetof(struct sgpu_group, works));
		run->filling->device = p->device;
	}
	at = run->filling && !at ? find_room(p, run->filling) : at;
	if (!run->filling || !at ||
	    (p->sealed && !sgpu_device_reaches(run->devices[p->device]->device, at + p->header,
					       p->size - p->header, false))) {
		return false;
	}
	if (!p->host) {
		rc = read_bytes(p, 0, at, p->size, &error);
		sgpu_payload_note(p, SGPU_SPAN_READ, begin, sgpu_now_ns(), p->size);
	}
	rc = rc ? rc : prepare_input(p, at, &error);
	if (rc != SGPU_OK) {
		end_input(p, rc, error.text);
		return true;
	}
	group = run->filling;
	group->payloads[group->count] = p;
	group->members[group->count] = (struct sgpu_small){ 0 };
	group->work_count += sgpu_payload_works(p, at + p->header, &group->members[group->count++],
						&group->works[group->work_count]);
	atomic_fetch_add(&run->bytes_in, p->size - p->header);
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
	if (run->enqueued) {
		/* its tasks tell of failures */
		(void)!sgpu_stream_sync(run->enqueued->stream, NULL);
	}
}

/* ---- large payloads ---- */
/* Whether nothing of the run is under way but the reading of `p`, which may be NULL. */
static bool has_nothing_else(const struct sgpu_run *run, const struct sgpu_payload *p)
{
	const struct sgpu_payload *first = run->under_way[SGPU_TRANSFER_IN];
	const bool alone = !first || (first == p && !p->next && sgpu_transfer_is_idle(p->transfer));

	return alone && !run->enqueued && !sgpu_operations_pending(run) &&
	       !run->under_way[SGPU_TRANSFER_OUT];
}

/* Does other work until `size` bytes or more of the batch are there. Returns how many are;
 * UINT64_MAX: nothing else is to be done, so a read may wait. p: what is being read, or NULL. */
static uint64_t await_tar(struct sgpu_run *run, uint64_t size, const struct sgpu_payload *p)
{
	uint64_t since = sgpu_now_ns(), there;

	while ((there = tar_there(run->tar)) < size) {
		if (sgpu_run_advance(run)) { /* what has arrived may start something */
			since = sgpu_now_ns();
		} else if (has_nothing_else(run, p)) {
			return UINT64_MAX;
		} else {
			sgpu_run_pause(run, since);
		}
	}
	return there;
}

static uint64_t await_payload(void *context)
{
	const struct sgpu_payload *p = context;

	return await_tar(p->run, SGPU_TRANSFER_SLICE, p);
}

static int begin_large(struct sgpu_payload *p, struct sgpu_error *error)
{
	struct sgpu_transfer_request request = { .size = p->size - p->header,
						 .expected = p->of->kt128,
						 .end = { .read = read_tar,
							  .waits = payload_waits,
							  .await = await_payload,
							  .ordered = true,
							  .context = p } };
	int rc = prepare_input(p, p->host, error);

	return rc ? rc : sgpu_payload_begin(p, &request, error);
}

void sgpu_input_moved(struct sgpu_payload *p, const struct sgpu_transfer_result *result)
{
	end_input(p, result->code, result->error.text);
}

/* Brings in a payload, and returns when it was read. */
static void bring(struct sgpu_payload *p)
{
	const enum sgpu_location_kind kind = p->of->location.kind;
	struct sgpu_run *run = p->run;
	uint64_t since = sgpu_now_ns();
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	p->begun = true;
	if (kind == SGPU_LOCATION_REGION || kind == SGPU_LOCATION_FILE) {
		rc = sgpu_sources_open(run->sources, &p->of->location, p->size, false, &p->file,
				       &error);
	}
	if (rc == SGPU_OK && sgpu_run_is_small(p->size) && bring_small(p)) {
		return;
	}
	flush_group(run); /* its payloads must not wait for this one */
	if (kind == SGPU_LOCATION_INLINE && run->tar->seekable && !sgpu_run_is_small(p->size)) {
		/* workers read it where it lies in the batch's file */
		p->file = (struct sgpu_source){ .fd = run->tar->fd,
						.offset = run->tar->position,
						.size = p->size };
		snprintf(p->file.name, sizeof(p->file.name), "%s", run->tar->name);
		sgpu_tar_consumed(run->tar, p->size);
	}
	rc = rc ? rc : begin_large(p, &error);
	if (rc != SGPU_OK) {
		end_input(p, rc, error.text);
	}
	while (p->transfer && !sgpu_transfer_has_read(p->transfer)) {
		if (sgpu_run_advance(run) || (p->transfer && has_nothing_else(run, p) &&
					      sgpu_transfer_step(p->transfer, true))) {
			since = sgpu_now_ns();
		} else {
			sgpu_run_pause(run, since);
		}
	}
}

/* ---- all inputs ---- */
static int read_batch(struct sgpu_run *run, struct sgpu_error *error)
{
	/* the beginning of a large payload, or all of a small one */
	const uint64_t size = SGPU_TAR_BLOCK + SGPU_TRANSFER_SMALL;
	int index = -1, rc;

	do {
		rc = atomic_load(&run->stop);
		if (rc != SGPU_OK) {
			return sgpu_fail(error, rc, "the run was stopped");
		}
		if (tar_there(run->tar) < size) {
			flush_group(run);
		}
		(void)await_tar(run, size, NULL);
		rc = sgpu_batch_next_payload(run->tar, run->job.batch, &index, error);
		if (rc == SGPU_OK && index >= 0) {
			const char *text;

			bring(&run->payloads[index]);
			text = run->payloads[index].text;
			rc = run->tar_code ? sgpu_fail(error, run->tar_code, "%s", text ? text : "")
					   : SGPU_OK;
			(void)sgpu_run_advance(run);
		}
	} while (rc == SGPU_OK && index >= 0);
	return rc;
}

/* Takes every region that the batch names, so that none outlives the run. If one cannot be taken,
 * the segments that need it fail later. */
static void take_regions(struct sgpu_run *run)
{
	for (int i = 0; i < run->job.batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &run->job.batch->segments[i];
		const struct sgpu_location *const both[] = { &s->location, s->place };
		struct sgpu_source source;

		for (int k = 0; k < 2; k++) {
			if (both[k] && both[k]->kind == SGPU_LOCATION_REGION &&
			    sgpu_sources_open(run->sources, both[k], 0, k == 1, &source, NULL) ==
				    SGPU_OK) {
				sgpu_source_close(&source);
			}
		}
	}
}

int sgpu_inputs_bring(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = run->job.manifest;
	int rc;

	take_regions(run);
	for (int i = 0; i < m->segment_count && atomic_load(&run->stop) == SGPU_OK; i++) {
		if (sgpu_segment_is_input(&m->segments[i])) {
			struct sgpu_payload *p = sgpu_run_payload(run, i, false);

			if (p->of->location.kind != SGPU_LOCATION_INLINE) {
				bring(p);
			}
		}
	}
	rc = read_batch(run, error);
	flush_group(run);
	if (rc != SGPU_OK) {
		sgpu_run_stop(run, rc);
	}
	for (int i = 0; i < run->job.batch->segment_count; i++) {
		struct sgpu_payload *p = &run->payloads[i];

		if (p->device >= 0 && !p->begun) {
			end_input(p, rc ? rc : SGPU_EINVALID, "it did not arrive");
		}
	}
	return rc;
}
