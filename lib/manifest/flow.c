/* SPDX-License-Identifier: Apache-2.0
 *
 * Information flow: where HIGH data flow, and the path by which they would leave as LOW.
 */
#include <stdlib.h>
#include <string.h>

#include "manifest/reader.h"

enum { STEPS_MAX = 12, PATH_TEXT_MAX = 4096 };

/* Whether a reader of the segment gets HIGH data. Operations read an INPUT_OUTPUT as it arrived. */
static bool reads_high(const struct sgpu_segment *segment)
{
	if (segment->direction == SGPU_INPUT_OUTPUT) {
		return segment->sensitivity == SGPU_HIGH;
	}
	return segment->high_flow;
}

/* via: per operation, the HIGH segment that makes its outputs HIGH, or -1. */
static int made_by(const struct sgpu_segment *segment, const int *via, bool as_read)
{
	if (segment->writer < 0 || (as_read && segment->direction == SGPU_INPUT_OUTPUT) ||
	    via[segment->writer] < 0) {
		return -1;
	}
	return segment->writer;
}

static char *prepend(char *text, const char *part)
{
	const size_t length = strlen(part);

	return memcpy(text - length, part, length);
}

/* Returns "scan -> SMOOTH -> smoothed -> HIST -> histogram", written from its end on; a long path
 * keeps only its source and its last steps. */
static const char *path_text(const struct sgpu_manifest *manifest, const int *via,
			     const struct sgpu_segment *segment, char text[PATH_TEXT_MAX])
{
	char *path = text + PATH_TEXT_MAX - 1;
	int steps = 0, operation = made_by(segment, via, false);

	*path = '\0';
	path = prepend(path, segment->id);
	for (; operation >= 0; operation = made_by(segment, via, true)) {
		segment = &manifest->segments[via[operation]];
		if (++steps <= STEPS_MAX) {
			path = prepend(path, " -> ");
			path = prepend(path, manifest->operations[operation].id);
			path = prepend(path, " -> ");
			path = prepend(path, segment->id);
		}
	}
	return steps > STEPS_MAX ? prepend(prepend(path, " -> ... -> "), segment->id) : path;
}

static void follow_operation(struct sgpu_manifest *manifest, int *via, int index)
{
	const struct sgpu_operation *operation = &manifest->operations[index];

	for (int k = 0; k <= operation->arg_count && via[index] < 0 && !operation->declassify;
	     k++) {
		int segment = sgpu_operation_reads(operation, k);

		if (segment >= 0 && reads_high(&manifest->segments[segment])) {
			via[index] = segment;
		}
	}
	for (int k = 0; k < operation->arg_count && via[index] >= 0; k++) {
		int segment = operation->args[k].segment;

		/* Any other writer has been reported. */
		if (operation->args[k].output && segment >= 0 &&
		    manifest->segments[segment].writer == index) {
			manifest->segments[segment].high_flow = true;
		}
	}
}

static void check_segment(struct sgpu_reader *reader, const int *via, int index)
{
	const struct sgpu_segment *segment = &reader->manifest->segments[index];
	const bool inside = segment->direction == SGPU_INTERMEDIATE;
	char path[PATH_TEXT_MAX];

	/* Finding a path takes time, so none is sought for a diagnostic that is dropped. */
	if (!segment->high_flow || segment->sensitivity == SGPU_HIGH ||
	    reader->unsure[index] & (SGPU_UNSURE_SENSITIVITY | SGPU_UNSURE_DIRECTION) ||
	    reader->diagnostics->count > SGPU_DIAGNOSTICS_MAX) {
		return;
	}
	sgpu_reader_at(reader, SGPU_LIST_SEGMENTS, index);
	sgpu_reader_report(reader, "sensitivity_level",
			   inside ? "declare it HIGH"
				  : "declare it HIGH, or the operation that may publish it "
				    "\"declassify\": true",
			   "HIGH data flow into the LOW %s '%s': %s", inside ? "segment" : "output",
			   segment->id, path_text(reader->manifest, via, segment, path));
}

void sgpu_reader_flow(struct sgpu_reader *reader)
{
	struct sgpu_manifest *manifest = reader->manifest;
	int *via = malloc(((size_t)manifest->operation_count + 1) * sizeof(*via));

	if (!via) {
		reader->no_memory = true;
		return;
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		manifest->segments[i].high_flow = manifest->segments[i].sensitivity == SGPU_HIGH;
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		via[i] = -1;
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		follow_operation(manifest, via, manifest->order[i]);
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		check_segment(reader, via, i);
	}
	free(via);
}
