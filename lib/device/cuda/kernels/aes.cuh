/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256 (FIPS 197) in counter mode, by tables in shared memory that combine SubBytes, ShiftRows
 * and MixColumns.
 *
 * Each lane of a warp has its own copy of all 256 entries, so that no two lanes use the same bank.
 * Two tables are interleaved, so a table's entries are 256 bytes apart: the lowest byte of an
 * entry's offset is 4 times the lane, the second the byte that is looked up; one byte permutation
 * joins them.
 *
 * Words of the state are columns, read little-endian: row 0 is the lowest byte.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_AES_CUH
#define SGPU_DEVICE_CUDA_KERNELS_AES_CUH

#include <stdint.h>

namespace sgpu_aes
{

enum { ROUNDS = 14, ROUND_KEY_WORDS = 4 * (ROUNDS + 1), TABLE_BYTES = 256 * 256 };

struct words256 {
	uint32_t at[256];
};

constexpr __host__ __device__ uint32_t times_x(uint32_t a)
{
	return (a << 1 ^ (a & 0x80 ? 0x1b : 0)) & 0xff;
}

/* Makes the S-box, walking the field's powers of 3 and of its inverse together. */
constexpr words256 make_sbox()
{
	words256 box = {};
	uint32_t p = 1, q = 1;

	do {
		p = p ^ times_x(p);
		q ^= q << 1;
		q ^= q << 2;
		q ^= q << 4;
		q &= 0xff;
		if (q & 0x80) {
			q ^= 0x09;
		}
		uint32_t twice = q | q << 8;
		box.at[p] = (q ^ twice >> 7 ^ twice >> 6 ^ twice >> 5 ^ twice >> 4 ^ 0x63) & 0xff;
	} while (p != 1);
	box.at[0] = 0x63;
	return box;
}

/* T0[x] = (2 S(x), S(x), S(x), 3 S(x)); T1 to T3 are its rotations. */
constexpr words256 make_t0()
{
	words256 box = make_sbox(), t = {};

	for (int i = 0; i < 256; i++) {
		uint32_t s = box.at[i], twice = times_x(s);

		t.at[i] = twice | s << 8 | s << 16 | (twice ^ s) << 24;
	}
	return t;
}

static __device__ const words256 t0_table = make_t0();

static __device__ __forceinline__ uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
	uint32_t r;

	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
	return r;
}

/* T2 and T3 are T0 and T1 rotated by 16 bits: on an H200 separate tables were no faster, and they
 * take 64 KiB of shared memory that an A100 lacks. */
struct cipher {
	const unsigned char *tables; /* in shared memory: TABLE_BYTES */
	const uint4 *keys;	     /* in shared memory: the round keys */
	uint32_t lane;		     /* 4 times the lane */

	template <int TABLE, int BYTE> __device__ __forceinline__ uint32_t raw(uint32_t word) const
	{
		return *(const uint32_t *)(tables + permute(word, lane, 0x5504 | BYTE << 4) +
					   TABLE * 128);
	}

	/* Returns what byte ROW of the word adds to a column: its entry in table T_ROW. */
	template <int ROW> __device__ __forceinline__ uint32_t part(uint32_t word) const
	{
		uint32_t t = raw<ROW % 2, ROW>(word);

		return ROW < 2 ? t : permute(t, 0, 0x1032);
	}

	__device__ __forceinline__ uint32_t column(uint32_t a, uint32_t b, uint32_t c, uint32_t d,
						   uint32_t key) const
	{
		return raw<0, 0>(a) ^ raw<1, 1>(b) ^
		       permute(raw<0, 2>(c) ^ raw<1, 3>(d), 0, 0x1032) ^ key;
	}

	/* The last round has no MixColumns: take the S-box's bytes from the tables' entries. */
	__device__ __forceinline__ uint32_t last_column(uint32_t a, uint32_t b, uint32_t c,
							uint32_t d) const
	{
		return permute(permute(raw<0, 0>(a), raw<1, 1>(b), 0x0061),
			       permute(raw<0, 2>(c), raw<1, 3>(d), 0x0061), 0x5410);
	}
};

