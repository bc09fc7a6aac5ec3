/* SPDX-License-Identifier: Apache-2.0
 *
 * NIfTI-1 and IDX headers. Both state their extents and their element type; payloads in a manifest
 * are little-endian and row-major, so what is stored otherwise is refused rather than misread.
 */
#include "base/io.h"
#include "manifest_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

/* Offsets and values of the NIfTI-1 standard. */
enum {
	NIFTI_SIZE = 348,
	NIFTI_DIM = 40,
	NIFTI_DATATYPE = 70,
	NIFTI_VOX_OFFSET = 108,
	NIFTI_SLOPE = 112,
	NIFTI_INTER = 116,
	NIFTI_MAGIC = 344,
	NIFTI_DIMS_MAX = 7,
};

static unsigned get16(const uint8_t *p, bool big)
{
	return big ? (unsigned)p[0] << 8 | p[1] : (unsigned)p[1] << 8 | p[0];
}

static uint32_t get32(const uint8_t *p, bool big)
{
	return big ? (uint32_t)get16(p, true) << 16 | get16(p + 2, true)
		   : (uint32_t)get16(p + 2, false) << 16 | get16(p, false);
}

static float get_float(const uint8_t *p)
{
	uint32_t bits = get32(p, false);
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static enum sgpu_dtype nifti_dtype(unsigned datatype)
{
	switch (datatype) {
	case 2:
		return SGPU_U8;
	case 4:
		return SGPU_I16;
	case 8:
		return SGPU_I32;
	case 16:
		return SGPU_F32;
	case 64:
		return SGPU_F64;
	default:
		return SGPU_NONE;
	}
}

/* The first extent of NIfTI varies fastest, that of a manifest slowest. Extents of 1 at the end are
 * left off. */
static int nifti_shape(const uint8_t *header, const char *path, struct sgpu_type *type,
		       struct sgpu_error *error)
{
	int rank = (int)get16(header + NIFTI_DIM, false);

	if (rank < 1 || rank > NIFTI_DIMS_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': a NIfTI header with %d dimensions",
				 path, rank);
	}
	while (rank > 1 && get16(header + NIFTI_DIM + 2 * rank, false) == 1) {
		rank--;
	}
	if (rank > SGPU_RANK_MAX) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' has %d dimensions, at most %d are possible", path, rank,
				 (int)SGPU_RANK_MAX);
	}
	type->rank = rank;
	for (int i = 0; i < rank; i++) {
		unsigned extent = get16(header + NIFTI_DIM + 2 * (i + 1), false);

		if (extent > INT16_MAX) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "'%s': a NIfTI header with a negative extent", path);
		}
		type->shape[rank - 1 - i] = extent;
	}
	return SGPU_OK;
}

/* A slope of 0 means that there is no scaling, whatever the intercept. */
static int nifti_scaling(const uint8_t *nifti, const char *path, struct header *header,
			 struct sgpu_error *error)
{
	float slope = get_float(nifti + NIFTI_SLOPE), inter = get_float(nifti + NIFTI_INTER);
	char type[SGPU_TYPE_TEXT_MAX];
	size_t name;

	if (slope == 0.0f || (slope == 1.0f && inter == 0.0f)) {
		return SGPU_OK;
	}
	if (isfinite(slope) && isfinite(inter)) {
		header->scaled = true;
		header->gain = (double)slope;
		header->bias = (double)inter;
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_EINVALID, "'%s' has the scaling %g * value + %g, which is no number",
		  path, (double)slope, (double)inter);
	sgpu_type_text(&header->type, type); /* u8[3,4]: here u8:3,4 */
	name = strcspn(type, "[");
	return sgpu_hint(error, "'%s:%.*s:%.*s:%" PRIu64 "' takes the stored values without it",
			 path, (int)name, type, (int)strcspn(type + name + 1, "]"), type + name + 1,
			 header->offset);
}

static int read_nifti(const uint8_t *nifti, const char *path, struct header *header,
		      struct sgpu_error *error)
{
	float start = get_float(nifti + NIFTI_VOX_OFFSET);
	unsigned datatype = get16(nifti + NIFTI_DATATYPE, false);
	int code;

