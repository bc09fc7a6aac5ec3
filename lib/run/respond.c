/* SPDX-License-Identifier: Apache-2.0
 *
 * The response: what became of each output and why, with the payloads of those that came through. It is for the
 * same recipients as the batch, so that the owner opens it without state.
 */
#include "run/respond.h"

#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/io.h>
#include <sgpu/stage.h>

#include "run/admit.h"
#include "run/graph.h"
#include "run/outputs.h"
#include "run/run.h"
#include "run/trace.h"

/* A response that is being made. */
struct writer {
	struct sgpu_run_base *base;
	const struct sgpu_job *job;
	const struct sgpu_graph *graph;
	struct sgpu_outputs *outputs;
	int fd;
	const char *name;
};

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

/* Why there is no such output, through its operation or on its way out; SGPU_OK: there is one. *text is from malloc. */
static int failure(struct writer *w, int segment, char **text)
{
	const struct sgpu_manifest *m = w->job->manifest;
	const int writer = m->segments[segment].writer;
	const struct sgpu_output_end *end = sgpu_output_get(w->outputs, segment);
	const char *own, *cause;
	int code = sgpu_graph_outcome(w->graph, writer, &own, &cause);

	*text = NULL;
	if (code != SGPU_OK) {
		*text = own ? strdup(own) : sgpu_run_text("operation '%s' was not run: %s", m->operations[writer].id, cause);
	} else if (!end->whole) {
		code = end->code != SGPU_OK ? end->code : SGPU_EDEPENDENCY;
		*text = strdup(end->text ? end->text : sgpu_strerror(code));
	}
	return code;
}

/* A segment whose output the batch leases a region for goes there; all others travel in the response. */
static int write_to_region(struct writer *w, const struct sgpu_batch_segment *asked, int segment,
			   struct sgpu_error *error)
{
	const struct sgpu_output_end *end = sgpu_output_get(w->outputs, segment);
	struct sgpu_source region = { .fd = -1 };
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_leases_source(w->base->leases, &asked->location, end->size, true, &region, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_pwrite(region.fd, region.name, end->data, end->size, region.offset, error);
	sgpu_source_close(&region);
	sgpu_trace_add(w->base->trace, SGPU_SPAN_WRITE, -1, asked->id, begin, sgpu_now_ns(), end->size);
	return rc;
}

static void fill_payload(struct writer *w, const struct sgpu_batch_segment *asked, int segment,
			 struct sgpu_batch_segment *to)
{
	const struct sgpu_output_end *end = sgpu_output_get(w->outputs, segment);

