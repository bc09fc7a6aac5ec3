/* SPDX-License-Identifier: Apache-2.0
 *
 * data_location_client: a path relative to the manifest's directory, checked as text. The code that
 * opens the path checks symbolic links.
 */
#include <string.h>

#include "manifest/reader.h"

static const char field[] = "data_location_client";

bool sgpu_location_normal(const char *path, char normal[SGPU_LOCATION_MAX + 1])
{
	size_t used = 0;

	if (*path == '/' || strnlen(path, SGPU_LOCATION_MAX + 1) > SGPU_LOCATION_MAX) {
		return false;
	}
	while (*path) {
		size_t length = strcspn(path, "/");

		if (length == 2 && path[0] == '.' && path[1] == '.') {
			if (!used) {
				return false;
			}
			while (used && normal[--used] != '/') {
			}
		} else if (length && !(length == 1 && *path == '.')) {
			if (used) {
				normal[used++] = '/';
			}
			memmove(normal + used, path, length);
			used += length;
		}
		path += length;
		path += *path == '/';
	}
	normal[used] = '\0';
	return true;
}

bool sgpu_location_outside(const char *location)
{
	char normal[SGPU_LOCATION_MAX + 1];

	return !sgpu_location_normal(location, normal);
}

bool sgpu_has_control(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f) {
			return true;
		}
	}
	return false;
}

void sgpu_reader_location(struct sgpu_reader *reader, json_t *value, struct sgpu_segment *segment)
{
	const char *location = sgpu_reader_string(reader, field, value);
	bool unsure = reader->unsure[segment - reader->manifest->segments] & SGPU_UNSURE_DIRECTION;
	const char *name;

	if (!location) {
		return;
	}
	if (strlen(location) > SGPU_LOCATION_MAX) {
		sgpu_reader_report(reader, field, NULL,
				   "the path has %zu bytes, at most %d are possible",
				   strlen(location), (int)SGPU_LOCATION_MAX);
		return;
	}
	if (!*location || sgpu_has_control(location)) {
		sgpu_reader_report(reader, field, NULL, "the path %s",
				   *location ? "holds control characters" : "is empty");
		return;
	}
	name = strrchr(location, '/');
	name = name ? name + 1 : location;
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		sgpu_reader_refuse(reader, field, NULL, value, "names a directory");
		return;
	}
	segment->location = sgpu_reader_keep(reader, location);
	if (unsure) {
		return;
	}
	if (sgpu_segment_is_output(segment) && sgpu_location_outside(location)) {
		sgpu_reader_refuse(reader, field, NULL, value,
				   "is outside the directory of the outputs");
	} else if (sgpu_segment_is_input(segment) && reader->options & SGPU_MANIFEST_INSIDE &&
		   sgpu_location_outside(location)) {
		sgpu_reader_refuse(reader, field, "--allow-outside permits it", value,
				   "is outside the manifest's directory");
	}
}

/* The normalised name of an output: its location, or its id if the location is absent or "-". */
static bool output_name(const struct sgpu_segment *segment, char normal[SGPU_LOCATION_MAX + 1])
{
	bool named = segment->location && strcmp(segment->location, "-") != 0;

	return sgpu_location_normal(named ? segment->location : segment->id, normal);
}

static void report_output(struct sgpu_reader *reader, int index, const char *what,
			  const char *other)
{
	const struct sgpu_segment *segment = &reader->manifest->segments[index];

	sgpu_reader_at(reader, SGPU_LIST_SEGMENTS, index);
	sgpu_reader_report(reader, segment->location ? field : NULL, NULL,
			   "the output '%s' %s '%s'", segment->id, what, other);
}

/* Two outputs in one file would overwrite each other. */
static void claim(struct sgpu_reader *reader, int index)
{
	const struct sgpu_segment *segment = &reader->manifest->segments[index];
	char normal[SGPU_LOCATION_MAX + 1];
	const char *other;

	if (!output_name(segment, normal)) {
		return; /* reported already */
	}
	other = json_string_value(json_object_get(reader->outputs, normal));
	if (other && strcmp(other, segment->id) != 0) {
		report_output(reader, index, "has the file of the output", other);
	} else if (!other && json_object_set_new_nocheck(reader->outputs, normal,
							 json_string_nocheck(segment->id)) < 0) {
		reader->no_memory = true;
	}
}

/* An output cannot be a directory for another. */
static void check_directories(struct sgpu_reader *reader, int index)
{
	char normal[SGPU_LOCATION_MAX + 1];
	const char *other;

	if (!output_name(&reader->manifest->segments[index], normal)) {
		return;
	}
	for (char *slash = strchr(normal, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		other = json_string_value(json_object_get(reader->outputs, normal));
		if (other) {
			report_output(reader, index,
				      "needs a directory with the name of the output", other);
			return;
		}
		*slash = '/';
	}
}

/* Only an input has a file whose geometry can be kept. */
static void check_like(struct sgpu_reader *reader, int index)
{
	const struct sgpu_segment *segments = reader->manifest->segments;
	const int like = segments[index].file.like;

	if (like >= 0 && !(reader->unsure[like] & SGPU_UNSURE_DIRECTION) &&
	    segments[like].direction != SGPU_INPUT) {
		sgpu_reader_at(reader, SGPU_LIST_SEGMENTS, index);
		(void)sgpu_reader_enter(reader, "/file");
		sgpu_reader_report(reader, "like", NULL, "'%s' is not an INPUT", segments[like].id);
	}
}

static bool takes_part(const struct sgpu_reader *reader, int index)
{
	const struct sgpu_segment *segment = &reader->manifest->segments[index];

	return sgpu_segment_is_output(segment) && *segment->id &&
	       !(reader->unsure[index] & SGPU_UNSURE_DIRECTION);
}

void sgpu_reader_outputs(struct sgpu_reader *reader)
{
	const int count = reader->manifest->segment_count;

	for (int i = 0; i < count && !reader->no_memory; i++) {
		if (takes_part(reader, i)) {
			claim(reader, i);
		}
	}
	for (int i = 0; i < count && !reader->no_memory; i++) {
		if (takes_part(reader, i)) {
			check_directories(reader, i);
			check_like(reader, i);
		}
	}
}
