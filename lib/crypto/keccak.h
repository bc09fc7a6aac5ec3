/* SPDX-License-Identifier: Apache-2.0
 *
 * TurboSHAKE128 (RFC 9861): a sponge over Keccak-p[1600, 12] with a rate of 168 bytes. Absorb,
 * finish, squeeze, in this order. A state that saw secrets is wiped by its owner.
 */
#ifndef SGPU_CRYPTO_KECCAK_H
#define SGPU_CRYPTO_KECCAK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SGPU_KECCAK_LANES = 25, SGPU_TURBOSHAKE_RATE = 168 };

struct sgpu_turboshake {
	uint64_t lanes[SGPU_KECCAK_LANES]; /* lane i holds bytes 8 i to 8 i + 7 of the state,
					      little-endian */
	unsigned at; /* bytes of the current block that were absorbed or squeezed, under a rate */
};

void sgpu_turboshake_absorb(struct sgpu_turboshake *sponge, const void *data, size_t size);
/* Pads with the domain separation byte, 0x01 to 0x7f. */
void sgpu_turboshake_finish(struct sgpu_turboshake *sponge, uint8_t domain);
void sgpu_turboshake_squeeze(struct sgpu_turboshake *sponge, uint8_t *out, size_t size);

/* Absorbs whole blocks of a rate each; what the sponge holds of a block must have been completed.
 */
void sgpu_keccak_blocks(uint64_t lanes[], const uint8_t *data, size_t blocks);
/* The same in plain C, which every CPU can run, and where AVX-512 is, with a plane or with a lane
 * of the state in a register; which of these is faster depends on the CPU. */
void sgpu_keccak_blocks_plain(uint64_t lanes[], const uint8_t *data, size_t blocks);
void sgpu_keccak_blocks_planes(uint64_t lanes[], const uint8_t *data, size_t blocks);
void sgpu_keccak_blocks_lanes(uint64_t lanes[], const uint8_t *data, size_t blocks);
#if SGPU_CLONES && defined(__x86_64__) && defined(__GNUC__)
#define SGPU_KECCAK_X86 1
#define SGPU_KECCAK_HAS_AVX512 \
	(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
#define SGPU_KECCAK_HAS_AVX2 __builtin_cpu_supports("avx2")
#endif

#ifdef __cplusplus
}
#endif
#endif
