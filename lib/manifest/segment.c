/* SPDX-License-Identifier: Apache-2.0
 *
 * One entry of "segments".
 */
#include <string.h>

#include "manifest/reader.h"

enum {
	ID,
	SENSITIVITY,
	DIRECTION,
	REQUIRED,
	LOCATION = REQUIRED,
	OPERATION,
	TYPE,
	ARRAY,
	DEPENDENCIES,
	VARIABLES,
	FIELDS = VARIABLES + SGPU_DMA_VARS
};
static const char *const fields[FIELDS + 1] = { "segment_id",
						"sensitivity_level",
						"direction",
						"data_location_client",
						"gpu_operation_id",
						"data_type_info",
						"file",
						"dependencies",
						"client_dma_input_pinned_host_ptr_var",
						"client_dma_input_device_ptr_var",
						"client_dma_output_pinned_host_ptr_var",
						"client_dma_output_buffer_size_var",
						NULL };
static const char *const sensitivities[] = { "LOW", "HIGH", NULL };
static const char *const directions[] = { "INPUT", "OUTPUT", "INPUT_OUTPUT", "INTERMEDIATE", NULL };

const char *sgpu_sensitivity_name(enum sgpu_sensitivity sensitivity)
{
	return sensitivity == SGPU_HIGH ? "HIGH" : "LOW";
}

const char *sgpu_direction_name(enum sgpu_direction direction)
{
	return (unsigned)direction <= SGPU_INTERMEDIATE ? directions[direction] : "INPUT";
}

static void read_dtype(struct sgpu_reader *reader, const json_t *value, struct sgpu_type *type)
{
	const char *name = sgpu_reader_string(reader, "dtype", value);

	if (!name) {
		return;
	}
	type->dtype = sgpu_dtype_parse(name);
	if (type->dtype == SGPU_NONE) {
		sgpu_reader_refuse(reader, "dtype", NULL, value,
				   "is not one of "
				   "f32, f64, f16, i8, u8, i16, u16, i32, u32, i64, u64");
	}
}

static bool read_shape(struct sgpu_reader *reader, const json_t *value, struct sgpu_type *type)
{
	bool good = true;

	if (!json_is_array(value)) {
		return sgpu_reader_refuse(reader, "shape", NULL, value, "is not an array");
	}
	if (json_array_size(value) > SGPU_RANK_MAX) {
		return sgpu_reader_report(reader, "shape", NULL,
					  "the rank is %zu, at most %d is possible",
					  json_array_size(value), (int)SGPU_RANK_MAX);
	}
	type->rank = (int)json_array_size(value);
	for (int i = 0; i < type->rank; i++) {
		char *end = sgpu_reader_enter(reader, "/shape/%d", i);

		good &= sgpu_reader_u64(reader, NULL, json_array_get(value, (size_t)i),
					&type->shape[i]);
		*end = '\0';
	}
	return good;
}

static void read_type(struct sgpu_reader *reader, json_t *value, struct sgpu_segment *segment)
{
	static const char *const names[] = { "dtype", "shape", "offset", NULL };
	struct sgpu_type type = { .dtype = SGPU_NONE };
	json_t *values[3];
	uint64_t bytes = 0, end;
	bool shaped;

	if (!value || !sgpu_reader_fields(reader, value, names, 2, values)) {
		return;
	}
	read_dtype(reader, values[0], &type);
	shaped = values[1] && read_shape(reader, values[1], &type);
	if (values[2] && sgpu_reader_u64(reader, "offset", values[2], &segment->offset)) {
		segment->has_offset = true;
	}
	if (!shaped || type.dtype == SGPU_NONE) {
		return;
	}
	if (!sgpu_type_bytes(&type, &bytes) || bytes >= SGPU_JSON_INTEGER_MAX) {
		sgpu_reader_report(reader, "shape", NULL, "the size is not below 2^53 bytes");
		return;
	}
	if (segment->has_offset &&
	    (!sgpu_add_u64(segment->offset, bytes, &end) || end >= SGPU_JSON_INTEGER_MAX)) {
		sgpu_reader_report(reader, "offset", NULL,
				   "the payload does not end below 2^53 bytes");
	}
	segment->type = type;
	segment->type_stated = true;
}

