/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce: as cpu/reduce.c, in f64. Sums have the same order: in eight lanes for each piece of
 * adjacent elements, else row after row of a piece, then piece after piece. So only eight threads
 * add a piece, each with many loads in flight. Extremes are exact in any order and use many more
 * threads.
 */
#include <utility>

#include "ops/cuda/kernels/convert.cuh"
#include "ops/cuda/kernels/volume.cuh"

enum { INPUT, MASK, OUTPUT };
enum { OPERATION, AXIS, Q };
enum { LANES = SGPU_REDUCE_LANES };

/* ---- foldings: keys of elements, what joins two keys, and the value of a key ---- */
struct sum {
	__device__ double key(double element) const
	{
		return element;
	}
	__device__ double operator()(double a, double b) const
	{
		return a + b;
	}
	__device__ double value(double key) const
	{
		return key;
	}
};

/* The greatest is the least of the negated elements. */
struct extreme {
	bool greatest;

	__device__ int64_t key(double element) const
	{
		return sgpu_reduce_key(greatest ? -element : element);
	}
	__device__ int64_t operator()(int64_t a, int64_t b) const
	{
		return b < a ? b : a;
	}
	__device__ double value(int64_t key) const
	{
		return greatest ? -sgpu_reduce_unkey(key) : sgpu_reduce_unkey(key);
	}
};

/* Stores a result; every NaN becomes the same one. */
SGPU_DEVICE void store(void *out, enum sgpu_dtype dtype, uint64_t i, double value)
{
	value = value == value ? value : __longlong_as_double(0x7ff8000000000000ll);
	if (dtype == SGPU_F32) {
		((float *)out)[i] = sgpu_cuda_narrow<float>(value);
	} else if (dtype == SGPU_I32) {
		((int32_t *)out)[i] = (int32_t)value;
	} else if (dtype == SGPU_U8) {
		((uint8_t *)out)[i] = (uint8_t)value;
	} else if (dtype == SGPU_I16) {
		((int16_t *)out)[i] = (int16_t)value;
	} else {
		((double *)out)[i] = value;
	}
}

/* ---- kernels ---- */
/* Elements as a pass for a mask or a deviation sees them: those left out as `nothing`, others as
 * they are, as 1, or as their squared distance from their output's mean. */
struct seen {
	const void *data;
	enum sgpu_dtype dtype;
	const uint8_t *mask;
	double nothing;
	bool counting;
	const double *means;
	uint64_t length, inner;
	double mean;
	uint64_t first;

	__device__ seen operator+(uint64_t skip) const
	{
		seen from = *this;

		from.first += skip;
		if (means) {
			from.mean =
				means[from.first / (length * inner) * inner + from.first % inner];
		}
		return from;
	}
	__device__ double operator[](uint64_t i) const
	{
		double value;

		if (mask && !mask[first + i]) {
			return nothing;
		}
		if (counting) {
			return 1.0;
		}
		value = sgpu_cuda_element(data, dtype, first + i);
		return means ? (value - mean) * (value - mean) : value;
	}
};

/* Loads that a thread has in flight; the code of `seen` is long. */
template <typename In> constexpr int loads = 32;
template <> constexpr int loads<seen> = 8;

/* A kernel's input and output; In is a pointer or `seen`. */
template <typename In> struct job {
	In in;
	void *out;
	enum sgpu_dtype dtype; /* of the output */
	struct sgpu_reduce_view v;
	double *partial; /* [outer][pieces][inner]; NULL: one piece per output */
	double divisor;
};

template <typename In> SGPU_DEVICE void put(const struct job<In> &job, uint64_t item, double value)
{
	if (job.partial) {
		job.partial[item] = value;
	} else {
		store(job.out, job.dtype, item, value / job.divisor);
	}
}

template <typename In>
using element = std::remove_cv_t<std::remove_reference_t<decltype(std::declval<In>()[0])>>;

template <typename In> struct piece {
	In in;
	unsigned count;
};

template <typename In>
SGPU_DEVICE struct piece<In> piece_at(const struct job<In> &job, uint64_t item) {
	uint64_t piece, outer = sgpu_cuda_split(item, job.v.pieces, &piece),
			from = piece * job.v.piece;
	uint64_t left = job.v.length - from;

	return { job.in + (outer * job.v.length + from),
		 (unsigned)sgpu_ops_min(left, job.v.piece) };
}

