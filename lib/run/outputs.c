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

static int take_memory(struct sgpu_payload *p, struct sgpu_error *error)
{
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

/* Finds where the output goes, and puts its header there. */
static int find_place(struct sgpu_payload *p, struct sgpu_error *error)
{
	struct sgpu_run *run = p->run;
	const struct sgpu_location *place = p->of->place;
	int rc = SGPU_OK;

	if (place && place->kind == SGPU_LOCATION_LEASE) {
		p->host = sgpu_leases_at(&run->leases, place);
	} else if (place) {
		rc = sgpu_sources_open(run->sources, place, p->size, true, &p->file, error);
	} else if (p->place > 0) {
		p->file = (struct sgpu_source){ .fd = run->submission.out_fd, .offset = p->place };
		snprintf(p->file.name, sizeof(p->file.name), "%s", run->submission.out_name);
	} else {
		rc = take_memory(p, error);
	}
	return rc ? rc : put(p, 0, p->header_bytes, p->header, error);
}

static void drop_small(struct sgpu_payload *p)
{
	if (p->small && p->small->staging) {
		sgpu_staging_give(p->run->devices[p->device]->engine, p->small->staging);
	}
	free(p->small);
	p->small = NULL;
}

static void end_output(struct sgpu_payload *p, int rc, const char *text)
{
	struct sgpu_run *run = p->run;

	if ((rc == SGPU_ESYSTEM || rc == SGPU_ENOSPACE) && p->place > 0 && p->file.fd >= 0 &&
	    run->fatal.code == SGPU_OK) {
		(void)sgpu_fail(&run->fatal, rc, "%s", text);
	}
	sgpu_device_key_free(&p->key);
	sgpu_source_close(&p->file);
	p->ended = true;
	if (rc != SGPU_OK) {
		p->text = sgpu_run_failure(run, "segment", p->of->id, &rc, text);
		p->code = rc;
		drop_memory(p);
	} else {
		atomic_fetch_add(&run->bytes_out, p->data ? 0 : p->size);
	}
	drop_small(p);
}

/* ---- small outputs ---- */
/* Sets an output's size. The operation may report fewer elements than its type has, never more. */
static int set_size(struct sgpu_payload *p, const struct sgpu_op_call *call, uint64_t elements,
		    struct sgpu_error *error)
{
	const struct sgpu_type *type = &p->run->job.manifest->segments[p->segment].type;
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

/* Takes staging memory that the device reaches. False: there is none now. */
static bool take_staging(struct sgpu_payload *p)
{
	const struct sgpu_run_device *device = p->run->devices[p->device];
	struct sgpu_small *small = calloc(1, sizeof(*small));
	void *host = NULL;

	p->small = small;
	if (!small || sgpu_staging_take(device->engine, &small->staging, &host, NULL) != SGPU_OK ||
	    !small->staging ||
	    (p->sealed && !sgpu_device_reaches(device->device, host,
					       sgpu_run_sealed_size(p->actual, true), true))) {
		drop_small(p);
		return false;
	}
	small->host = host;
	return true;
}

/* Fills in the work that brings a small output to staging memory. Returns how many pieces; 0: it
 * begins later, when the operation has ended. */
static int follow(struct sgpu_payload *p, struct sgpu_work works[2])
{
	const struct sgpu_plan *plan = p->run->job.plan;

	if (!p->sealed && plan->buffers[plan->segments[p->segment].out_buffer].shared) {
		return 0; /* if the operation does not run, another segment's plaintext is there */
	}
	return sgpu_payload_key(p, NULL) == SGPU_OK && take_staging(p)
		       ? sgpu_payload_works(p, p->small->host, p->small, works)
		       : 0;
}

/* The result that an argument of an operation is, or NULL. */
static struct sgpu_payload *result_of(const struct sgpu_run *run, const struct sgpu_argument *arg)
{
	return arg->output && sgpu_segment_is_output(&run->job.manifest->segments[arg->segment])
		       ? sgpu_run_payload(run, arg->segment, true)
		       : NULL;
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
		struct sgpu_payload *p = result_of(run, &op->args[i]);

		if (p && p->actual <= SGPU_TRANSFER_SMALL) {
			count += follow(p, &works[count]);
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
static int place_small(struct sgpu_payload *p, struct sgpu_error *error)
{
	const struct sgpu_small *small = p->small;
	const struct sgpu_task *bad = small->copy.code != SGPU_OK ? &small->copy : &small->check;
	const uint64_t bytes = p->size - p->header;
	struct sgpu_run *run = p->run;
	int rc = bad->code;

	sgpu_payload_note(p, p->sealed ? SGPU_SPAN_SEAL : SGPU_SPAN_COPY_OUT, small->check.begin_ns,
			  small->check.end_ns, bytes);
	if (rc != SGPU_OK) {
		*error = bad->error;
		return rc;
	}
	run->result.paths.out[run->runner->pins ? SGPU_PATH_PINNED : SGPU_PATH_PAGEABLE] += bytes;
	rc = find_place(p, error);
	return rc ? rc : put(p, p->header, small->host, (size_t)bytes, error);
}

/* ---- large outputs ---- */
static int begin_large(struct sgpu_payload *p, struct sgpu_error *error)
{
	struct sgpu_transfer_request request = { .size = p->actual };
	int rc = sgpu_payload_key(p, error);

	rc = rc ? rc : find_place(p, error);
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
		struct sgpu_payload *p = result_of(run, &op->args[i]);
		struct sgpu_error error = { 0 };
		int rc = atomic_load(&run->stop);

		if (!p) {
			continue;
		}
		if (failed) {
			drop_small(p);
			continue;
		}
		rc = rc ? rc : set_size(p, call, elements, &error);
		rc = rc ? rc : p->small ? place_small(p, &error) : begin_large(p, &error);
		if (rc != SGPU_OK || p->small) {
			end_output(p, rc, error.text);
		}
	}
}

void sgpu_payloads_clear(struct sgpu_run *run)
{
	for (int i = 0; run->payloads && i < 2 * run->job.batch->segment_count; i++) {
		drop_small(&run->payloads[i]);
		drop_memory(&run->payloads[i]);
	}
}
