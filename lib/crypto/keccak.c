/* SPDX-License-Identifier: Apache-2.0
 *
 * TurboSHAKE128, and its permutation in plain C; and leaves of KT128, several side by side: each
 * vector holds the same lane of several states.
 */
#include <endian.h>
#include <string.h>

#include "crypto/kt128.h"
#include "crypto/keccak_round.h"

#define ROTATE(v, n) ((v) << (n) | (v) >> (64 - (n)))
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define CHI(a, b, c) ((a) ^ (~(b) & (c)))

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

static inline uint64_t load(const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	return le64toh(word);
}

/* Permutes a copy of the state, which the compiler can keep in registers. */
static void permute_lanes(uint64_t lanes[])
{
	uint64_t a[SGPU_KECCAK_LANES];
	unsigned i;

	memcpy(a, lanes, sizeof(a));
	for (i = 0; i < ROUNDS; i++) {
		SGPU_KECCAK_ROUND(uint64_t, ROTATE, XOR3, CHI, a, constants[i]);
	}
	memcpy(lanes, a, sizeof(a));
}

void sgpu_keccak_blocks_plain(uint64_t lanes[], const uint8_t *data, size_t blocks)
{
	unsigned i;

	for (; blocks > 0; blocks--, data += SGPU_TURBOSHAKE_RATE) {
		for (i = 0; i < RATE_LANES; i++) {
			lanes[i] ^= load(data + 8 * i);
		}
		permute_lanes(lanes);
	}
}

void sgpu_keccak_blocks(uint64_t lanes[], const uint8_t *data, size_t blocks)
{
#ifdef SGPU_KECCAK_X86
	if (SGPU_KECCAK_HAS_AVX512) {
		sgpu_keccak_blocks_planes(lanes, data, blocks);
		return;
	}
#endif
	sgpu_keccak_blocks_plain(lanes, data, blocks);
}

static void permute(struct sgpu_turboshake *sponge)
{
	static const uint8_t nothing[SGPU_TURBOSHAKE_RATE];

	sgpu_keccak_blocks(sponge->lanes, nothing, 1);
	sponge->at = 0;
}

static void add_byte(struct sgpu_turboshake *sponge, unsigned at, uint8_t byte)
{
	sponge->lanes[at / 8] ^= (uint64_t)byte << (at % 8 * 8);
}

void sgpu_turboshake_absorb(struct sgpu_turboshake *sponge, const void *data, size_t size)
{
	const uint8_t *bytes = data;
	size_t blocks;

	while (size > 0 && sponge->at > 0) {
		add_byte(sponge, sponge->at, *bytes);
		bytes++;
		size--;
		if (++sponge->at == SGPU_TURBOSHAKE_RATE) {
			permute(sponge);
		}
	}
	blocks = size / SGPU_TURBOSHAKE_RATE;
	if (blocks > 0) {
		sgpu_keccak_blocks(sponge->lanes, bytes, blocks);
		bytes += blocks * SGPU_TURBOSHAKE_RATE;
		size -= blocks * SGPU_TURBOSHAKE_RATE;
	}
	for (; size > 0; size--) {
		add_byte(sponge, sponge->at++, *bytes++);
	}
}

void sgpu_turboshake_finish(struct sgpu_turboshake *sponge, uint8_t domain)
{
	add_byte(sponge, sponge->at, domain);
	add_byte(sponge, SGPU_TURBOSHAKE_RATE - 1, 0x80);
	permute(sponge);
}

void sgpu_turboshake_squeeze(struct sgpu_turboshake *sponge, uint8_t *out, size_t size)
{
	for (; size > 0; size--) {
		if (sponge->at == SGPU_TURBOSHAKE_RATE) {
			permute(sponge);
		}
		*out++ = (uint8_t)(sponge->lanes[sponge->at / 8] >> (sponge->at % 8 * 8));
		sponge->at++;
	}
}

/* ---- leaves ---- */
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
