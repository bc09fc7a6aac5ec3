/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads on their way: copied, sealed, opened.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"
#include "parts.h"

enum { PIECE = 1 << 18 };

static int feed_read(struct seal_feed *feed, void *data, size_t size, struct sgpu_error *error)
{
	if (feed->reader) {
		return sgpu_tar_read(feed->reader, data, size, error);
	}
	size_t got = 0;
	const int code = sgpu_pread(feed->fd, feed->name, data, size, feed->offset, &got, error);
	if (!code && got != size) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read", feed->name);
	}
	feed->offset += got;
	return code;
}

static int copy_pieces(struct seal_feed *feed, uint64_t size, uint8_t *buffer, int fd, const char *name,
		       struct sgpu_kt128 *hash, const struct seal_meter *meter, struct sgpu_error *error)
{
	uint64_t done = 0;
	int code = 0;
	while (!code && done < size) {
		const size_t piece = size - done < PIECE ? (size_t)(size - done) : PIECE;
		code = feed_read(feed, buffer, piece, error);
		if (!code && hash) {
			sgpu_kt128_update(hash, buffer, piece);
		}
		if (!code) {
			code = sgpu_write(fd, name, buffer, piece, error);
		}
		done += piece;
		cli_progress(NULL, meter->done + done);
	}
	return code;
}

int seal_copy(struct seal_feed *feed, uint64_t size, int fd, const char *name, const uint8_t *kt128,
	      struct seal_meter *meter, struct sgpu_error *error)
{
	struct sgpu_kt128 *hash = NULL;
	uint8_t digest[SGPU_KT128_SIZE];
	int code = 0;
	uint8_t *buffer = malloc(size < PIECE ? (size_t)size + 1 : PIECE);
	if (!buffer) {
		code = sgpu_fail_nomem(error);
		goto out;
	}
	code = kt128 ? sgpu_kt128_create(&hash, error) : 0;
	if (!code) {
		code = copy_pieces(feed, size, buffer, fd, name, hash, meter, error);
	}
	if (!code && kt128) {
		sgpu_kt128_finish(hash, NULL, 0, digest, sizeof(digest));
		if (!sgpu_equal(digest, kt128, sizeof(digest))) {
			code = sgpu_fail(error, SGPU_EAUTH, "the kt128 of '%s' does not match", feed->name);
		}
	}
	meter->done += size;
out:
	sgpu_kt128_free(&hash);
	free(buffer);
	return code;
}

static void progress(void *argument, uint64_t bytes)
{
	const struct seal_meter *meter = argument;
	cli_progress(NULL, meter->done + bytes);
}

static void begin_job(struct sgpu_seal_job *job, const struct seal_feed *feed, uint64_t size,
		      const struct seal_secret *secret, int fd, const char *name, struct seal_meter *meter)
{
	*job = (struct sgpu_seal_job){ .key = secret->key, .context = secret->context,
				       .context_size = secret->context_size, .size = size, .jobs = meter->jobs,
				       .progress = progress, .progress_argument = meter };
	if (feed->reader) {
		sgpu_seal_end_from_fd(sgpu_tar_fd(feed->reader), feed->name, &job->in);
	} else {
		job->in = (struct sgpu_seal_end){ .fd = feed->fd, .name = feed->name, .positioned = true,
						  .offset = feed->offset };
	}
	sgpu_seal_end_from_fd(fd, name, &job->out);
}

static int end_job(struct sgpu_seal_job *job, struct seal_feed *feed, struct seal_meter *meter,
		   struct sgpu_error *error)
{
	if (feed->reader) {
		sgpu_tar_consumed(feed->reader, job->size);
	}
	meter->done += job->size;
	if (job->out.positioned && lseek(job->out.fd, (off_t)job->out.offset, SEEK_SET) < 0) {
		return sgpu_fail_errno(error, "cannot seek in '%s'", job->out.name);
	}
	return 0;
}

int seal_payload(struct seal_feed *feed, uint64_t size, const struct seal_secret *secret, int fd, const char *name,
		 struct seal_meter *meter, struct sgpu_error *error)
{
	struct sgpu_seal_job job;
	begin_job(&job, feed, size, secret, fd, name, meter);
	const int code = sgpu_seal_stream(&job, error);
	return code ? code : end_job(&job, feed, meter, error);
}

/* A stream that ends inside the payload was cut, whatever the seal says of what is there: behind a payload there is
 * always more of an archive. */
static int blame_archive(const struct seal_feed *feed, int code, struct sgpu_error *error)
{
	uint8_t byte = 0;
	size_t got = 1;
	if (!feed->reader || code != SGPU_EAUTH ||
	    sgpu_read(sgpu_tar_fd(feed->reader), feed->name, &byte, 1, &got, NULL) || got) {
		return code;
	}
	return sgpu_fail(error, SGPU_EINVALID, "'%s' is cut short", feed->name);
}

int open_payload(struct seal_feed *feed, uint64_t size, const struct seal_secret *secret, int fd, const char *name,
		 bool fresh, struct seal_meter *meter, struct sgpu_error *error)
{
	struct sgpu_seal_job job;
	begin_job(&job, feed, size, secret, fd, name, meter);
	job.sparse = fresh;
	/* What is written elsewhere stays even if a later chunk fails: then it must be a prefix, without gaps. */
	job.out.positioned = job.out.positioned && fresh;
	const int code = sgpu_open_stream(&job, error);
	return code ? blame_archive(feed, code, error) : end_job(&job, feed, meter, error);
}

int seal_pass_through(struct sgpu_tar_reader *reader, const struct sgpu_batch *batch, int fd, const char *name,
		      struct seal_meter *meter, struct sgpu_error *error)
{
	for (;;) {
		int segment = -1;
		int code = sgpu_batch_next_payload(reader, batch, &segment, error);
		if (code || segment < 0) {
			return code;
		}
		struct seal_feed feed = { .reader = reader, .name = batch->segments[segment].id };
		const struct sgpu_batch_segment *s = &batch->segments[segment];
		code = sgpu_batch_payload_begin(fd, name, batch, segment, error);
		if (!code) {
			code = seal_copy(&feed, sgpu_batch_payload_size(batch, segment), fd, name,
					 s->has_kt128 ? s->kt128 : NULL, meter, error);
		}
		if (!code) {
			code = sgpu_batch_payload_end(fd, name, batch, segment, error);
		}
		if (code) {
			return code;
		}
	}
}
