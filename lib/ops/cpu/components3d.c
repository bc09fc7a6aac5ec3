/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest connected component of a mask, neighbours sharing a face; of equally large ones, that
 * with the first voxel. Rows are cut into runs; union-find joins touching runs, in slabs of planes
 * in parallel, then across the slabs. A set's root is its lowest run, so the order of unions does
 * not matter.
 */
#include <string.h>

#include "ops/ops_private.h"

enum { SLAB = 16, GRAIN_ROWS = 512 };

struct runs {
	uint8_t *mask;
	uint64_t planes, height, width;
	uint32_t most;		 /* runs in a row; those of row r begin at r * most */
	uint32_t *stop;		 /* the end of a row's runs */
	uint32_t *begin, *end;	 /* a run has the voxels [begin, end) of its row */
	uint32_t *parent, *size; /* of each run; only a root's size counts, in voxels */
	uint32_t best;		 /* root of the component to keep */
};

uint64_t sgpu_ops_keep_largest_scratch(const uint64_t shape[3])
{
	return sizeof(uint32_t) * shape[0] * shape[1] * (1 + 4 * ((shape[2] + 1) / 2));
}

static void find_runs(struct runs *runs, uint64_t row)
{
	const uint8_t *mask = runs->mask + row * runs->width;
	uint32_t run = (uint32_t)row * runs->most;

	for (uint64_t x = 0; x < runs->width; x++) {
		const uint8_t *start = memchr(mask + x, 1, runs->width - x), *stop;

		if (!start) {
			break;
		}
		stop = memchr(start, 0, runs->width - (uint64_t)(start - mask));
		x = stop ? (uint64_t)(stop - mask) : runs->width;
		runs->begin[run] = (uint32_t)(start - mask);
		runs->end[run] = (uint32_t)x;
		runs->parent[run] = run;
		runs->size[run++] = 0;
	}
	runs->stop[row] = run;
}

static void find_body(void *argument, uint64_t begin, uint64_t end)
{
	for (uint64_t row = begin; row < end; row++) {
		find_runs(argument, row);
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
	uint32_t i = (uint32_t)a * runs->most, j = (uint32_t)b * runs->most;

	while (i < runs->stop[a] && j < runs->stop[b]) {
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

/* Points every run at its root (a parent is a lower run, so one pass is enough), adds up sizes, and
 * finds the largest. */
static void measure(struct runs *runs)
{
	uint64_t rows = runs->planes * runs->height;
	uint32_t most = 0;

	for (uint64_t row = 0; row < rows; row++) {
		for (uint32_t run = (uint32_t)row * runs->most; run < runs->stop[row]; run++) {
			uint32_t top = runs->parent[runs->parent[run]];

			runs->parent[run] = top;
			runs->size[top] += runs->end[run] - runs->begin[run];
		}
	}
	for (uint64_t row = 0; row < rows; row++) {
		for (uint32_t run = (uint32_t)row * runs->most; run < runs->stop[row]; run++) {
			if (runs->size[run] > most) {
				most = runs->size[run];
				runs->best = run;
			}
		}
	}
}

static void clear_body(void *argument, uint64_t begin, uint64_t end)
{
	struct runs *runs = argument;

	for (uint64_t row = begin; row < end; row++) {
		for (uint32_t run = (uint32_t)row * runs->most; run < runs->stop[row]; run++) {
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
	uint64_t rows = shape[0] * shape[1], all = rows * ((shape[2] + 1) / 2);
	struct runs runs = { .mask = mask,
			     .planes = shape[0],
			     .height = shape[1],
			     .width = shape[2],
			     .most = (uint32_t)((shape[2] + 1) / 2),
			     .stop = scratch };
	int rc;

	runs.begin = runs.stop + rows;
	runs.end = runs.begin + all;
	runs.parent = runs.end + all;
	runs.size = runs.parent + all;
	rc = sgpu_ops_for(launch, rows, GRAIN_ROWS, find_body, &runs);
	rc = rc ? rc : sgpu_ops_for(launch, runs.planes, SLAB, slab_body, &runs);
	if (rc) {
		return rc;
	}
	join_seams(&runs);
	measure(&runs);
	return sgpu_ops_for(launch, rows, GRAIN_ROWS, clear_body, &runs);
}
