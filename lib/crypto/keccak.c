/* SPDX-License-Identifier: Apache-2.0
 *
 * TurboSHAKE128, and its permutation in plain C.
 */
#include <endian.h>
#include <string.h>

#include "crypto/kt128.h"
#include "crypto/keccak_round.h"

#define ROTATE(v, n) ((v) << (n) | (v) >> (64 - (n)))
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define CHI(a, b, c) ((a) ^ (~(b) & (c)))

static const uint64_t constants[] = { SGPU_KECCAK_P12_CONSTANTS };
enum { ROUNDS = sizeof(constants) / sizeof(constants[0]), RATE_LANES = SGPU_TURBOSHAKE_RATE / 8 };

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
	uint64_t word;
	unsigned i;

	for (; blocks > 0; blocks--, data += SGPU_TURBOSHAKE_RATE) {
		for (i = 0; i < RATE_LANES; i++) {
			memcpy(&word, data + 8 * i, sizeof(word));
			lanes[i] ^= le64toh(word);
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
