/* SPDX-License-Identifier: Apache-2.0
 *
 * The response: each output's outcome, and the payloads of those that did not fail. It has the
 * batch's recipients, so the owner opens it without state.
 */
#include "base/io.h"
#include "stage/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "batch/tar.h"
#include "run/private.h"

enum {
	GATHER_MAX = 32 << 10, /* bytes of a response that are written together */
	INDEX_MOST = 64 << 10, /* bytes that the index of most responses needs, with headers */
	BUFFER = 1 << 20,
};

struct writer {
	struct sgpu_run *run;
	const struct sgpu_job *job;
	bool has_run; /* false: the response is laid out as if all will succeed */
	int fd;
	const char *name;
	bool placed;	   /* results may be in the file already */
	uint8_t *gathered; /* GATHER_MAX bytes */
	size_t gathered_size;
};

/* SGPU_OK, or the code with which an output's operation or transfer failed. *text says why. */
static int failure(struct writer *w, int segment, const char **text)
{
	const struct sgpu_payload *p = sgpu_run_payload(w->run, segment, true);
	int rc = sgpu_operations_outcome(w->run, w->job->manifest->segments[segment].writer, text);

	if (rc == SGPU_OK && (p->code != SGPU_OK || !p->ended)) {
		rc = p->code != SGPU_OK ? p->code : SGPU_EDEPENDENCY;
		*text = p->text ? p->text : sgpu_strerror(rc);
	}
	return rc;
}

static void fill_payload(const struct sgpu_batch_segment *asked, uint64_t actual, uint64_t size,
			 const uint8_t *digest, struct sgpu_batch_segment *to)
{
	const struct sgpu_location with_response = { .kind = SGPU_LOCATION_INLINE };

	to->actual_size = actual;
	to->location = asked->place ? *asked->place : with_response;
	if (to->masking == SGPU_MASKING_AES_GCM) {
		to->sealed = true;
		to->sealed_size = size;
		return;
	}
	to->has_kt128 = true;
	memcpy(to->kt128, digest, sizeof(to->kt128));
}

static int fill_failure(struct sgpu_batch_segment *to, int rc, const char *text,
			struct sgpu_error *error)
{
	to->status = rc;
	to->error_text = strdup(text);
	to->actual_size = 0;
	to->sealed = false;
	to->has_kt128 = false;
	to->location.kind = SGPU_LOCATION_NONE;
	return to->error_text ? SGPU_OK : sgpu_fail_nomem(error);
}

static int fill_segment(struct writer *w, int in_batch, struct sgpu_batch_segment *to,
			struct sgpu_error *error)
{
	const struct sgpu_batch_segment *asked = &w->job->batch->segments[in_batch];
	static const uint8_t unknown[SGPU_KT128_SIZE];
	const struct sgpu_payload *p;
	uint64_t size = 0;
	int segment = w->job->to_manifest[in_batch], rc;
	const char *text;

	to->id = strdup(asked->id);
	to->masking = asked->masking;
	to->size = asked->size;
	if (!to->id) {
		return sgpu_fail_nomem(error);
	}
	if (!w->has_run) {
		(void)sgpu_result_size(asked, &size); /* it was admitted, so it has one */
		fill_payload(asked, asked->size, size, unknown, to);
		return SGPU_OK;
	}
	rc = failure(w, segment, &text);
	if (rc != SGPU_OK) {
		return fill_failure(to, rc, text, error);
	}
	p = sgpu_run_payload(w->run, segment, true);
	fill_payload(asked, p->actual, p->size, p->digest, to);
	return SGPU_OK;
}

