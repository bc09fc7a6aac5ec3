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

int sgpu_file_range(struct sgpu_file *file, int fd, enum files_coding coding, uint64_t begin,
		    uint64_t end)
{
	(void)inflateEnd(&file->inflate);
	memset(&file->inflate, 0, sizeof(file->inflate));
	file->fd = fd;
	file->coding = coding;
	file->begin = file->at = begin;
	file->end = end;
	file->sum = 0;
	return coding == FILES_PLAIN || inflateInit2(&file->inflate, coding == FILES_GZIP
									     ? 16 + MAX_WBITS
									     : -MAX_WBITS) == Z_OK
		       ? SGPU_OK
		       : sgpu_fail_nomem(file->error);
}

static int read_plain(struct sgpu_file *file, void *data, size_t size, size_t *got)
{
	const int rc = sgpu_pread(file->fd, file->name, data,
				  (size_t)sgpu_min_u64(size, file->end - file->at), file->at, got,
				  file->error);

	file->at += *got;
	return rc;
}

/* Calls inflate once. A gzip file may be several, one after the other. */
static int inflate_once(struct sgpu_file *file, bool *ended)
{
	z_stream *z = &file->inflate;
	size_t got = z->avail_in;
	int code, rc = got ? SGPU_OK : read_plain(file, file->input, sizeof(file->input), &got);

	if (rc) {
		return rc;
	}
	z->next_in = z->avail_in ? z->next_in : file->input;
	z->avail_in = (uInt)got;
	code = inflate(z, Z_NO_FLUSH);
	*ended = code == Z_STREAM_END && !z->avail_in && file->at == file->end;
	if (code == Z_STREAM_END && !*ended) {
		code = file->coding == FILES_GZIP ? inflateReset(z) : Z_DATA_ERROR;
	}
	return code == Z_MEM_ERROR ? sgpu_fail_nomem(file->error)
	       : code == Z_OK || *ended
		       ? SGPU_OK
		       : sgpu_file_refuse(file, "is damaged: its compressed data: %s",
					  z->msg ? z->msg : "cut short");
}

static int read_inflated(struct sgpu_file *file, void *data, size_t size, size_t *got)
{
	bool ended = false;
	int rc = SGPU_OK;

	for (*got = 0; !rc && !ended && *got < size;) {
		const size_t piece = sgpu_min_u64(size - *got, INT_MAX);

		file->inflate.next_out = (uint8_t *)data + *got;
		file->inflate.avail_out = (uInt)piece;
		rc = inflate_once(file, &ended);
		*got += piece - file->inflate.avail_out;
	}
	return rc;
}

int sgpu_file_get(struct sgpu_file *file, void *data, size_t size, size_t *got)
{
	const int rc = file->coding == FILES_PLAIN ? read_plain(file, data, size, got)
						   : read_inflated(file, data, size, got);

	if (!rc && file->summed) {
		file->sum = (uint32_t)crc32_z(file->sum, data, *got);
	}
	return rc;
}

int sgpu_file_seek(struct sgpu_file *file, uint64_t position)
{
	uint8_t skipped[1 << 12];
	size_t got = 1;
	int rc = sgpu_file_range(file, file->fd, file->coding, file->begin, file->end);

	if (file->coding == FILES_PLAIN && !file->summed) {
		file->at += sgpu_min_u64(position, file->end - file->begin);
		return rc;
	}
	for (; !rc && got && position; position -= got) {
		rc = sgpu_file_get(file, skipped, sgpu_min_u64(position, sizeof(skipped)), &got);
	}
	return rc;
}

int sgpu_file_first(struct sgpu_file *file, int fd, enum files_coding coding, uint64_t begin,
		    uint64_t end)
{
	const int rc = sgpu_file_range(file, fd, coding, begin, end);

	memset(file->first, 0, sizeof(file->first));
	return rc ? rc : sgpu_file_get(file, file->first, sizeof(file->first), &file->first_size);
}
