/* SPDX-License-Identifier: Apache-2.0
 *
 * A masked result is sealed on the device under its own key, so host memory holds only ciphertext.
 * A small result is enqueued behind its operation and keeps its staging buffer until the host knows
 * the operation's outcome; transfers of others begin then.
 *
 * Results wait in host memory for the response, unless they have a region or a lease, or a place in
 * the response's file is known in advance.
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
struct sgpu_small {
	struct sgpu_staging_buffer *staging;
	uint8_t *host;
	struct sgpu_task copy, seal;
};

/* ---- memory ---- */
/* Uses pages of 2 MiB, if there are any: faults on small ones cost as much as the copy. */
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

static void drop_memory(struct sgpu_payload *p)
{
	if (p->data) {
		sgpu_limit_give(SGPU_HOST_MEMORY, p->size);
	}
	free(p->data);
	p->data = NULL;
}

/* ---- where outputs go ---- */
/* The output goes to a lease, a region, its place in the file, else to memory. */
static int find_place(struct sgpu_payload *p, struct sgpu_error *error)
{
	struct sgpu_run *run = p->run;
	const struct sgpu_location *place = p->of->place;

	if (place && place->kind == SGPU_LOCATION_LEASE) {
		p->host = sgpu_leases_at(run, place);
		return SGPU_OK;
	}
	if (place) {
		return sgpu_sources_open(run->sources, place, p->size, true, &p->file, error);
	}
	if (p->place == 0) {
		int rc = sgpu_limit_take(SGPU_HOST_MEMORY, p->size, error);

		if (rc < 0) {
			return rc;
		}
		p->host = p->data = large_memory(p->size);
		if (!p->data) {
			sgpu_limit_give(SGPU_HOST_MEMORY, p->size);
			return sgpu_fail_nomem(error);
		}
		return SGPU_OK;
	}
	p->file = (struct sgpu_source){ .fd = run->submission.out_fd, .offset = p->place };
	snprintf(p->file.name, sizeof(p->file.name), "%s", run->submission.out_name);
	return SGPU_OK;
}

/* Writes bytes of the payload to their place, from `at` on. */
static int put(struct sgpu_payload *p, uint64_t at, const void *bytes, size_t size,
	       struct sgpu_error *error)
{
	if (p->host) {
		memcpy(p->host + at, bytes, size);
		return SGPU_OK;
	}
	return sgpu_pwrite(p->file.fd, p->file.name, bytes, size, p->file.offset + at, error);
}

static int put_header(struct sgpu_payload *p, struct sgpu_error *error)
{
	return put(p, 0, p->header_bytes, p->header, error);
}

static void drop_small(struct sgpu_payload *p)
{
	if (p->small) {
		sgpu_staging_give(p->run->devices[p->device]->engine, p->small->staging);
		free(p->small);
		p->small = NULL;
	}
}

static void end_output(struct sgpu_payload *p, int rc, const char *text)
{
	struct sgpu_run *run = p->run;

	if ((rc == SGPU_ESYSTEM || rc == SGPU_ENOSPACE) && p->place > 0 && p->file.fd >= 0) {
		(void)sgpu_fail(&run->file_error, rc, "%s", text ? text : "");
	}
	sgpu_device_key_free(&p->key);
	sgpu_source_close(&p->file);
	p->ended = true;
	if (rc != SGPU_OK) {
		p->text = sgpu_run_failure(run, "segment", p->of->id, &rc, text ? text : "");
		p->code = rc;
		drop_memory(p);
	} else {
		atomic_fetch_add(&run->bytes_out, p->data ? 0 : p->size);
	}
	drop_small(p); /* the text may lie in its task */
}

/* ---- small outputs ---- */
/* Sets an output's size. The operation may report fewer elements than its type has, never more. */
static int set_size(struct sgpu_payload *p, const struct sgpu_type *type,
		    const struct sgpu_op_call *call, uint64_t elements, struct sgpu_error *error)
{
	const uint64_t size = sgpu_dtype_size(type->dtype);
	const bool at_most = call->op->at_most && call->op->at_most(call);

	if (!sgpu_type_bytes(type, &p->actual) || (at_most && elements > p->actual / size)) {
		return sgpu_fail(error, SGPU_EDEVICE,
				 "the operation reports more elements than there can be");
	}
	p->size = p->actual = at_most ? elements * size : p->actual;
	if (p->sealed) { /* no more than the index has */
		(void)sgpu_sealed_size(p->actual, &p->size);
	}
	return SGPU_OK;
}

/* Takes staging memory that the device reaches; NULL: there is none now. */
static struct sgpu_small *new_small(struct sgpu_payload *p, uint64_t size)
{
	const struct sgpu_run_device *device = p->run->devices[p->device];
	struct sgpu_small *small = calloc(1, sizeof(*small));
	void *host = NULL;

	if (!small || sgpu_staging_take(device->engine, &small->staging, &host, NULL) != SGPU_OK ||
	    !small->staging) {
		free(small);
		return NULL;
	}
	small->host = host;
	if (p->sealed &&
	    !sgpu_device_reaches(device->device, host, sgpu_run_sealed_size(size, true), true)) {
		sgpu_staging_give(device->engine, small->staging);
		free(small);
		return NULL;
	}
	return small;
}

/* Fills in the work that brings a small output to staging memory: sealing, or copy and digest.
 * Returns how many pieces; 0: it begins later, when the operation has ended. */
