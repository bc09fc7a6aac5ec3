/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaves of KT128, several side by side: each vector holds the same lane of several states.
 */
#include <endian.h>
#include <string.h>

#include "crypto/keccak_round.h"
#include "crypto/kt128.h"

static const uint64_t constants[] = { SGPU_KECCAK_P12_CONSTANTS };
enum {
	ROUNDS = sizeof(constants) / sizeof(constants[0]),
	RATE_LANES = SGPU_TURBOSHAKE_RATE / 8,
	BLOCKS = SGPU_KT128_CHUNK / SGPU_TURBOSHAKE_RATE,
	/* The rest of a chunk after its whole blocks. */
	REST_LANES = (SGPU_KT128_CHUNK - BLOCKS * SGPU_TURBOSHAKE_RATE) / 8,
	VALUE_LANES = SGPU_KT128_VALUE / 8,
};
#define PAD_LEAF ((uint64_t)SGPU_KT128_LEAF)
#define PAD_END ((uint64_t)0x80 << 56)
#define ROTATE(v, n) ((v) << (n) | (v) >> (64 - (n)))
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define CHI(a, b, c) ((a) ^ (~(b) & (c)))

static inline uint64_t load(const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	return le64toh(word);
}

#ifdef SGPU_KECCAK_X86
typedef uint64_t lanes4 __attribute__((vector_size(32)));
typedef uint64_t lanes8 __attribute__((vector_size(64)));
#define LOAD4(p, at)                                                   \
	{                                                              \
		load((p) + (at)), load((p) + (at) + SGPU_KT128_CHUNK), \
			load((p) + (at) + 2 * SGPU_KT128_CHUNK),       \
			load((p) + (at) + 3 * SGPU_KT128_CHUNK)        \
	}
#define LOAD8(p, at)                                                   \
	{                                                              \
		load((p) + (at)), load((p) + (at) + SGPU_KT128_CHUNK), \
			load((p) + (at) + 2 * SGPU_KT128_CHUNK),       \
			load((p) + (at) + 3 * SGPU_KT128_CHUNK),       \
			load((p) + (at) + 4 * SGPU_KT128_CHUNK),       \
			load((p) + (at) + 5 * SGPU_KT128_CHUNK),       \
			load((p) + (at) + 6 * SGPU_KT128_CHUNK),       \
			load((p) + (at) + 7 * SGPU_KT128_CHUNK)        \
	}

/* Makes a function that computes the chaining values of WIDTH whole leaves in a row. */
#define SIDE_BY_SIDE(name, T, WIDTH, LOAD, cpu)                                             \
	__attribute__((target(cpu))) static void name(const uint8_t *data, uint8_t *values) \
	{                                                                                   \
		T a[SGPU_KECCAK_LANES], state[SGPU_KECCAK_LANES] = { 0 };                   \
		unsigned block, i, lanes, leaf;                                             \
                                                                                            \
		for (block = 0; block <= BLOCKS; block++, data += SGPU_TURBOSHAKE_RATE) {   \
			lanes = block < BLOCKS ? RATE_LANES : REST_LANES;                   \
			for (i = 0; i < lanes; i++) {                                       \
				T words = LOAD(data, 8 * i);                                \
				state[i] ^= words;                                          \
			}                                                                   \
			if (block == BLOCKS) {                                              \
				state[REST_LANES] ^= PAD_LEAF;                              \
				state[RATE_LANES - 1] ^= PAD_END;                           \
			}                                                                   \
			memcpy(a, state, sizeof(a));                                        \
			for (i = 0; i < ROUNDS; i++) {                                      \
				SGPU_KECCAK_ROUND(T, ROTATE, XOR3, CHI, a, constants[i]);   \
			}                                                                   \
			memcpy(state, a, sizeof(a));                                        \
		}                                                                           \
		for (leaf = 0; leaf < WIDTH; leaf++) {                                      \
			for (i = 0; i < VALUE_LANES; i++) {                                 \
				uint64_t word = state[i][leaf];                             \
				memcpy(values + leaf * SGPU_KT128_VALUE + 8 * i, &word,     \
				       sizeof(word));                                       \
			}                                                                   \
		}                                                                           \
	}
SIDE_BY_SIDE(leaves4, lanes4, 4, LOAD4, "avx2")
SIDE_BY_SIDE(leaves8, lanes8, 8, LOAD8, "avx512f,avx512vl")
#endif

static void one_leaf(const uint8_t *data, uint8_t *value)
{
	struct sgpu_turboshake sponge = { 0 };

	sgpu_turboshake_absorb(&sponge, data, SGPU_KT128_CHUNK);
	sgpu_turboshake_finish(&sponge, SGPU_KT128_LEAF);
	sgpu_turboshake_squeeze(&sponge, value, SGPU_KT128_VALUE);
}

void sgpu_kt128_leaves(const uint8_t *data, uint64_t count, uint8_t *values)
{
	void (*several)(const uint8_t *, uint8_t *) = NULL;
	uint64_t width = 1;

#ifdef SGPU_KECCAK_X86
	if (SGPU_KECCAK_HAS_AVX512) {
		several = leaves8;
		width = 8;
	} else if (SGPU_KECCAK_HAS_AVX2) {
		several = leaves4;
		width = 4;
	}
#endif
	for (; several && count >= width; count -= width) {
		several(data, values);
		data += width * SGPU_KT128_CHUNK;
		values += width * SGPU_KT128_VALUE;
	}
	for (; count > 0; count--) {
		one_leaf(data, values);
		data += SGPU_KT128_CHUNK;
		values += SGPU_KT128_VALUE;
	}
}
