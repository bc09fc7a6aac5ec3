/* SPDX-License-Identifier: Apache-2.0
 *
 * The response: what became of each output and why, with the payloads of those that came through. It is for the
 * same recipients as the batch, so that the owner opens it without state.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/io.h>

#include "run/run.h"

/* Texts may quote paths: the index is UTF-8 and bounded. */
static void clean(char *text)
{
	size_t i = 0;

	for (; text[i] && i < SGPU_ERROR_TEXT_MAX - 1; i++) {
		if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x7f) {
			text[i] = '?';
		}
	}
	text[i] = '\0';
}

/* Why there is no such output: through its operation, or on its way out. */
static char *failure(const struct sgpu_run *run, int segment, int *code)
{
	const struct sgpu_run_segment *s = &run->segments[segment];
	int writer = run->manifest->segments[segment].writer;
	const struct sgpu_run_operation *op = &run->operations[writer];
	char *text;

	if (op->state == SGPU_OP_FAILED && op->text) {
		*code = op->code;
		text = strdup(op->text);
	} else if (op->state == SGPU_OP_FAILED) {
		*code = op->code;
		text = sgpu_run_text("operation '%s' was not run: %s", run->manifest->operations[writer].id, op->cause);
	} else {
		*code = s->out_code;
		text = strdup(s->out_text ? s->out_text : sgpu_strerror(s->out_code));
	}
	if (text) {
		clean(text);
	}
	return text;
}

static bool came_through(const struct sgpu_run *run, int segment)
{
	const struct sgpu_run_operation *op = &run->operations[run->manifest->segments[segment].writer];

	return op->state == SGPU_OP_DONE && run->segments[segment].out_code == SGPU_OK &&
	       run->segments[segment].out_data;
}

/* A segment whose output the batch leases a region for goes there; all others travel in the response. */
static int write_to_region(struct sgpu_run *run, const struct sgpu_batch_segment *asked, int segment,
			   struct sgpu_error *error)
{
	const struct sgpu_run_segment *s = &run->segments[segment];
	struct sgpu_source region = { .fd = -1 };
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_leases_source(run->leases, &asked->location, s->out_size, true, &region, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_pwrite(region.fd, region.name, s->out_data, s->out_size, region.offset, error);
	sgpu_source_close(&region);
	sgpu_span_add(run, SGPU_SPAN_WRITE, -1, asked->id, begin, sgpu_now_ns(), s->out_size);
	return rc;
}

static void fill_payload(struct sgpu_run *run, const struct sgpu_batch_segment *asked, int segment,
			 struct sgpu_batch_segment *to)
{
	const struct sgpu_run_segment *s = &run->segments[segment];

