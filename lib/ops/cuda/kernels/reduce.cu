/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce: as cpu/reduce.c. Floats are added in the same order: in eight lanes for each piece of
 * adjacent elements, else row after row of a piece, then piece after piece. So only eight threads
 * add a piece, each with many loads in flight. Reductions that are exact in any order (integers
 * within a piece, extremes) use many more threads.
 */
#include "ops/cuda/kernels/reduce.cuh"

enum { INPUT, OUTPUT };
enum { OPERATION, AXIS };
enum {
	LANES = SGPU_REDUCE_LANES,
	UNROLL = 32, /* loads that a thread has in flight */
	UNROLL_ROWS = 32,
};

/* The input and output of a kernel. */
template <typename T, typename O> struct job {
	const T *in;
	O *out;
	struct sgpu_reduce_view v;
	double *partial; /* [outer][pieces][inner]; NULL: one piece per output */
	double divisor;
	bool greatest;
};

template <typename T, typename O>
SGPU_DEVICE void put(const struct job<T, O> &job, uint64_t item, double value)
{
	if (job.partial) {
		job.partial[item] = value;
	} else {
		job.out[item] = sgpu_reduce_result<O>(value, job.divisor);
	}
}

/* The elements of one piece. */
template <typename T> struct piece {
	const T *in;
	unsigned count;
};

template <typename T, typename O>
SGPU_DEVICE struct piece<T> piece_at(const struct job<T, O> &job, uint64_t item) {
	uint64_t piece, outer = sgpu_cuda_split(item, job.v.pieces, &piece),
			from = piece * job.v.piece;
	uint64_t left = job.v.length - from;

	return { job.in + outer * job.v.length + from, (unsigned)sgpu_ops_min(left, job.v.piece) };
}

/* ---- adjacent elements, in the CPU's order: a thread adds one lane of a piece ----
 * A block is one warp, so that each thread has enough registers for its loads. */
template <typename T, typename O>
static __global__ void __launch_bounds__(SGPU_CUDA_WARP) add_lanes(struct job<T, O> job)
{
	uint64_t items = job.v.outer * job.v.pieces, self = sgpu_cuda_self();
	uint64_t step = sgpu_cuda_step() / LANES;
	unsigned lane = threadIdx.x % LANES;

	/* all lanes stay in the loop, for the exchange at the end */
	for (uint64_t first = self / SGPU_CUDA_WARP * (SGPU_CUDA_WARP / LANES); first < items;
	     first += step) {
		uint64_t item = first + threadIdx.x % SGPU_CUDA_WARP / LANES;
		struct piece<T> piece = {
			job.in, 0
		};
		double sum = 0.0;
		unsigned i = lane;

		if (item < items) {
			piece = piece_at(job, item);
		}
		for (; i + (UNROLL - 1) * LANES < piece.count; i += UNROLL * LANES) {
			const T *in = piece.in + i;
			T values[UNROLL];

#pragma unroll
			for (int j = 0; j < UNROLL; j++) {
				values[j] = in[j * LANES];
			}
			asm volatile("" ::: "memory"); /* keeps all loads before the additions */
#pragma unroll
			for (int j = 0; j < UNROLL; j++) {
				sum += sgpu_cuda_f64(values[j]);
			}
		}
		for (; i < piece.count; i += LANES) {
			sum += sgpu_cuda_f64(piece.in[i]);
		}
		sum += __shfl_xor_sync(0xffffffffu, sum, 4);
		sum += __shfl_xor_sync(0xffffffffu, sum, 2);
		sum += __shfl_xor_sync(0xffffffffu, sum, 1);
		if (lane == 0 && item < items) {
			put(job, item, sum);
		}
	}
}

/* ---- adjacent elements, in any order: a warp takes a piece ---- */
template <typename F, typename T, typename O> SGPU_KERNEL fold_warps(struct job<T, O> job, F f)
{
	uint64_t items = job.v.outer * job.v.pieces, self = sgpu_cuda_self();
	uint64_t step = sgpu_cuda_step() / SGPU_CUDA_WARP;

	for (uint64_t item = self / SGPU_CUDA_WARP; item < items; item += step) {
		struct piece<T> piece = piece_at(job, item);
		auto folded = f.nothing();

#pragma unroll 4
		for (unsigned i = threadIdx.x % SGPU_CUDA_WARP; i < piece.count;
		     i += SGPU_CUDA_WARP) {
			folded = f(folded, f.key(piece.in[i]));
		}
		folded = sgpu_cuda_warp_reduce(folded, f);
		if (threadIdx.x % SGPU_CUDA_WARP == 0) {
			put(job, item, f.value(folded));
		}
	}
}