/* ---- "file": its format, which is the owner's business ---- */
enum { FORMAT, MEMBER, LIKE, AXES, BOOLEAN, FILE_FIELDS };

static void read_file(struct sgpu_reader *reader, json_t *value, struct sgpu_segment *segment)
{
	static const char *const names[] = { "format", "member", "like", "axes", "boolean", NULL };
	static const char *const formats[2][6] = { { "nifti", "nifti.gz", "npy", "npz", "raw" },
						   { "nifti", "npy", "npz", "idx" } };
	static const char *const axes[] = { "reversed", NULL };
	const bool input = segment->direction == SGPU_INPUT;
	json_t *values[FILE_FIELDS];
	int choice;

	segment->file.like = -1;
	if (!value || !sgpu_reader_fields(reader, value, names, 1, values)) {
		return;
	}
	if (!input && segment->direction != SGPU_OUTPUT) {
		sgpu_reader_report(reader, NULL, NULL, "a format is for INPUT and OUTPUT");
	}
	for (int i = MEMBER; i < FILE_FIELDS; i++) {
		if (values[i] && input != (i == MEMBER)) {
			sgpu_reader_report(reader, names[i], NULL, "this field is for %s",
					   i == MEMBER ? "inputs" : "outputs");
		}
	}
	if (segment->has_offset) {
		sgpu_reader_report(reader, "format", NULL, "a file with a format has no offset");
	}
	choice = sgpu_reader_choice(reader, "format", values[FORMAT], formats[input], -1);
	if (choice >= 0 && strcmp(formats[input][choice], "raw") != 0) {
		segment->file.format = formats[input][choice];
	}
	segment->file.member =
		sgpu_reader_keep(reader, sgpu_reader_string(reader, "member", values[MEMBER]));
	segment->file.like = sgpu_reader_reference(reader, "like",
						   sgpu_reader_string(reader, "like", values[LIKE]),
						   reader->manifest->segment_ids, "a segment");
	segment->file.reversed =
		sgpu_reader_choice(reader, "axes", values[AXES], axes, -1) == 0 ||
		(segment->file.format && strncmp(segment->file.format, "nifti", 5) == 0);
	if (values[BOOLEAN] && !json_is_boolean(values[BOOLEAN])) {
		sgpu_reader_refuse(reader, "boolean", NULL, values[BOOLEAN],
				   "is not a truth value");
	}
	segment->file.boolean = json_is_true(values[BOOLEAN]);
}

/* Checks fields that depend on the direction, unless that was reported as invalid. */
static void check_direction(struct sgpu_reader *reader, int index, json_t *const *values)
{
	const struct sgpu_segment *segment = &reader->manifest->segments[index];
	const char *direction = sgpu_direction_name(segment->direction);

	if (reader->unsure[index] & SGPU_UNSURE_DIRECTION) {
		return;
	}
	if (values[LOCATION] && segment->direction == SGPU_INTERMEDIATE) {
		sgpu_reader_report(
			reader, "data_location_client", NULL,
			"an INTERMEDIATE segment never leaves the device and has no location");
	}
	if (segment->has_offset && !sgpu_segment_is_input(segment)) {
		char *end = sgpu_reader_enter(reader, "/data_type_info");

		sgpu_reader_report(reader, "offset", NULL,
				   "an offset is for inputs, this segment is %s", direction);
		*end = '\0';
	}
	for (int i = 0; i < SGPU_DMA_VARS; i++) {
		bool input = i == SGPU_DMA_INPUT_HOST || i == SGPU_DMA_INPUT_DEVICE;

		if (values[VARIABLES + i] &&
		    !(input ? sgpu_segment_is_input(segment) : sgpu_segment_is_output(segment))) {
			sgpu_reader_report(reader, fields[VARIABLES + i], NULL,
					   "this variable is for %s, this segment is %s",
					   input ? "inputs" : "outputs", direction);
		}
	}
}

