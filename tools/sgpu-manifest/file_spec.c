/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes a file's extents and element type from the arguments of init, or from the file's NIfTI-1
 * header. Payloads of a manifest are little-endian and row-major, so a file with another layout
 * is refused.
 */
#include "base/io.h"
#include "base/json.h"
#include "manifest_tool.h"

#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

/* ---- headers ---- */
/* The header of the NIfTI-1 standard, as a little-endian machine reads it. */
struct nifti {
	uint32_t size;
	char before_dim[36];
	int16_t dim[8];
	char before_datatype[14];
	int16_t datatype;
	char before_offset[36];
	float vox_offset, slope, inter;
	char before_magic[224];
	char magic[4];
};
_Static_assert(sizeof(struct nifti) == 348 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "NIfTI-1");

static const uint8_t nifti_types[] = {
	[2] = SGPU_U8, [4] = SGPU_I16, [8] = SGPU_I32, [16] = SGPU_F32, [64] = SGPU_F64,
};

/* Sets the shape. NIfTI's first dimension varies fastest, a manifest's slowest. Trailing extents of
 * 1 are left off. */
static int nifti_shape(const struct nifti *nifti, struct file_spec *spec, struct sgpu_error *error)
{
	int rank = nifti->dim[0];

	if (rank < 1 || rank > 7) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': a NIfTI header with %d dimensions",
				 spec->path, rank);
	}
	while (rank > 1 && nifti->dim[rank] == 1) {
		rank--;
	}
	if (rank > SGPU_RANK_MAX) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' has %d dimensions, at most %d are possible", spec->path,
				 rank, (int)SGPU_RANK_MAX);
	}
	spec->type.rank = rank;
	for (int i = 0; i < rank; i++) {
		if (nifti->dim[i + 1] < 0) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "'%s': a NIfTI header with a negative extent", spec->path);
		}
		spec->type.shape[rank - 1 - i] = (uint64_t)nifti->dim[i + 1];
	}
	return SGPU_OK;
}

/* A slope of 0 means that there is no scaling, whatever the intercept. */
static int nifti_scaling(float slope, float inter, struct file_spec *spec, struct sgpu_error *error)
{
	char type[SGPU_TYPE_TEXT_MAX];
	size_t name;

	if (slope == 0.0f || (slope == 1.0f && inter == 0.0f)) {
		return SGPU_OK;
	}
	if (isfinite(slope) && isfinite(inter)) {
		spec->scaled = true;
		spec->gain = (double)slope;
		spec->bias = (double)inter;
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_EINVALID, "'%s' has the scaling %g * value + %g, which is no number",
		  spec->path, (double)slope, (double)inter);
	sgpu_type_text(&spec->type, type); /* u8[3,4] is written u8:3,4 here */
	name = strcspn(type, "[");
	return sgpu_hint(error, "'%s:%.*s:%.*s:%" PRIu64 "' takes the stored values without it",
			 spec->path, (int)name, type, (int)strcspn(type + name + 1, "]"),
			 type + name + 1, spec->offset);
}

static int read_nifti(const struct nifti *nifti, struct file_spec *spec, struct sgpu_error *error)
{
	const float start = nifti->vox_offset;
	int rc;

	if (nifti->size != sizeof(*nifti)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' is big-endian, payloads are little-endian", spec->path);
	}
	if (memcmp(nifti->magic, "n+1", 4) != 0) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' is a NIfTI header whose data are in another file",
				 spec->path);
	}
	if ((uint16_t)nifti->datatype < sizeof(nifti_types)) {
		spec->type.dtype = nifti_types[nifti->datatype];
	}
	if (spec->type.dtype == SGPU_NONE) {
		return sgpu_fail(
			error, SGPU_EINVALID,
			"'%s' has elements of the NIfTI type %d; 2, 4, 8, 16 and 64 are supported: "
			"u8, i16, i32, f32, f64",
			spec->path, nifti->datatype);
	}
	if (!(start >= sizeof(*nifti) && start < 16777216.0f && start == (float)(uint32_t)start)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s': a NIfTI header whose data start at %g", spec->path,
				 (double)start);
	}
	spec->offset = (uint64_t)start;
	rc = nifti_shape(nifti, spec, error);
	return rc ? rc : nifti_scaling(nifti->slope, nifti->inter, spec, error);
}

