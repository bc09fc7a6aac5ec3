/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose, as cpu/transpose.c; and concatenate, which moves rows as it does.
 */
#include "ops/cuda/kernels/volume.cuh"

enum { TILE = 64 };

template <typename T> SGPU_KERNEL move_rows(const T *in, T *out, struct sgpu_move m, uint64_t count)
{
	const struct sgpu_move_axis *a = m.axis;

	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		uint64_t at, y, z, x = sgpu_cuda_split(i, a[3].extent, &at);

		x = sgpu_cuda_split(sgpu_cuda_split(x, a[2].extent, &z), a[1].extent, &y);
		out[x * a[0].to + y * a[1].to + z * a[2].to + at] =
			in[x * a[0].from + y * a[1].from + z * a[2].from + at];
	}
}

/* Moves rows of elements of `size` bytes in the largest words that fit. */
static int start_rows(struct sgpu_launch *launch, void *to, const void *from, struct sgpu_move m,
		      uint64_t size)
{
	uint64_t all = m.axis[3].extent * size | (uint64_t)(uintptr_t)to |
		       (uint64_t)(uintptr_t)from | 8,
		 count = m.axis[3].extent * size, word;

	for (int i = 0; i < 3; i++) {
		all |= m.axis[i].from * size | m.axis[i].to * size;
		count *= m.axis[i].extent;
	}
	word = all & -all;
	for (int i = 0; i < 3; i++) {
		m.axis[i].from = m.axis[i].from * size / word;
		m.axis[i].to = m.axis[i].to * size / word;
	}
	m.axis[3].extent = m.axis[3].extent * size / word;
	count /= word;
	return SGPU_CUDA_SIZES(word, T,
			       sgpu_cuda_run(launch, move_rows<T>,
					     sgpu_cuda_grid(count, SGPU_CUDA_BLOCK), from, to, m,
					     count));
}

extern "C" int sgpu_concatenate_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const int output = sgpu_op_arg(call->op, "output");
	uint64_t size = sgpu_dtype_size(call->type[output].dtype);
	char *out = (char *)call->data[output];
	int rc = 0;

	for (int i = 0; i < output && !rc; i++) {
		struct sgpu_move move = sgpu_concatenate_move(call, i);

		if (call->data[i]) {
			rc = start_rows(launch, out, call->data[i], move, size);
			out += move.axis[3].extent * size;
		}
	}
	return rc;
}

/* ---- transpose: a block takes a tile, whose rows are shifted to other banks ---- */
template <typename T>
SGPU_KERNEL transpose_tiles(const T *in, T *out, const struct sgpu_move m, uint64_t down,
			    uint64_t across)
{
	__shared__ T tile[TILE][TILE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
	const struct sgpu_move_axis *a = m.axis;
	const unsigned lane = threadIdx.x % TILE, first = threadIdx.x / TILE,
		       step = SGPU_CUDA_BLOCK / TILE;
	uint64_t tiles = a[0].extent * a[1].extent * down * across;

	for (uint64_t item = blockIdx.x; item < tiles; item += gridDim.x) {
		uint64_t outer, inner, y, x, rest = sgpu_cuda_split(item, down, &y);
		unsigned rows, columns;
		const T *from;
		T *to;

		rest = sgpu_cuda_split(rest, across, &x);
		outer = sgpu_cuda_split(rest, a[1].extent, &inner);
		y *= TILE;
		x *= TILE;
		rows = (unsigned)sgpu_ops_min(a[2].extent - y, TILE);
		columns = (unsigned)sgpu_ops_min(a[3].extent - x, TILE);
		from = in + outer * a[0].from + inner * a[1].from + y + x * a[3].from;
		to = out + outer * a[0].to + inner * a[1].to + y * a[2].to + x;
#pragma unroll
		for (unsigned i = first; i < TILE; i += step) {
			if (i < columns && lane < rows) {
				tile[i][lane] = from[i * a[3].from + lane];
			}
		}
		__syncthreads();
#pragma unroll
		for (unsigned i = first; i < TILE; i += step) {
			if (i < rows && lane < columns) {
				to[i * a[2].to + lane] = tile[lane][i];
			}
		}
		__syncthreads();
	}
}

extern "C" int sgpu_transpose_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t size = sgpu_dtype_size(call->type[0].dtype), down, across;
	struct sgpu_move m = sgpu_transpose_move(call);

	if (m.axis[3].from == 1) {
		return start_rows(launch, call->data[1], call->data[0], m, size);
	}
	down = sgpu_ops_ceil(m.axis[2].extent, TILE);
	across = sgpu_ops_ceil(m.axis[3].extent, TILE);
	return SGPU_CUDA_SIZES(
		size, T,
		sgpu_cuda_run(launch, transpose_tiles<T>,
			      sgpu_cuda_blocks(m.axis[0].extent * m.axis[1].extent * down * across),
			      call->data[0], call->data[1], m, down, across));
}
