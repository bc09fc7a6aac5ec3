/* SPDX-License-Identifier: Apache-2.0
 *
 * A key on the device: AES-256 key expansion (FIPS 197), powers of H and the tables of GHASH, by one block.
 */
#include <cuda_runtime.h>

#include <device/cuda/aead_state.cuh>
#include <device/cuda/gf128.cuh>

using namespace sgpu_aead;

enum { THREADS = 1024 };

struct scratch {
	uint32_t t0[256];
	uint32_t round_keys[sgpu_aes::ROUND_KEY_WORDS];
	uint4 power[POWERS];
	/* H^32 times x^i, as blocks, at 16 times the bit in its byte plus the byte's position: lanes want the same bit
	 * of neighbouring positions. */
	uint4 basis[128];
};

static __device__ uint32_t substitute(const uint32_t *t0, uint32_t word)
{
	uint32_t r = 0;

	for (int i = 0; i < 32; i += 8) {
		r |= (t0[word >> i & 0xff] >> 8 & 0xff) << i;
	}
	return r;
}

static __device__ void expand(scratch *s, const uint32_t *key)
{
	uint32_t rcon = 1;

#pragma unroll 1
	for (int i = 0; i < sgpu_aes::ROUND_KEY_WORDS; i++) {
		uint32_t word;

		if (i < 8) {
			s->round_keys[i] = key[i];
			continue;
		}
		word = s->round_keys[i - 1];
		if (i % 8 == 0) {
			word = substitute(s->t0, __funnelshift_r(word, word, 8)) ^ rcon;
			rcon = sgpu_aes::times_x(rcon);
		} else if (i % 8 == 4) {
			word = substitute(s->t0, word);
		}
		s->round_keys[i] = s->round_keys[i - 8] ^ word;
	}
}

static __device__ uint32_t rotated(const uint32_t *t0, uint32_t word, int row)
{
	uint32_t t = t0[word >> 8 * row & 0xff];

	return __funnelshift_l(t, t, 8 * row);
}

/* H: the block of zeros, enciphered. */
static __device__ uint4 encipher_zeros(const scratch *s)
{
	uint32_t state[4], next[4];

	for (int i = 0; i < 4; i++) {
		state[i] = s->round_keys[i];
	}
#pragma unroll 1
	for (int round = 1; round < sgpu_aes::ROUNDS; round++) {
		for (int i = 0; i < 4; i++) {
			next[i] = s->round_keys[4 * round + i];
			for (int row = 0; row < 4; row++) {
				next[i] ^= rotated(s->t0, state[(i + row) % 4], row);
			}
		}
		for (int i = 0; i < 4; i++) {
			state[i] = next[i];
		}
	}
	for (int i = 0; i < 4; i++) {
		uint32_t word = 0;

		for (int row = 0; row < 4; row++) {
			word |= substitute(s->t0, state[(i + row) % 4]) & 0xffu << 8 * row;
		}
		next[i] = word ^ s->round_keys[4 * sgpu_aes::ROUNDS + i];
	}
	return make_uint4(next[0], next[1], next[2], next[3]);
}

static __device__ uint4 product(uint4 a, uint4 b)
{
	return sgpu_gf::to_block(sgpu_gf::multiply(sgpu_gf::from_block(a), sgpu_gf::from_block(b)));
}

/* Doubling: from H^1 to H^n the next n follow by one product each. */
static __device__ void make_powers(scratch *s)
{
#pragma unroll 1
	for (int n = 1; n < POWERS - 1; n *= 2) {
		int i = (int)threadIdx.x + 1;

		if (i <= n && n + i < POWERS) {
			s->power[n + i] = product(s->power[n], s->power[i]);
		}
		__syncthreads();
	}
}

static __device__ void make_table(const scratch *s, uint4 *table)
{
	for (int i = threadIdx.x; i < 256 * 16; i += THREADS) {
		int byte = i / 16, position = i % 16;
		uint4 sum = make_uint4(0, 0, 0, 0);

		for (int bit = 0; bit < 8; bit++) {
			uint4 b = s->basis[16 * bit + position];
			uint32_t mask = byte >> bit & 1 ? 0xffffffffu : 0;

			sum.x ^= b.x & mask;
			sum.y ^= b.y & mask;
			sum.z ^= b.z & mask;
			sum.w ^= b.w & mask;
		}
		table[i] = sum;
	}
}

static __global__ void __launch_bounds__(THREADS, 1) set_up(uint4 *material, key_state *state)
{
	__shared__ scratch s;
	int t = threadIdx.x;

	if (t < 256) {
		s.t0[t] = sgpu_aes::t0_table.at[t];
	}
	__syncthreads();
	if (t == 0) {
		expand(&s, (const uint32_t *)material);
		s.power[0] = make_uint4(0, 0, 0, 0);
		s.power[1] = encipher_zeros(&s);
		state->nonce = material[2];
	}
	__syncthreads();
	if (t < SGPU_CUDA_MATERIAL / 16) {
		material[t] = make_uint4(0, 0, 0, 0);
	}
	if (t < sgpu_aes::ROUND_KEY_WORDS) {
		((uint32_t *)state->round_keys)[t] = s.round_keys[t];
	}
	make_powers(&s);
	for (int i = t; i < POWERS; i += THREADS) {
		state->power[i] = s.power[i];
	}
	if (t < 128) {
		sgpu_gf::gf x = { t < 64 ? 1ull << t : 0, t < 64 ? 0 : 1ull << (t - 64) };

		s.basis[16 * (7 - t % 8) + t / 8] = sgpu_gf::to_block(sgpu_gf::multiply(sgpu_gf::from_block(s.power[ROW]), x));
	}
	if (t == THREADS - 1) {
		/* Bits of data, big endian, in the last eight bytes. */
		uint4 length = make_uint4(0, 0, 0, __byte_perm(CHUNK * 8, 0, 0x0123));

		state->full_length = product(length, s.power[1]);
	}
	__syncthreads();
	make_table(&s, state->table);
	__syncthreads();
	for (int i = t; i < (int)(sizeof(s) / 4); i += THREADS) {
		((volatile uint32_t *)&s)[i] = 0;
	}
}

extern "C" size_t sgpu_cuda_key_size(void)
{
	return (sizeof(key_state) + 255) / 256 * 256;
}

extern "C" int sgpu_cuda_key_setup(void *stream, uint64_t material, uint64_t state)
{
	set_up<<<1, THREADS, 0, (cudaStream_t)stream>>>((uint4 *)material, (key_state *)state);
	return (int)cudaGetLastError();
}
