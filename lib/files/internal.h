/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of lib/files.
 */
#ifndef SGPU_FILES_INTERNAL_H
#define SGPU_FILES_INTERNAL_H

#include <zlib.h>

#include "files/files.h"

enum files_coding { FILES_PLAIN, FILES_GZIP, FILES_DEFLATE };
enum { FILES_HEAD_MAX = 1024, FILES_ZIP_HEAD = 39, FILES_ZIP_TAIL = 93 };

struct sgpu_file {
	struct sgpu_file_info info;
	char *name;
	struct sgpu_error *error; /* of the call that is under way */
	/* stream.c: a range of a descriptor, inflated if it is compressed */
	int fd;
	enum files_coding coding;
	uint64_t begin, end, at; /* the range, and what is read next */
	uint32_t sum;		 /* CRC-32 of all that was read, if `summed` */
	z_stream inflate;
	uint8_t input[1 << 16];
	/* what the headers say */
	uint64_t skip;	      /* bytes of the stream before the elements */
	uint64_t bytes, done; /* of elements: all, and read */
	bool swapped;	      /* elements are big-endian */
	bool window;	      /* other data may follow them */
	bool pair;	      /* NIfTI: the header is in another file */
	bool summed;	      /* .npz: the member's CRC-32 and its bytes */
	uint32_t member_sum;
	uint64_t member_size;
	uint8_t first[SGPU_FILE_HEADER_MAX]; /* of the file or member, zeros after its end */
	size_t first_size;
	size_t header_size; /* NIfTI: bytes of `first`, which is then little-endian */
};

/* Begins with a range. */
SGPU_MUST_CHECK int sgpu_file_range(struct sgpu_file *file, int fd, enum files_coding coding,
				    uint64_t begin, uint64_t end);
SGPU_MUST_CHECK int sgpu_file_seek(struct sgpu_file *file, uint64_t position);
/* Reads bytes; fewer at the end of the file. */
SGPU_MUST_CHECK int sgpu_file_get(struct sgpu_file *file, void *data, size_t size, size_t *got);
SGPU_MUST_CHECK int sgpu_file_first(struct sgpu_file *file, int fd, enum files_coding coding,
				    uint64_t begin, uint64_t end);

/* Fails with "'NAME' " and the text. */
int sgpu_file_refuse(const struct sgpu_file *file, const char *format, ...) SGPU_PRINTF(2, 3);
/* Sets the type's extents, without trailing ones of 1 beyond SGPU_RANK_MAX. */
SGPU_MUST_CHECK int sgpu_file_set_shape(struct sgpu_file *file, const uint64_t *extents, int rank);

/* ---- the formats: whether file->first begins one, and its header ---- */
bool sgpu_file_is_nifti(const struct sgpu_file *file);
SGPU_MUST_CHECK int sgpu_file_read_nifti(struct sgpu_file *file);
bool sgpu_file_is_npy(const struct sgpu_file *file);
SGPU_MUST_CHECK int sgpu_file_read_npy(struct sgpu_file *file);
bool sgpu_file_is_zip(const struct sgpu_file *file);
/* Begins with a member of the archive of `size` bytes. */
SGPU_MUST_CHECK int sgpu_file_enter_zip(struct sgpu_file *file, uint64_t size, const char *member);

/* ---- headers to be written; *size: their bytes ---- */
SGPU_MUST_CHECK int sgpu_file_nifti_head(const char *name, const struct sgpu_file_style *style,
					 const struct sgpu_type *type, uint8_t head[FILES_HEAD_MAX],
					 size_t *size, struct sgpu_error *error);
size_t sgpu_file_npy_head(const struct sgpu_file_style *style, const struct sgpu_type *type,
			  uint8_t head[FILES_HEAD_MAX]);
/* What is before the one member of an .npz, "arr_0.npy", and what follows it. */
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
