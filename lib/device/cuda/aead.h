/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM on the GPU for the sealed format: what aead.cu gives the CUDA device. All calls enqueue on `stream` (a
 * CUstream of the current context) and return a cudaError_t, 0 when enqueued. Addresses are device addresses.
 */
#ifndef SGPU_DEVICE_CUDA_AEAD_H
#define SGPU_DEVICE_CUDA_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SGPU_CUDA_MATERIAL = 48 }; /* AES-256 key (32), base nonce (12), zeros: aligned to 16 */

/* Bytes of device memory, aligned to 256, that a key takes: round keys, tables for GHASH, the nonce. */
size_t sgpu_cuda_key_size(void);
/* Once a device, before any other call, with its context current: loads the kernels. */
int sgpu_cuda_aead_prepare(void);
/* Makes `state` from `material`, which the kernel clears when it has read it. */
int sgpu_cuda_key_setup(void *stream, uint64_t material, uint64_t state);
/* As sgpu_open_chunks over device memory at any alignment, the end mark included: a run whose length or end cannot be
 * right is reported like a bad tag. `bad` is the device address of a word that holds UINT64_MAX before and gets the
 * lowest chunk that does not verify. */
int sgpu_cuda_open(void *stream, uint64_t state, uint64_t first, bool last, uint64_t in, uint64_t size, uint64_t out,
		   uint64_t bad);
/* As sgpu_seal_chunks. */
int sgpu_cuda_seal(void *stream, uint64_t state, uint64_t first, bool last, uint64_t in, uint64_t size, uint64_t out);

#ifdef __cplusplus
}
#endif
#endif
