/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose: the axes in another order.
 *
 * If the last axis stays, rows are copied. Otherwise tiles of the input's and the output's last
 * axes pass through a buffer, so that both are accessed in whole cache lines, whatever the distance
 * of their rows.
 */
#include <string.h>

#include "ops/ops_private.h"

enum { INPUT, OUTPUT };
enum { TILE = 64, GRAIN = 1 << 16 };

#define AXIS(name, text)                                                               \
	{                                                                              \
		name, SGPU_PARAM_INTEGER, false, -1, SGPU_RANK_MAX - 1, -1, NULL, text \
	}
/* The input's axis that becomes the output's axis i. */
static int axis_of(const struct sgpu_op_call *call, int i)
{
	int axis = (int)call->param[i].number;

	return axis < 0 ? call->type[INPUT].rank - 1 - i : axis;
}

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *input = &call->type[INPUT];
	struct sgpu_type output = *input;
	unsigned taken = 0;

	for (int i = 0; i < SGPU_RANK_MAX; i++) {
		int axis = axis_of(call, i);

		if (axis >= input->rank || (i >= input->rank && axis >= 0)) {
			sgpu_op_diagnose(report, NULL, call->op->params[i].name,
					 "is %d, but 'input' has rank %d", axis, input->rank);
			return;
		}
		if (i >= input->rank) {
			continue;
		}
		if (taken >> axis & 1) {
			sgpu_op_diagnose(report, NULL, call->op->params[i].name,
					 "axis %d of 'input' would be in the output twice", axis);
			return;
		}
		taken |= 1u << axis;
		output.shape[i] = input->shape[axis];
	}
	call->type[OUTPUT] = output;
}

struct sgpu_move sgpu_transpose_move(const struct sgpu_op_call *call)
{
	const struct sgpu_type *in = &call->type[INPUT], *out = &call->type[OUTPUT];
	struct sgpu_move m = { { { 1, 0, 0 }, { 1, 0, 0 }, { 1, 0, 0 }, { 1, 1, 1 } } };
	struct sgpu_move_axis *at = m.axis + SGPU_RANK_MAX, swap;

	for (int i = out->rank; i-- > 0;) {
		uint64_t from = sgpu_ops_extent(in, axis_of(call, i) + 1, in->rank);

		if (at < m.axis + SGPU_RANK_MAX && from == at->from * at->extent) {
			at->extent *= out->shape[i];
		} else if (out->shape[i] != 1) {
			*--at = (struct sgpu_move_axis){ out->shape[i], from,
							 sgpu_ops_extent(out, i + 1, out->rank) };
		}
	}
	for (int i = 0; i < 2 && m.axis[3].from != 1; i++) {
		if (m.axis[i].from == 1) {
			swap = m.axis[i];
			m.axis[i] = m.axis[2];
			m.axis[2] = swap;
		}
	}
	return m;
}

struct job {
	struct sgpu_move move;
	uint64_t down, across; /* tiles along the last axis but one, and along the last */
	const char *in;
	char *out;
};

/* Finds where an item's tile begins in input and output, and its size. Neighbours in the output
 * follow each other. */
static void find_tile(const struct job *job, uint64_t item, uint64_t place[2], uint64_t size[2])
{
	const struct sgpu_move_axis *a = job->move.axis;
	uint64_t outer = item / job->across / job->down, x = item % job->across * TILE,
		 y = item / job->across % job->down * TILE;
	uint64_t first = outer / a[1].extent, second = outer % a[1].extent;

	place[0] = first * a[0].from + second * a[1].from + y + x * a[3].from;
	place[1] = first * a[0].to + second * a[1].to + y * a[2].to + x;
	size[0] = sgpu_ops_min(a[2].extent - y, TILE);
	size[1] = sgpu_ops_min(a[3].extent - x, TILE);
}

/* Rows of a tile are a little longer, so that a column does not fall on few cache lines. There are
 * no clones: scatters of vector units are slower. */
SGPU_INLINE void move_tiles(size_t size, const struct job *job, uint64_t begin, uint64_t end)
{
	const struct sgpu_move_axis *a = job->move.axis;
	const size_t row = TILE * size + 16;
	char tile[TILE * (TILE * sizeof(uint64_t) + 16)];

	for (uint64_t item = begin; item < end; item++) {
		uint64_t place[2], extent[2];

		find_tile(job, item, place, extent);
		for (uint64_t x = 0; x < extent[1]; x++) {
			const char *in = job->in + (place[0] + x * a[3].from) * size;

			for (uint64_t y = 0; y < extent[0]; y++) {
				memcpy(tile + y * row + x * size, in + y * size, size);
			}
		}
		for (uint64_t y = 0; y < extent[0]; y++) {
			memcpy(job->out + (place[1] + y * a[2].to) * size, tile + y * row,
			       extent[1] * size);
		}
	}
	sgpu_wipe(tile, TILE * row);
}

#define TILES(size)                                                            \
	static void tiles_##size(void *argument, uint64_t begin, uint64_t end) \
	{                                                                      \
		move_tiles(size, argument, begin, end);                        \
	}
TILES(1)
TILES(2)
TILES(4)
TILES(8)

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	size_t size = sgpu_dtype_size(call->type[INPUT].dtype);
	struct job job = { .move = sgpu_transpose_move(call),
			   .in = call->data[INPUT],
			   .out = call->data[OUTPUT] };
	const struct sgpu_move_axis *a = job.move.axis;

	if (a[3].from == 1) {
		return sgpu_ops_move_rows(launch, job.out, job.in, &job.move, size);
	}
	job.down = sgpu_ops_ceil(a[2].extent, TILE);
	job.across = sgpu_ops_ceil(a[3].extent, TILE);
	return sgpu_ops_for(launch, a[0].extent * a[1].extent * job.down * job.across,
			    sgpu_ops_grain((uint64_t)TILE * TILE, GRAIN),
			    size == 1	? tiles_1
			    : size == 2 ? tiles_2
			    : size == 4 ? tiles_4
					: tiles_8,
			    &job);
}

const struct sgpu_op sgpu_op_transpose = {
	.name = "transpose",
	.help = "the axes in another order",
	.args = {
	{ "input", false, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "what is transposed" },
	{ "output", false, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the same elements, axes reordered" },
	},
	.params = {
	AXIS("axis0", "axis of 'input' that becomes the first; -1: the last"),
	AXIS("axis1", "axis that becomes the second; -1: the last but one"),
	AXIS("axis2", "axis that becomes the third; -1: the last but two"),
	AXIS("axis3", "axis that becomes the fourth; -1: the first"),
	},
	.infer = infer,
	.cpu = cpu,
};