/* ---- elements that are not adjacent: a thread adds up a column of a piece ---- */
template <typename F, typename T, typename O>
static __global__ void __launch_bounds__(SGPU_CUDA_WARP) fold_rows(struct job<T, O> job, F f)
{
	uint64_t items = job.v.outer * job.v.pieces * job.v.inner, step = sgpu_cuda_step();

	for (uint64_t item = sgpu_cuda_self(); item < items; item += step) {
		uint64_t column, piece, inner = job.v.inner;
		uint64_t outer = sgpu_cuda_split(sgpu_cuda_split(item, inner, &column),
						 job.v.pieces, &piece);
		uint64_t from = piece * job.v.piece, left = job.v.length - from;
		const T *in = job.in + (outer * job.v.length + from) * inner + column;
		unsigned rows = (unsigned)sgpu_ops_min(left, job.v.piece), row = 1;
		auto folded = f.key(in[0]);

		for (; row + UNROLL_ROWS <= rows; row += UNROLL_ROWS) {
			const T *from_row = in + row * inner;
			T values[UNROLL_ROWS];

#pragma unroll
			for (int j = 0; j < UNROLL_ROWS; j++) {
				values[j] = from_row[j * inner];
			}
			asm volatile("" ::: "memory"); /* keeps all loads before the additions */
#pragma unroll
			for (int j = 0; j < UNROLL_ROWS; j++) {
				folded = f(folded, f.key(values[j]));
			}
		}
		for (; row < rows; row++) {
			folded = f(folded, f.key(in[row * inner]));
		}
		put(job, item, f.value(folded));
	}
}

/* ---- combining the pieces: a warp per result; each lane adds all values in order ---- */
template <typename F, typename O>
SGPU_KERNEL finish(const double *partial, O *out, struct sgpu_reduce_view v, double divisor, F f)
{
	uint64_t self = sgpu_cuda_self(), step = sgpu_cuda_step();
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;

	for (uint64_t i = self / SGPU_CUDA_WARP; i < v.outer * v.inner;
	     i += step / SGPU_CUDA_WARP) {
		uint64_t column, outer = sgpu_cuda_split(i, v.inner, &column);
		const double *first = partial + outer * v.pieces * v.inner + column;
		auto folded = f.key(v.pieces ? first[0] : 0.0); /* an empty sum is 0 */
		double next = 1 + lane < v.pieces ? first[(1 + lane) * v.inner] : 0.0;

		for (uint64_t piece = 1; piece < v.pieces; piece += SGPU_CUDA_WARP) {
			uint64_t left = v.pieces - piece, ahead = piece + SGPU_CUDA_WARP + lane;
			double value = next;

			next = ahead < v.pieces ? first[ahead * v.inner] : 0.0;
			for (unsigned j = 0;
			     j < (left < SGPU_CUDA_WARP ? (unsigned)left : SGPU_CUDA_WARP); j++) {
				folded = f(folded, f.key(__shfl_sync(0xffffffffu, value, (int)j)));
			}
		}
		if (lane == 0) {
			out[i] = sgpu_reduce_result<O>(f.value(folded), divisor);
		}
	}
}

/* ---- host side ---- */
/* Reduces each piece. Sums of floats must keep the CPU's order, so they have a kernel of their
 * own. */
template <typename T, typename O, typename F>
static int fold_pieces(struct sgpu_launch *launch, const struct job<T, O> &job, F f)
{
	uint64_t items = job.v.outer * job.v.pieces;

	if (items * job.v.inner == 0) {
		return 0;
	}
	if (job.v.inner > 1) {
		return sgpu_cuda_start(launch, "reduce", fold_rows<F, T, O>,
				       sgpu_cuda_grid(items * job.v.inner, SGPU_CUDA_WARP),
				       SGPU_CUDA_WARP, 0, job, f);
	}
	if constexpr (F::in_order) {
		return sgpu_cuda_start(launch, "reduce", add_lanes<T, O>,
				       sgpu_cuda_grid(items, SGPU_CUDA_WARP / LANES),
				       SGPU_CUDA_WARP, 0, job);
	} else {
		return sgpu_cuda_run(launch, "reduce", fold_warps<F, T, O>,
				     sgpu_cuda_grid(items, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP), job,
				     f);
	}
}

/* f combines elements, `last` the results of the pieces. */
template <typename T, typename O, typename F, typename L>
static int run(struct sgpu_op_call *call, struct sgpu_launch *launch, F f, L last)
{
	struct job<T, O> job = {
	};
	int rc;

	job.in = (const T *)call->data[INPUT];
	job.out = (O *)call->data[OUTPUT];
	job.v = sgpu_reduce_view(&call->type[INPUT], (int)call->param[AXIS].number);
	job.partial = job.v.pieces > 1 ? (double *)call->scratch : NULL;
	job.divisor =
		call->param[OPERATION].number == SGPU_REDUCE_MEAN ? (double)job.v.length : 1.0;
	rc = fold_pieces(launch, job, f);
	if (rc || job.v.pieces == 1 || job.v.outer * job.v.inner == 0) {
		return rc;
	}
	return sgpu_cuda_run(
		launch, "reduce", finish<L, O>,
		sgpu_cuda_grid(job.v.outer * job.v.inner, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP),
		(const double *)call->scratch, job.out, job.v, job.divisor, last);
}

template <typename T> static int start(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	typedef typename sgpu_reduce_types<T>::sum sum;
	typedef typename sgpu_reduce_types<T>::extreme extreme;
	int operation = (int)call->param[OPERATION].number;
	bool greatest = operation == SGPU_REDUCE_MAX;

	if (operation == SGPU_REDUCE_SUM || operation == SGPU_REDUCE_MEAN) {
		return run<T, sum>(call, launch, sgpu_reduce_sum<T>(), sgpu_reduce_sum<double>());
	}
	return run<T, extreme>(call, launch, sgpu_reduce_extreme<T>{ greatest },
			       sgpu_reduce_extreme<double>{ greatest });
}

extern "C" int sgpu_reduce_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return SGPU_CUDA_TYPES(call->type[INPUT].dtype, T, start<T>(call, launch));
}
