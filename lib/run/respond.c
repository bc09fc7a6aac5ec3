/* SPDX-License-Identifier: Apache-2.0
 *
 * The response: each output's outcome, and the payloads of those that did not fail. It names the
 * batch's recipients, so that the owner can open it without having kept anything of the batch.
 */
#include "base/io.h"
#include "stage/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "batch/tar.h"
#include "run/private.h"

enum {
	GATHER_MAX = 32 << 10, /* bytes of a response that are written together */
	HEAD_MOST = 64 << 10,  /* bytes of a response before its payloads, without what follows: */
	LINES_MOST = 512,      /* bytes of a segment in index and locations */
	BUFFER = 1 << 20,
};

static int fill_failure(struct sgpu_batch_segment *to, int rc, const char *text,
			struct sgpu_error *error)
{
	to->status = rc;
	to->error_text = strdup(text);
	to->size = 0;
	to->sealed = false;
	to->has_kt128 = false;
	to->location.kind = SGPU_LOCATION_NONE;
	return to->error_text ? SGPU_OK : sgpu_fail_nomem(error);
}

/* Says what became of an output or, before the batch has run, what will if nothing fails. */
static int fill_segment(struct sgpu_run *run, int in_batch, struct sgpu_batch_segment *to,
			struct sgpu_error *error)
{
	const struct sgpu_location with_response = { .kind = SGPU_LOCATION_INLINE };
	const struct sgpu_batch_segment *asked = &run->job.batch->segments[in_batch];
	const int segment = run->job.to_manifest[in_batch];
	const struct sgpu_payload *p = sgpu_run_payload(run, segment, true);
	const char *text = p->text;
	int rc = SGPU_OK;

	to->id = strdup(asked->id);
	to->masking = asked->masking;
	if (!to->id) {
		return sgpu_fail_nomem(error);
	}
	if (sgpu_operations_ended(run)) {
		rc = sgpu_operations_outcome(run, run->job.manifest->segments[segment].writer,
					     &text);
		rc = rc ? rc : p->code;
		rc = rc == SGPU_OK && !p->ended ? SGPU_EDEPENDENCY : rc;
	}
	if (rc != SGPU_OK) {
		return fill_failure(to, rc, text ? text : sgpu_strerror(rc), error);
	}
	to->size = p->actual;
	to->location = asked->place ? *asked->place : with_response;
	if (p->sealed) {
		to->sealed = true;
		to->sealed_size = p->size;
	} else {
		to->has_kt128 = true;
		memcpy(to->kt128, p->digest, sizeof(to->kt128));
	}
	return SGPU_OK;
}