static bool is_nifti(const struct nifti *nifti, size_t size)
{
	return size == sizeof(*nifti) &&
	       (nifti->size == sizeof(*nifti) || be32toh(nifti->size) == sizeof(*nifti)) &&
	       (memcmp(nifti->magic, "n+1", 4) == 0 || memcmp(nifti->magic, "ni1", 4) == 0);
}

/* Reads a NIfTI header. A header that promises more than the file holds, or a type that no
 * manifest can have, is an error. Without a header, spec->type stays unchanged. */
static int read_header(struct file_spec *spec, struct sgpu_error *error)
{
	union {
		uint8_t bytes[sizeof(struct nifti)];
		struct nifti nifti;
	} first = { { 0 } };
	int fd = open(spec->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), code;
	struct stat status;
	size_t size = 0;
	uint64_t bytes;

	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", spec->path);
	}
	code = fstat(fd, &status) ? sgpu_fail_errno(error, "cannot look at '%s'", spec->path)
				  : SGPU_OK;
	if (!code && S_ISREG(status.st_mode)) {
		code = sgpu_read(fd, spec->path, first.bytes, sizeof(first), &size, error);
	}
	close(fd);
	if (!code && size >= 2 && first.bytes[0] == 0x1f && first.bytes[1] == 0x8b) {
		sgpu_fail(error, SGPU_EINVALID, "'%s' is compressed", spec->path);
		return sgpu_hint(error, "unpack it with gunzip first");
	}
	if (!code && is_nifti(&first.nifti, size)) {
		code = read_nifti(&first.nifti, spec, error);
	}
	spec->has_offset = spec->type.dtype != SGPU_NONE;
	if (!code && spec->has_offset &&
	    (!sgpu_type_bytes(&spec->type, &bytes) || !sgpu_add_u64(bytes, spec->offset, &bytes) ||
	     bytes > (uint64_t)status.st_size)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' has %" PRIu64 " bytes, less than its header promises",
				 spec->path, (uint64_t)status.st_size);
	}
	return code;
}

/* ---- what the user says ---- */
/* Finds the last ":DTYPE:" in the text. The path before it may contain colons. */
static const char *find_type(const char *text, enum sgpu_dtype *dtype)
{
	const char *found = NULL;

	for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
		for (int i = SGPU_NONE + 1; i < SGPU_DTYPE_COUNT; i++) {
			const char *name = sgpu_dtype_name((enum sgpu_dtype)i);
			size_t length = strlen(name);

			if (strncmp(colon + 1, name, length) == 0 && colon[1 + length] == ':') {
				*dtype = (enum sgpu_dtype)i;
				found = colon;
			}
		}
	}
	return found;
}

/* Parses the "DTYPE:SHAPE[:OFFSET]" after a path. A shape is "181,217,181", or empty for a
 * scalar. */
static int parse_type(const char *text, enum sgpu_dtype dtype, struct file_spec *spec,
		      struct sgpu_error *error)
{
	char *copy = strdup(text + strlen(sgpu_dtype_name(dtype)) + 1), *rest = copy, *offset;
	struct sgpu_type *type = &spec->type;
	uint64_t bytes;
	int rc = SGPU_OK;

