/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays in people's files: NIfTI, .npy, .npz, IDX and raw data, read and written on descriptors
 * and in order. The bytes of a file say what it is, not its name. Programs that use this part are
 * linked with zlib; sgpu-enclave and the host's programs are not.
 */
#ifndef SGPU_FILES_FILES_H
#define SGPU_FILES_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>
#include <sgpu/manifest.h>

enum sgpu_file_format {
	SGPU_FILE_RAW,
	SGPU_FILE_NIFTI,
	SGPU_FILE_NPY,
	SGPU_FILE_NPZ,
	SGPU_FILE_IDX,
	SGPU_FILE_FORMATS
};
/* "raw", "nifti", "npy", "npz", "idx". */
extern const char *const sgpu_file_format_names[SGPU_FILE_FORMATS + 1]; /* NULL at the end */

struct sgpu_file_info {
	enum sgpu_file_format format;
	bool gzip;	       /* the whole file is compressed */
	struct sgpu_type type; /* as stored; extents in the order that nibabel and numpy show. A
				  NIfTI file has at most 7, of which trailing ones of 1 are dropped
				  until 4 are left; so has every other format */
	bool first_fastest;    /* the first extent varies fastest: NIfTI, and .npy in Fortran order.
				  See sgpu_file_payload_type */
	bool boolean;	       /* .npy of bool: u8, 0 is false */
	bool scaled;	       /* NIfTI: a value is stored * slope + inter */
	double slope, inter;
	double voxel[3]; /* NIfTI: millimetres along the first three extents; 0: not known */
	bool plain;	 /* the elements lie in the descriptor that was opened, from `offset` on,
			    little-endian and not compressed */
	uint64_t offset;
};

struct sgpu_file_request {
	const char *name;   /* of the file, for messages */
	const char *member; /* of an .npz, with or without ".npy"; NULL: the only one */
	uint64_t size_max;  /* most bytes of elements that are unpacked; 0: half of the machine's
			       memory */
	bool raw;	    /* the file is raw: its bytes are not asked */
	bool window;	    /* raw: other data may follow the elements */
	struct sgpu_type raw_type;
	uint64_t raw_offset;
};

/* ---- reading ---- */
struct sgpu_file;

/* Reads the headers of a regular file. other: the other file of the pair x.hdr and x.img, or -1.
 * Both are borrowed until close; their positions do not move. Nothing is allocated in proportion to
 * what a header claims. Errors: SGPU_EINVALID: the file is damaged, is none of these formats, or
 * holds what has no type here (complex numbers, colours, objects); SGPU_EUSAGE: an .npz with
 * several arrays and no member; SGPU_EPOLICY: more than size_max; SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_file_open(int fd, int other, const struct sgpu_file_request *request,
				   struct sgpu_file **file, struct sgpu_error *error);
const struct sgpu_file_info *sgpu_file_info(const struct sgpu_file *file);
/* The type of the elements as the bytes lie, row-major as in a manifest: extents are reversed if
 * the first varies fastest. */
void sgpu_file_payload_type(const struct sgpu_file_info *info, struct sgpu_type *type);
/* Reads the next `size` bytes of the elements, whole elements and no more than are left, as they
 * lie, but little-endian. The read of the last ones checks how the file ends: lengths, digests,
 * nothing that follows. Errors: SGPU_EINVALID, SGPU_ESYSTEM, SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_file_read(struct sgpu_file *file, void *to, size_t size,
				   struct sgpu_error *error);
/* Whether f64 holds every value exactly; a file of 64-bit integers is read to its end for that, and
 * is then as just opened. */
SGPU_MUST_CHECK int sgpu_file_fits_f64(struct sgpu_file *file, bool *fits,
				       struct sgpu_error *error);
/* The header of a NIfTI file, with which a result keeps geometry and units: at most
 * SGPU_FILE_HEADER_MAX bytes, valid until close. NULL for other formats. */
enum { SGPU_FILE_HEADER_MAX = 540 };
const void *sgpu_file_header(const struct sgpu_file *file, size_t *size);
void sgpu_file_close(struct sgpu_file **file); /* accepts NULL */

/* Opens the other file of a pair: x.img or x.img.gz beside x.hdr, and the reverse. *fd is -1 if the
 * name is of no pair or there is no such file. A link is not followed. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_file_open_other(const char *path, int *fd, struct sgpu_error *error);

/* ---- writing ---- */
struct sgpu_file_style {
	enum sgpu_file_format format; /* not IDX */
	bool gzip;		      /* NIfTI */
	bool boolean;		      /* .npy and .npz of u8: written as bool */
	bool first_fastest;	      /* the data come so; always for NIfTI, never for raw */
	const void *header;	      /* NIfTI: of the file that this one is like, or NULL */
	size_t header_size;
};

/* Sets format, gzip and first_fastest as the ending of a name asks: .nii .nii.gz .npy .npz, in
 * either case; else raw. */
void sgpu_file_style_of(const char *name, struct sgpu_file_style *style);
/* The same for the name of an output's format in a manifest: "nifti.gz". */
void sgpu_file_style_named(const char *format, struct sgpu_file_style *style);

struct sgpu_file_writer;

/* Begins a file of elements of `type`, extents as in sgpu_file_info. `fd` may be a pipe. The same
 * data give the same bytes each time. The caller makes the file appear. style->header is only read
 * here. A header's own extents stay if they differ from those of `type` only by trailing ones of 1.
 * Errors: SGPU_EINVALID: the format does not have the type or such extents, or the header is none;
 * SGPU_ESYSTEM, SGPU_ENOSPACE. */
SGPU_MUST_CHECK int sgpu_file_create(int fd, const char *name, const struct sgpu_file_style *style,
				     const struct sgpu_type *type, struct sgpu_file_writer **writer,
				     struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_file_write(struct sgpu_file_writer *writer, const void *data, size_t size,
				    struct sgpu_error *error);
/* Ends a file, all of whose elements must have been written. */
SGPU_MUST_CHECK int sgpu_file_end(struct sgpu_file_writer *writer, struct sgpu_error *error);
void sgpu_file_writer_free(struct sgpu_file_writer **writer); /* accepts NULL */

#endif
