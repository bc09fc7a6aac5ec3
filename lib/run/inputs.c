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
#include "run/private.h"

/* ---- the end of an input ---- */
void sgpu_input_end(struct sgpu_payload *p)
{
	sgpu_device_key_free(&p->key);
	sgpu_source_close(&p->file);
	if (p->code == SGPU_OK) {
		sgpu_moves_make(p->run, p->segment);
	}
	sgpu_graph_arrived(p->run, p->segment, p->code, p->text);
}

void sgpu_input_fail(struct sgpu_payload *p, int rc, const char *text)
{
	p->begun = true;
	p->text = sgpu_run_failure(p->run, "segment", p->of->id, &rc, text);
	p->code = rc;
}

void sgpu_input_fail_unverified(struct sgpu_payload *p, uint64_t chunk)
{
	char text[64] = "its kt128 is not the one that the batch names";

	if (p->sealed) {
		snprintf(text, sizeof(text), "chunk %llu does not verify",
			 (unsigned long long)chunk);
	}
	sgpu_input_fail(p, SGPU_EAUTH, text);
}

void sgpu_input_miss(struct sgpu_payload *p, int rc, const char *text)
{
	sgpu_input_fail(p, rc == SGPU_OK ? SGPU_EINVALID : rc, text);
	sgpu_input_end(p);
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
	const struct sgpu_payload *p = context;

	return tar_waits(p->run->tar, SGPU_TRANSFER_SLICE);
}