	if (!copy) {
		return sgpu_fail_nomem(error);
	}
	type->dtype = dtype;
	offset = strchr(copy, ':');
	if (offset) {
		*offset++ = '\0';
		spec->has_offset = true;
		rc = sgpu_parse_u64(offset, "an offset", 0, SGPU_JSON_INTEGER_MAX - 1,
				    &spec->offset, error);
	}
	while (!rc && rest && *copy) {
		rc = type->rank == SGPU_RANK_MAX
			     ? sgpu_fail(error, SGPU_EUSAGE, "a shape has at most %d extents",
					 (int)SGPU_RANK_MAX)
			     : sgpu_parse_u64(strsep(&rest, ","), "an extent", 0,
					      SGPU_JSON_INTEGER_MAX - 1, &type->shape[type->rank++],
					      error);
	}
	if (!rc && !sgpu_type_bytes(type, &bytes)) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "the type '%s' is too large", text);
	}
	free(copy);
	return rc;
}

/* Reports a misspelt argument. A path may contain '=', but if there is no such file, the text
 * before '=' was meant as an argument. */
static int check_name(const char *path, const struct sgpu_op *op, struct sgpu_error *error)
{
	size_t length = strcspn(path, "=/");

	if (!length || path[length] != '=' || access(path, F_OK) == 0) {
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_EUSAGE, "'%.*s' is not an argument of '%s', and '%s' is no file",
		  (int)(length < PATH_MAX ? length : PATH_MAX), path, op->name, path);
	return sgpu_hint(error, "'sgpu-manifest ops %s' shows the arguments", op->name);
}

static int hint_type(struct sgpu_error *error)
{
	return sgpu_hint(error, "FILE:DTYPE:SHAPE, SHAPE as in 181,217,181, DTYPE one of f32 "
				"f64 f16 i8 u8 i16 u16 i32 u32 i64 u64");
}

int file_spec_parse(const char *text, const struct sgpu_op *op, struct file_spec *spec,
		    struct sgpu_error *error)
{
	enum sgpu_dtype dtype = SGPU_NONE;
	const char *type;
	int rc;

	memset(spec, 0, sizeof(*spec));
	spec->argument = -1;
	for (int i = 0; op->args[i].name; i++) {
		size_t length = strlen(op->args[i].name);

		if (strncmp(text, op->args[i].name, length) == 0 && text[length] == '=') {
			spec->argument = i;
			text += length + 1;
			break;
		}
	}
	type = find_type(text, &dtype);
	spec->path = type ? strndup(text, (size_t)(type - text)) : strdup(text);
	if (!spec->path) {
		return sgpu_fail_nomem(error);
	}
	if (!*spec->path) {
		return sgpu_fail(error, SGPU_EUSAGE, "'%s' names no file", text);
	}
	rc = spec->argument < 0 ? check_name(spec->path, op, error) : SGPU_OK;
	if (rc) {
		return rc;
	}
	if (type) {
		return parse_type(type + 1, dtype, spec, error);
	}
	if (access(spec->path, F_OK)) { /* the text may have a type that is none */
		sgpu_fail_errno(error, "cannot open '%s'", spec->path);
		return hint_type(error);
	}
	rc = read_header(spec, error);
	if (!rc && spec->type.dtype == SGPU_NONE) {
		sgpu_fail(error, SGPU_EUSAGE, "'%s' does not say what it holds", spec->path);
		return hint_type(error);
	}
	return rc;
}

/* Returns the real path of the file's directory, followed by the file's name, which may be a
 * link. */
static char *absolute(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = folder_of(path);
	char *real = folder ? realpath(folder, NULL) : NULL, *joined = NULL;

	if (real && asprintf(&joined, "%s/%s", strcmp(real, "/") ? real : "",
			     slash ? slash + 1 : path) < 0) {
		joined = NULL;
	}
	free(real);
	free(folder);
	return joined;
}

char *file_spec_location(const char *path, const char *folder)
{
	char *full, *location;
	size_t length = strcmp(folder, "/") ? strlen(folder) : 0;

	if (strcmp(path, "-") == 0) {
		return strdup(path);
	}
	full = absolute(path);
	if (!full) { /* the file's directory does not exist yet */
		return strdup(path);
	}
	if (strncmp(full, folder, length) != 0 || full[length] != '/') {
		return full;
	}
	location = strdup(full + length + 1);
	free(full);
	return location;
}
