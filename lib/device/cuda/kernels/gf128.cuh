/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplication in GHASH's field, GF(2^128) modulo x^128 + x^7 + x^2 + x + 1 (NIST SP 800-38D,
 * section 6.3), for the few products of two variables. ghash.cuh has tables for a constant factor.
 *
 * A block is 16 bytes as in SP 800-38D, read as four little-endian words: the leftmost bit of the
 * first byte is the coefficient of x^0. In a gf, bit i is the coefficient of x^i.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_GF128_CUH
#define SGPU_DEVICE_CUDA_KERNELS_GF128_CUH

#include <stdint.h>

/* Tests compile this header as C (tests/unit/device_code.h). */
#ifdef __cplusplus
namespace sgpu_gf
{
#endif

typedef struct {
	uint64_t low, high;
} gf;

static __device__ __forceinline__ uint32_t reverse_bytes_bits(uint32_t word)
{
	return __byte_perm(__brev(word), 0, 0x0123);
}

static __device__ __forceinline__ gf from_block(uint4 b)
{
	gf r;

	r.low = (uint64_t)reverse_bytes_bits(b.y) << 32 | reverse_bytes_bits(b.x);
	r.high = (uint64_t)reverse_bytes_bits(b.w) << 32 | reverse_bytes_bits(b.z);
	return r;
}

static __device__ __forceinline__ uint4 to_block(gf a)
{
	return make_uint4(
		reverse_bytes_bits((uint32_t)a.low), reverse_bytes_bits((uint32_t)(a.low >> 32)),
		reverse_bytes_bits((uint32_t)a.high), reverse_bytes_bits((uint32_t)(a.high >> 32)));
}

/* The carry-less product of two words by integer products of factors with only every fourth bit
 * set: at most eight terms add up at a bit, so no carry reaches the next bit in use. Not inlined:
 * products are rare, and every copy would have to be fetched. */
static __device__ __noinline__ uint64_t clmul32(uint32_t a, uint32_t b)
{
	const uint32_t m = 0x11111111u;
	const uint64_t k = 0x1111111111111111ull;
	uint32_t a0 = a & m, a1 = a & m << 1, a2 = a & m << 2, a3 = a & m << 3;
	uint32_t b0 = b & m, b1 = b & m << 1, b2 = b & m << 2, b3 = b & m << 3;
	uint64_t r0 = (uint64_t)a0 * b0 ^ (uint64_t)a1 * b3 ^ (uint64_t)a2 * b2 ^ (uint64_t)a3 * b1;
	uint64_t r1 = (uint64_t)a0 * b1 ^ (uint64_t)a1 * b0 ^ (uint64_t)a2 * b3 ^ (uint64_t)a3 * b2;
	uint64_t r2 = (uint64_t)a0 * b2 ^ (uint64_t)a1 * b1 ^ (uint64_t)a2 * b0 ^ (uint64_t)a3 * b3;
	uint64_t r3 = (uint64_t)a0 * b3 ^ (uint64_t)a1 * b2 ^ (uint64_t)a2 * b1 ^ (uint64_t)a3 * b0;

	return (r0 & k) | (r1 & k << 1) | (r2 & k << 2) | (r3 & k << 3);
}

typedef struct {
	uint64_t low, high;
} wide;

/* Three products in place of four (Karatsuba). */
static __device__ __forceinline__ wide clmul64(uint64_t a, uint64_t b)
{
	uint32_t a0 = (uint32_t)a, a1 = (uint32_t)(a >> 32), b0 = (uint32_t)b,
		 b1 = (uint32_t)(b >> 32);
	uint64_t low = clmul32(a0, b0), high = clmul32(a1, b1),
		 middle = clmul32(a0 ^ a1, b0 ^ b1) ^ low ^ high;
	wide r;

	r.low = low ^ middle << 32;
	r.high = high ^ middle >> 32;
	return r;
}

/* Reduces a product of four words, the lowest first. Folding by x^128 = x^7 + x^2 + x + 1 leaves at
 * most 7 bits past x^127 (`over`), which are folded once more. */
static __device__ __forceinline__ gf reduced(uint64_t c0, uint64_t c1, uint64_t c2, uint64_t c3)
{
	const uint64_t over = c3 >> 63 ^ c3 >> 62 ^ c3 >> 57;
	gf r;

	r.low = c0 ^ c2 ^ c2 << 1 ^ c2 << 2 ^ c2 << 7;
	r.high = c1 ^ c3 ^ c3 << 1 ^ c3 << 2 ^ c3 << 7 ^ c2 >> 63 ^ c2 >> 62 ^ c2 >> 57;
	r.low ^= over ^ over << 1 ^ over << 2 ^ over << 7;
	return r;
}

static __device__ __noinline__ gf multiply(gf a, gf b)
{
	wide l = clmul64(a.low, b.low), h = clmul64(a.high, b.high);
	wide m = clmul64(a.low ^ a.high, b.low ^ b.high);

	return reduced(l.low, l.high ^ m.low ^ l.low ^ h.low, h.low ^ m.high ^ l.high ^ h.high,
		       h.high);
}

/* a times x^n, n below 128. */
static __device__ __forceinline__ gf shifted(gf a, unsigned n)
{
	const unsigned left = n % 64;
	const uint64_t c0 = a.low << left;
	const uint64_t c1 = a.high << left | (left ? a.low >> (64 - left) : 0);
	const uint64_t c2 = left ? a.high >> (64 - left) : 0;

	return n < 64 ? reduced(c0, c1, c2, 0) : reduced(0, c0, c1, c2);
}

static __device__ __forceinline__ uint4 sgpu_gf_product(uint4 a, uint4 b)
{
	return to_block(multiply(from_block(a), from_block(b)));
}

#ifdef __cplusplus
} /* namespace */
using sgpu_gf::sgpu_gf_product;
#endif

#endif
