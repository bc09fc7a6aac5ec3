/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operations share.
 *
 * Rules for a CPU implementation: results depend neither on the number of workers (pieces of
 * sgpu_pool_for start at fixed multiples; partial results are added in the order of the pieces) nor
 * on the CPU's vector length (sums keep a fixed number of lanes, added in a fixed order). Copies of
 * data on the stack are wiped.
 */
#ifndef SGPU_OPS_OPS_PRIVATE_H
#define SGPU_OPS_OPS_PRIVATE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <sgpu/base.h>

#include "manifest/reader.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compiles a hot loop for several levels of x86-64; one is chosen when the program starts.
 * Functions that the loop calls must be SGPU_INLINE. Sanitizers would instrument the resolver,
 * which runs before they are ready. */
#if SGPU_CLONES && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
	!defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SGPU_CLONES_ATTR \
	__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SGPU_CLONES_ATTR
#endif
#ifdef __CUDACC__ /* kernels use these functions, too */
#define SGPU_INLINE static __host__ __device__ __forceinline__
#else
#define SGPU_INLINE static inline __attribute__((always_inline))
#endif

/* X(name) for each operation, sorted. sgpu_op_NAME, in cpu/, describes the operation, and
 * sgpu_NAME_cuda runs it on a CUDA device. */
/* clang-format off */
#define SGPU_OPS(X) \
	X(activation_gradient) X(argmax) X(black_scholes) X(cast) X(concatenate) X(conv2d) X(conv2d_gradient) \
	X(copy) X(cross_entropy) X(dense) X(gaussian3d) X(gemm) X(histogram) X(map) X(max_pool2d) \
	X(max_pool2d_gradient) X(morphology3d) X(nearest) X(reduce) X(reshape) X(scale) X(sgd) \
	X(slice) X(softmax) X(squared_error) X(threshold) X(transpose) X(vector_add)
/* clang-format on */
struct sgpu_launch;
#define SGPU_OP_ROW(name)                           \
	extern const struct sgpu_op sgpu_op_##name; \
	int sgpu_##name##_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
SGPU_OPS(SGPU_OP_ROW)
#undef SGPU_OP_ROW

/* ---- for infer ----
 * A required input always has a type here. An optional input is SGPU_NONE if it is absent or, with
 * call->present set, if the manifest gives it no type, which infer may fill in. The bool functions
 * return false after they have reported a diagnostic. */
/* Whether an argument is absent or has a type, which it gets if it has none. */
bool sgpu_ops_must_be(struct sgpu_op_call *call, struct sgpu_op_report *report, int argument,
		      const struct sgpu_type *want);
bool sgpu_ops_same_dtype(const struct sgpu_op_call *call, struct sgpu_op_report *report, int first,
			 int second);
bool sgpu_ops_same_extent(const struct sgpu_op_call *call, struct sgpu_op_report *report, int first,
			  int first_axis, int second, int second_axis);

/* For operations whose arguments all have one type. */
void sgpu_ops_infer_same(struct sgpu_op_call *call, struct sgpu_op_report *report);

struct sgpu_type sgpu_ops_type(enum sgpu_dtype dtype, int rank, const uint64_t *shape);
/* The type was checked, so the product does not overflow. */
uint64_t sgpu_ops_count(const struct sgpu_type *type);
uint64_t sgpu_ops_extent(const struct sgpu_type *type, int from, int to);

SGPU_INLINE uint64_t sgpu_ops_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}
SGPU_INLINE uint64_t sgpu_ops_ceil(uint64_t items, uint64_t size)
{
	return items / size + (items % size != 0);
}