/* ---- adjacent elements, in the CPU's order: a thread adds one lane of a piece ----
 * A block is one warp, so that threads have enough registers for their loads. */
template <typename In>
static __global__ void __launch_bounds__(SGPU_CUDA_WARP) add_lanes(struct job<In> job)
{
	uint64_t items = job.v.outer * job.v.pieces, self = sgpu_cuda_self();
	uint64_t step = sgpu_cuda_step() / LANES;
	unsigned lane = threadIdx.x % LANES;

	/* all lanes stay in the loop, for the exchange at the end */
	for (uint64_t first = self / SGPU_CUDA_WARP * (SGPU_CUDA_WARP / LANES); first < items;
	     first += step) {
		uint64_t item = first + threadIdx.x % SGPU_CUDA_WARP / LANES;
		struct piece<In> piece = {
			job.in, 0
		};
		double sum = 0.0;
		unsigned i = lane;

		if (item < items) {
			piece = piece_at(job, item);
		}
		for (; i + (loads<In> - 1) * LANES < piece.count; i += loads<In> * LANES) {
			In in = piece.in + i;
			element<In> values[loads<In>];

#pragma unroll
			for (int j = 0; j < loads<In>; j++) {
				values[j] = in[j * LANES];
			}
			asm volatile("" ::: "memory"); /* keeps loads before additions */
#pragma unroll
			for (int j = 0; j < loads<In>; j++) {
				sum += sgpu_cuda_f64(values[j]);
			}
		}
		for (; i < piece.count; i += LANES) {
			sum += sgpu_cuda_f64(piece.in[i]);
		}
		sum = sgpu_cuda_add_lanes(sum);
		if (lane == 0 && item < items) {
			put(job, item, sum);
		}
	}
}

/* ---- extremes of adjacent elements: a warp takes a piece ---- */
template <typename In> SGPU_KERNEL fold_warps(struct job<In> job, extreme f)
{
	uint64_t items = job.v.outer * job.v.pieces, self = sgpu_cuda_self();
	uint64_t step = sgpu_cuda_step() / SGPU_CUDA_WARP;

	for (uint64_t item = self / SGPU_CUDA_WARP; item < items; item += step) {
		struct piece<In> piece = piece_at(job, item);
		int64_t folded = INT64_MAX;

#pragma unroll 4
		for (unsigned i = threadIdx.x % SGPU_CUDA_WARP; i < piece.count;
		     i += SGPU_CUDA_WARP) {
			folded = f(folded, f.key(sgpu_cuda_f64(piece.in[i])));
		}
		folded = sgpu_cuda_warp_reduce(folded, f);
		if (threadIdx.x % SGPU_CUDA_WARP == 0) {
			put(job, item, f.value(folded));
		}
	}
}

/* ---- elements that are not adjacent: a thread adds up a column of a piece ---- */
template <typename F, typename In>
static __global__ void __launch_bounds__(SGPU_CUDA_WARP) fold_rows(struct job<In> job, F f)
{
	uint64_t items = job.v.outer * job.v.pieces * job.v.inner, step = sgpu_cuda_step();

	for (uint64_t item = sgpu_cuda_self(); item < items; item += step) {
		uint64_t column, piece, inner = job.v.inner;
		uint64_t outer = sgpu_cuda_split(sgpu_cuda_split(item, inner, &column),
						 job.v.pieces, &piece);
		uint64_t from = piece * job.v.piece, left = job.v.length - from;
		In in = job.in + ((outer * job.v.length + from) * inner + column);
		unsigned rows = (unsigned)sgpu_ops_min(left, job.v.piece), row = 1;
		auto folded = f.key(sgpu_cuda_f64(in[0]));

		for (; row + loads<In> <= rows; row += loads<In>) {
			In from_row = in + row * inner;
			element<In> values[loads<In>];

#pragma unroll
			for (int j = 0; j < loads<In>; j++) {
				values[j] = from_row[j * inner];
			}
			asm volatile("" ::: "memory"); /* keeps loads before additions */
#pragma unroll
			for (int j = 0; j < loads<In>; j++) {
				folded = f(folded, f.key(sgpu_cuda_f64(values[j])));
			}
		}
		for (; row < rows; row++) {
			folded = f(folded, f.key(sgpu_cuda_f64(in[row * inner])));
		}
		put(job, item, f.value(folded));
	}
}

