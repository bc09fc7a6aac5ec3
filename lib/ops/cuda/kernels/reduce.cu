/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce: as cpu/reduce.c. Floats are added in the same order: in eight lanes for each piece of
 * adjacent elements, else row after row of a piece, then piece after piece. So only eight threads
 * add a piece, each with many loads in flight. Reductions that are exact in any order (integers
 * within a piece, extremes) use many more threads.
 */
#include <utility>

#include "ops/cuda/kernels/convert.cuh"
#include "ops/cuda/kernels/volume.cuh"

enum { INPUT, MASK, OUTPUT };
enum { OPERATION, AXIS, Q };
enum { LANES = SGPU_REDUCE_LANES };

/* ---- foldings: keys of elements, a neutral key, and the f64 value of a key ----
 *	F::in_order   whether the order of elements changes the result
 *	f.nothing()   f.key(element)   f(key, key)   f.value(key) */
/* The element types of outputs. */
template <typename T> struct sgpu_reduce_types {
	typedef double sum;
	typedef T extreme;
};
template <> struct sgpu_reduce_types<float> {
	typedef float sum, extreme;
};
template <> struct sgpu_reduce_types<sgpu_half> : sgpu_reduce_types<float> {
};

/* Divides and rounds; every NaN becomes the same one. */
template <typename O> SGPU_DEVICE O sgpu_reduce_result(double value, double divisor)
{
	value = __ddiv_rn(value, divisor);
	return sgpu_cuda_narrow<O>(value == value ? value
						  : __longlong_as_double(0x7ff8000000000000ll));
}

/* ---- sums: integers are added as integers within a piece, exactly ---- */
template <typename T> struct sgpu_reduce_sum {
	static constexpr bool in_order = false;

	__device__ long long nothing() const
	{
		return 0;
	}
	__device__ long long key(T element) const
	{
		return element;
	}
	__device__ long long operator()(long long a, long long b) const
	{
		return a + b;
	}
	__device__ double value(long long key) const
	{
		return (double)key;
	}
};

template <typename T> struct sgpu_reduce_float_sum {
	static constexpr bool in_order = true;

	__device__ double key(T element) const
	{
		return sgpu_cuda_f64(element);
	}
	__device__ double operator()(double a, double b) const
	{
		return __dadd_rn(a, b);
	}
	__device__ double value(double key) const
	{
		return key;
	}
};
template <> struct sgpu_reduce_sum<float> : sgpu_reduce_float_sum<float> {
};
template <> struct sgpu_reduce_sum<double> : sgpu_reduce_float_sum<double> {
};
template <> struct sgpu_reduce_sum<sgpu_half> : sgpu_reduce_float_sum<sgpu_half> {
};

/* ---- the least and the greatest ----
 * The greatest is the least of inverted keys. The key of a float is its bits, as an integer that
 * sorts as the float does: -0 below +0, and NaN below all, so that NaN is the result of both. The
 * order of the reduction does not matter. */
template <typename K, typename T> struct sgpu_reduce_least {
	static constexpr bool in_order = false;
	static constexpr K low = (K)((K)1 << (sizeof(K) * 8 - 2)) * -2;
	bool greatest;

	__device__ K nothing() const
	{
		return (K)~low;
	}
	__device__ K operator()(K a, K b) const
	{
		return b < a ? b : a;
	}
};

template <typename T> struct sgpu_reduce_extreme : sgpu_reduce_least<int, T> {
	__device__ int key(T element) const
	{
		return this->greatest ? ~(int)element : (int)element;
	}
	__device__ double value(int key) const
	{
		return this->greatest ? ~key : key;
	}
};

/* Maps a float's bits to an integer that sorts as the float does. It is its own inverse. */
SGPU_DEVICE int sgpu_reduce_fold_bits(int bits)
{
	return bits < 0 ? bits ^ INT_MAX : bits;
}

template <> struct sgpu_reduce_extreme<float> : sgpu_reduce_least<int, float> {
	__device__ int key(float element) const
	{
		int bits = sgpu_reduce_fold_bits(__float_as_int(greatest ? -element : element));

		return element == element ? bits : low;
	}
	__device__ double value(int key) const
	{
		float value = __int_as_float(sgpu_reduce_fold_bits(key));

		return key == low ? __longlong_as_double(0x7ff8000000000000ll)
				  : (double)(greatest ? -value : value);
	}
};
template <> struct sgpu_reduce_extreme<sgpu_half> : sgpu_reduce_extreme<float> {
	__device__ int key(sgpu_half element) const
	{
		return sgpu_reduce_extreme<float>::key(sgpu_half_to_float(element.bits));
	}
};
template <> struct sgpu_reduce_extreme<double> : sgpu_reduce_least<long long, double> {
	__device__ long long key(double element) const
	{
		return sgpu_reduce_key(greatest ? -element : element);
	}
	__device__ double value(long long key) const
	{
		return greatest ? -sgpu_reduce_unkey(key) : sgpu_reduce_unkey(key);
	}
};

