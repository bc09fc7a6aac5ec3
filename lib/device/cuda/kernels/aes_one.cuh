/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256 (FIPS 197) by one thread: the key's expansion and single blocks, from one table of 256
 * entries (aes.cuh has T0). Words are columns, read little-endian: row 0 is the lowest byte.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_AES_ONE_CUH
#define SGPU_DEVICE_CUDA_KERNELS_AES_ONE_CUH

#include <stdint.h>

#include <device/cuda/kernels/portable.cuh>

enum { SGPU_AES_ROUNDS = 14, SGPU_AES_WORDS = 4 * (SGPU_AES_ROUNDS + 1) };

/* Applies the S-box to each byte; its value is the second byte of T0's entry. */
SGPU_ON_DEVICE uint32_t sgpu_aes_substitute(const uint32_t *t0, uint32_t word)
{
	uint32_t r = 0;

	for (int i = 0; i < 32; i += 8) {
		r |= (t0[word >> i & 0xff] >> 8 & 0xff) << i;
	}
	return r;
}

SGPU_ON_DEVICE void sgpu_aes_expand(const uint32_t *t0, const uint32_t *key, uint32_t *round_keys)
{
	uint32_t rcon = 1;

	SGPU_ROLL
	for (int i = 0; i < SGPU_AES_WORDS; i++) {
		uint32_t word;

		if (i < 8) {
			round_keys[i] = key[i];
			continue;
		}
		word = round_keys[i - 1];
		if (i % 8 == 0) {
			word = sgpu_aes_substitute(t0, word >> 8 | word << 24) ^ rcon;
			rcon <<= 1; /* shifted seven times at most, so it stays within the byte */
		} else if (i % 8 == 4) {
			word = sgpu_aes_substitute(t0, word);
		}
		round_keys[i] = round_keys[i - 8] ^ word;
	}
}

/* Returns what byte `row` of a word adds to a column: its entry in T0, rotated by `row` bytes. */
SGPU_ON_DEVICE uint32_t sgpu_aes_turned(const uint32_t *t0, uint32_t word, int row)
{
	uint32_t t = t0[word >> 8 * row & 0xff];

	return row ? t << 8 * row | t >> (32 - 8 * row) : t;
}

SGPU_ON_DEVICE_CALLED void sgpu_aes_encipher(const uint32_t *t0, const uint32_t *round_keys,
					     const uint32_t in[4], uint32_t out[4])
{
	uint32_t state[4], next[4];

	for (int i = 0; i < 4; i++) {
		state[i] = in[i] ^ round_keys[i];
	}
	SGPU_ROLL
	for (int round = 1; round < SGPU_AES_ROUNDS; round++) {
		SGPU_UNROLL
		for (int i = 0; i < 4; i++) {
			next[i] = round_keys[4 * round + i];
			SGPU_UNROLL
			for (int row = 0; row < 4; row++) {
				next[i] ^= sgpu_aes_turned(t0, state[(i + row) % 4], row);
			}
		}
		SGPU_UNROLL
		for (int i = 0; i < 4; i++) {
			state[i] = next[i];
		}
	}
	SGPU_UNROLL
	for (int i = 0; i < 4; i++) {
		uint32_t word = 0;

		SGPU_UNROLL
		for (int row = 0; row < 4; row++) {
			word |= (t0[state[(i + row) % 4] >> 8 * row & 0xff] >> 8 & 0xff) << 8 * row;
		}
		out[i] = word ^ round_keys[4 * SGPU_AES_ROUNDS + i];
	}
}

#endif