/* The timings or, while nothing has run, times with the usual number of digits. */
static json_t *timings(const struct writer *w)
{
	const json_int_t usual_ns = 10000000;
	json_t *object = json_object();
	json_int_t total = (json_int_t)(sgpu_now_ns() - atomic_load(&w->run->begin_ns));
	int rc = 0; /* setting a member of NULL fails */

	for (int i = 0; rc == 0 && i < SGPU_SPAN_KINDS; i++) {
		json_int_t ns = w->has_run ? (json_int_t)w->run->result.totals[i].ns : usual_ns;

		if (i != SGPU_SPAN_WRITE && (i != SGPU_SPAN_MOVE || w->job->plan->move_count > 0)) {
			rc = json_object_set_new(object, sgpu_span_name((enum sgpu_span_kind)i),
						 json_integer(ns));
		}
	}
	rc = rc ? rc
		: json_object_set_new(object, "total", json_integer(w->has_run ? total : usual_ns));
	if (rc < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

/* If the manifest wants all outputs or none, fails the others, too. */
static int fail_others(const struct writer *w, struct sgpu_batch *r, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *failed = NULL;
	int rc = SGPU_OK;

	for (int i = 0; w->job->manifest->all_or_nothing && i < r->segment_count; i++) {
		failed = r->segments[i].status != SGPU_OK ? &r->segments[i] : failed;
	}
	for (int i = 0; failed && rc == SGPU_OK && i < r->segment_count; i++) {
		if (r->segments[i].status == SGPU_OK) {
			rc = fill_failure(&r->segments[i], SGPU_EDEPENDENCY,
					  sgpu_run_text(w->run,
							"withheld, since '%s' failed: the "
							"manifest's on_failure is 'all'",
							failed->id),
					  error);
		}
	}
	return rc;
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
	rc = sgpu_batch_identity(w->job->batch, r->identity, error);
	r->segments = calloc((size_t)w->job->batch->segment_count + 1, sizeof(*r->segments));
	r->note_size = w->job->batch->note_size;
	r->note = w->job->batch->note ? malloc(r->note_size + 1) : NULL;
	if (!r->segments || (w->job->batch->note && !r->note)) {
		return sgpu_fail_nomem(error);
	}
	if (r->note) {
		memcpy(r->note, w->job->batch->note, r->note_size);
	}
	for (int i = 0; rc == SGPU_OK && i < w->job->batch->segment_count; i++) {
		if (sgpu_segment_is_output(&w->job->manifest->segments[w->job->to_manifest[i]])) {
			rc = fill_segment(w, i, &r->segments[r->segment_count++], error);
		}
	}
	rc = rc ? rc : fail_others(w, r, error);
	r->timings = timings(w);
	if (rc == SGPU_OK && !r->timings) {
		rc = sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK && w->job->batch->has_mac) {
		r->recipients = json_deep_copy(w->job->batch->recipients);
		rc = r->recipients ? sgpu_batch_sign(r, w->job->batch_key, error)
				   : sgpu_fail_nomem(error);
	}
	return rc;
}

static int segment_of(const struct writer *w, const struct sgpu_batch *response, int index)
{
	return sgpu_manifest_segment(w->job->manifest, response->segments[index].id);
}

static int flush(struct writer *w, struct sgpu_error *error)
{
	const size_t size = w->gathered_size;

	w->gathered_size = 0;
	return size > 0 ? sgpu_write(w->fd, w->name, w->gathered, size, error) : SGPU_OK;
}

/* Writes bytes, small ones together. */
static int put(struct writer *w, const void *data, size_t size, struct sgpu_error *error)
{
	int rc = size > GATHER_MAX - w->gathered_size ? flush(w, error) : SGPU_OK;

	if (rc == SGPU_OK && size > GATHER_MAX) {
		return sgpu_write(w->fd, w->name, data, size, error);
	}
	if (rc == SGPU_OK) {
		memcpy(w->gathered + w->gathered_size, data, size);
		w->gathered_size += size;
	}
	return rc;
}

/* Writes a payload, or seeks past one that is in its place already. */
static int write_payload(struct writer *w, const struct sgpu_batch *response, int index,
			 struct sgpu_error *error)
{
	static const uint8_t zeros[SGPU_TAR_BLOCK];
	const struct sgpu_payload *p =
		sgpu_run_payload(w->run, segment_of(w, response, index), true);
	uint8_t header[SGPU_TAR_BLOCK];
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_batch_payload_header(response, index, header, error);

	rc = rc ? rc : put(w, header, sizeof(header), error);
	if (rc == SGPU_OK && p->data) {
		rc = put(w, p->data, p->size, error);
		atomic_fetch_add(&w->run->bytes_out, p->size);
		sgpu_payload_note(p, SGPU_SPAN_WRITE, begin, sgpu_now_ns(), p->size);
	} else if (rc == SGPU_OK) {
		rc = flush(w, error);
		if (rc == SGPU_OK && lseek(w->fd, (off_t)p->size, SEEK_CUR) < 0) {
			rc = sgpu_fail_errno(error, "cannot seek in '%s'", w->name);
		}
	}
	return rc ? rc : put(w, zeros, (size_t)(-p->size % SGPU_TAR_BLOCK), error);
}

/* ---- results that are in the file before the response is known ---- */
/* Computes where payloads are in the file if the response, a tar, begins at `begin`: its head, then
 * each payload after a header, padded to blocks. *places: from malloc, by segment of the manifest,
 * or 0. */
static int place_payloads(const struct writer *w, struct sgpu_batch *response, uint64_t begin,
			  uint64_t **places, struct sgpu_error *error)
{
	uint8_t *head = NULL;
	size_t size = 0;
	int rc = sgpu_batch_head(response, &head, &size, error);
	uint64_t at = begin + size;

	free(head);
	if (rc != SGPU_OK) {
		return rc;
	}
	*places = calloc((size_t)w->job->manifest->segment_count + 1, sizeof(**places));
	if (!*places) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < response->segment_count; i++) {
		if (response->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			at += SGPU_TAR_BLOCK;
			(*places)[segment_of(w, response, i)] = at;
			at += sgpu_tar_padded(sgpu_batch_payload_size(response, i));
		}
	}
	return SGPU_OK;
}

/* A payload that goes up is moved from its end, so no byte is overwritten unread. */
static int move_one(int fd, const char *name, const struct sgpu_moved *moved, uint8_t *buffer,
		    struct sgpu_error *error)
{
	const bool up = moved->to > moved->from;
	int rc = SGPU_OK;

	for (uint64_t done = 0; rc == SGPU_OK && done < moved->size;) {
		size_t count = moved->size - done < BUFFER ? (size_t)(moved->size - done) : BUFFER,
		       got = 0;
		uint64_t at = up ? moved->size - done - count : done;

		rc = sgpu_pread(fd, name, buffer, count, moved->from + at, &got, error);
		if (rc == SGPU_OK && got < count) {
			rc = sgpu_fail(error, SGPU_ESYSTEM, "'%s' was cut short", name);
		}
		rc = rc ? rc : sgpu_pwrite(fd, name, buffer, count, moved->to + at, error);
		done += count;
	}
	return rc;
}

/* Moves payloads up, last one first, then down, first one first: each finds its place free. */
int sgpu_place_move(int fd, const char *name, const struct sgpu_moved *list, int count,
		    struct sgpu_error *error)
{
	uint8_t *buffer = malloc(BUFFER);
	int rc = buffer ? SGPU_OK : sgpu_fail_nomem(error);

	for (int i = count; rc == SGPU_OK && i-- > 0;) {
		rc = list[i].to > list[i].from ? move_one(fd, name, &list[i], buffer, error)
					       : SGPU_OK;
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = list[i].to < list[i].from ? move_one(fd, name, &list[i], buffer, error)
					       : SGPU_OK;
	}
	sgpu_free_wiped(&buffer, BUFFER);
	return rc;
}

/* Moves results that are already in the file to their places in this response. */
static int settle_places(struct writer *w, struct sgpu_batch *response, struct sgpu_error *error)
{
	struct sgpu_moved *moves = calloc((size_t)response->segment_count + 1, sizeof(*moves));
	uint64_t *places = NULL;
	off_t begin = lseek(w->fd, 0, SEEK_CUR);
	int rc = begin < 0 ? sgpu_fail_errno(error, "cannot seek in '%s'", w->name)
			   : place_payloads(w, response, (uint64_t)begin, &places, error);
	int moved = 0;

	rc = rc == SGPU_OK && !moves ? sgpu_fail_nomem(error) : rc;
	for (int i = 0; rc == SGPU_OK && i < response->segment_count; i++) {
		const int segment = segment_of(w, response, i);
		const struct sgpu_payload *p = sgpu_run_payload(w->run, segment, true);

		if (places[segment] > 0 && !p->data && p->place != places[segment]) {
			moves[moved++] = (struct sgpu_moved){ p->place, places[segment], p->size };
		}
	}
	if (rc == SGPU_OK && moved > 0) {
		rc = sgpu_place_move(w->fd, w->name, moves, moved, error);
	}
	free(moves);
	free(places);
	return rc;
}

static int write_response(struct writer *w, struct sgpu_batch *response, struct sgpu_error *error)
{
	static const uint8_t end[2 * SGPU_TAR_BLOCK];
	uint8_t *head = NULL;
	size_t size = 0;
	int rc = w->placed ? settle_places(w, response, error) : SGPU_OK;

	rc = rc ? rc : sgpu_batch_head(response, &head, &size, error);
	rc = rc ? rc : put(w, head, size, error);
	for (int i = 0; rc == SGPU_OK && i < response->segment_count; i++) {
		if (response->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			rc = write_payload(w, response, i, error);
		}
	}
	rc = rc ? rc : put(w, end, sizeof(end), error);
	rc = rc ? rc : flush(w, error);
	free(head);
	return rc == SGPU_OK && (w->placed || w->run->reserved) ? sgpu_respond_cut(w->run, error)
								: rc;
}

/* Returns one code for all failed segments, which the response lists. */
static int verdict(const struct sgpu_run *run, const struct sgpu_batch *response,
		   struct sgpu_error *error)
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
	for (int i = 0; i < run->job.batch->segment_count; i++) {
		const struct sgpu_payload *p = &run->payloads[i];

		if (p->code != SGPU_OK &&
		    run->job.manifest->segments[p->segment].reader_count == 0) {
			return sgpu_fail(error, SGPU_ESEGMENTS, "%s; no operation reads it",
					 p->text);
		}
	}
	return SGPU_OK;
}