static int follow(struct sgpu_payload *p, uint64_t size, struct sgpu_work works[2])
{
	const struct sgpu_plan *plan = p->run->job.plan;
	struct sgpu_small *small;

	if (!p->sealed && plan->buffers[plan->segments[p->segment].out_buffer].shared) {
		return 0; /* if the operation does not run, another segment's plaintext is there */
	}
	if (sgpu_payload_key(p, NULL) != SGPU_OK || !(small = new_small(p, size))) {
		return 0;
	}
	p->small = small;
	small->copy.untimed = small->seal.untimed = !sgpu_run_times(p->run, size);
	if (p->sealed) {
		works[0] = (struct sgpu_work){ .kind = SGPU_WORK_SEAL_TO,
					       .in = p->memory,
					       .to = small->host,
					       .size = size,
					       .key = p->key,
					       .last = true,
					       .alone = true,
					       .task = &small->seal };
		return 1;
	}
	works[0] = (struct sgpu_work){ .kind = SGPU_WORK_COPY_OUT,
				       .in = p->memory,
				       .to = small->host,
				       .size = size,
				       .task = &small->copy };
	works[1] = (struct sgpu_work){ .kind = SGPU_WORK_DIGEST,
				       .in = p->memory,
				       .to = p->digest,
				       .size = size,
				       .task = &small->seal };
	return 2;
}

void sgpu_outputs_follow(struct sgpu_run *run, int operation, const struct sgpu_op_call *call,
			 struct sgpu_stream *stream)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];
	struct sgpu_work works[2 * SGPU_ARGUMENTS_MAX];
	int count = 0, rc;

	if (call->op->at_most && call->op->at_most(call)) {
		return; /* only the operation knows how large its outputs are */
	}
	for (int i = 0; i < op->arg_count; i++) {
		const struct sgpu_segment *s = &run->job.manifest->segments[op->args[i].segment];
		uint64_t size = 0;

		if (op->args[i].output && sgpu_segment_is_output(s) &&
		    sgpu_type_bytes(&s->type, &size) && size <= SGPU_TRANSFER_SMALL) {
			count += follow(sgpu_run_payload(run, op->args[i].segment, true), size,
					&works[count]);
		}
	}
	rc = count > 0 ? sgpu_enqueue(stream, works, count) : SGPU_OK;
	if (rc != SGPU_OK) { /* what was enqueued ends, and has a time then */
		(void)!sgpu_stream_sync(stream, NULL);
	}
	for (int i = 0; rc != SGPU_OK && i < count; i++) {
		struct sgpu_task *task = works[i].task;

		task->code = task->code == SGPU_OK && task->end_ns == 0 ? rc : task->code;
	}
}

/* Brings a small output, whose operation has succeeded, to its place. */
static void place_small(struct sgpu_payload *p)
{
	const struct sgpu_small *small = p->small;
	const struct sgpu_task *bad = small->copy.code != SGPU_OK ? &small->copy : &small->seal;
	const uint64_t bytes = p->size - p->header;
	struct sgpu_run *run = p->run;
	struct sgpu_error error = { 0 };
	int rc = bad->code;

	sgpu_payload_note(p, p->sealed ? SGPU_SPAN_SEAL : SGPU_SPAN_COPY_OUT, small->seal.begin_ns,
			  small->seal.end_ns, bytes);
	if (rc != SGPU_OK) {
		end_output(p, rc, bad->error.text);
		return;
	}
	run->result.paths.out[run->runner->pins ? SGPU_PATH_PINNED : SGPU_PATH_PAGEABLE] += bytes;
	rc = find_place(p, &error);
	rc = rc ? rc : put_header(p, &error);
	rc = rc ? rc : put(p, p->header, small->host, (size_t)bytes, &error);
	end_output(p, rc, error.text);
}

/* ---- large outputs ---- */
static int begin_large(struct sgpu_payload *p, struct sgpu_error *error)
{
	struct sgpu_transfer_request request = { .size = p->actual };
	int rc = sgpu_payload_key(p, error);

	rc = rc ? rc : find_place(p, error);
	rc = rc ? rc : put_header(p, error);
	return rc ? rc : sgpu_payload_begin(p, &request, error);
}

void sgpu_output_moved(struct sgpu_payload *p, const struct sgpu_transfer_result *result)
{
	memcpy(p->digest, result->digest, sizeof(p->digest));
	end_output(p, result->code, result->error.text);
}

/* ---- the outputs of an operation ---- */
void sgpu_outputs_begin(struct sgpu_run *run, int operation, const struct sgpu_op_call *call,
			bool failed, uint64_t elements)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];

	for (int i = 0; i < op->arg_count; i++) {
		const struct sgpu_segment *s = &run->job.manifest->segments[op->args[i].segment];
		struct sgpu_payload *p = sgpu_run_payload(run, op->args[i].segment, true);
		struct sgpu_error error = { 0 };
		int rc = atomic_load(&run->stop);

		if (!op->args[i].output || !sgpu_segment_is_output(s)) {
			continue;
		}
		if (failed) {
			drop_small(p);
			continue;
		}
		rc = rc ? rc : set_size(p, &s->type, call, elements, &error);
		if (rc == SGPU_OK && p->small) {
			place_small(p);
			continue;
		}
		rc = rc ? rc : begin_large(p, &error);
		if (rc != SGPU_OK) {
			end_output(p, rc, error.text);
		}
	}
}

void sgpu_payloads_clear(struct sgpu_run *run)
{
	for (int i = 0; run->payloads && i < 2 * run->job.batch->segment_count; i++) {
		sgpu_device_key_free(&run->payloads[i].key);
		drop_small(&run->payloads[i]);
		drop_memory(&run->payloads[i]);
	}
}
