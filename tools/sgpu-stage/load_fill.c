/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies payloads into the region. Memory is allocated piece by piece, as data arrive, so a batch
 * that only claims to be large gets none. Digests of LOW payloads are checked in the region itself,
 * on the bytes that a runner will read.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "batch/batch.h"
#include "crypto/crypto.h"
#include "dsa/dsa.h"

#include "cli.h"
#include "load.h"
#include "verbs.h"

enum { PIECE = 1 << 20, LARGE = 64 << 20 }; /* LARGE: the least bytes for an accelerator */

/* One payload that is read from a file, on several threads. */
struct copy {
	struct load *load;
	const struct load_slice *slice;
	const struct sgpu_source *source;
	pthread_mutex_t lock;
	int code; /* of the first piece that failed */
	struct sgpu_error error;
};

static int canceled(struct sgpu_error *error)
{
	return sgpu_io_interrupted() ? sgpu_fail(error, SGPU_ECANCELED, "interrupted") : SGPU_OK;
}

static int copy_range(struct copy *copy, uint64_t begin, uint64_t end, struct sgpu_error *error)
{
	const struct sgpu_source *from = copy->source;
	const uint64_t at = copy->slice->offset + begin;
	size_t got = 0;
	int rc = canceled(error);

	rc = rc ? rc : sgpu_region_back(&copy->load->region, at, end - begin, error);
	rc = rc ? rc
		: sgpu_dsa_pread(copy->load->dsa, from->fd, from->name,
				 copy->load->region.data + at, end - begin, from->offset + begin,
				 &got, error);
	if (rc == SGPU_OK && got != end - begin) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read", from->name);
	}
	return rc;
}

static void copy_piece(void *argument, uint64_t begin, uint64_t end)
{
	struct copy *copy = argument;
	struct sgpu_error error;
	int rc = copy_range(copy, begin, end, &error);

	pthread_mutex_lock(&copy->lock);
	if (rc != SGPU_OK && copy->code == SGPU_OK) {
		copy->code = rc;
		copy->error = error;
		sgpu_pool_cancel(copy->load->pool, true);
	}
	copy->load->done += end - begin;
	cli_progress(NULL, copy->load->done);
	pthread_mutex_unlock(&copy->lock);
}

/* Copies a payload from a regular file, by all threads of the pool. */
static int fill_positioned(struct load *load, const struct load_slice *slice,
			   const struct sgpu_source *source, struct sgpu_error *error)
{
	struct copy copy = { .load = load, .slice = slice, .source = source };
	int rc;

	if (pthread_mutex_init(&copy.lock, NULL) != 0) {
		return sgpu_fail_nomem(error);
	}
	sgpu_pool_enter(load->pool);
	rc = sgpu_pool_for(load->pool, slice->size, PIECE, copy_piece, &copy);
	sgpu_pool_leave(load->pool);
	pthread_mutex_destroy(&copy.lock);
	if (copy.code != SGPU_OK) {
		if (error) {
			*error = copy.error;
		}
		return copy.code;
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "interrupted");
}

static int fill_stream(struct load *load, const struct load_slice *slice, struct sgpu_error *error)
{
	uint64_t done, piece;
	int rc = SGPU_OK;

	for (done = 0; rc == SGPU_OK && done < slice->size; done += piece) {
		piece = slice->size - done < PIECE ? slice->size - done : PIECE;
		rc = sgpu_region_back(&load->region, slice->offset + done, piece, error);
		rc = rc ? rc
			: sgpu_tar_read(load->reader, load->region.data + slice->offset + done,
					piece, error);
		load->done += piece;
		cli_progress(NULL, load->done);
	}
	return rc;
}

static int fill_inline(struct load *load, int segment, struct sgpu_error *error)
{
	const struct load_slice *slice = &load->slices[segment];
	struct sgpu_source source = { .fd = sgpu_tar_fd(load->reader) };
	const off_t position = lseek(source.fd, 0, SEEK_CUR);
	struct stat status;
	int rc;

	if (position < 0 || fstat(source.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		return fill_stream(load, slice, error);
	}
	source.offset = (uint64_t)position;
	snprintf(source.name, sizeof(source.name), "%s", load->in_name);
	rc = fill_positioned(load, slice, &source, error);
	if (rc == SGPU_OK) {
		sgpu_tar_consumed(load->reader, slice->size);
	}
	return rc;
}

static int fill_file(struct load *load, int segment, struct sgpu_error *error)
{
	const struct load_slice *slice = &load->slices[segment];
	struct sgpu_source source;
	int rc = sgpu_leases_source(load->leases, &load->batch->segments[segment].location,
				    slice->size, false, &source, error);

	if (rc < 0) {
		return rc;
	}
	rc = fill_positioned(load, slice, &source, error);
	sgpu_source_close(&source);
	return rc;
}

static int check_digest(const struct load *load, int segment, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &load->batch->segments[segment];
	const struct load_slice *slice = &load->slices[segment];
	uint8_t digest[SGPU_KT128_SIZE];
	int rc;

	if (s->sealed || !s->has_kt128) {
		return SGPU_OK;
	}
	sgpu_pool_enter(load->pool);
	rc = sgpu_kt128_shared(load->pool, load->region.data + slice->offset, slice->size, NULL, 0,
			       digest, sizeof(digest), error);
	sgpu_pool_leave(load->pool);
	if (rc == SGPU_OK && !sgpu_equal(digest, s->kt128, sizeof(digest))) {
		rc = sgpu_fail(error, SGPU_EAUTH, "the kt128 of segment '%s' does not match",
			       s->id);
	}
	return rc;
}

int load_fill(struct load *load, struct sgpu_error *error)
{
	char size[STAGE_BYTES_TEXT];
	struct sgpu_error why;
	const char *reason;
	int segment = 0, rc = sgpu_pool_create(load->jobs, &load->pool, error);

	if (load->payload >= LARGE && sgpu_dsa_open(&load->dsa, &why) != SGPU_OK) {
		cli_detail("no accelerator copies: %s", why.text);
	}
	while (rc == SGPU_OK && segment >= 0) {
		rc = sgpu_batch_next_payload(load->reader, load->batch, &segment, error);
		if (rc == SGPU_OK && segment >= 0) {
			rc = fill_inline(load, segment, error);
			rc = rc ? rc : check_digest(load, segment, error);
		}
	}
	for (int i = 0; rc == SGPU_OK && i < load->batch->segment_count; i++) {
		const struct load_slice *slice = &load->slices[i];
		const struct sgpu_batch_segment *s = &load->batch->segments[i];

		if (slice->staged && s->location.kind == SGPU_LOCATION_FILE) {
			rc = fill_file(load, i, error);
			rc = rc ? rc : check_digest(load, i, error);
		} else if (slice->staged && !s->input) {
			/* An output's memory is allocated now, so that a runner cannot run out of
			 * it. */
			rc = sgpu_region_back(&load->region, slice->offset, slice->size, error);
		}
	}
	if (load->dsa) {
		const uint64_t copied = sgpu_dsa_copied(load->dsa, &reason);

		cli_detail("an accelerator copied %s%s%s", stage_bytes(copied, size),
			   reason[0] ? ": " : "", reason);
	}
	sgpu_dsa_close(&load->dsa);
	sgpu_pool_free(&load->pool);
	return rc ? rc : canceled(error);
}