static void note_size(struct sgpu_run *run, const struct sgpu_batch *response)
{
	run->result.response_size = 0;
	for (int i = 0; i < response->segment_count; i++) {
		if (response->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			run->result.response_size += sgpu_batch_payload_size(response, i);
		}
	}
}

int sgpu_respond(struct sgpu_run *run, struct sgpu_error *error)
{
	uint8_t gathered[GATHER_MAX];
	struct writer w = { .run = run,
			    .job = &run->job,
			    .has_run = true,
			    .fd = run->submission.out_fd,
			    .name = run->submission.out_name,
			    .placed = run->places != NULL,
			    .gathered = gathered };
	struct sgpu_batch *response = NULL;
	int rc = make_response(&w, &response, error);

	if (rc == SGPU_OK) {
		note_size(run, response);
		sgpu_lent_offer(run); /* readers of the response may take that lease now */
		rc = write_response(&w, response, error);
	}
	if (rc != SGPU_OK) {
		sgpu_lent_withdraw(run);
	} else {
		rc = verdict(run, response, error);
	}
	sgpu_batch_free(&response);
	return rc;
}

int sgpu_respond_cut(const struct sgpu_run *run, struct sgpu_error *error)
{
	off_t end = lseek(run->submission.out_fd, 0, SEEK_CUR);

	return end >= 0 && ftruncate(run->submission.out_fd, end) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot cut '%s' off", run->submission.out_name);
}