/* The timings or, while nothing has run, times with the usual number of digits. */
static json_t *timings(const struct sgpu_run *run)
{
	const bool has_run = sgpu_operations_ended(run);
	const json_int_t usual_ns = 10000000;
	json_t *object = json_object();
	json_int_t total = (json_int_t)(sgpu_now_ns() - atomic_load(&run->begin_ns));
	int rc = 0; /* setting a member of NULL fails */

	for (int i = 0; rc == 0 && i < SGPU_SPAN_KINDS; i++) {
		json_int_t ns = has_run ? (json_int_t)run->result.totals[i].ns : usual_ns;

		if (i != SGPU_SPAN_WRITE &&
		    (i != SGPU_SPAN_MOVE || run->job.plan->move_count > 0)) {
			rc = json_object_set_new(object, sgpu_span_name((enum sgpu_span_kind)i),
						 json_integer(ns));
		}
	}
	rc = rc ? rc
		: json_object_set_new(object, "total", json_integer(has_run ? total : usual_ns));
	if (rc < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int make_response(struct sgpu_run *run, struct sgpu_batch **response,
			 struct sgpu_error *error)
{
	const struct sgpu_job *job = &run->job;
	const struct sgpu_batch_segment *failed = NULL;
	struct sgpu_batch *r = calloc(1, sizeof(*r));
	int rc;

	*response = r;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->response = true;
	memcpy(r->id, job->batch->id, sizeof(r->id));
	memcpy(r->manifest_sha256, job->batch->manifest_sha256, sizeof(r->manifest_sha256));
	memcpy(r->response_id, job->response_id, sizeof(r->response_id));
	rc = sgpu_batch_identity(job->batch, r->identity, error);
	r->segments = calloc((size_t)job->batch->segment_count + 1, sizeof(*r->segments));
	r->note_size = job->batch->note_size;
	r->note = job->batch->note ? malloc(r->note_size + 1) : NULL;
	if (!r->segments || (job->batch->note && !r->note)) {
		return sgpu_fail_nomem(error);
	}
	if (r->note) {
		memcpy(r->note, job->batch->note, r->note_size);
	}
	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		if (sgpu_segment_is_output(&job->manifest->segments[job->to_manifest[i]])) {
			rc = fill_segment(run, i, &r->segments[r->segment_count++], error);
		}
	}
	for (int i = 0; job->manifest->all_or_nothing && i < r->segment_count; i++) {
		failed = r->segments[i].status != SGPU_OK ? &r->segments[i] : failed;
	}
	for (int i = 0; failed && rc == SGPU_OK && i < r->segment_count; i++) {
		if (r->segments[i].status == SGPU_OK) {
			rc = fill_failure(&r->segments[i], SGPU_EDEPENDENCY,
					  sgpu_run_text(run,
							"withheld, since '%s' failed: the "
							"manifest's on_failure is 'all'",
							failed->id),
					  error);
		}
	}
	run->result.response_size = 0;
	for (int i = 0; rc == SGPU_OK && i < r->segment_count; i++) {
		if (r->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			run->result.response_size += sgpu_batch_payload_size(r, i);
		}
	}
	r->timings = timings(run);
	if (rc == SGPU_OK && !r->timings) {
		rc = sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK && job->batch->has_mac) {
		r->recipients = json_deep_copy(job->batch->recipients);
		rc = r->recipients ? sgpu_batch_sign(r, job->batch_key, error)
				   : sgpu_fail_nomem(error);
	}
	return rc;
}

/* The payload of a segment of the response. */
static struct sgpu_payload *payload_of(const struct sgpu_run *run,
				       const struct sgpu_batch *response, int index)
{
	const char *id = response->segments[index].id;

	return sgpu_run_payload(run, sgpu_manifest_segment(run->job.manifest, id), true);
}

/* Gathers small pieces of the response, to write them together. */
struct writer {
	struct sgpu_run *run;
	size_t size;
	uint8_t gathered[GATHER_MAX];
};

static int flush(struct writer *w, struct sgpu_error *error)
{
	const struct sgpu_submission *to = &w->run->submission;
	const size_t size = w->size;

	w->size = 0;
	return size > 0 ? sgpu_write(to->out_fd, to->out_name, w->gathered, size, error) : SGPU_OK;
}

/* Writes bytes, small ones together. */
static int put(struct writer *w, const void *data, size_t size, struct sgpu_error *error)
{
	const struct sgpu_submission *to = &w->run->submission;
	int rc = size > GATHER_MAX - w->size ? flush(w, error) : SGPU_OK;

	if (rc == SGPU_OK && size > GATHER_MAX) {
		return sgpu_write(to->out_fd, to->out_name, data, size, error);
	}
	if (rc == SGPU_OK) {
		memcpy(w->gathered + w->size, data, size);
		w->size += size;
	}
	return rc;
}

/* Writes a payload, or seeks past one that is in its place already. */
static int write_payload(struct writer *w, const struct sgpu_batch *response, int index,
			 struct sgpu_error *error)
{
	static const uint8_t zeros[SGPU_TAR_BLOCK];
	const struct sgpu_payload *p = payload_of(w->run, response, index);
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
		if (rc == SGPU_OK &&
		    lseek(w->run->submission.out_fd, (off_t)p->size, SEEK_CUR) < 0) {
			rc = sgpu_fail_errno(error, "cannot seek in '%s'",
					     w->run->submission.out_name);
		}
	}
	return rc ? rc : put(w, zeros, (size_t)(-p->size % SGPU_TAR_BLOCK), error);
}

/* ---- results that are in the file before the response is known ---- */
/* A payload that goes up is moved from its end, so no byte is overwritten unread. */
static int move_one(int fd, const char *name, const struct sgpu_moved *moved, uint8_t *buffer,
		    struct sgpu_error *error)
{
	const bool up = moved->to > moved->from;
	int rc = SGPU_OK;

