/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads in files that have a format: inputs are read from them, and outputs written to them as
 * the owner's note says, whose text is hostile.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "parts.h"

enum { PIECE = 1 << 20 };

/* ---- inputs ---- */
int seal_array_open(const struct sgpu_location *location, uint64_t size, struct seal_array *array,
		    struct sgpu_error *error)
{
	const struct sgpu_file_request request = { .name = location->file,
						   .member = *location->array ? location->array
									      : NULL };
	uint64_t bytes = 0;
	int rc;

	*array = (struct seal_array){ .source = { .fd = -1 }, .other = -1 };
	rc = sgpu_source_open(location, 0, &array->source, error);
	rc = rc ? rc : sgpu_file_open_other(location->file, &array->other, error);
	rc = rc ? rc
		: sgpu_file_open(array->source.fd, array->other, &request, &array->file, error);
	if (!rc) {
		(void)sgpu_type_bytes(&sgpu_file_info(array->file)->type, &bytes);
	}
	return rc || bytes == size
		       ? rc
		       : sgpu_fail(
				 error, SGPU_EINVALID,
				 "'%s' has %llu bytes of elements, and had %llu when it was packed",
				 location->file, (unsigned long long)bytes,
				 (unsigned long long)size);
}

void seal_array_close(struct seal_array *array)
{
	sgpu_file_close(&array->file);
	if (array->source.owned) {
		sgpu_source_close(&array->source);
		sgpu_close(array->other);
	}
}

static int read_array(void *context, uint64_t position, void *data, size_t size,
		      struct sgpu_error *error)
{
	struct seal_payload *payload = context; /* by its first member */

	(void)position; /* it is read in order */
	return sgpu_file_read(payload->array.file, data, size, error);
}

int seal_payload_from_array(struct seal_payload *payload, struct sgpu_host_part *part,
			    const struct sgpu_location *location, struct sgpu_error *error)
{
	part->source.read = read_array;
	part->source.ordered = true;
	part->name = location->file;
	return seal_array_open(location, part->size, &payload->array, error);
}

/* ---- outputs ---- */
static int read_shape(const json_t *file, const char *where, bool reversed, struct sgpu_type *type,
		      struct sgpu_error *error)
{
	const json_t *shape = json_object_get(file, "shape"), *extent;
	const size_t rank = json_array_size(shape);
	size_t i;

	if (!json_is_array(shape) || rank > SGPU_RANK_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: /shape is no shape", where);
	}
	type->rank = (int)rank;
	json_array_foreach (shape, i, extent) {
		if (!json_is_integer(extent) || json_integer_value(extent) < 0) {
			return sgpu_fail(error, SGPU_EINVALID, "%s: /shape is no shape", where);
		}
		type->shape[reversed ? rank - 1 - i : i] = (uint64_t)json_integer_value(extent);
	}
	return SGPU_OK;
}

static int read_format(const json_t *file, const char *where, struct sgpu_file_style *style,
		       struct sgpu_type *type, struct sgpu_error *error)
{
	static const char *const members[] = { "format",  "dtype",  "shape", "axes",
					       "boolean", "header", NULL };
	const json_t *axes = json_object_get(file, "axes"),
		     *boolean = json_object_get(file, "boolean");
	const char *format = NULL, *dtype = NULL;
	char ending[16];
	int rc = sgpu_json_only(file, where, members, error);

	rc = rc ? rc : sgpu_json_string(file, where, "format", &format, error);
	rc = rc ? rc : sgpu_json_string(file, where, "dtype", &dtype, error);
	if (rc) {
		return rc;
	}
	/* The names of formats are endings, but for one. */
	snprintf(ending, sizeof(ending), "x.%s",
		 strcmp(format, "nifti") == 0	   ? "nii"
		 : strcmp(format, "nifti.gz") == 0 ? "nii.gz"
						   : format);
	sgpu_file_style_of(ending, style);
	type->dtype = sgpu_dtype_parse(dtype);
	style->boolean = json_is_true(boolean);
	style->first_fastest = style->first_fastest || axes;
	if (style->format == SGPU_FILE_RAW || type->dtype == SGPU_NONE ||
	    (axes && (!json_is_string(axes) || strcmp(json_string_value(axes), "reversed"))) ||
	    (boolean && !json_is_boolean(boolean))) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: no format or type that is known",
				 where);
	}
	return read_shape(file, where, style->first_fastest, type, error);
}

int seal_array_create(const json_t *file, const char *id, uint64_t size, int fd, const char *name,
		      struct sgpu_file_writer **writer, struct sgpu_error *error)
{
	struct sgpu_file_style style;
	struct sgpu_type type = { .dtype = SGPU_NONE };
	const char *text = NULL;
	uint8_t *header = NULL;
	uint64_t bytes = 0;
	char where[SGPU_ID_MAX + 32];
	int rc;

	snprintf(where, sizeof(where), "note: file of '%s'", id);
	rc = read_format(file, where, &style, &type, error);
	if (!rc && (!sgpu_type_bytes(&type, &bytes) || bytes != size)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: it does not have the size of the output",
			       where);
	}
	if (!rc && json_object_get(file, "header")) {
		rc = sgpu_json_string(file, where, "header", &text, error);
		rc = rc ? rc
			: sgpu_base64url_read(text, strlen(text), where, &header,
					      &style.header_size, error);
		style.header = header;
	}
	rc = rc ? rc : sgpu_file_create(fd, name, &style, &type, writer, error);
	free(header);
	return rc;
}

int seal_array_copy(int from, uint64_t size, struct sgpu_file_writer *writer,
		    struct sgpu_error *error)
{
	char *piece = malloc(PIECE);
	int rc = piece ? SGPU_OK : sgpu_fail_nomem(error);
	size_t got = 0;

	for (uint64_t at = 0; !rc && at < size; at += got) {
		rc = sgpu_pread(from, "temporary file", piece, PIECE, at, &got, error);
		rc = rc || got ? rc : sgpu_fail(error, SGPU_ESYSTEM, "a temporary file has shrunk");
		rc = rc ? rc : sgpu_file_write(writer, piece, got, error);
	}
	free(piece);
	return rc;
}
