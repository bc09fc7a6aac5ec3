/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads in files that have a format: inputs are read from them, and outputs written to them as
 * the owner's note says, whose text is hostile.
 */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

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

static int read_array(void *context, uint64_t position, void *data, size_t size, size_t *got,
		      struct sgpu_error *error)
{
	struct seal_payload *payload = context; /* by its first member */

	(void)position; /* it is read in order */
	*got = size;
	return sgpu_file_read(payload->array.file, data, size, error);
}

int seal_payload_from_array(struct seal_payload *payload, struct sgpu_host_part *part,
			    const struct sgpu_location *location, struct sgpu_error *error)
{
	part->source.read_some = read_array;
	part->source.ordered = true;
	part->name = location->file;
	return seal_array_open(location, part->size, &payload->array, error);
}

/* False: the note says nothing that is known. *header: in base64url, or NULL. */
static bool read_note(json_t *file, struct sgpu_file_style *style, struct sgpu_type *type,
		      const char **header)
{
	const char *format = NULL, *dtype = NULL, *axes = NULL;
	json_t *shape = NULL, *extent;
	int boolean = 0;
	size_t i, rank;

	if (json_unpack(file, "{s:s, s:s, s:o, s?s, s?b, s?s !}", "format", &format, "dtype",
			&dtype, "shape", &shape, "axes", &axes, "boolean", &boolean, "header",
			header)) {
		return false;
	}
	sgpu_file_style_named(format, style);
	style->boolean = boolean;
	style->first_fastest = style->first_fastest || axes;
	type->dtype = sgpu_dtype_parse(dtype);
	rank = json_array_size(shape);
	type->rank = (int)rank;
	if (style->format == SGPU_FILE_RAW || type->dtype == SGPU_NONE || !json_is_array(shape) ||
	    rank > SGPU_RANK_MAX || (axes && strcmp(axes, "reversed") != 0)) {
		return false;
	}
	json_array_foreach (shape, i, extent) {
		const json_int_t value = json_is_integer(extent) ? json_integer_value(extent) : -1;

		type->shape[style->first_fastest ? rank - 1 - i : i] = (uint64_t)value;
	}
	return true;
}

int seal_array_create(json_t *file, const char *id, uint64_t size, int fd, const char *name,
		      struct sgpu_file_writer **writer, struct sgpu_error *error)
{
	struct sgpu_file_style style;
	struct sgpu_type type = { .dtype = SGPU_NONE };
	const char *text = NULL;
	uint8_t *header = NULL;
	uint64_t bytes = 0;
	int rc = 0;

	if (!read_note(file, &style, &type, &text) || !sgpu_type_bytes(&type, &bytes) ||
	    bytes != size) {
		return sgpu_fail(
			error, SGPU_EINVALID,
			"note: the file of '%s' has no format that is known, or another size", id);
	}
	if (text) {
		rc = sgpu_base64url_read(text, strlen(text), "note: a header", &header,
					 &style.header_size, error);
	}
	style.header = header;
	rc = rc ? rc : sgpu_file_create(fd, name, &style, &type, writer, error);
	free(header);
	return rc;
}