/* ---- kernels ---- */
/* Elements as a pass sees them that a mask or a deviation needs: those left out as `nothing`, all
 * others as 1, or as their squared distance from the mean of their output. */
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

/* The input and output of a kernel; In is a pointer, or `seen`. */
template <typename In, typename O> struct job {
	In in;
	O *out;
	struct sgpu_reduce_view v;
	double *partial; /* [outer][pieces][inner]; NULL: one piece per output */
	double divisor;
};

template <typename In, typename O>
SGPU_DEVICE void put(const struct job<In, O> &job, uint64_t item, double value)
{
	if (job.partial) {
		job.partial[item] = value;
	} else {
		job.out[item] = sgpu_reduce_result<O>(value, job.divisor);
	}
}

/* What In gives. */
template <typename In>
using element = std::remove_cv_t<std::remove_reference_t<decltype(std::declval<In>()[0])>>;

/* The elements of one piece. */
template <typename In> struct piece {
	In in;
	unsigned count;
};

template <typename In, typename O>
SGPU_DEVICE struct piece<In> piece_at(const struct job<In, O> &job, uint64_t item) {
	uint64_t piece, outer = sgpu_cuda_split(item, job.v.pieces, &piece),
			from = piece * job.v.piece;
	uint64_t left = job.v.length - from;

	return { job.in + (outer * job.v.length + from),
		 (unsigned)sgpu_ops_min(left, job.v.piece) };
}

/* ---- adjacent elements, in the CPU's order: a thread adds one lane of a piece ----
 * A block is one warp, so that each thread has enough registers for its loads. */
template <typename In, typename O>
static __global__ void __launch_bounds__(SGPU_CUDA_WARP) add_lanes(struct job<In, O> job)
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
			asm volatile("" ::: "memory"); /* keeps all loads before the additions */
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