static void check_operation(struct sgpu_reader *reader, int index)
{
	const struct sgpu_segment *segment = &reader->manifest->segments[index];
	const struct sgpu_operation *operation;

	if (segment->operation < 0 || reader->use_unsure) {
		return;
	}
	operation = &reader->manifest->operations[segment->operation];
	for (int i = 0; i < operation->arg_count; i++) {
		if (operation->args[i].segment == index) {
			return;
		}
	}
	if (operation->module && operation->module->segment == index) {
		return;
	}
	sgpu_reader_report(reader, "gpu_operation_id", NULL, "operation '%s' has no argument '%s'",
			   operation->id, segment->id);
}

static void read_variables(struct sgpu_reader *reader, int index, json_t *const *values)
{
	struct sgpu_segment *segment = &reader->manifest->segments[index];

	for (int i = 0; i < SGPU_DMA_VARS; i++) {
		if (!values[VARIABLES + i]) {
			continue;
		}
		if (segment->sensitivity == SGPU_HIGH &&
		    !(reader->unsure[index] & SGPU_UNSURE_SENSITIVITY)) {
			sgpu_reader_report(
				reader, fields[VARIABLES + i], NULL,
				"a HIGH segment is sealed and never handed over as a variable");
		}
		sgpu_reader_variable(reader, fields[VARIABLES + i], values[VARIABLES + i],
				     segment->id, &segment->dma_var[i]);
	}
}

void sgpu_reader_segment(struct sgpu_reader *reader, int index, json_t *entry)
{
	struct sgpu_manifest *manifest = reader->manifest;
	struct sgpu_segment *segment = &manifest->segments[index];
	json_t *values[FIELDS];
	char *end;
	int choice;

	segment->id = "";
	reader->unsure[index] |= SGPU_UNSURE_DIRECTION | SGPU_UNSURE_SENSITIVITY;
	if (!sgpu_reader_fields(reader, entry, fields, REQUIRED, values)) {
		reader->use_unsure = true;
		return;
	}
	if (json_is_string(values[ID]) && json_string_length(values[ID]) <= SGPU_ID_MAX) {
		segment->id = sgpu_reader_keep(reader, json_string_value(values[ID]));
	}
	/* An id that is missing, malformed or repeated was reported, and the segment's users are
	 * not known. */
	if (sgpu_ids_index(manifest->segment_ids, segment->id) != index) {
		reader->use_unsure = true;
	}
	choice = sgpu_reader_choice(reader, "sensitivity_level", values[SENSITIVITY], sensitivities,
				    -1);
	if (choice >= 0) {
		segment->sensitivity = (enum sgpu_sensitivity)choice;
		reader->unsure[index] &= (uint8_t)~SGPU_UNSURE_SENSITIVITY;
	}
	choice = sgpu_reader_choice(reader, "direction", values[DIRECTION], directions, -1);
	if (choice >= 0) {
		segment->direction = (enum sgpu_direction)choice;
		reader->unsure[index] &= (uint8_t)~SGPU_UNSURE_DIRECTION;
	}
	if (values[OPERATION]) {
		segment->operation = sgpu_reader_reference(
			reader, "gpu_operation_id",
			sgpu_reader_string(reader, "gpu_operation_id", values[OPERATION]),
			manifest->operation_ids, "an operation");
	}
	segment->type_given = values[TYPE];
	end = sgpu_reader_enter(reader, "/data_type_info");
	read_type(reader, values[TYPE], segment);
	*end = '\0';
	end = sgpu_reader_enter(reader, "/file");
	read_file(reader, values[ARRAY], segment);
	*end = '\0';
	sgpu_reader_dependencies(reader, index, values[DEPENDENCIES]);
	check_direction(reader, index, values);
	check_operation(reader, index);
	read_variables(reader, index, values);
	if (segment->direction != SGPU_INTERMEDIATE) {
		sgpu_reader_location(reader, values[LOCATION], segment);
	}
}