/* What a chunk's counter blocks, of which two bytes change, share of their first two rounds. */
struct start {
	uint32_t k0, k1, u0, u1, u2, u3;
};

static __device__ __forceinline__ start begin_chunk(const cipher &c, uint32_t n0, uint32_t n1,
						    uint32_t n2)
{
	uint4 key0 = c.keys[0], key1 = c.keys[1], key2 = c.keys[2];
	uint32_t a0 = n0 ^ key0.x, a1 = n1 ^ key0.y, a2 = n2 ^ key0.z, a3 = key0.w, t2, t3;
	start s;

	s.k0 = c.part<0>(a0) ^ c.part<1>(a1) ^ c.part<2>(a2) ^ key1.x;
	s.k1 = c.part<0>(a1) ^ c.part<1>(a2) ^ c.part<3>(a0) ^ key1.y;
	t2 = c.column(a2, a3, a0, a1, key1.z);
	t3 = c.column(a3, a0, a1, a2, key1.w);
	s.u0 = c.part<2>(t2) ^ c.part<3>(t3) ^ key2.x;
	s.u1 = c.part<1>(t2) ^ c.part<2>(t3) ^ key2.y;
	s.u2 = c.part<0>(t2) ^ c.part<1>(t3) ^ key2.z;
	s.u3 = c.part<0>(t3) ^ c.part<3>(t2) ^ key2.w;
	return s;
}

/* Returns the key stream of counter block `counter`, which is below 65536. */
static __device__ __forceinline__ uint4 counter_block(const cipher &c, const start &s,
						      uint32_t counter)
{
	uint32_t w3 = permute(counter, 0, 0x0123) ^ c.keys[0].w;
	uint32_t t0 = s.k0 ^ c.part<3>(w3), t1 = s.k1 ^ c.part<2>(w3);
	uint32_t s0 = s.u0 ^ c.part<0>(t0) ^ c.part<1>(t1);
	uint32_t s1 = s.u1 ^ c.part<0>(t1) ^ c.part<3>(t0);
	uint32_t s2 = s.u2 ^ c.part<2>(t0) ^ c.part<3>(t1);
	uint32_t s3 = s.u3 ^ c.part<1>(t0) ^ c.part<2>(t1);
	uint4 key;

#pragma unroll
	for (int round = 3; round < ROUNDS; round++) {
		uint32_t r0, r1, r2, r3;

		key = c.keys[round];
		r0 = c.column(s0, s1, s2, s3, key.x);
		r1 = c.column(s1, s2, s3, s0, key.y);
		r2 = c.column(s2, s3, s0, s1, key.z);
		r3 = c.column(s3, s0, s1, s2, key.w);
		s0 = r0;
		s1 = r1;
		s2 = r2;
		s3 = r3;
	}
	key = c.keys[ROUNDS];
	return make_uint4(
		c.last_column(s0, s1, s2, s3) ^ key.x, c.last_column(s1, s2, s3, s0) ^ key.y,
		c.last_column(s2, s3, s0, s1) ^ key.z, c.last_column(s3, s0, s1, s2) ^ key.w);
}

/* All threads of the block call it. Each store writes copies for four lanes. */
template <int THREADS> static __device__ __forceinline__ void fill_tables(unsigned char *tables)
{
#pragma unroll
	for (unsigned i = 0; i < (TABLE_BYTES / 16 + THREADS - 1) / THREADS; i++) {
		unsigned place = i * THREADS + threadIdx.x, row = place / 8;

		if (TABLE_BYTES / 16 % THREADS != 0 && place >= TABLE_BYTES / 16) {
			break;
		}
		uint32_t word = __ldg(&t0_table.at[row / 2]);

		word = __funnelshift_l(word, word, 8 * (row % 2));
		((uint4 *)tables)[place] = make_uint4(word, word, word, word);
	}
}

} // namespace sgpu_aes

#endif
