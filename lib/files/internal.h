/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between the files of this part.
 */
#ifndef SGPU_FILES_INTERNAL_H
#define SGPU_FILES_INTERNAL_H

#include <zlib.h>

#include "files/files.h"

/* ---- stream.c: a range of a descriptor, read in order, inflated if it is compressed ---- */
enum files_coding { FILES_PLAIN, FILES_GZIP, FILES_DEFLATE };

struct files_stream {
	int fd;
	const char *name;
	enum files_coding coding;
	uint64_t begin, end; /* the range */
	uint64_t at;	     /* what is read next */
	bool summed;	     /* `sum`, a CRC-32 of all that was read, is kept */
	uint32_t sum;
	z_stream inflate;
	bool inflating; /* `inflate` is set up */
	uint8_t input[1 << 16];
};

/* Opens a range. `stream` is zeroed, or was open. */
SGPU_MUST_CHECK int sgpu_file_stream_open(struct files_stream *stream, int fd, const char *name,
					  enum files_coding coding, uint64_t begin, uint64_t end,
					  struct sgpu_error *error);
/* Goes to `position` of what is read, counted from the beginning. */
SGPU_MUST_CHECK int sgpu_file_stream_seek(struct files_stream *stream, uint64_t position,
					  struct sgpu_error *error);
/* Reads `size` bytes, or fewer at the end. */
SGPU_MUST_CHECK int sgpu_file_stream_read(struct files_stream *stream, void *data, size_t size,
					  size_t *got, struct sgpu_error *error);
void sgpu_file_stream_close(struct files_stream *stream);

/* ---- file.c ---- */
enum { FILES_FIRST = SGPU_FILE_HEADER_MAX }; /* bytes by which a file is recognised */

struct sgpu_file {
	struct sgpu_file_info info;
	char *name;
	struct files_stream stream;
	uint64_t skip;		    /* bytes of the stream before the elements */
	uint64_t bytes;		    /* of all elements */
	uint64_t done;		    /* bytes that were read */
	bool swapped;		    /* elements are big-endian */
	bool window;		    /* other data may follow */
	bool pair;		    /* the header is in another file */
	uint32_t sum;		    /* what stream.sum must be, if that is kept */
	uint64_t promised;	    /* .npz: bytes of the member */
	uint8_t first[FILES_FIRST]; /* of the file or member, zeros after its end */
	size_t first_size;
	size_t header_size; /* NIfTI: bytes of `first`, which is then little-endian */
};

/* Sets the type's extents, without trailing ones of 1 beyond SGPU_RANK_MAX. */
SGPU_MUST_CHECK int sgpu_file_set_shape(struct sgpu_file *file, const uint64_t *extents, int rank,
					struct sgpu_error *error);
/* Fails: the file is damaged in the way that `what` says. */
int sgpu_file_damaged(const struct sgpu_file *file, const char *what, struct sgpu_error *error);

/* ---- the formats: whether file->first begins one, and its header ---- */
bool sgpu_file_is_nifti(const struct sgpu_file *file);
SGPU_MUST_CHECK int sgpu_file_read_nifti(struct sgpu_file *file, struct sgpu_error *error);
bool sgpu_file_is_npy(const struct sgpu_file *file);
SGPU_MUST_CHECK int sgpu_file_read_npy(struct sgpu_file *file, struct sgpu_error *error);
bool sgpu_file_is_zip(const struct sgpu_file *file);
/* Makes the member the file's stream. */
SGPU_MUST_CHECK int sgpu_file_enter_zip(struct sgpu_file *file, uint64_t size, const char *member,
					struct sgpu_error *error);

/* ---- headers to be written; *size: their bytes ---- */
enum { FILES_HEAD_MAX = 1024 };
SGPU_MUST_CHECK int sgpu_file_nifti_head(const char *name, const struct sgpu_file_style *style,
					 const struct sgpu_type *type, uint8_t head[FILES_HEAD_MAX],
					 size_t *size, struct sgpu_error *error);
size_t sgpu_file_npy_head(const struct sgpu_file_style *style, const struct sgpu_type *type,
			  uint8_t head[FILES_HEAD_MAX]);
/* What is before the one member of an .npz, "arr_0.npy", and what follows it. */
enum { FILES_ZIP_HEAD = 39, FILES_ZIP_TAIL = 93 };
void sgpu_file_zip_head(uint8_t head[FILES_ZIP_HEAD]);
void sgpu_file_zip_tail(uint32_t sum, uint32_t size, uint8_t tail[FILES_ZIP_TAIL]);

/* ---- little-endian numbers in headers ---- */
static inline uint64_t files_get(const uint8_t *at, int width)
{
	uint64_t value = 0;

	for (int i = width; i-- > 0;) {
		value = value << 8 | at[i];
	}
	return value;
}

static inline void files_put(uint8_t *at, int width, uint64_t value)
{
	for (int i = 0; i < width; i++, value >>= 8) {
		at[i] = (uint8_t)value;
	}
}

#endif
