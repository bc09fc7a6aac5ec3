/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads on their way: copied, sealed, opened.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/digest.h>

#include "cli.h"
#include "parts.h"

enum {
	PIECE = 1 << 18,
	PIECE_SHARED = 4 << 20, /* so much that all cores have something of it */
	SHARED_MIN = 4 << 20,   /* payloads from here on are worth starting threads for */
	WINDOW = 32 << 20,      /* between two looks at the progress */
};

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

/* In order, through memory: a stream's way. All cores of the pool digest a piece, if there is one. */
static int copy_pieces(struct seal_feed *feed, uint64_t size, int fd, const char *name, struct sgpu_kt128 *hash,
		       struct sgpu_pool *pool, const struct seal_meter *meter, struct sgpu_error *error)
{
	const size_t most = pool ? PIECE_SHARED : PIECE;
	uint8_t *buffer = malloc(size < most ? (size_t)size + 1 : most);
	int code = buffer ? SGPU_OK : sgpu_fail_nomem(error);

	for (uint64_t done = 0, piece; !code && done < size; done += piece) {
		piece = size - done < most ? size - done : most;
		code = feed_read(feed, buffer, (size_t)piece, error);
		if (!code && hash) {
			code = sgpu_kt128_update_shared(hash, pool, buffer, (size_t)piece, error);
		}
		if (!code) {
			code = sgpu_write(fd, name, buffer, (size_t)piece, error);
		}
		cli_progress(NULL, meter->done + done + piece);
	}
	free(buffer);
	return code;
}

/* Whether the payload is in a file that has all of it, and goes to one: then every core copies its share. */
static bool by_position(const struct seal_feed *feed, uint64_t size, int fd, struct sgpu_file_place *from,
			struct sgpu_file_place *to)
{
	struct sgpu_descriptor in = { .fd = feed->fd, .positioned = true, .offset = feed->offset }, out;
	struct stat status;

	if (feed->reader) {
		sgpu_descriptor_from_fd(sgpu_tar_fd(feed->reader), feed->name, &in);
	}
	sgpu_descriptor_from_fd(fd, NULL, &out);
	*from = (struct sgpu_file_place){ in.fd, feed->name, in.offset };
	*to = (struct sgpu_file_place){ fd, NULL, out.offset };
	return in.positioned && out.positioned && fstat(in.fd, &status) == 0 && status.st_size >= 0 &&
	       (uint64_t)status.st_size >= size && (uint64_t)status.st_size - size >= in.offset;
}

/* Leaves the positions of both files behind the payload. */
static int copy_by_position(struct seal_feed *feed, struct sgpu_file_place *from, struct sgpu_file_place *to,
			    uint64_t size, struct sgpu_kt128 *hash, struct sgpu_pool *pool, const struct seal_meter *meter,
			    struct sgpu_error *error)
{
	int code = SGPU_OK;

	for (uint64_t done = 0, now; !code && done < size; done += now) {
		now = size - done < WINDOW ? size - done : WINDOW;
		code = sgpu_kt128_update_file(hash, pool, from, to, now, error);
		from->offset += now;
		to->offset += now;
		cli_progress(NULL, meter->done + done + now);
	}
	if (!code && lseek(to->fd, (off_t)to->offset, SEEK_SET) < 0) {
		code = sgpu_fail_errno(error, "cannot seek in '%s'", to->name);
	}
	if (feed->reader) {
		sgpu_tar_consumed(feed->reader, size);
	} else {
		feed->offset = from->offset;
	}
	return code;
}

static int copy_digested(struct seal_feed *feed, uint64_t size, int fd, const char *name, struct sgpu_kt128 *hash,
			 const struct seal_meter *meter, struct sgpu_error *error)
{
	struct sgpu_pool *pool = NULL;
	struct sgpu_file_place from, to;
	int code = SGPU_OK;

	if (size >= SHARED_MIN) {
		code = sgpu_pool_create(meter->jobs, &pool, error);
	}
	if (code) {
		return code;
	}
	if (pool) {
		sgpu_pool_enter(pool);
	}
	if (pool && by_position(feed, size, fd, &from, &to)) {
		to.name = name;
		code = copy_by_position(feed, &from, &to, size, hash, pool, meter, error);
	} else {
		code = copy_pieces(feed, size, fd, name, hash, pool, meter, error);
	}
	if (pool) {
		sgpu_pool_leave(pool);
	}
	sgpu_pool_free(&pool);
	return code;
}

int seal_copy(struct seal_feed *feed, uint64_t size, int fd, const char *name, const uint8_t *kt128,
	      struct seal_meter *meter, struct sgpu_error *error)
{
	struct sgpu_kt128 *hash = NULL;
	uint8_t digest[SGPU_KT128_SIZE];
	int code;

	if (!kt128) {
		code = copy_pieces(feed, size, fd, name, NULL, NULL, meter, error);
		meter->done += size;
		return code;
	}
	code = sgpu_kt128_create(&hash, error);
	if (!code) {
		code = copy_digested(feed, size, fd, name, hash, meter, error);
	}
	if (!code) {
		sgpu_kt128_finish(hash, NULL, 0, digest, sizeof(digest));
		if (!sgpu_equal(digest, kt128, sizeof(digest))) {
			code = sgpu_fail(error, SGPU_EAUTH, "the kt128 of '%s' does not match", feed->name);
		}
	}
	meter->done += size;
	sgpu_kt128_free(&hash);
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
		sgpu_descriptor_from_fd(sgpu_tar_fd(feed->reader), feed->name, &job->in);
	} else {
		job->in = (struct sgpu_descriptor){ .fd = feed->fd, .name = feed->name, .positioned = true,
						  .offset = feed->offset };
	}
	sgpu_descriptor_from_fd(fd, name, &job->out);
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
	job.out.sparse = fresh;
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