/* ---- adjacent elements, in any order: a warp takes a piece ---- */
template <typename F, typename In, typename O> SGPU_KERNEL fold_warps(struct job<In, O> job, F f)
{
	uint64_t items = job.v.outer * job.v.pieces, self = sgpu_cuda_self();
	uint64_t step = sgpu_cuda_step() / SGPU_CUDA_WARP;

	for (uint64_t item = self / SGPU_CUDA_WARP; item < items; item += step) {
		struct piece<In> piece = piece_at(job, item);
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
template <typename F, typename In, typename O>
static __global__ void __launch_bounds__(SGPU_CUDA_WARP) fold_rows(struct job<In, O> job, F f)
{
	uint64_t items = job.v.outer * job.v.pieces * job.v.inner, step = sgpu_cuda_step();

	for (uint64_t item = sgpu_cuda_self(); item < items; item += step) {
		uint64_t column, piece, inner = job.v.inner;
		uint64_t outer = sgpu_cuda_split(sgpu_cuda_split(item, inner, &column),
						 job.v.pieces, &piece);
		uint64_t from = piece * job.v.piece, left = job.v.length - from;
		In in = job.in + ((outer * job.v.length + from) * inner + column);
		unsigned rows = (unsigned)sgpu_ops_min(left, job.v.piece), row = 1;
		auto folded = f.key(in[0]);

		for (; row + loads<In> <= rows; row += loads<In>) {
			In from_row = in + row * inner;
			element<In> values[loads<In>];

#pragma unroll
			for (int j = 0; j < loads<In>; j++) {
				values[j] = from_row[j * inner];
			}
			asm volatile("" ::: "memory"); /* keeps all loads before the additions */
#pragma unroll
			for (int j = 0; j < loads<In>; j++) {
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
template <typename In, typename O, typename F>
static int fold_pieces(struct sgpu_launch *launch, const struct job<In, O> &job, F f)
{
	uint64_t items = job.v.outer * job.v.pieces;

	if (items * job.v.inner == 0) {
		return 0;
	}
	if (job.v.inner > 1) {
		return sgpu_cuda_start(launch, fold_rows<F, In, O>,
				       sgpu_cuda_grid(items * job.v.inner, SGPU_CUDA_WARP),
				       SGPU_CUDA_WARP, 0, job, f);
	}
	if constexpr (F::in_order) {
		return sgpu_cuda_start(launch, add_lanes<In, O>,
				       sgpu_cuda_grid(items, SGPU_CUDA_WARP / LANES),
				       SGPU_CUDA_WARP, 0, job);
	} else {
		return sgpu_cuda_run(launch, fold_warps<F, In, O>,
				     sgpu_cuda_grid(items, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP), job,
				     f);
	}
}

/* f combines elements, `last` the results of the pieces. */
template <typename In, typename O, typename F, typename L>
static int run(struct sgpu_op_call *call, struct sgpu_launch *launch, In in, O *out, double divisor,
	       F f, L last)
{
	const struct sgpu_reduce_view v = sgpu_reduce_view(call);
	const struct job<In, O> job = {
		in, out, v, v.pieces > 1 ? (double *)call->scratch : NULL, divisor
	};
	int rc = fold_pieces(launch, job, f);

	if (rc || job.v.pieces == 1 || job.v.outer * job.v.inner == 0) {
		return rc;
	}
	return sgpu_cuda_run(
		launch, finish<L, O>,
		sgpu_cuda_grid(job.v.outer * job.v.inner, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP),
		(const double *)call->scratch, job.out, job.v, job.divisor, last);
}

template <typename T> static int start(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	typedef typename sgpu_reduce_types<T>::sum sum;
	typedef typename sgpu_reduce_types<T>::extreme extreme;
	int operation = (int)call->param[OPERATION].number;
	bool greatest = operation == SGPU_REDUCE_MAX;
	const T *in = (const T *)call->data[INPUT];
	void *out = call->data[OUTPUT];

	if (operation == SGPU_REDUCE_SUM || operation == SGPU_REDUCE_MEAN) {
		return run(call, launch, in, (sum *)out,
			   operation == SGPU_REDUCE_MEAN ? (double)sgpu_reduce_view(call).length
							 : 1.0,
			   sgpu_reduce_sum<T>(), sgpu_reduce_sum<double>());
	}
	return run(call, launch, in, (extreme *)out, 1.0, sgpu_reduce_extreme<T>{ greatest },
		   sgpu_reduce_extreme<double>{ greatest });
}

/* ---- with a mask, and deviations: passes with results in f64, as on the CPU ---- */
SGPU_KERNEL settle(const double *values, const double *counts, double length, int operation,
		   bool narrow, void *out, uint64_t outputs)
{
	for (uint64_t i = sgpu_cuda_self(); i < outputs; i += sgpu_cuda_step()) {
		double value =
			sgpu_reduce_settle(operation, values[i], counts ? counts[i] : length);

		if (narrow) {
			((float *)out)[i] = sgpu_reduce_result<float>(value, 1.0);
		} else {
			((double *)out)[i] = sgpu_reduce_result<double>(value, 1.0);
		}
	}
}

static int run_pass(struct sgpu_op_call *call, struct sgpu_launch *launch, seen in, double *out,
		    int operation)
{
	bool greatest = operation == SGPU_REDUCE_MAX;

	if (operation == SGPU_REDUCE_MIN || greatest) {
		in.nothing = greatest ? -(double)INFINITY : (double)INFINITY;
		return run(call, launch, in, out, 1.0, sgpu_reduce_extreme<double>{ greatest },
			   sgpu_reduce_extreme<double>{ greatest });
	}
	return run(call, launch, in, out, 1.0, sgpu_reduce_sum<double>(),
		   sgpu_reduce_sum<double>());
}

/* Blocks count the digits of a percentile in shared memory. */
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

/* One thread takes the digit before the one that is counted next, and in the end the result. */
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
	int rc;

	in.nothing = (double)INFINITY;
	rc = sgpu_cuda_runtime_check(launch,
				     cudaMemsetAsync(p, 0, sizeof(*p), sgpu_cuda_stream(launch)));
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
		rc = run_pass(call, launch, in, counts, SGPU_REDUCE_SUM);
	} else {
		counts = NULL;
	}
	in.counting = false;
	if (!rc && operation == SGPU_REDUCE_STD) {
		rc = run_pass(call, launch, in, values, SGPU_REDUCE_SUM);
		rc = rc ? rc
			: sgpu_cuda_run(launch, settle, grid, values, counts, length,
					SGPU_REDUCE_MEAN, false, means, outputs);
		in.means = means;
	}
	if (!rc && operation == SGPU_REDUCE_PERCENTILE) {
		rc = run_percentile(launch, in, (struct sgpu_percentile *)(means + outputs),
				    call->param[Q].number, counts, length, values);
	} else if (!rc) {
		rc = run_pass(call, launch, in, values, operation);
	}
	return rc ? rc
		  : sgpu_cuda_run(launch, settle, grid, values, counts, length, operation,
				  call->type[OUTPUT].dtype == SGPU_F32, call->data[OUTPUT],
				  outputs);
}

extern "C" int sgpu_reduce_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	if (call->data[MASK] || call->param[OPERATION].number >= SGPU_REDUCE_STD) {
		return run_passes(call, launch);
	}
	return SGPU_CUDA_TYPES(call->type[INPUT].dtype, T, start<T>(call, launch));
}
