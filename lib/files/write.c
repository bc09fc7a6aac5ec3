/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes files: a header, the elements, perhaps compressed, and what follows them. The bytes have
 * no times or names in them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "files/internal.h"
#include "manifest/manifest.h"

/* What nibabel uses, too: higher levels take several times as long for a few per cent. */
enum { LEVEL = 1 };

struct sgpu_file_writer {
	int fd;
	char *name;
	bool gzip, npz;
	uint64_t bytes, done; /* of elements: all, and written */
	uint64_t member;      /* bytes of the member of an .npz */
	uint32_t sum;	      /* its CRC-32 */
	z_stream deflate;
	uint8_t output[1 << 16];
};

static const struct row {
	const char *ending, *name;
	enum sgpu_file_format format;
	bool gzip;
} rows[] = {
	{ ".nii", "nifti", SGPU_FILE_NIFTI, false },
	{ ".nii.gz", "nifti.gz", SGPU_FILE_NIFTI, true },
	{ ".npy", "npy", SGPU_FILE_NPY, false },
	{ ".npz", "npz", SGPU_FILE_NPZ, false },
};

static void set_style(const struct row *row, struct sgpu_file_style *style)
{
	style->format = row->format;
	style->gzip = row->gzip;
	style->first_fastest = row->format == SGPU_FILE_NIFTI;
}

void sgpu_file_style_of(const char *name, struct sgpu_file_style *style)
{
	const size_t length = strlen(name);

	*style = (struct sgpu_file_style){ .format = SGPU_FILE_RAW };
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(rows); i++) {
		const size_t ending = strlen(rows[i].ending);

		if (length > ending && strcasecmp(name + length - ending, rows[i].ending) == 0) {
			set_style(&rows[i], style);
		}
	}
}

void sgpu_file_style_named(const char *format, struct sgpu_file_style *style)
{
	*style = (struct sgpu_file_style){ .format = SGPU_FILE_RAW };
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(rows); i++) {
		if (strcmp(format, rows[i].name) == 0) {
			set_style(&rows[i], style);
		}
	}
}

/* ---- bytes ---- */
static int put(struct sgpu_file_writer *writer, const uint8_t *data, size_t size, int flush,
	       struct sgpu_error *error)
{
	z_stream *z = &writer->deflate;
	int rc = SGPU_OK;

	if (!writer->gzip) {
		return sgpu_write(writer->fd, writer->name, data, size, error);
	}
	z->next_in = (uint8_t *)(uintptr_t)data;
	do {
		const uInt piece = (uInt)sgpu_min_u64(size, UINT32_MAX);

		z->avail_in = piece;
		size -= piece;
		do {
			z->next_out = writer->output;
			z->avail_out = sizeof(writer->output);
			(void)deflate(z, size ? Z_NO_FLUSH : flush);
			rc = sgpu_write(writer->fd, writer->name, writer->output,
					sizeof(writer->output) - z->avail_out, error);
		} while (!rc && z->avail_out == 0);
	} while (!rc && size);
	return rc;
}

static int put_member(struct sgpu_file_writer *writer, const void *data, size_t size,
		      struct sgpu_error *error)
{
	if (writer->npz) {
		writer->sum = (uint32_t)crc32_z(writer->sum, data, size);
		writer->member += size;
	}
	return put(writer, data, size, Z_NO_FLUSH, error);
}

/* ---- files ---- */
static int write_head(struct sgpu_file_writer *writer, const struct sgpu_file_style *style,
		      const struct sgpu_type *type, struct sgpu_error *error)
{
	uint8_t head[FILES_HEAD_MAX], zip[FILES_ZIP_HEAD];
	size_t size = 0;
	int rc = SGPU_OK;

	if (style->format == SGPU_FILE_NIFTI) {
		rc = sgpu_file_nifti_head(writer->name, style, type, head, &size, error);
	} else if (style->format != SGPU_FILE_RAW) {
		size = sgpu_file_npy_head(style, type, head);
	}
	if (!rc && writer->npz && writer->bytes > UINT32_MAX - FILES_HEAD_MAX) {
		sgpu_fail(error, SGPU_EINVALID, "'%s': an array of 4 GiB or more is no .npz file",
			  writer->name);
		return sgpu_hint(error, "a .npy file can be as large as it likes");
	}
	if (!rc && writer->npz) {
		sgpu_file_zip_head(zip);
		rc = put(writer, zip, sizeof(zip), Z_NO_FLUSH, error);
	}
	return rc ? rc : put_member(writer, head, size, error);
}

int sgpu_file_create(int fd, const char *name, const struct sgpu_file_style *style,
		     const struct sgpu_type *type, struct sgpu_file_writer **result,
		     struct sgpu_error *error)
{
	struct sgpu_file_writer *writer = calloc(1, sizeof(*writer));
	int rc = SGPU_OK;

	*result = writer;
	if (!writer || !(writer->name = strdup(name))) {
		rc = sgpu_fail_nomem(error);
	} else if (!sgpu_type_bytes(type, &writer->bytes) || !sgpu_dtype_size(type->dtype) ||
		   style->format == SGPU_FILE_IDX || (style->boolean && type->dtype != SGPU_U8)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s': the format does not have this type",
			       name);
	}
	if (!rc) {
		writer->fd = fd;
		writer->npz = style->format == SGPU_FILE_NPZ;
		writer->gzip = style->format == SGPU_FILE_NIFTI && style->gzip;
		if (writer->gzip && deflateInit2(&writer->deflate, LEVEL, Z_DEFLATED,
						 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
			writer->gzip = false;
			rc = sgpu_fail_nomem(error);
		}
	}
	rc = rc ? rc : write_head(writer, style, type, error);
	if (rc) {
		sgpu_file_writer_free(result);
	}
	return rc;
}

int sgpu_file_write(struct sgpu_file_writer *writer, const void *data, size_t size,
		    struct sgpu_error *error)
{
	writer->done += size;
	return put_member(writer, data, size, error);
}

int sgpu_file_end(struct sgpu_file_writer *writer, struct sgpu_error *error)
{
	uint8_t tail[FILES_ZIP_TAIL];

	if (writer->done != writer->bytes) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s': %" PRIu64
				 " bytes of elements came, its header has %" PRIu64,
				 writer->name, writer->done, writer->bytes);
	}
	sgpu_file_zip_tail(writer->sum, (uint32_t)writer->member, tail);
	return put(writer, tail, writer->npz ? sizeof(tail) : 0, Z_FINISH, error);
}

void sgpu_file_writer_free(struct sgpu_file_writer **writer)
{
	if (*writer && (*writer)->gzip) {
		(void)deflateEnd(&(*writer)->deflate);
	}
	if (*writer) {
		free((*writer)->name);
	}
	sgpu_free_wiped(writer, sizeof(**writer));
}