/* ---- before the results are known ---- */
/* Whether the batch alone says every result's size, if none fails. */
static bool is_foreseeable(const struct sgpu_job *job)
{
	for (int i = 0; i < job->manifest->operation_count; i++) {
		struct sgpu_op_call call;

		if (sgpu_ops_prepare(job->manifest, i, &call, NULL) != SGPU_OK ||
		    (call.op->at_most && call.op->at_most(&call))) {
			return false;
		}
	}
	return true;
}

int sgpu_respond_reserve(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_job *job = &run->job;
	const int fd = run->submission.out_fd;
	const off_t begin = lseek(fd, 0, SEEK_CUR);
	struct statfs about = { 0 };
	struct stat status;
	bool placed, recorded;
	uint64_t most;

	/* A file with a name may belong to somebody who does not want it cut. */
	if (begin < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	    (status.st_nlink > 0 && !job->options->new_response) || fstatfs(fd, &about) != 0) {
		return SGPU_OK;
	}
	placed = run->places && !run->runner->shared_files && about.f_type == TMPFS_MAGIC;
	/* In memory without a limit, as of a memfd, nothing is reserved for others: a batch's head
	 * alone would occupy it. */
	recorded = job->options->replay && !(about.f_type == TMPFS_MAGIC && about.f_blocks == 0);
	if ((!placed && !recorded) || !sgpu_results_size(job, 2 * SGPU_TAR_BLOCK, &most) ||
	    !sgpu_add_u64(most, INDEX_MOST + sgpu_tar_padded(job->batch->note_size), &most) ||
	    most > INT64_MAX - (uint64_t)begin) {
		return SGPU_OK; /* a batch that is too large fails with a better error */
	}
	run->reserved = fallocate(fd, FALLOC_FL_KEEP_SIZE, begin, (off_t)most) == 0;
	if (!run->reserved && recorded && (errno == ENOSPC || errno == EDQUOT)) {
		run->result.response_size = most;
		return sgpu_fail_errno(error, "cannot reserve %llu bytes for the response '%s'",
				       (unsigned long long)most, run->submission.out_name);
	}
	return SGPU_OK; /* or the file system cannot reserve */
}

int sgpu_respond_plan(struct sgpu_run *run, struct sgpu_error *error)
{
	const int fd = run->submission.out_fd;
	const uint64_t least = 1 << 20; /* bytes; below that, memory is as fast */
	struct writer w = { .run = run, .job = &run->job };
	struct sgpu_batch *response = NULL;
	struct stat status;
	uint64_t bytes;
	off_t begin;
	int rc;

	if (run->job.manifest->all_or_nothing || !sgpu_results_size(&run->job, 0, &bytes) ||
	    bytes < least || !is_foreseeable(&run->job)) {
		return SGPU_OK;
	}
	begin = lseek(fd, 0, SEEK_CUR);
	/* Results to be moved are read again, so the file must be readable. */
	if (begin < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	    (fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND)) != O_RDWR) {
		return SGPU_OK;
	}
	rc = make_response(&w, &response, error);
	rc = rc ? rc : place_payloads(&w, response, (uint64_t)begin, &run->places, error);
	if (rc == SGPU_OK) {
		note_size(run, response);
	}
	sgpu_batch_free(&response);
	return rc;
}
