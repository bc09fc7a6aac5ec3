/* SPDX-License-Identifier: Apache-2.0
 *
 * The edges between operations, an order that they allow, and the cycles that allow none.
 */
#include <stdio.h>
#include <stdlib.h>

#include "manifest/reader.h"

/* An edge is later << 32 | earlier, so that sorting groups edges by the later operation. */
struct edges {
	uint64_t *list;
	size_t count, capacity;
	bool too_many, no_memory;
};

static void add_edge(struct edges *edges, int earlier, int later)
{
	if (edges->count == edges->capacity) {
		size_t capacity = edges->capacity ? edges->capacity * 2 : 1024;
		uint64_t *list;

		if (edges->count >= SGPU_MANIFEST_EDGES_MAX) {
			edges->too_many = true;
			return;
		}
		list = reallocarray(edges->list, capacity, sizeof(*list));
		if (!list) {
			edges->no_memory = true;
			return;
		}
		edges->list = list;
		edges->capacity = capacity;
	}
	edges->list[edges->count++] = (uint64_t)later << 32 | (unsigned)earlier;
}

static bool stopped(const struct edges *edges)
{
	return edges->too_many || edges->no_memory;
}

/* Adds a dependency's edges: from the operation that it names or that writes the segment that it
 * names, to the operation that has it or, of a segment, its writer or else its readers. */
static void add_dependency_edges(struct edges *edges, const struct sgpu_manifest *manifest,
				 const struct sgpu_dependency *dependency)
{
	const int earlier =
		dependency->on < 0 ? ~dependency->on : manifest->segments[dependency->on].writer;
	const struct sgpu_segment *segment =
		dependency->of < 0 ? NULL : &manifest->segments[dependency->of];

	if (earlier < 0) {
		return;
	}
	if (!segment || segment->writer >= 0) {
		add_edge(edges, earlier, segment ? segment->writer : ~dependency->of);
		return;
	}
	for (int i = 0; i < segment->reader_count && !stopped(edges); i++) {
		add_edge(edges, earlier, segment->readers[i]);
	}
}

/* Readers of an INPUT_OUTPUT get the value that arrives, so they do not wait for its writer. */
static void add_data_edges(struct edges *edges, const struct sgpu_segment *segment)
{
	if (segment->writer < 0 || segment->direction == SGPU_INPUT_OUTPUT) {
		return;
	}
	for (int i = 0; i < segment->reader_count && !stopped(edges); i++) {
		add_edge(edges, segment->writer, segment->readers[i]);
	}
}

