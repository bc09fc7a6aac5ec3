/* SPDX-License-Identifier: Apache-2.0
 *
 * A key's state on the device: made by aead_key.cu, read by aead.cu and aead_small.cu.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_AEAD_STATE_CUH
#define SGPU_DEVICE_CUDA_KERNELS_AEAD_STATE_CUH

#include <stdint.h>

#include <device/cuda/kernels.h>
#include <device/cuda/kernels/aes.cuh>

namespace sgpu_aead
{

enum {
	ROW = 32, /* blocks of 16 bytes that a warp works on together */
	CHUNK = 16384,
	TAG = 16,
	SEALED = CHUNK + TAG,
	ROWS = CHUNK / 16 / ROW, /* of a full chunk */
	POWERS = ROW * ROWS + 2, /* H^0, which is not used, to H^1025 */
	HASH_BYTES = 16 * 256 * 16,
	USABLE = 0x6b657921, /* marks a state that was made; a cleared state does not have it */
};

struct alignas(256) key_state {
	uint4 round_keys[sgpu_aes::ROUNDS + 1];
	uint4 nonce;	     /* base nonce, 12 bytes, and USABLE */
	uint4 full_length;   /* the length block of a full chunk, times H */
	uint4 power[POWERS]; /* powers of H, as blocks */
};
static_assert(sizeof(key_state) == SGPU_CUDA_KEY_STATE, "the host allocates states");

} // namespace sgpu_aead

#endif
