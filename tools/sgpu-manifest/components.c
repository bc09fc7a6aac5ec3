/* SPDX-License-Identifier: Apache-2.0
 *
 * Union-find over the operations, then the largest part to the lightest shard.
 */
#include "manifest_tool.h"

#include <stdlib.h>
#include <string.h>

static int find(int *parent, int i)
{
	while (parent[i] != i) {
		parent[i] = parent[parent[i]];
		i = parent[i];
	}
	return i;
}

/* The smaller index is the root, so that parts are numbered in the order of their first operation.
 */
static void join(int *parent, int a, int b)
{
	a = find(parent, a);
	b = find(parent, b);
	if (a < b) {
		parent[b] = a;
	} else {
		parent[a] = b;
	}
}

static bool is_single(const struct sgpu_segment *segment)
{
	if (segment->direction == SGPU_INPUT_OUTPUT ||
	    (segment->location && strcmp(segment->location, "-") == 0)) {
		return true;
	}
	for (int i = 0; i < SGPU_DMA_VARS; i++) {
		if (segment->dma_var[i]) {
			return true;
		}
	}
	return false;
}

static void join_all(const struct sgpu_manifest *manifest, int *parent)
{
	for (int i = 0; i < manifest->operation_count; i++) {
		parent[i] = i;
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		for (int k = 0; k < manifest->operations[i].before_count; k++) {
			join(parent, i, manifest->operations[i].before[k]);
		}
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];
		int first = segment->writer >= 0    ? segment->writer
			    : segment->reader_count ? segment->readers[0]
						    : -1;

		for (int k = 0; k < segment->reader_count && is_single(segment); k++) {
			join(parent, first, segment->readers[k]);
		}
	}
}

struct part {
	int number;
	uint64_t bytes;
};

static int by_size(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->bytes != y->bytes) {
		return x->bytes > y->bytes ? -1 : 1;
	}
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Each segment counts once for every part that it is in. `last` remembers the last segment counted
 * for a part. */
static void weigh(const struct sgpu_manifest *manifest, const int *part_of, struct part *parts,
		  int *last)
{
	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];
		uint64_t bytes = 0;

		if (!sgpu_type_bytes(&segment->type, &bytes)) {
			continue;
		}
		for (int k = -1; k < segment->reader_count; k++) {
			int operation = k < 0 ? segment->writer : segment->readers[k];

			if (operation >= 0 && last[part_of[operation]] != i + 1) {
				last[part_of[operation]] = i + 1;
				parts[part_of[operation]].bytes += bytes;
			}
		}
	}
}

/* Shards and parts are at most 65536 each; a linear search for the lightest would be their product,
 * so a heap. */
static void sift_down(int *heap, int count, const uint64_t *bytes)
{
	int i = 0;

	for (;;) {
		int least = i;

		for (int child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++) {
			const int c = heap[child], l = heap[least];

			if (bytes[c] < bytes[l] || (bytes[c] == bytes[l] && c < l)) {
				least = child;
			}
		}
		if (least == i) {
			return;
		}
		int swap = heap[i];
		heap[i] = heap[least];
		heap[least] = swap;
		i = least;
	}
}

static void share(struct part *parts, int part_count, int *shard_of, int *heap,
		  struct components *components)
{
	if (components->shard_count == part_count) {
		for (int i = 0; i < part_count; i++) {
			shard_of[i] = i;
			components->bytes[i] = parts[i].bytes;
		}
		return;
	}
	for (int i = 0; i < components->shard_count; i++) {
		heap[i] = i;
	}
	qsort(parts, (size_t)part_count, sizeof(*parts), by_size);
	for (int i = 0; i < part_count; i++) {
		/* Empty parts still take turns: one byte more than they have. */
		shard_of[parts[i].number] = heap[0];
		components->bytes[heap[0]] += parts[i].bytes + 1;
		sift_down(heap, components->shard_count, components->bytes);
	}
	for (int i = 0; i < part_count; i++) {
		components->bytes[shard_of[parts[i].number]]--;
	}
}

bool components_find(const struct sgpu_manifest *manifest, uint64_t wanted,
		     struct components *components)
{
	size_t count = (size_t)manifest->operation_count + 1;
	int *parent = calloc(count, sizeof(int)), *part_of = calloc(count, sizeof(int));
	int *last = calloc(count, sizeof(int)), *shard_of = calloc(count, sizeof(int));
	struct part *parts = calloc(count, sizeof(*parts));
	int part_count = 0;
	bool done = false;

	memset(components, 0, sizeof(*components));
	components->shard = calloc(count, sizeof(int));
	components->bytes = calloc(count, sizeof(uint64_t));
	if (!parent || !part_of || !last || !shard_of || !parts || !components->shard ||
	    !components->bytes) {
		goto out;
	}
	join_all(manifest, parent);
	for (int i = 0; i < manifest->operation_count; i++) {
		int root = find(parent, i);

		if (root == i) {
			parts[part_count].number = part_count;
			part_of[i] = part_count++;
		} else {
			part_of[i] = part_of[root];
		}
	}
	weigh(manifest, part_of, parts, last);
	components->part_count = part_count;
	components->shard_count =
		!wanted || wanted > (uint64_t)part_count ? part_count : (int)wanted;
	share(parts, part_count, shard_of, last, components);
	for (int i = 0; i < manifest->operation_count; i++) {
		components->shard[i] = shard_of[part_of[i]];
	}
	done = true;
out:
	free(parts);
	free(shard_of);
	free(last);
	free(part_of);
	free(parent);
	return done;
}

void components_free(struct components *components)
{
	free(components->bytes);
	free(components->shard);
	memset(components, 0, sizeof(*components));
}
