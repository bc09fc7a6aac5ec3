/* SPDX-License-Identifier: Apache-2.0
 *
 * A key on its way to the device (aead_key.cu): AES-256 key and base nonce, 44 bytes, sealed with
 * AES-256-GCM under the session key. The nonce is four zero bytes and a counter; there are no
 * associated data.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_DELIVERY_CUH
#define SGPU_DEVICE_CUDA_KERNELS_DELIVERY_CUH

#include <device/cuda/kernels.h>
#include <device/cuda/kernels/aes_one.cuh>
#include <device/cuda/kernels/gf128.cuh>

enum {
	SGPU_DELIVERY_WORDS = SGPU_CUDA_DELIVERED / 4, /* of ciphertext */
	SGPU_DELIVERY_BLOCKS = (SGPU_DELIVERY_WORDS + 3) / 4,
	SGPU_DELIVERY_TERMS = SGPU_DELIVERY_BLOCKS + 1, /* of GHASH: the blocks, and the lengths */
};

SGPU_ON_DEVICE uint32_t sgpu_delivery_swapped(uint32_t word)
{
	return word >> 24 | (word >> 8 & 0xff00) | (word << 8 & 0xff0000) | word << 24;
}

/* Enciphers counter block `number`: 1 masks the tag, the next ones the blocks. */
SGPU_ON_DEVICE void sgpu_delivery_stream(const struct sgpu_cuda_delivery *d, const uint32_t *t0,
					 const uint32_t *round_keys, uint32_t number,
					 uint32_t out[4])
{
	uint32_t block[4];

	block[0] = 0;
	block[1] = sgpu_delivery_swapped((uint32_t)(d->counter >> 32));
	block[2] = sgpu_delivery_swapped((uint32_t)d->counter);
	block[3] = sgpu_delivery_swapped(number);
	sgpu_aes_encipher(t0, round_keys, block, out);
}

/* Returns term i of GHASH: block i times `power`, which is H^(TERMS - i). */
SGPU_ON_DEVICE uint4 sgpu_delivery_term(const struct sgpu_cuda_delivery *d, int i, uint4 power)
{
	uint32_t w[4];

	for (int k = 0; k < 4; k++) {
		int at = 4 * i + k;

		w[k] = i < SGPU_DELIVERY_BLOCKS && at < SGPU_DELIVERY_WORDS ? d->words[at] : 0;
	}
	if (i == SGPU_DELIVERY_BLOCKS) {
		w[3] = sgpu_delivery_swapped(SGPU_CUDA_DELIVERED * 8);
	}
	return sgpu_gf_product(make_uint4(w[0], w[1], w[2], w[3]), power);
}

#endif