	if (get32(nifti, false) != NIFTI_SIZE) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' is big-endian, payloads are little-endian", path);
	}
	if (memcmp(nifti + NIFTI_MAGIC, "n+1", 4) != 0) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' is a NIfTI header whose data are in another file", path);
	}
	header->type.dtype = nifti_dtype(datatype);
	if (header->type.dtype == SGPU_NONE) {
		return sgpu_fail(
			error, SGPU_EINVALID,
			"'%s' has elements of the NIfTI type %u; 2, 4, 8, 16 and 64 are supported: "
			"u8, i16, i32, f32, f64",
			path, datatype);
	}
	if (!(start >= NIFTI_SIZE && start < 16777216.0f && start == (float)(uint32_t)start)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s': a NIfTI header whose data start at %g", path,
				 (double)start);
	}
	header->offset = (uint64_t)start;
	code = nifti_shape(nifti, path, &header->type, error);
	return code ? code : nifti_scaling(nifti, path, header, error);
}

static int read_idx(const uint8_t *header, size_t size, const char *path, struct sgpu_type *type,
		    uint64_t *offset, struct sgpu_error *error)
{
	if (header[2] != 0x08) {
		return sgpu_fail(
			error, SGPU_EINVALID,
			"'%s' is an IDX file whose elements are not bytes; others are big-endian",
			path);
	}
	type->dtype = SGPU_U8;
	type->rank = header[3];
	*offset = 4 + 4 * (uint64_t)type->rank;
	if (type->rank > SGPU_RANK_MAX || size < *offset) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': an IDX header with %d dimensions",
				 path, type->rank);
	}
	for (int i = 0; i < type->rank; i++) {
		type->shape[i] = get32(header + 4 + 4 * i, true);
	}
	return SGPU_OK;
}

static bool is_nifti(const uint8_t *header, size_t size)
{
	return size >= NIFTI_SIZE &&
	       (get32(header, false) == NIFTI_SIZE || get32(header, true) == NIFTI_SIZE) &&
	       (memcmp(header + NIFTI_MAGIC, "n+1", 4) == 0 ||
		memcmp(header + NIFTI_MAGIC, "ni1", 4) == 0);
}

/* Two zero bytes, a type and a rank are little to go by, so the size has to fit exactly. */
static bool is_idx(const uint8_t *header, size_t size, uint64_t file_size)
{
	uint64_t bytes = 1;

	if (size < 8 || header[0] || header[1] || !header[3] || header[3] > SGPU_RANK_MAX ||
	    size < 4 + 4 * (size_t)header[3]) {
		return false;
	}
	for (int i = 0; i < header[3]; i++) {
		if (!sgpu_mul_u64(bytes, get32(header + 4 + 4 * i, true), &bytes)) {
			return false;
		}
	}
	switch (header[2]) {
	case 0x0e:
		bytes *= 2;
		/* fall through */
	case 0x0c:
	case 0x0d:
		bytes *= 2;
		/* fall through */
	case 0x0b:
		bytes *= 2;
		/* fall through */
	case 0x08:
	case 0x09:
		return bytes + 4 + 4 * (uint64_t)header[3] == file_size;
	default:
		return false;
	}
}

static int check_size(const char *path, uint64_t file_size, const struct sgpu_type *type,
		      uint64_t offset, struct sgpu_error *error)
{
	uint64_t bytes;

	if (!sgpu_type_bytes(type, &bytes) || offset > file_size || file_size - offset < bytes) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' has %" PRIu64 " bytes, less than its header promises", path,
				 file_size);
	}
	return SGPU_OK;
}

int header_read(const char *path, struct header *header, struct sgpu_error *error)
{
	uint8_t first[NIFTI_SIZE] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), code;
	struct stat status;
	size_t size = 0;

	memset(header, 0, sizeof(*header));
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	code = fstat(fd, &status) ? sgpu_fail_errno(error, "cannot look at '%s'", path) : SGPU_OK;
	if (!code && S_ISREG(status.st_mode)) {
		code = sgpu_read(fd, path, first, sizeof(first), &size, error);
	}
	close(fd);
	if (code) {
		return code;
	}
	if (size >= 2 && first[0] == 0x1f && first[1] == 0x8b) {
		sgpu_fail(error, SGPU_EINVALID, "'%s' is compressed", path);
		return sgpu_hint(error, "unpack it with gunzip first");
	}
	if (is_nifti(first, size)) {
		header->known = true;
		code = read_nifti(first, path, header, error);
	} else if (is_idx(first, size, (uint64_t)status.st_size)) {
		header->known = true;
		code = read_idx(first, size, path, &header->type, &header->offset, error);
	}
	if (!code && header->known) {
		code = check_size(path, (uint64_t)status.st_size, &header->type, header->offset,
				  error);
	}
	return code;
}
