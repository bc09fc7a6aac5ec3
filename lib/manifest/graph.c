/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer and the readers of each segment, and the rules for them.
 */
#include <stdlib.h>

#include "manifest/reader.h"

static void note_writer(struct sgpu_reader *reader, int index, const struct sgpu_argument *argument)
{
	struct sgpu_manifest *manifest = reader->manifest;
	struct sgpu_segment *segment = &manifest->segments[argument->segment];
	bool input = segment->direction == SGPU_INPUT &&
		     !(reader->unsure[argument->segment] & SGPU_UNSURE_DIRECTION);

	if (!input && segment->writer < 0) {
		segment->writer = index;
		return;
	}
	sgpu_reader_at(reader, SGPU_LIST_OPERATIONS, index);
	(void)sgpu_reader_enter(reader, "/arguments");
	sgpu_reader_report(reader, argument->name, NULL,
			   input ? "segment '%s' is INPUT and may not be written"
				 : "segment '%s' is written by operation '%s' already",
			   segment->id, input ? "" : manifest->operations[segment->writer].id);
}

static bool is_repeated(const struct sgpu_operation *operation, int argument)
{
	for (int i = 0; i < argument; i++) {
		if (sgpu_operation_reads(operation, i) ==
		    sgpu_operation_reads(operation, argument)) {
			return true;
		}
	}
	return false;
}

/* Counts the pairs of an operation and a segment that it reads and, if `fill`, stores them. */
static size_t visit_readers(struct sgpu_manifest *manifest, bool fill)
{
	size_t total = 0;

	for (int i = 0; i < manifest->operation_count; i++) {
		const struct sgpu_operation *operation = &manifest->operations[i];

		for (int k = 0; k <= operation->arg_count; k++) {
			int index = sgpu_operation_reads(operation, k);
			struct sgpu_segment *segment;

			if (index < 0 || is_repeated(operation, k)) {
				continue;
			}
			segment = &manifest->segments[index];
			if (fill) {
				segment->readers[segment->reader_count] = i;
			}
			segment->reader_count++;
			total++;
		}
	}
	return total;
}

static bool make_readers(struct sgpu_manifest *manifest)
{
	int *next = manifest->readers = calloc(visit_readers(manifest, false) + 1, sizeof(*next));

	for (int i = 0; next && i < manifest->segment_count; i++) {
		manifest->segments[i].readers = next;
		next += manifest->segments[i].reader_count;
		manifest->segments[i].reader_count = 0;
	}
	if (next) {
		visit_readers(manifest, true);
	}
	return next;
}

static void check_use(struct sgpu_reader *reader, int index)
{
	const struct sgpu_segment *segment = &reader->manifest->segments[index];
	const char *direction = sgpu_direction_name(segment->direction);

	if (reader->use_unsure) {
		return;
	}
	sgpu_reader_at(reader, SGPU_LIST_SEGMENTS, index);
	if (segment->writer < 0 && !segment->reader_count) {
		sgpu_reader_report(reader, NULL, NULL, "segment '%s' is no operation's argument",
				   segment->id);
		return;
	}
	if (reader->unsure[index] & SGPU_UNSURE_DIRECTION || segment->direction == SGPU_INPUT) {
		return;
	}
	if (segment->writer < 0) {
		sgpu_reader_report(reader, "direction", NULL,
				   "no operation writes the %s segment '%s'", direction,
				   segment->id);
	} else if (segment->direction == SGPU_INTERMEDIATE && !segment->reader_count) {
		sgpu_reader_report(reader, "direction", NULL,
				   "no operation reads the INTERMEDIATE segment '%s'", segment->id);
	}
}

void sgpu_reader_graph(struct sgpu_reader *reader)
{
	struct sgpu_manifest *manifest = reader->manifest;

	for (int i = 0; i < manifest->operation_count; i++) {
		for (int k = 0; k < manifest->operations[i].arg_count; k++) {
			const struct sgpu_argument *argument = &manifest->operations[i].args[k];

			if (argument->output && argument->segment >= 0) {
				note_writer(reader, i, argument);
			}
		}
		sgpu_reader_module_segment(reader, i);
	}
	if (!make_readers(manifest)) {
		reader->no_memory = true;
		return;
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		check_use(reader, i);
	}
}