static void collect(const struct sgpu_reader *reader, struct edges *edges)
{
	const struct sgpu_manifest *manifest = reader->manifest;

	for (int i = 0; i < manifest->segment_count && !stopped(edges); i++) {
		add_data_edges(edges, &manifest->segments[i]);
	}
	for (size_t i = 0; i < reader->dependency_count && !stopped(edges); i++) {
		add_dependency_edges(edges, manifest, &reader->dependencies[i]);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool make_before(struct sgpu_manifest *manifest, struct edges *edges)
{
	int *next = manifest->before = calloc(edges->count + 1, sizeof(*next));

	if (!next) {
		return false;
	}
	if (edges->count) {
		qsort(edges->list, edges->count, sizeof(*edges->list), by_value);
	}
	for (size_t k = 0; k < edges->count; k++) {
		struct sgpu_operation *later = &manifest->operations[edges->list[k] >> 32];

		if (k && edges->list[k] == edges->list[k - 1]) {
			continue;
		}
		later->before = later->before ? later->before : next;
		later->before_count++;
		*next++ = (int)(uint32_t)edges->list[k];
	}
	return true;
}

/* ---- depth-first search without recursion ---- */
struct walk {
	struct sgpu_reader *reader;
	int *stack; /* operations, each waiting for the one above it */
	int depth;
	int *next;    /* per operation: the next entry of its `before` */
	int *place;   /* per operation: 0 not seen, its depth while on the stack, -1 done */
	int reported; /* depth up to which a cycle was reported */
	int emitted;
	bool cyclic;
};

enum { CYCLE_TEXT_MAX = 2048, CYCLE_NAMES_MAX = 16 };

/* Reports a cycle, the operations on the stack from depth `first` on, each waiting for the next, in
 * the order of execution from the smallest index on. */
static void report_cycle(struct walk *walk, int first)
{
	const struct sgpu_operation *operations = walk->reader->manifest->operations;
	int length = walk->depth - first + 1, start = walk->depth;
	char text[CYCLE_TEXT_MAX];
	size_t used = 0;

	for (int i = first; i <= walk->depth; i++) {
		start = walk->stack[i] < walk->stack[start] ? i : start;
	}
	for (int k = 0; k <= length; k++) {
		int i = first + ((start - first - k) % length + length) % length;

		if (k >= CYCLE_NAMES_MAX && k < length) {
			used += (size_t)snprintf(text + used, sizeof(text) - used, " -> (%d more)",
						 length - k);
			k = length - 1;
			continue;
		}
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", k ? " -> " : "",
					 operations[walk->stack[i]].id);
	}
	sgpu_reader_at(walk->reader, SGPU_LIST_OPERATIONS, walk->stack[start]);
	sgpu_reader_report(walk->reader, NULL, NULL,
			   "the operations wait for each other in a cycle: %s", text);
	walk->reported = walk->depth;
}

static void push(struct walk *walk, int operation)
{
	walk->stack[++walk->depth] = operation;
	walk->place[operation] = walk->depth;
}

static void walk_from(struct walk *walk, int operation)
{
	struct sgpu_manifest *manifest = walk->reader->manifest;

	push(walk, operation);
	while (walk->depth) {
		int top = walk->stack[walk->depth];
		const struct sgpu_operation *o = &manifest->operations[top];

		if (walk->next[top] == o->before_count) {
			manifest->order[walk->emitted++] = top;
			walk->place[top] = -1;
			walk->depth--;
			walk->reported =
				walk->reported < walk->depth ? walk->reported : walk->depth;
			continue;
		}
		operation = o->before[walk->next[top]++];
		if (!walk->place[operation]) {
			push(walk, operation);
		} else if (walk->place[operation] > 0) {
			walk->cyclic = true;
			/* A cycle that shares operations with a reported one adds nothing. */
			if (walk->place[operation] > walk->reported) {
				report_cycle(walk, walk->place[operation]);
			}
		}
	}
}

static void make_order(struct sgpu_reader *reader)
{
	struct sgpu_manifest *manifest = reader->manifest;
	size_t count = (size_t)manifest->operation_count + 1;
	struct walk walk = { .reader = reader };

	manifest->order = calloc(count, sizeof(int));
	walk.stack = calloc(count, sizeof(int));
	walk.next = calloc(count, sizeof(int));
	walk.place = calloc(count, sizeof(int));
	if (manifest->order && walk.stack && walk.next && walk.place) {
		for (int i = 0; i < manifest->operation_count; i++) {
			if (!walk.place[i]) {
				walk_from(&walk, i);
			}
		}
	} else {
		reader->no_memory = true;
	}
	if (walk.cyclic || reader->no_memory) {
		free(manifest->order);
		manifest->order = NULL;
	}
	free(walk.place);
	free(walk.next);
	free(walk.stack);
}

void sgpu_reader_order(struct sgpu_reader *reader)
{
	struct edges edges = { 0 };

	collect(reader, &edges);
	if (edges.too_many) {
		*reader->where = '\0';
		sgpu_reader_report(reader, NULL, NULL, "the dependencies make more than %d edges",
				   (int)SGPU_MANIFEST_EDGES_MAX);
	} else if (edges.no_memory || !make_before(reader->manifest, &edges)) {
		reader->no_memory = true;
	} else {
		make_order(reader);
	}
	free(edges.list);
}
