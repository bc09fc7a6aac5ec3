/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads in files that have a format, and what the note says of the formats of outputs.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "batch/batch.h"
#include "manifest_tool.h"

struct array {
	char *path;
	int fd, other;
	struct sgpu_file *file;
};

/* Close it also after an error. */
static int array_open(const struct payload_folder *folder, const struct sgpu_segment *segment,
		      struct array *array, struct sgpu_error *error)
{
	const struct sgpu_file_request request = { .name = segment->location,
						   .member = segment->file.member };
	uint64_t size = 0;
	int rc;

	*array = (struct array){ .fd = -1, .other = -1 };
	(void)sgpu_type_bytes(&segment->type, &size);
	rc = payload_open(folder, segment, &array->path, &array->fd, &size, error);
	rc = rc ? rc : sgpu_file_open_other(array->path, &array->other, error);
	return rc ? rc : sgpu_file_open(array->fd, array->other, &request, &array->file, error);
}

static void array_close(struct array *array)
{
	sgpu_file_close(&array->file);
	sgpu_close(array->fd);
	sgpu_close(array->other);
	free(array->path);
}

static void drop_ones(struct sgpu_type *type)
{
	while (type->rank > 0 && type->shape[0] == 1) {
		type->rank--;
		memmove(type->shape, type->shape + 1, sizeof(type->shape) - sizeof(*type->shape));
	}
}

static int check_array(const struct sgpu_segment *segment, const struct sgpu_file_info *info,
		       struct sgpu_error *error)
{
	char text[2][SGPU_TYPE_TEXT_MAX];
	struct sgpu_type stated = segment->type, found;

	if (strcmp(sgpu_file_format_names[info->format], segment->file.format) != 0) {
		return sgpu_fail(error, SGPU_EINVALID, "segment '%s': '%s' is %s, not %s",
				 segment->id, segment->location,
				 sgpu_file_format_names[info->format], segment->file.format);
	}
	sgpu_file_payload_type(info, &found);
	sgpu_type_text(&stated, text[0]);
	sgpu_type_text(&found, text[1]);
	drop_ones(&stated);
	drop_ones(&found);
	return sgpu_type_equal(&stated, &found)
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EINVALID,
				   "segment '%s': '%s' holds %s, the manifest states %s",
				   segment->id, segment->location, text[1], text[0]);
}

static int read_elements(void *file, uint64_t position, void *data, size_t size, size_t *got,
			 struct sgpu_error *error)
{
	(void)position; /* it is read in order */
	*got = size;
	return sgpu_file_read(file, data, size, error);
}

/* Appends an array's elements to the spool, which is then the payload's file. */
static int unpack(struct payload_folder *folder, struct sgpu_file *file, const char *name,
		  struct sgpu_batch_segment *entry, struct sgpu_error *error)
{
	const struct sgpu_endpoint elements = { .read_some = read_elements,
						.ordered = true,
						.context = file };
	struct sgpu_descriptor spool;
	int rc = payload_spool(folder, &entry->location.offset, error);

	sgpu_descriptor_from_fd(folder->spool, "temporary file", &spool);
	rc = rc ? rc : payload_move(folder, elements, sgpu_endpoint_of(&spool), name, entry, error);
	sgpu_descriptor_close(&spool);
	return rc;
}

/* A LOW payload that a runner would have to unpack from its file travels in the batch. */
static int take(struct payload_folder *folder, const struct sgpu_segment *segment,
		struct array *array, struct sgpu_batch_segment *entry, struct sgpu_error *error)
{
	const struct sgpu_file_info *info = sgpu_file_info(array->file);
	const bool low = segment->sensitivity == SGPU_LOW;
	struct sgpu_location *location = &entry->location;
	int rc = check_array(segment, info, error);