int sgpu_input_read(struct sgpu_payload *p, uint64_t from, void *data, size_t size,
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

/* If the batch is a file, notes where a large payload lies in it, so that workers read it. */
static void find_in_file(struct sgpu_payload *p)
{
	struct sgpu_tar_reader *tar = p->run->tar;

	if (!sgpu_run_is_small(p->size) && tar->seekable) {
		p->file = (struct sgpu_source){ .fd = tar->fd,
						.offset = tar->position,
						.size = p->size };
		snprintf(p->file.name, sizeof(p->file.name), "%s", tar->name);
		sgpu_tar_consumed(tar, p->size);
	}
}

/* The index has verified, so a payload that begins otherwise is not the owner's. The client may
 * change a header in a lease, so that a copy of it is looked at. */
int sgpu_input_prepare(struct sgpu_payload *p, const uint8_t *from, struct sgpu_error *error)
{
	uint8_t header[SGPU_SEALED_HEADER];
	int rc = SGPU_OK;

	if (!p->sealed) {
		return SGPU_OK;
	}
	if (from) {
		memcpy(header, from, sizeof(header));
	} else {
		rc = sgpu_input_read(p, 0, header, sizeof(header), error);
	}
	atomic_fetch_add(&p->run->bytes_in, rc == SGPU_OK ? sizeof(header) : 0);
	if (rc == SGPU_OK && !sgpu_equal(header, p->of->header, sizeof(header))) {
		return sgpu_fail(error, SGPU_EAUTH, "the payload does not begin as the index says");
	}
	return rc ? rc : sgpu_payload_key(p, error);
}

/* ---- large payloads ---- */
/* Whether the run has nothing under way but the reading of this input, which may be NULL. */
static bool has_nothing_else(const struct sgpu_run *run, const struct sgpu_payload *p)
{
	const struct sgpu_payload *first = run->under_way[false];
	const bool alone = !first || (first == p && !p->next && sgpu_transfer_is_idle(p->transfer));

	return alone && !run->enqueued && !sgpu_operations_pending(run) && !run->under_way[true];
}

/* Goes on with whatever there is while the next `size` bytes of the batch are not there yet. p: the
 * payload that is being read, or NULL. */
static void await_tar(struct sgpu_run *run, uint64_t size, const struct sgpu_payload *p)
{
	uint64_t since = sgpu_now_ns();

	while (tar_waits(run->tar, size)) {
		if (sgpu_run_advance(run)) { /* what has arrived may start something */
			since = sgpu_now_ns();
		} else if (has_nothing_else(run, p)) {
			return;
		} else {
			sgpu_run_pause(run, since);
		}
	}
}

static void go_on(void *context)
{
	const struct sgpu_payload *p = context;

	await_tar(p->run, SGPU_TRANSFER_SLICE, p);
}

static int find_source(struct sgpu_payload *p, struct sgpu_transfer_source *source,
		       struct sgpu_error *error)
{
	const struct sgpu_run *run = p->run;

	if (p->leased) {
		*source = sgpu_source_from_memory(p->leased + p->header,
						  run->job.options->leases_registered);
	} else if (p->file.fd < 0) {
		*source = (struct sgpu_transfer_source){ .read = read_tar,
							 .waits = payload_waits,
							 .meanwhile = go_on,
							 .ordered = true,
							 .context = p };
	} else {
		return sgpu_source_from_file(run->devices[p->device]->engine, p->file.fd,
					     p->file.name, p->file.offset + p->header,
					     p->of->location.kind == SGPU_LOCATION_REGION, source,
					     error);
	}
	return SGPU_OK;
}

static int begin_large(struct sgpu_payload *p, struct sgpu_error *error)
{
	struct sgpu_transfer_request request = { .size = p->size - p->header,
						 .expected = p->of->kt128 };
	int rc = sgpu_input_prepare(p, p->leased, error);

	rc = rc ? rc : find_source(p, &request.source, error);
	return rc ? rc : sgpu_payload_begin(p, &request, error);
}

void sgpu_input_moved(struct sgpu_payload *p, const struct sgpu_transfer_result *result)
{
	if (result->code == SGPU_EAUTH) {
		sgpu_input_fail_unverified(p, result->bad_chunk);
	} else if (result->code != SGPU_OK) {
		sgpu_input_fail(p, result->code, result->error.text);
	}
	sgpu_input_end(p);
}

/* Returns when all of the payload was read. */
static void read_large(struct sgpu_payload *p)
{
	struct sgpu_run *run = p->run;
	uint64_t since = sgpu_now_ns();

	while (p->transfer && !sgpu_transfer_has_read(p->transfer)) {
		if (sgpu_run_advance(run) ||
		    (p->transfer && has_nothing_else(run, p) && sgpu_transfer_block(p->transfer))) {
			since = sgpu_now_ns();
		} else {
			sgpu_run_pause(run, since);
		}
	}
}

/* Brings in a payload, and returns when it was read. */
static void bring(struct sgpu_payload *p)
{
	const enum sgpu_location_kind kind = p->of->location.kind;
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	if (kind == SGPU_LOCATION_INLINE) {
		find_in_file(p);
	} else if (kind != SGPU_LOCATION_LEASE) {
		rc = sgpu_leases_source(p->run->leases, &p->of->location, p->size, false, &p->file,
					&error);
	}
	if (rc == SGPU_OK && sgpu_run_is_small(p->size) && sgpu_input_bring_small(p)) {
		return;
	}
	sgpu_inputs_flush(p->run); /* its payloads must not wait for this one */
	p->begun = true;
	rc = rc ? rc : begin_large(p, &error);
	if (rc != SGPU_OK) {
		sgpu_input_miss(p, rc, error.text);
	} else {
		read_large(p);
	}
}

/* ---- all inputs ---- */
static int read_batch(struct sgpu_run *run, struct sgpu_error *error)
{
	/* the beginning of a large payload, or all of a small one */
	const uint64_t size = SGPU_TAR_BLOCK + SGPU_TRANSFER_SMALL;
	int index = -1, stop, rc;

	do {
		if (tar_waits(run->tar, size)) {
			sgpu_inputs_flush(run);
		}
		await_tar(run, size, NULL);
		rc = sgpu_batch_next_payload(run->tar, run->job.batch, &index, error);
		if (rc == SGPU_OK && index >= 0) {
			const char *text;

			bring(&run->payloads[index]);
			text = run->payloads[index].text;
			rc = run->tar_code ? sgpu_fail(error, run->tar_code, "%s", text ? text : "")
					   : SGPU_OK;
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
	int rc;

	for (int i = 0; i < m->segment_count && atomic_load(&run->stop) == SGPU_OK; i++) {
		if (sgpu_segment_is_input(&m->segments[i]) &&
		    sgpu_run_segment(run, i)->location.kind != SGPU_LOCATION_INLINE) {
			bring(sgpu_run_payload(run, i, false));
		}
	}
	rc = read_batch(run, error);
	sgpu_inputs_flush(run);
	if (rc != SGPU_OK) {
		sgpu_run_stop(run, rc);
	}
	for (int i = 0; i < run->job.batch->segment_count; i++) {
		struct sgpu_payload *p = &run->payloads[i];

		if (p->device >= 0 && !p->begun) {
			sgpu_input_miss(p, rc != SGPU_OK ? rc : atomic_load(&run->stop),
					"it did not arrive");
		}
	}
	return rc;
}

/* ---- creation ---- */
int sgpu_inputs_create(struct sgpu_run *run, struct sgpu_error *error)
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
