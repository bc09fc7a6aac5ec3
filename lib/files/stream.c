/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a range of a descriptor in order, and inflates it if it is compressed: no more than is
 * asked for, into the caller's memory.
 */
#include <limits.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "files/internal.h"

static int restart(struct files_stream *stream, struct sgpu_error *error)
{
	stream->at = stream->begin;
	stream->sum = (uint32_t)crc32(0, NULL, 0);
	stream->inflate.avail_in = 0;
	if (stream->coding == FILES_PLAIN) {
		return SGPU_OK;
	}
	if (stream->inflating) {
		(void)inflateReset(&stream->inflate);
		return SGPU_OK;
	}
	if (inflateInit2(&stream->inflate,
			 stream->coding == FILES_GZIP ? 16 + MAX_WBITS : -MAX_WBITS) != Z_OK) {
		return sgpu_fail_nomem(error);
	}
	stream->inflating = true;
	return SGPU_OK;
}

int sgpu_file_stream_open(struct files_stream *stream, int fd, const char *name,
			  enum files_coding coding, uint64_t begin, uint64_t end,
			  struct sgpu_error *error)
{
	sgpu_file_stream_close(stream);
	stream->fd = fd;
	stream->name = name;
	stream->coding = coding;
	stream->begin = begin;
	stream->end = end;
	return restart(stream, error);
}

void sgpu_file_stream_close(struct files_stream *stream)
{
	if (stream->inflating) {
		(void)inflateEnd(&stream->inflate);
	}
	stream->inflating = false;
	memset(&stream->inflate, 0, sizeof(stream->inflate));
}

static int read_plain(struct files_stream *stream, void *data, size_t size, size_t *got,
		      struct sgpu_error *error)
{
	const uint64_t left = stream->end - stream->at;
	int rc = sgpu_pread(stream->fd, stream->name, data, left < size ? (size_t)left : size,
			    stream->at, got, error);

	stream->at += *got;
	return rc;
}

static int fail_inflate(const struct files_stream *stream, const char *why,
			struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EINVALID, "'%s' is damaged: its compressed data: %s",
			 stream->name, why ? why : "cut short");
}

/* Makes one call of inflate. *ended: the compressed data have ended. A gzip file may be several,
 * one after the other. */
static int inflate_once(struct files_stream *stream, bool *ended, struct sgpu_error *error)
{
	z_stream *z = &stream->inflate;
	size_t got = 0;
	int code;

	if (!z->avail_in) {
		int rc = read_plain(stream, stream->input, sizeof(stream->input), &got, error);
		if (rc) {
			return rc;
		}
		z->next_in = stream->input;
		z->avail_in = (uInt)got;
	}
	code = inflate(z, Z_NO_FLUSH);
	if (code == Z_STREAM_END) {
		*ended = !z->avail_in && stream->at == stream->end;
		if (!*ended && stream->coding == FILES_DEFLATE) {
			return fail_inflate(stream, "other data follow them", error);
		}
		if (!*ended) {
			(void)inflateReset(z);
		}
		return SGPU_OK;
	}
	if (code == Z_MEM_ERROR) {
		return sgpu_fail_nomem(error);
	}
	return code == Z_OK ? SGPU_OK : fail_inflate(stream, z->msg, error);
}

static int read_inflated(struct files_stream *stream, void *data, size_t size, size_t *got,
			 struct sgpu_error *error)
{
	bool ended = false;
	int rc = SGPU_OK;

	for (*got = 0; !rc && !ended && *got < size;) {
		const size_t piece = size - *got < INT_MAX ? size - *got : INT_MAX;

		stream->inflate.next_out = (uint8_t *)data + *got;
		stream->inflate.avail_out = (uInt)piece;
		rc = inflate_once(stream, &ended, error);
		*got += piece - stream->inflate.avail_out;
	}
	return rc;
}

int sgpu_file_stream_read(struct files_stream *stream, void *data, size_t size, size_t *got,
			  struct sgpu_error *error)
{
	int rc = stream->coding == FILES_PLAIN ? read_plain(stream, data, size, got, error)
					       : read_inflated(stream, data, size, got, error);

	if (!rc && stream->summed) {
		stream->sum = (uint32_t)crc32_z(stream->sum, data, *got);
	}
	return rc;
}

int sgpu_file_stream_seek(struct files_stream *stream, uint64_t position, struct sgpu_error *error)
{
	uint8_t skipped[1 << 12];
	size_t got = 1;
	int rc = restart(stream, error);

	if (stream->coding == FILES_PLAIN && !stream->summed) {
		const uint64_t size = stream->end - stream->begin;

		stream->at = stream->begin + (position < size ? position : size);
		return rc;
	}
	for (; !rc && got && position; position -= got) {
		rc = sgpu_file_stream_read(stream, skipped,
					   position < sizeof(skipped) ? (size_t)position
								      : sizeof(skipped),
					   &got, error);
	}
	return rc;
}