	to->actual_size = s->out_actual;
	to->location.kind = SGPU_LOCATION_INLINE;
	if (!sgpu_segment_is_input(&run->manifest->segments[segment]) &&
	    asked->location.kind == SGPU_LOCATION_REGION) {
		to->location = asked->location;
		to->location.file = NULL;
	}
	if (to->masking == SGPU_MASKING_AES_GCM) {
		to->sealed = true;
		to->sealed_size = s->out_size;
		return;
	}
	to->has_kt128 = true;
	memcpy(to->kt128, s->out_digest, sizeof(to->kt128));
}

static int fill_failure(struct sgpu_batch_segment *to, int code, char *text, struct sgpu_error *error)
{
	to->status = code;
	to->error_text = text;
	to->actual_size = 0;
	to->sealed = false;
	to->has_kt128 = false;
	to->location.kind = SGPU_LOCATION_NONE;
	return text ? SGPU_OK : sgpu_fail_nomem(error);
}

static int fill_segment(struct sgpu_run *run, int in_batch, struct sgpu_batch_segment *to, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *asked = &run->batch->segments[in_batch];
	int segment = run->to_manifest[in_batch], code = SGPU_OK;
	struct sgpu_error why = { 0 };

	to->id = strdup(asked->id);
	to->masking = asked->masking;
	to->size = asked->size;
	if (!to->id) {
		return sgpu_fail_nomem(error);
	}
	if (!came_through(run, segment)) {
		char *text = failure(run, segment, &code);

		return fill_failure(to, code, text, error);
	}
	fill_payload(run, asked, segment, to);
	if (to->location.kind == SGPU_LOCATION_REGION) {
		code = write_to_region(run, asked, segment, &why);
	}
	if (code != SGPU_OK) {
		char *text = sgpu_run_text("segment '%s' failed: %s", asked->id, why.text);

		if (text) {
			clean(text);
		}
		return fill_failure(to, code, text, error);
	}
	return SGPU_OK;
}

static json_t *timings(const struct sgpu_run *run)
{
	json_t *object = json_object();

	for (int i = 0; object && i < SGPU_SPAN_KINDS; i++) {
		if (i != SGPU_SPAN_WRITE &&
		    json_object_set_new(object, sgpu_span_name((enum sgpu_span_kind)i),
					json_integer((json_int_t)run->totals[i].ns)) < 0) {
			json_decref(object);
			return NULL;
		}
	}
	if (object && json_object_set_new(object, "total",
					  json_integer((json_int_t)(sgpu_now_ns() - atomic_load(&run->begin_ns)))) < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int make_response(struct sgpu_run *run, struct sgpu_batch **response, struct sgpu_error *error)
{
	struct sgpu_batch *r = calloc(1, sizeof(*r));
	int rc = SGPU_OK;

	*response = r;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->response = true;
	memcpy(r->id, run->batch->id, sizeof(r->id));
	memcpy(r->manifest_sha256, run->batch->manifest_sha256, sizeof(r->manifest_sha256));
	memcpy(r->response_id, run->response_id, sizeof(r->response_id));
	r->segments = calloc((size_t)run->batch->segment_count + 1, sizeof(*r->segments));
	r->manifest_text = malloc(run->batch->manifest_size + 1);
	if (!r->segments || !r->manifest_text) {
		return sgpu_fail_nomem(error);
	}
	memcpy(r->manifest_text, run->batch->manifest_text, run->batch->manifest_size);
	r->manifest_text[run->batch->manifest_size] = '\0';
	r->manifest_size = run->batch->manifest_size;
	for (int i = 0; rc == SGPU_OK && i < run->batch->segment_count; i++) {
		if (sgpu_segment_is_output(&run->manifest->segments[run->to_manifest[i]])) {
			rc = fill_segment(run, i, &r->segments[r->segment_count++], error);
		}
	}
	r->timings = timings(run);
	if (rc == SGPU_OK && !r->timings) {
		rc = sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK && run->keyed) {
		r->recipients = json_deep_copy(run->batch->recipients);
		rc = r->recipients ? sgpu_batch_sign(r, run->batch_key, error) : sgpu_fail_nomem(error);
	}
	return rc;
}

static int write_payload(struct sgpu_run *run, const struct sgpu_batch *response, int index, int fd,
			 const char *name, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *to = &response->segments[index];
	int segment = sgpu_manifest_segment(run->manifest, to->id);
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_batch_payload_begin(fd, name, response, index, error);

	if (rc == SGPU_OK) {
		rc = sgpu_write(fd, name, run->segments[segment].out_data, run->segments[segment].out_size, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_batch_payload_end(fd, name, response, index, error);
	}
	atomic_fetch_add(&run->bytes_out, run->segments[segment].out_size);
	sgpu_span_add(run, SGPU_SPAN_WRITE, -1, run->manifest->segments[segment].id, begin, sgpu_now_ns(),
		      run->segments[segment].out_size);
	return rc;
}

static int write_response(struct sgpu_run *run, const struct sgpu_batch *response, int fd, const char *name,
			  struct sgpu_error *error)
{
	int rc = sgpu_batch_write_head(fd, name, response, error);

	for (int i = 0; rc == SGPU_OK && i < response->segment_count; i++) {
		if (response->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			rc = write_payload(run, response, i, fd, name, error);
		}
	}
	return rc == SGPU_OK ? sgpu_tar_end(fd, name, error) : rc;
}

/* The whole is done; what of it went wrong is in the response, and its sum is the code. */
static int verdict(const struct sgpu_run *run, const struct sgpu_batch *response, struct sgpu_error *error)
{
	int failed = 0;
	const char *first = NULL;

	for (int i = 0; i < response->segment_count; i++) {
		if (response->segments[i].status != SGPU_OK) {
			failed++;
			first = first ? first : response->segments[i].error_text;
		}
	}
	if (failed > 0) {
		return sgpu_fail(error, SGPU_ESEGMENTS, "%d of %d outputs failed: %s", failed,
				 response->segment_count, first);
	}
	if (run->stray) {
		return sgpu_fail(error, SGPU_ESEGMENTS, "%s; no operation reads it", run->stray);
	}
	return SGPU_OK;
}

int sgpu_respond(struct sgpu_run *run, int fd, const char *name, struct sgpu_error *error)
{
	struct sgpu_batch *response = NULL;
	int rc = make_response(run, &response, error);

	if (rc == SGPU_OK) {
		rc = write_response(run, response, fd, name, error);
	}
	if (rc == SGPU_OK) {
		rc = verdict(run, response, error);
	}
	sgpu_batch_free(&response);
	return rc;
}