	if (!rc && low && !info->plain) {
		location->kind = SGPU_LOCATION_INLINE;
		rc = entry->place ? sgpu_fail(error, SGPU_EUSAGE,
					      "segment '%s': '%s' is unpacked, and has no place",
					      segment->id, segment->location)
				  : unpack(folder, array->file, segment->location, entry, error);
		return rc;
	}
	location->kind = SGPU_LOCATION_FILE;
	location->file = array->path;
	array->path = NULL;
	location->offset = info->plain ? info->offset : 0;
	if (!rc && low) {
		rc = payload_hash(folder, array->fd, segment->location, info->offset, entry, error);
	} else if (!rc && !info->plain) {
		location->array = strdup(segment->file.member ? segment->file.member : "");
		rc = location->array ? SGPU_OK : sgpu_fail_nomem(error);
	}
	return rc;
}

int array_take(struct payload_folder *folder, const struct sgpu_segment *segment,
	       struct sgpu_batch_segment *entry, struct sgpu_error *error)
{
	struct array array;
	int rc = array_open(folder, segment, &array, error);

	rc = rc ? rc : take(folder, segment, &array, entry, error);
	array_close(&array);
	return rc;
}

/* Adds the header of the file that an output is like. */
static int add_header(const struct payload_folder *folder, const struct sgpu_segment *like,
		      json_t *file, struct sgpu_error *error)
{
	struct array array = { .fd = -1, .other = -1 };
	const void *header;
	size_t size = 0;
	int rc;

	if (!like->location) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "segment '%s' has no file that an output can be like", like->id);
	}
	rc = array_open(folder, like, &array, error);
	header = rc ? NULL : sgpu_file_header(array.file, &size);
	if (!rc && !header) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "segment '%s': '%s' is no NIfTI file, and has no geometry to keep",
			       like->id, like->location);
	}
	if (!rc && json_object_set_new(file, "header", sgpu_json_from_bytes(header, size)) != 0) {
		rc = sgpu_fail_nomem(error);
	}
	array_close(&array);
	return rc;
}

/* Begins such a file and discards it, to find before the run what its format lacks. */
static int try_format(const struct sgpu_segment *segment, struct sgpu_error *error)
{
	const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct sgpu_file_writer *writer = NULL;
	struct sgpu_file_style style;
	int rc;

	sgpu_file_style_named(segment->file.format, &style);
	style.boolean = segment->file.boolean;
	rc = sgpu_file_create(fd, segment->id, &style, &segment->type, &writer, error);
	sgpu_file_writer_free(&writer);
	sgpu_close(fd);
	return rc;
}

static int describe(const struct payload_folder *folder, const struct sgpu_manifest *manifest,
		    const struct sgpu_segment *segment, json_t **file, struct sgpu_error *error)
{
	if (segment->at_most) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "segment '%s' has a size that only the run knows, and no format",
				 segment->id);
	}
	const int rc = try_format(segment, error);
	if (rc) {
		return rc;
	}
	*file = json_pack("{s:s, s:s, s:o, s:s*, s:b}", "format", segment->file.format, "dtype",
			  sgpu_dtype_name(segment->type.dtype), "shape", shape_json(&segment->type),
			  "axes", segment->file.reversed ? "reversed" : NULL, "boolean",
			  segment->file.boolean);
	return !*file ? sgpu_fail_nomem(error)
	       : segment->file.like < 0
		       ? SGPU_OK
		       : add_header(folder, &manifest->segments[segment->file.like], *file, error);
}

int array_note(const struct payload_folder *folder, const struct sgpu_manifest *manifest,
	       struct sgpu_batch *batch, struct sgpu_error *error)
{
	json_t **files = calloc((size_t)manifest->segment_count + 1, sizeof(json_t *));
	int rc = files ? SGPU_OK : sgpu_fail_nomem(error);

	for (int i = 0; !rc && i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];

		if (segment->direction == SGPU_OUTPUT && segment->file.format) {
			rc = describe(folder, manifest, segment, &files[i], error);
		}
	}
	rc = rc ? rc : sgpu_batch_make_note(batch, manifest, files, error);
	for (int i = 0; files && i < manifest->segment_count; i++) {
		json_decref(files[i]);
	}
	free(files);
	return rc;
}