	to->actual_size = end->actual;
	to->location.kind = SGPU_LOCATION_INLINE;
	if (!sgpu_segment_is_input(&w->job->manifest->segments[segment]) &&
	    asked->location.kind == SGPU_LOCATION_REGION) {
		to->location = asked->location;
		to->location.file = NULL;
	}
	if (to->masking == SGPU_MASKING_AES_GCM) {
		to->sealed = true;
		to->sealed_size = end->size;
		return;
	}
	to->has_kt128 = true;
	memcpy(to->kt128, end->digest, sizeof(to->kt128));
}

/* text: from malloc, NULL when memory is out. */
static int fill_failure(struct sgpu_batch_segment *to, int code, char *text, struct sgpu_error *error)
{
	if (text) {
		clean(text);
	}
	to->status = code;
	to->error_text = text;
	to->actual_size = 0;
	to->sealed = false;
	to->has_kt128 = false;
	to->location.kind = SGPU_LOCATION_NONE;
	return text ? SGPU_OK : sgpu_fail_nomem(error);
}

static int fill_segment(struct writer *w, int in_batch, struct sgpu_batch_segment *to, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *asked = &w->job->batch->segments[in_batch];
	int segment = w->job->to_manifest[in_batch], code;
	struct sgpu_error why = { 0 };
	char *text;

	to->id = strdup(asked->id);
	to->masking = asked->masking;
	to->size = asked->size;
	if (!to->id) {
		return sgpu_fail_nomem(error);
	}
	code = failure(w, segment, &text);
	if (code != SGPU_OK) {
		return fill_failure(to, code, text, error);
	}
	fill_payload(w, asked, segment, to);
	if (to->location.kind == SGPU_LOCATION_REGION) {
		code = write_to_region(w, asked, segment, &why);
	}
	return code == SGPU_OK ? code : fill_failure(to, code, sgpu_run_text("segment '%s' failed: %s", asked->id, why.text),
						     error);
}

static json_t *timings(const struct writer *w)
{
	json_t *object = json_object();

	for (int i = 0; object && i < SGPU_SPAN_KINDS; i++) {
		if (i != SGPU_SPAN_WRITE &&
		    json_object_set_new(object, sgpu_span_name((enum sgpu_span_kind)i),
					json_integer((json_int_t)w->base->trace->totals[i].ns)) < 0) {
			json_decref(object);
			return NULL;
		}
	}
	if (object && json_object_set_new(object, "total",
					  json_integer((json_int_t)(sgpu_now_ns() - atomic_load(&w->base->trace->begin_ns)))) < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int make_response(struct writer *w, struct sgpu_batch **response, struct sgpu_error *error)
{
	struct sgpu_batch *r = calloc(1, sizeof(*r));
	int rc = SGPU_OK;

	*response = r;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->response = true;
	memcpy(r->id, w->job->batch->id, sizeof(r->id));
	memcpy(r->manifest_sha256, w->job->batch->manifest_sha256, sizeof(r->manifest_sha256));
	memcpy(r->response_id, w->job->response_id, sizeof(r->response_id));
	r->segments = calloc((size_t)w->job->batch->segment_count + 1, sizeof(*r->segments));
	r->manifest_text = malloc(w->job->batch->manifest_size + 1);
	if (!r->segments || !r->manifest_text) {
		return sgpu_fail_nomem(error);
	}
	memcpy(r->manifest_text, w->job->batch->manifest_text, w->job->batch->manifest_size);
	r->manifest_text[w->job->batch->manifest_size] = '\0';
	r->manifest_size = w->job->batch->manifest_size;
	for (int i = 0; rc == SGPU_OK && i < w->job->batch->segment_count; i++) {
		if (sgpu_segment_is_output(&w->job->manifest->segments[w->job->to_manifest[i]])) {
			rc = fill_segment(w, i, &r->segments[r->segment_count++], error);
		}
	}
	r->timings = timings(w);
	if (rc == SGPU_OK && !r->timings) {
		rc = sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK && w->job->keyed) {
		r->recipients = json_deep_copy(w->job->batch->recipients);
		rc = r->recipients ? sgpu_batch_sign(r, w->job->batch_key, error) : sgpu_fail_nomem(error);
	}
	return rc;
}

static int write_payload(struct writer *w, const struct sgpu_batch *response, int index, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *to = &response->segments[index];
	const int segment = sgpu_manifest_segment(w->job->manifest, to->id);
	const struct sgpu_output_end *end = sgpu_output_get(w->outputs, segment);
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_batch_payload_begin(w->fd, w->name, response, index, error);

	if (rc == SGPU_OK) {
		rc = sgpu_write(w->fd, w->name, end->data, end->size, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_batch_payload_end(w->fd, w->name, response, index, error);
	}
	atomic_fetch_add(&w->base->trace->bytes_out, end->size);
	sgpu_trace_add(w->base->trace, SGPU_SPAN_WRITE, -1, w->job->manifest->segments[segment].id, begin, sgpu_now_ns(),
		       end->size);
	return rc;
}

static int write_response(struct writer *w, const struct sgpu_batch *response, struct sgpu_error *error)
{
	int rc = sgpu_batch_write_head(w->fd, w->name, response, error);

	for (int i = 0; rc == SGPU_OK && i < response->segment_count; i++) {
		if (response->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			rc = write_payload(w, response, i, error);
		}
	}
	return rc == SGPU_OK ? sgpu_tar_end(w->fd, w->name, error) : rc;
}

/* The whole is done; what of it went wrong is in the response, and its sum is the code. */
static int verdict(const struct sgpu_graph *graph, const struct sgpu_batch *response, struct sgpu_error *error)
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
	if (sgpu_graph_unused_input(graph)) {
		return sgpu_fail(error, SGPU_ESEGMENTS, "%s; no operation reads it", sgpu_graph_unused_input(graph));
	}
	return SGPU_OK;
}

int sgpu_respond(struct sgpu_run_base *base, const struct sgpu_graph *graph, struct sgpu_outputs *outputs, int fd,
		 const char *name, struct sgpu_error *error)
{
	struct writer w = { base, base->job, graph, outputs, fd, name };
	struct sgpu_batch *response = NULL;
	int rc = make_response(&w, &response, error);

	if (rc == SGPU_OK) {
		rc = write_response(&w, response, error);
	}
	if (rc == SGPU_OK) {
		rc = verdict(graph, response, error);
	}
	sgpu_batch_free(&response);
	return rc;
}