/* ---- combining the pieces: a warp per result; each lane adds all values in order ---- */
template <typename F>
SGPU_KERNEL finish(const double *partial, void *out, enum sgpu_dtype dtype,
		   struct sgpu_reduce_view v, double divisor, F f)
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
			store(out, dtype, i, f.value(folded) / divisor);
		}
	}
}

/* ---- host side ---- */
template <typename In, typename F>
static int run(struct sgpu_op_call *call, struct sgpu_launch *launch, In in, void *out,
	       enum sgpu_dtype dtype, double divisor, F f)
{
	const struct sgpu_reduce_view v = sgpu_reduce_view(call);
	double *partial = (double *)call->scratch;
	const struct job<In> job = {
		in, out, dtype, v, v.pieces > 1 ? partial : NULL, divisor
	};
	uint64_t pieces = v.outer * v.pieces, outputs = v.outer * v.inner;
	int rc = 0;

	if (outputs == 0) {
		return 0;
	}
	if (v.inner > 1) {
		rc = sgpu_cuda_start(launch, fold_rows<F, In>,
				     sgpu_cuda_grid(pieces * v.inner, SGPU_CUDA_WARP),
				     SGPU_CUDA_WARP, 0, job, f);
	} else if constexpr (std::is_same_v<F, sum>) {
		rc = sgpu_cuda_start(launch, add_lanes<In>,
				     sgpu_cuda_grid(pieces, SGPU_CUDA_WARP / LANES), SGPU_CUDA_WARP,
				     0, job);
	} else {
		rc = sgpu_cuda_run(launch, fold_warps<In>,
				   sgpu_cuda_grid(pieces, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP), job,
				   f);
	}
	return rc || v.pieces == 1
		       ? rc
		       : sgpu_cuda_run(launch, finish<F>,
				       sgpu_cuda_grid(outputs, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP),
				       partial, out, dtype, v, divisor, f);
}

/* A deviation is a sum here: of squared distances. */
template <typename In>
static int run_as(struct sgpu_op_call *call, struct sgpu_launch *launch, In in, void *out,
		  enum sgpu_dtype dtype, int operation)
{
	if (operation == SGPU_REDUCE_MIN || operation == SGPU_REDUCE_MAX) {
		return run(call, launch, in, out, dtype, 1.0,
			   extreme{ operation == SGPU_REDUCE_MAX });
	}
	return run(call, launch, in, out, dtype,
		   operation == SGPU_REDUCE_MEAN ? (double)sgpu_reduce_view(call).length : 1.0,
		   sum());
}

/* ---- with a mask, and deviations: passes with results in f64, as on the CPU ---- */
SGPU_KERNEL settle(const double *values, const double *counts, double length, int operation,
		   void *out, enum sgpu_dtype dtype, uint64_t outputs)
{
	for (uint64_t i = sgpu_cuda_self(); i < outputs; i += sgpu_cuda_step()) {
		store(out, dtype, i,
		      sgpu_reduce_settle(operation, values[i], counts ? counts[i] : length));
	}
}

/* Blocks count a percentile's digits in shared memory. */
SGPU_KERNEL count_digits(seen in, uint64_t count, unsigned shift, struct sgpu_percentile *all)
{
	__shared__ unsigned digits[2][256];

	digits[0][threadIdx.x] = digits[1][threadIdx.x] = 0;
	__syncthreads();
	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		uint64_t digit = (uint64_t)sgpu_reduce_key(in[i]) ^ (uint64_t)1 << 63;

		if (digit == 0) {
			all->nans = 1;
		}
		digit >>= shift;
		for (int j = 0; j < 2; j++) {
			if (digit >> 8 == all->prefix[j]) {
				atomicAdd(&digits[j][digit & 255], 1u);
			}
		}
	}
	__syncthreads();
	for (int j = 0; j < 2; j++) {
		atomicAdd((unsigned long long *)&all->digits[j][threadIdx.x],
			  digits[j][threadIdx.x]);
	}
}

