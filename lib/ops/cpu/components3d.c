/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest connected component of a mask, neighbours sharing a face; of two equally large ones,
 * that with the voxel that comes first. Each row is cut into runs; touching runs are joined by
 * union-find, in slabs of planes in parallel, then across the slabs. A set's root is its lowest
 * run, so the order of the unions does not matter.
 */
#include <string.h>

#include "ops/ops_private.h"

enum { SLAB = 16, GRAIN_ROWS = 512 };

struct runs {
	uint8_t *mask;
	uint64_t planes, height, width;
	uint32_t *first;	 /* a row's first run; one more entry marks the end */
	uint32_t *begin, *end;	 /* a run has the voxels [begin, end) of its row */
	uint32_t *parent, *size; /* of each run; only a root's size counts, in voxels */
	uint32_t best;		 /* root of the component to keep */
};

static uint64_t runs_max(const uint64_t shape[3])
{
	return shape[0] * shape[1] * ((shape[2] + 1) / 2);
}

uint64_t sgpu_ops_keep_largest_scratch(const uint64_t shape[3])
{
	return sizeof(uint32_t) * (shape[0] * shape[1] + 1 + 4 * runs_max(shape));
}

/* Counts the runs of a row, and writes them unless `begin` is NULL. */
static uint32_t find_runs(const uint8_t *row, uint64_t width, uint32_t *begin, uint32_t *end)
{
	uint32_t count = 0;

	for (uint64_t x = 0; x < width; x++) {
		const uint8_t *start = memchr(row + x, 1, width - x);
		const uint8_t *stop;

		if (!start) {
			break;
		}
		stop = memchr(start, 0, width - (uint64_t)(start - row));
		x = stop ? (uint64_t)(stop - row) : width;
		if (begin) {
			begin[count] = (uint32_t)(start - row);
			end[count] = (uint32_t)x;
		}
		count++;
	}
	return count;
}

static void count_body(void *argument, uint64_t begin, uint64_t end)
{
	struct runs *runs = argument;

	for (uint64_t row = begin; row < end; row++) {
		runs->first[row] =
			find_runs(runs->mask + row * runs->width, runs->width, NULL, NULL);
	}
}

static void list_body(void *argument, uint64_t begin, uint64_t end)
{
	struct runs *runs = argument;

	for (uint64_t row = begin; row < end; row++) {
		uint32_t first = runs->first[row];

		find_runs(runs->mask + row * runs->width, runs->width, runs->begin + first,
			  runs->end + first);
		for (uint32_t run = first; run < runs->first[row + 1]; run++) {
			runs->parent[run] = run;
			runs->size[run] = 0;
		}
	}
}

static uint32_t root(uint32_t *parent, uint32_t run)
{
	while (parent[run] != run) {
		parent[run] = parent[parent[run]];
		run = parent[run];
	}
	return run;
}

static void join(uint32_t *parent, uint32_t a, uint32_t b)
{
	a = root(parent, a);
	b = root(parent, b);
	if (a < b) {
		parent[b] = a;
	} else {
		parent[a] = b;
	}
}

/* Joins the runs of two rows that overlap, walking both at once. */
static void join_rows(struct runs *runs, uint64_t a, uint64_t b)
{
	uint32_t i = runs->first[a], j = runs->first[b];

	while (i < runs->first[a + 1] && j < runs->first[b + 1]) {
		if (runs->begin[i] < runs->end[j] && runs->begin[j] < runs->end[i]) {
			join(runs->parent, i, j);
		}
		if (runs->end[i] < runs->end[j]) {
			i++;
		} else {
			j++;
		}
	}
}

static void slab_body(void *argument, uint64_t begin, uint64_t end)
{
	struct runs *runs = argument;

	for (uint64_t z = begin; z < end; z++) {
		for (uint64_t y = 0; y < runs->height; y++) {
			uint64_t row = z * runs->height + y;

			if (y > 0) {
				join_rows(runs, row - 1, row);
			}
			if (z > begin) {
				join_rows(runs, row - runs->height, row);
			}
		}
	}
}

static void join_seams(struct runs *runs)
{
	for (uint64_t z = SLAB; z < runs->planes; z += SLAB) {
		for (uint64_t y = 0; y < runs->height; y++) {
			join_rows(runs, (z - 1) * runs->height + y, z * runs->height + y);
		}
	}
}

/* Turns each row's number of runs into the index of its first run. */
static void place_runs(struct runs *runs)
{
	uint64_t rows = runs->planes * runs->height;
	uint32_t total = 0;

	for (uint64_t row = 0; row < rows; row++) {
		uint32_t count = runs->first[row];

		runs->first[row] = total;
		total += count;
	}
	runs->first[rows] = total;
}

/* Points every run at its root (a parent is a lower run, so one pass is enough), adds up sizes, and
 * finds the largest. */
static void measure(struct runs *runs)
{
	uint32_t total = runs->first[runs->planes * runs->height];

	for (uint32_t run = 0; run < total; run++) {
		uint32_t top = runs->parent[runs->parent[run]];

		runs->parent[run] = top;
		runs->size[top] += runs->end[run] - runs->begin[run];
	}
	runs->best = 0;
	for (uint32_t run = 1; run < total; run++) {
		if (runs->size[run] > runs->size[runs->best]) {
			runs->best = run;
		}
	}
}

static void clear_body(void *argument, uint64_t begin, uint64_t end)
{
	struct runs *runs = argument;

	for (uint64_t row = begin; row < end; row++) {
		for (uint32_t run = runs->first[row]; run < runs->first[row + 1]; run++) {
			if (runs->parent[run] != runs->best) {
				memset(runs->mask + row * runs->width + runs->begin[run], 0,
				       runs->end[run] - runs->begin[run]);
			}
		}
	}
}

int sgpu_ops_keep_largest(uint8_t *mask, const uint64_t shape[3], void *scratch,
			  struct sgpu_launch *launch)
{
	uint64_t rows = shape[0] * shape[1], most = runs_max(shape);
	struct runs runs = { .mask = mask,
			     .planes = shape[0],
			     .height = shape[1],
			     .width = shape[2],
			     .first = scratch };
	int rc;

	runs.begin = runs.first + rows + 1;
	runs.end = runs.begin + most;
	runs.parent = runs.end + most;
	runs.size = runs.parent + most;
	rc = sgpu_ops_for(launch, rows, GRAIN_ROWS, count_body, &runs);
	if (rc) {
		return rc;
	}
	place_runs(&runs);
	rc = sgpu_ops_for(launch, rows, GRAIN_ROWS, list_body, &runs);
	rc = rc ? rc : sgpu_ops_for(launch, runs.planes, SLAB, slab_body, &runs);
	if (rc) {
		return rc;
	}
	join_seams(&runs);
	measure(&runs);
	return sgpu_ops_for(launch, rows, GRAIN_ROWS, clear_body, &runs);
}