SGPU_INLINE double sgpu_ops_add_lanes(const double lanes[8])
{
	return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
	       ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/* The extents [z, y, x] of a volume, or of each volume of a series [t, z, y, x]. */
SGPU_INLINE const uint64_t *sgpu_ops_volume(const struct sgpu_type *type)
{
	return type->shape + type->rank - 3;
}

/* Operations along the last axis cut longer rows into parts of so many elements, whose results are
 * kept in the scratch memory and combined in order. */
enum { SGPU_ROW_PART = 1 << 16 };
SGPU_INLINE uint64_t sgpu_ops_parts(uint64_t width)
{
	return sgpu_ops_ceil(width, SGPU_ROW_PART);
}
/* 16 bytes for each part of every row of the first input, for devices that cut rows. */
uint64_t sgpu_ops_parts_scratch(const struct sgpu_op_call *call);

/* ---- conversions of `count` elements of `data` from `begin` on ----
 * Loading is exact, but rounds integers beyond 2^53 to nearest. Storing rounds once, to nearest,
 * ties to even; as an integer a value saturates, and NaN becomes 0. */
/* Rounds to an integer in [low, high], both below 2^51 in size: adding 1.5 * 2^52 rounds. */
SGPU_INLINE double sgpu_ops_round(double value, double low, double high)
{
	double bounded = value < low ? low : value;

	bounded = bounded > high ? high : bounded;
	bounded = bounded == bounded ? bounded : 0;
	return bounded + 0x1.8p52 - 0x1.8p52;
}
void sgpu_ops_load_f64(enum sgpu_dtype dtype, const void *data, uint64_t begin, uint64_t count,
		       double *to);
void sgpu_ops_store_f64(enum sgpu_dtype dtype, void *data, uint64_t begin, uint64_t count,
			const double *from);

/* ---- one source for f32 and f64 ----
 * Elements of arrays of f64 (wide) or f32; `wide` is a constant where these are inlined. */
SGPU_INLINE double sgpu_real(bool wide, const void *data, uint64_t at)
{
	return wide ? ((const double *)data)[at] : (double)((const float *)data)[at];
}
SGPU_INLINE void sgpu_real_set(bool wide, void *data, uint64_t at, double value)
{
	if (wide) {
		((double *)data)[at] = value;
	} else {
		((float *)data)[at] = (float)value;
	}
}
/* Makes name_f32 and name_f64, for sgpu_ops_for, of an inlined name(wide, call, begin, end). */
#define SGPU_OPS_REAL(name)                                                               \
	SGPU_CLONES_ATTR static void name##_f32(void *call, uint64_t begin, uint64_t end) \
	{                                                                                 \
		name(false, call, begin, end);                                            \
	}                                                                                 \
	SGPU_CLONES_ATTR static void name##_f64(void *call, uint64_t begin, uint64_t end) \
	{                                                                                 \
		name(true, call, begin, end);                                             \
	}

/* ---- matrix product: output = alpha op(a) op(b) + beta c ----
 * Row-major; op(a) is m x k, op(b) k x n, the output m x n, and c is stored as it is; ld: elements
 * from one stored row to the next. If k is 0, neither a nor b is read; if beta is 0, c is not. */
struct sgpu_gemm {
	enum sgpu_dtype dtype; /* f32 or f64 */
	const void *a, *b, *c;
	void *output;
	uint64_t m, n, k;
	bool transpose_a, transpose_b; /* a is stored k x m, b n x k */
	uint64_t lda, ldb, ldc;
	double alpha, beta;
	/* The number of products, and elements from one matrix to the next. */
	uint64_t batch, stride_a, stride_b, stride_c;
};
/* Takes c from the output. The caller holds a token of the pool. Errors: SGPU_ECANCELED. */
SGPU_MUST_CHECK int sgpu_gemm(const struct sgpu_gemm *gemm, struct sgpu_launch *launch);
struct sgpu_gemm sgpu_op_gemm_describe(const struct sgpu_op_call *call);
struct sgpu_gemm sgpu_op_dense_describe(const struct sgpu_op_call *call);

/* i32 or u8. */
SGPU_INLINE int32_t sgpu_ops_label(const void *labels, enum sgpu_dtype dtype, uint64_t at)
{
	return dtype == SGPU_U8 ? ((const uint8_t *)labels)[at] : ((const int32_t *)labels)[at];
}

/* ---- activations, in the order of enum sgpu_activation ---- */
extern const char *const sgpu_ops_activations[]; /* the choices of a parameter */
void sgpu_ops_activate_f32(int activation, float *values, uint64_t count);

/* How many items of `work` each make a piece of at least `enough` work. */
SGPU_INLINE uint64_t sgpu_ops_grain(uint64_t work, uint64_t enough)
{
	return work < enough ? enough / (work + 1) + 1 : 1;
}

/* As sgpu_pool_for, with an error text, and a copy by it. */
SGPU_MUST_CHECK int sgpu_ops_for(struct sgpu_launch *launch, uint64_t count, uint64_t grain,
				 void (*body)(void *argument, uint64_t begin, uint64_t end),
				 void *argument);

SGPU_MUST_CHECK int sgpu_ops_copy_bytes(struct sgpu_launch *launch, void *to, const void *from,
					uint64_t bytes);
/* The CPU code of copy and of other operations that keep the bytes. */
SGPU_MUST_CHECK int sgpu_ops_copy(struct sgpu_op_call *call, struct sgpu_launch *launch);

/* ---- concatenate, transpose: how elements move, on every device ---- */
/* An axis: its extent, and elements from one index to the next in input and output. The output's
 * elements are adjacent along the last axis. */
struct sgpu_move_axis {
	uint64_t extent, from, to;
};
struct sgpu_move {
	struct sgpu_move_axis axis[SGPU_RANK_MAX];
};
struct sgpu_move sgpu_concatenate_move(const struct sgpu_op_call *call, int input);
/* Axes that stay neighbours are one. The input's last axis is the last or the last but one. */
struct sgpu_move sgpu_transpose_move(const struct sgpu_op_call *call);
/* Moves elements of `size` bytes that are adjacent along the last axis in the input, too. */
SGPU_MUST_CHECK int sgpu_ops_move_rows(struct sgpu_launch *launch, void *to, const void *from,
				       const struct sgpu_move *move, size_t size);

/* ---- gaussian3d: the weights, for every device ---- */
enum {
	SGPU_GAUSSIAN_SIGMA_MAX = 64,
	SGPU_GAUSSIAN_TRUNCATE_MAX = 8,
	SGPU_GAUSSIAN_RADIUS_MAX = SGPU_GAUSSIAN_SIGMA_MAX * SGPU_GAUSSIAN_TRUNCATE_MAX,
};

/* Computes the weights at distances 0 to radius, and returns the radius. weights[0] plus twice the
 * sum of the others is 1. */
int sgpu_ops_gaussian_weights(double sigma, double truncate,
			      double weights[SGPU_GAUSSIAN_RADIUS_MAX + 1]);

/* ---- histogram: where every device counts a value ---- */
struct sgpu_bins {
	int count;
	double min, max, width;
};
struct sgpu_bins sgpu_histogram_bins(const struct sgpu_op_call *call);

/* A value's bin, or `count` if it is outside. The quotient may be off by one, so edges decide. */
SGPU_INLINE int32_t sgpu_histogram_bin(const struct sgpu_bins *bins, double value)
{
	int inside = (value >= bins->min) & (value <= bins->max);
	double last = (double)(bins->count - 1), from = inside ? value : bins->min;
	double quotient = (from - bins->min) / bins->width;
	int32_t bin = (int32_t)(quotient < last ? quotient : last);
	double edge = (double)bin * bins->width + bins->min,
	       next = (double)(bin + 1) * bins->width + bins->min;

	bin -= (from < edge) & (bin > 0);
	bin += (from >= next) & ((double)bin < last);
	return inside ? bin : bins->count;
}

/* ---- nearest: the work, on every device ---- */
enum { SGPU_NEAREST_K_MAX = 256, SGPU_NEAREST_RESERVE = 16 };

/* A block of queries is compared with one tile of rows at a time. */
struct sgpu_nearest {
	uint64_t n, m, d, k;
	uint64_t keep; /* k candidates and a reserve */
	uint64_t tile_queries, tile_rows;
	const float *a, *b;
	const void *labels;
	enum sgpu_dtype label_dtype;
	int32_t *output;
	uint64_t *lists;		    /* [queries of the tile][keep]: keys, ascending */
	float *norms, *products;	    /* [m]: |b|^2; [queries][rows of the tile]: ab */
	uint64_t query, queries, row, rows; /* the tile */
};
struct sgpu_nearest sgpu_nearest_describe(const struct sgpu_op_call *call);
struct sgpu_gemm sgpu_nearest_tile(struct sgpu_nearest *job, uint64_t query, uint64_t row);

/* A candidate as a number, all ones for none. Upper half: its distance as an integer that sorts as
 * the float does, NaN as infinity and -0 as 0; lower half: its index. */
SGPU_INLINE uint64_t sgpu_nearest_key(const struct sgpu_nearest *job, uint64_t i, float product)
{
	float near = job->norms[job->row + i] - 2.0f * product;
	uint32_t bits;

	near = near != near ? (float)INFINITY : near == 0 ? 0 : near;
	memcpy(&bits, &near, sizeof(bits));
	bits = bits >> 31 ? ~bits : bits | 0x80000000u;
	return (uint64_t)bits << 32 | (job->row + i);
}

/* The sum of the squares of a or, if b is not NULL, of a - b, in lanes. */
SGPU_INLINE double sgpu_nearest_square(const float *a, const float *b, uint64_t d)
{
	double lanes[8] = { 0 };
	uint64_t i = 0;

	for (; i + 8 <= d; i += 8) {
		for (int lane = 0; lane < 8; lane++) {
			double x = (double)a[i + lane] - (b ? (double)b[i + lane] : 0.0);

			lanes[lane] += x * x;
		}
	}
	for (int lane = 0; lane < 8 && i + lane < d; lane++) {
		double x = (double)a[i + lane] - (b ? (double)b[i + lane] : 0.0);

		lanes[lane] += x * x;
	}
	return sgpu_ops_add_lanes(lanes);
}
/* The distance that decides; NaN is infinitely far, so that the order is total. */
SGPU_INLINE double sgpu_nearest_distance(const struct sgpu_nearest *job, uint64_t query,
					 uint64_t row)
{
	double distance =
		sgpu_nearest_square(job->a + query * job->d, job->b + row * job->d, job->d);

	return distance != distance ? (double)INFINITY : distance;
}

/* ---- reduce: its view and pieces, the same on every device, as float sums depend on them ---- */
enum {
	SGPU_REDUCE_SUM,
	SGPU_REDUCE_MIN,
	SGPU_REDUCE_MAX,
	SGPU_REDUCE_MEAN,
	SGPU_REDUCE_STD,
	SGPU_REDUCE_PERCENTILE
}; /* the parameter `operation` */
enum {
	SGPU_REDUCE_PIECE = 65536,	  /* elements in a piece when they are adjacent */
	SGPU_REDUCE_PIECE_STRIDED = 4096, /* rows in a piece when they are not adjacent */
	SGPU_REDUCE_LANES = 8,		  /* for adjacent elements: i goes to lane i % 8 */
};

/* The input as [outer, length, inner]; `length` is reduced. */
struct sgpu_reduce_view {
	uint64_t outer, length, inner, pieces, piece;
};

/* Axis -1 reduces all elements. */
static inline struct sgpu_reduce_view sgpu_reduce_view(const struct sgpu_op_call *call)
{
	const struct sgpu_type *type = &call->type[0];
	int axis = (int)call->param[1].number;
	struct sgpu_reduce_view v = { 1, sgpu_ops_count(type), 1, 0, SGPU_REDUCE_PIECE };

	if (axis >= 0) {
		v.outer = sgpu_ops_extent(type, 0, axis);
		v.length = type->shape[axis];
		v.inner = sgpu_ops_extent(type, axis + 1, type->rank);
	}
	if (v.inner > 1) {
		v.piece = SGPU_REDUCE_PIECE_STRIDED;
	}
	v.pieces = sgpu_ops_ceil(v.length, v.piece);
	return v;
}

/* What the sum, extreme or sum of squared deviations of n elements becomes; NaN for none. */
SGPU_INLINE double sgpu_reduce_settle(int operation, double value, double n)
{
	if (operation == SGPU_REDUCE_MEAN || operation == SGPU_REDUCE_STD) {
		value /= n;
	}
	return operation == SGPU_REDUCE_STD	       ? sqrt(value)
	       : operation == SGPU_REDUCE_SUM || n > 0 ? value
						       : (double)NAN;
}

/* A total order for extremes: NaN of either sign is least, and -0 is below +0. */
SGPU_INLINE int64_t sgpu_reduce_key(double value)
{
	int64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bits ^= (int64_t)((uint64_t)(bits >> 63) >> 1);
	return value != value ? INT64_MIN : bits;
}

SGPU_INLINE double sgpu_reduce_unkey(int64_t bits)
{
	double value;

	if (bits == INT64_MIN) {
		return (double)NAN;
	}
	bits ^= (int64_t)((uint64_t)(bits >> 63) >> 1);
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* A percentile is selected by digits of the elements as unsigned keys of the same order: each pass
 * counts the next 8 bits of keys that begin as the wanted ones do, and so finds 8 bits of the two
 * order statistics around the percentile. */
struct sgpu_percentile {
	uint64_t prefix[2]; /* the digits that are known */
	uint64_t rank[2];   /* among the elements that have them */
	uint64_t nans, digits[2][256];
	double weight; /* of the second one */
};

SGPU_INLINE void sgpu_percentile_rank(struct sgpu_percentile *p, double q, double n)
{
	double place = n > 0 ? q / 100 * (n - 1) : 0;

	p->rank[0] = (uint64_t)place;
	p->rank[1] = p->rank[0] + ((double)p->rank[0] + 1 < n);
	p->weight = place - (double)p->rank[0];
}

SGPU_INLINE void sgpu_percentile_step(struct sgpu_percentile *p)
{
	for (int i = 0; i < 2; i++) {
		int d = 0;

		while (d < 255 && p->rank[i] >= p->digits[i][d]) {
			p->rank[i] -= p->digits[i][d++];
		}
		p->prefix[i] = p->prefix[i] << 8 | (unsigned)d;
		for (d = 0; d < 256; d++) {
			p->digits[i][d] = 0;
		}
	}
}

SGPU_INLINE double sgpu_percentile_between(const struct sgpu_percentile *p, double a, double b)
{
	double t = p->weight;

	if (p->nans) {
		return (double)NAN;
	}
	return t == 0 || a == b ? a : t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

/* Scratch memory, in doubles: results of pieces; for several passes, each output's result, number
 * of elements and mean; last the percentile's. */
static inline uint64_t sgpu_reduce_partial(const struct sgpu_reduce_view *v)
{
	return v->pieces > 1 ? v->outer * v->pieces * v->inner : 0;
}

/* ---- components3d.c ---- */
/* Keeps the largest component of `mask`, shape [z, y, x], bytes 0 and 1, in place. */
SGPU_MUST_CHECK int sgpu_ops_keep_largest(uint8_t *mask, const uint64_t shape[3], void *scratch,
					  struct sgpu_launch *launch);
uint64_t sgpu_ops_keep_largest_scratch(const uint64_t shape[3]);

/* ---- checking a manifest against the table ---- */
struct sgpu_ops_checker {
	struct sgpu_op_report report; /* first, as infer functions get its address */
	struct sgpu_reader reader;    /* its diagnostics, and their place */
	struct sgpu_manifest *manifest;
	const struct sgpu_operation *operation;
	int index;
	bool failed;   /* of the current operation */
	bool *known;   /* by segment */
	bool *missing; /* by segment: its type was needed but not stated */
};

/* Records a diagnostic at /operations/<index>/<member>/<name>; member and name may be NULL. */
void sgpu_ops_report(struct sgpu_ops_checker *checker, const char *member, const char *name,
		     const char *hint, const char *format, ...) SGPU_PRINTF(5, 6);
/* `row` is the name in the first row of the table of known ones. */
void sgpu_ops_unknown(struct sgpu_ops_checker *checker, const char *member, const char *name,
		      const char *what, const char *const *row, size_t row_size);

/* The `diagnostic` of a checker's report. */
void sgpu_ops_on_diagnostic(struct sgpu_op_report *report, const char *argument, const char *param,
			    const char *text);

/* Reads and checks the parameters of a call, whose op is set. */
void sgpu_ops_check_params(struct sgpu_ops_checker *checker, struct sgpu_op_call *call);

#ifdef __cplusplus
}
#endif
#endif