/* One thread takes the digit before the one that is counted next, and at last the result. */
SGPU_KERNEL take_digits(struct sgpu_percentile *p, unsigned shift, double q, const double *counts,
			double length, double *result)
{
	const uint64_t sign = (uint64_t)1 << 63;

	if (sgpu_cuda_self() > 0) {
		return;
	}
	if (shift == 64) {
		sgpu_percentile_rank(p, q, counts ? *counts : length);
		return;
	}
	sgpu_percentile_step(p);
	if (shift == 0) {
		*result = sgpu_percentile_between(
			p, sgpu_reduce_unkey((int64_t)(p->prefix[0] ^ sign)),
			sgpu_reduce_unkey((int64_t)(p->prefix[1] ^ sign)));
	}
}

static int run_percentile(struct sgpu_launch *launch, seen in, struct sgpu_percentile *p, double q,
			  const double *counts, double length, double *result)
{
	int rc = sgpu_cuda_runtime_check(
		launch, cudaMemsetAsync(p, 0, sizeof(*p), sgpu_cuda_stream(launch)));
	for (unsigned shift = 64; !rc; shift -= 8) {
		rc = sgpu_cuda_run(launch, take_digits, 1, p, shift, q, counts, length, result);
		if (rc || shift == 0) {
			break;
		}
		rc = sgpu_cuda_run(launch, count_digits,
				   sgpu_cuda_grid((uint64_t)length, SGPU_CUDA_BLOCK * 8), in,
				   (uint64_t)length, shift - 8, p);
	}
	return rc;
}

static int run_passes(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_reduce_view v = sgpu_reduce_view(call);
	uint64_t outputs = v.outer * v.inner;
	double *values = (double *)call->scratch + sgpu_reduce_partial(&v),
	       *counts = values + outputs, *means = counts + outputs, length = (double)v.length;
	int operation = (int)call->param[OPERATION].number, rc = 0;
	unsigned grid = sgpu_cuda_grid(outputs, SGPU_CUDA_BLOCK);
	seen in = {};

	in.data = call->data[INPUT];
	in.dtype = call->type[INPUT].dtype;
	in.mask = (const uint8_t *)call->data[MASK];
	in.length = v.length;
	in.inner = v.inner;
	in.counting = true;
	if (in.mask) {
		rc = run_as(call, launch, in, counts, SGPU_F64, SGPU_REDUCE_SUM);
	} else {
		counts = NULL;
	}
	in.counting = false;
	if (!rc && operation == SGPU_REDUCE_STD) {
		rc = run_as(call, launch, in, values, SGPU_F64, SGPU_REDUCE_SUM);
		rc = rc ? rc
			: sgpu_cuda_run(launch, settle, grid, values, counts, length,
					SGPU_REDUCE_MEAN, means, SGPU_F64, outputs);
		in.means = means;
	}
	in.nothing = operation == SGPU_REDUCE_MAX ? -(double)INFINITY
		     : operation == SGPU_REDUCE_MIN || operation == SGPU_REDUCE_PERCENTILE
			     ? (double)INFINITY
			     : 0.0;
	if (!rc && operation == SGPU_REDUCE_PERCENTILE) {
		rc = run_percentile(launch, in, (struct sgpu_percentile *)(means + outputs),
				    call->param[Q].number, counts, length, values);
	} else if (!rc) {
		rc = run_as(call, launch, in, values, SGPU_F64,
			    operation == SGPU_REDUCE_MEAN ? SGPU_REDUCE_SUM : operation);
	}
	return rc ? rc
		  : sgpu_cuda_run(launch, settle, grid, values, counts, length, operation,
				  call->data[OUTPUT], call->type[OUTPUT].dtype, outputs);
}

extern "C" int sgpu_reduce_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	if (call->data[MASK] || call->param[OPERATION].number >= SGPU_REDUCE_STD) {
		return run_passes(call, launch);
	}
	return SGPU_CUDA_TYPES(call->type[INPUT].dtype, T,
			       run_as(call, launch, (const T *)call->data[INPUT],
				      call->data[OUTPUT], call->type[OUTPUT].dtype,
				      (int)call->param[OPERATION].number));
}