	for (uint64_t done = 0; rc == SGPU_OK && done < moved->size;) {
		const size_t count = (size_t)sgpu_min_u64(moved->size - done, BUFFER);
		size_t got = 0;
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

/* Places the payloads in the file, where the response, a tar, begins at the current position: after
 * its head, each after a header, padded to blocks. Moves those that had other places before. */
static int place_payloads(struct sgpu_run *run, const struct sgpu_batch *response, size_t head_size,
			  struct sgpu_error *error)
{
	struct sgpu_moved *moves = calloc((size_t)response->segment_count + 1, sizeof(*moves));
	const off_t begin = lseek(run->submission.out_fd, 0, SEEK_CUR);
	uint64_t at = (uint64_t)begin + head_size;
	int moved = 0, rc = moves ? SGPU_OK : sgpu_fail_nomem(error);

	if (rc == SGPU_OK && begin < 0) {
		rc = sgpu_fail_errno(error, "cannot seek in '%s'", run->submission.out_name);
	}
	for (int i = 0; rc == SGPU_OK && i < response->segment_count; i++) {
		struct sgpu_payload *p = payload_of(run, response, i);

		if (response->segments[i].location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		at += SGPU_TAR_BLOCK;
		if (p->place > 0 && p->place != at) {
			moves[moved++] = (struct sgpu_moved){ p->place, at, p->size };
		}
		p->place = at;
		at += sgpu_tar_padded(sgpu_batch_payload_size(response, i));
	}
	if (rc == SGPU_OK && moved > 0) {
		rc = sgpu_place_move(run->submission.out_fd, run->submission.out_name, moves, moved,
				     error);
	}
	free(moves);
	return rc;
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

int sgpu_respond(struct sgpu_run *run, struct sgpu_error *error)
{
	static const uint8_t end[2 * SGPU_TAR_BLOCK];
	struct writer w;
	struct sgpu_batch *response = NULL;
	uint8_t *head = NULL;
	size_t size = 0;
	int rc = make_response(run, &response, error);

	w.run = run;
	w.size = 0;
	if (rc == SGPU_OK) {
		/* Readers of the response may take that lease now. */
		sgpu_leases_offer(&run->leases);
		rc = sgpu_batch_head(response, false, &head, &size, error);
	}
	rc = rc || !run->cut ? rc : place_payloads(run, response, size, error);
	rc = rc ? rc : put(&w, head, size, error);
	for (int i = 0; rc == SGPU_OK && i < response->segment_count; i++) {
		if (response->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			rc = write_payload(&w, response, i, error);
		}
	}
	rc = rc ? rc : put(&w, end, sizeof(end), error);
	rc = rc ? rc : flush(&w, error);
	rc = rc ? rc : sgpu_respond_cut(run, error);
	free(head);
	if (rc != SGPU_OK) {
		sgpu_leases_withdraw(&run->leases);
	} else {
		rc = verdict(run, response, error);
	}
	sgpu_batch_free(&response);
	return rc;
}

int sgpu_respond_cut(const struct sgpu_run *run, struct sgpu_error *error)
{
	off_t end;

	if (!run->cut) {
		return SGPU_OK;
	}
	end = lseek(run->submission.out_fd, 0, SEEK_CUR);
	return end >= 0 && ftruncate(run->submission.out_fd, end) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot cut '%s' off", run->submission.out_name);
}

/* ---- before the results are known ---- */
int sgpu_respond_reserve(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_job *job = &run->job;
	const int fd = run->submission.out_fd;
	const off_t begin = lseek(fd, 0, SEEK_CUR);
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	struct statfs about = { 0 };
	struct stat status;
	uint64_t most;
	bool reserved;

	/* A file with a name may belong to somebody who does not want it cut. */
	if (!job->options->replay || begin < 0 || fstat(fd, &status) != 0 ||
	    !S_ISREG(status.st_mode) || (status.st_nlink > 0 && !job->options->new_response) ||
	    fstatfs(fd, &about) != 0) {
		return SGPU_OK;
	}
	/* A memory file without a limit is skipped: reserving gains nothing there, and a batch's
	 * head alone could take all memory. */
	if ((about.f_type == TMPFS_MAGIC && about.f_blocks == 0) ||
	    !sgpu_results_size(job, 2 * SGPU_TAR_BLOCK, &most) ||
	    !sgpu_add_u64(most,
			  HEAD_MOST + strlen(job->batch->payload) +
				  (uint64_t)job->batch->segment_count * LINES_MOST +
				  sgpu_tar_padded(job->batch->note_size),
			  &most) ||
	    most > INT64_MAX - (uint64_t)begin) {
		return SGPU_OK; /* a batch that is too large fails with a better error */
	}
	(void)getrlimit(RLIMIT_FSIZE, &limit);
	errno = EFBIG; /* not every file system looks at the limit when it reserves */
	reserved = (uint64_t)begin + most <= limit.rlim_cur &&
		   fallocate(fd, FALLOC_FL_KEEP_SIZE, begin, (off_t)most) == 0;
	run->cut |= reserved;
	if (!reserved && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
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
	struct sgpu_batch *response = NULL;
	uint8_t *head = NULL;
	size_t size = 0;
	struct stat status;
	uint64_t bytes;
	int rc;

	/* Results to be moved are read again, so the file must be readable. */
	if (run->job.manifest->all_or_nothing || run->job.plan->unknown_sizes ||
	    !sgpu_results_size(&run->job, 0, &bytes) || bytes < least || fstat(fd, &status) != 0 ||
	    !S_ISREG(status.st_mode) || (fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND)) != O_RDWR) {
		return SGPU_OK;
	}
	run->cut = true;
	rc = make_response(run, &response, error);
	rc = rc ? rc : sgpu_batch_head(response, false, &head, &size, error);
	rc = rc ? rc : place_payloads(run, response, size, error);
	free(head);
	sgpu_batch_free(&response);
	return rc;
}
