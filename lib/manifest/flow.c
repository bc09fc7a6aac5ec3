/* SPDX-License-Identifier: Apache-2.0
 *
 * Information flow: where HIGH data flow, and the path by which they would leave as LOW.
 */
#include <stdio.h>
#include <stdlib.h>

#include "manifest/reader.h"

enum { STEPS_MAX = 12, PATH_TEXT_MAX = 4096 };

struct flow {
	const struct sgpu_manifest *manifest;
	int *via;    /* per operation: the HIGH segment that makes its outputs HIGH, or -1 */
	int *source; /* per operation: the segment where these HIGH data originate */
};

/* Whether an operation that reads the segment gets HIGH data. Operations read an INPUT_OUTPUT as it
 * arrived. */
static bool reads_high(const struct sgpu_segment *segment)
{
	if (segment->direction == SGPU_INPUT_OUTPUT) {
		return segment->sensitivity == SGPU_HIGH;
	}
	return segment->high_flow;
}

static int made_by(const struct flow *flow, int segment, bool as_read)
{
	const struct sgpu_segment *s = &flow->manifest->segments[segment];

	if (s->writer < 0 || (as_read && s->direction == SGPU_INPUT_OUTPUT) ||
	    flow->via[s->writer] < 0) {
		return -1;
	}
	return s->writer;
}

/* Writes "scan -> SMOOTH -> smoothed -> HIST -> histogram"; a long path loses its middle. */
static void path_text(const struct flow *flow, int segment, char text[PATH_TEXT_MAX])
{
	const struct sgpu_manifest *manifest = flow->manifest;
	int operations[STEPS_MAX], steps = 0, source = segment;
	size_t used = 0;

	for (int o = made_by(flow, segment, false); o >= 0 && steps < STEPS_MAX;
	     o = made_by(flow, flow->via[o], true)) {
		operations[steps++] = o;
	}
	if (steps) {
		int first = flow->via[operations[steps - 1]];

		source = flow->source[operations[steps - 1]];
		used = (size_t)snprintf(text, PATH_TEXT_MAX, "%s", manifest->segments[source].id);
		if (first != source) {
			used += (size_t)snprintf(text + used, PATH_TEXT_MAX - used, " -> ... -> %s",
						 manifest->segments[first].id);
		}
	}
	for (int i = steps - 1; i >= 0; i--) {
		int made = i ? flow->via[operations[i - 1]] : segment;

		used += (size_t)snprintf(text + used, PATH_TEXT_MAX - used, " -> %s -> %s",
					 manifest->operations[operations[i]].id,
					 manifest->segments[made].id);
	}
}

static void follow_operation(struct flow *flow, int index)
{
	const struct sgpu_operation *operation = &flow->manifest->operations[index];
	int maker;

	for (int k = 0; k <= operation->arg_count && flow->via[index] < 0 && !operation->declassify;
	     k++) {
		int segment = sgpu_operation_reads(operation, k);

		if (segment >= 0 && reads_high(&flow->manifest->segments[segment])) {
			maker = made_by(flow, segment, true);
			flow->via[index] = segment;
			flow->source[index] = maker < 0 ? segment : flow->source[maker];
		}
	}
	for (int k = 0; k < operation->arg_count && flow->via[index] >= 0; k++) {
		int segment = operation->args[k].segment;

		/* Any other writer has been reported. */
		if (operation->args[k].output && segment >= 0 &&
		    flow->manifest->segments[segment].writer == index) {
			flow->manifest->segments[segment].high_flow = true;
		}
	}
}

static void check_segment(struct sgpu_reader *reader, const struct flow *flow, int index)
{
	const struct sgpu_segment *segment = &flow->manifest->segments[index];
	char path[PATH_TEXT_MAX];

	if (!segment->high_flow || segment->sensitivity == SGPU_HIGH ||
	    reader->unsure[index] & (SGPU_UNSURE_SENSITIVITY | SGPU_UNSURE_DIRECTION)) {
		return;
	}
	path_text(flow, index, path);
	sgpu_reader_at(reader, SGPU_LIST_SEGMENTS, index);
	if (segment->direction == SGPU_INTERMEDIATE) {
		sgpu_reader_report(reader, "sensitivity_level", "declare it HIGH",
				   "HIGH data flow into the LOW segment '%s': %s", segment->id,
				   path);
	} else {
		sgpu_reader_report(reader, "sensitivity_level",
				   "declare it HIGH, or the operation that may publish it "
				   "\"declassify\": true",
				   "HIGH data flow into the LOW output '%s': %s", segment->id,
				   path);
	}
}

void sgpu_reader_flow(struct sgpu_reader *reader)
{
	struct sgpu_manifest *manifest = reader->manifest;
	size_t count = (size_t)manifest->operation_count + 1;
	struct flow flow = { .manifest = manifest };

	flow.via = malloc(count * sizeof(int));
	flow.source = malloc(count * sizeof(int));
	if (!flow.via || !flow.source) {
		reader->no_memory = true;
		goto out;
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		manifest->segments[i].high_flow = manifest->segments[i].sensitivity == SGPU_HIGH;
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		flow.via[i] = -1;
		flow.source[i] = -1;
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		follow_operation(&flow, manifest->order[i]);
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		check_segment(reader, &flow, i);
	}
out:
	free(flow.source);
	free(flow.via);
}
