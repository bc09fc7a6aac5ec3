/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM on the GPU for the sealed format: what aead.cu gives the CUDA device. All calls
 * enqueue on `stream` (a CUstream of the current context) and return a cudaError_t, 0 when
 * enqueued. Addresses are device addresses.
 */
#ifndef SGPU_DEVICE_CUDA_AEAD_H
#define SGPU_DEVICE_CUDA_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_CUDA_MATERIAL = 48,     /* AES-256 key (32), base nonce (12), zeros: aligned to 16 */
	SGPU_CUDA_DELIVERED = 44,    /* key and base nonce, where they are sealed */
	SGPU_CUDA_SMALL_CHUNKS = 12, /* of a run whose chunks are spread over multiprocessors */
};

/* A key and its base nonce, sealed under the session key (delivery.cuh); goes to the kernel as it
 * is. */
struct sgpu_cuda_delivery {
	uint32_t words[SGPU_CUDA_DELIVERED / 4];
	uint32_t tag[4];
	uint64_t counter;
	uint64_t session; /* address of the session key's state */
};

/* What a run of chunks leaves in host memory that the device writes. `bad` is set to UINT64_MAX
 * before, the others to 0; so a kernel that never ran has verified nothing. */
struct sgpu_cuda_verdict {
	uint64_t bad;	  /* lowest chunk that does not verify */
	uint64_t done;	  /* chunks that were opened and did verify, or that were sealed */
	uint64_t refused; /* 1: the key did not come to the device as it was sealed; nothing was
			     done */
};
/* What of it the kernel is given. */
struct sgpu_cuda_report {
	uint64_t verdict; /* device address of the struct */
	uint64_t counter; /* device address of a 64-bit word that is zero */
};

/* Which of the two kernels: the one that takes less time; that of short runs, for
 * SGPU_CUDA_SMALL_CHUNKS at most; that of long ones. */
enum sgpu_cuda_kernel { SGPU_CUDA_FASTEST, SGPU_CUDA_SMALL, SGPU_CUDA_LARGE };

/* Bytes of device memory, aligned to 256, that a key takes: round keys, tables for GHASH, the
 * nonce. */
size_t sgpu_cuda_key_size(void);
/* Once a device, before any other call, with its context current: loads the kernels. */
int sgpu_cuda_aead_prepare(void);
/* Makes `state` from `material`, which the kernel clears when it has read it. */
int sgpu_cuda_key_setup(void *stream, uint64_t material, uint64_t state);
/* The same from a delivery. One that does not verify makes a state with which nothing opens and
 * nothing is sealed. */
int sgpu_cuda_key_deliver(void *stream, const struct sgpu_cuda_delivery *delivery, uint64_t state);
/* As sgpu_open_chunks over device memory at any alignment, the end mark included: a run whose
 * length or end cannot be right is reported like a bad tag. `expected`: what `done` must be in the
 * end. SGPU_CUDA_SMALL: each byte of `in` is read once, as somebody may change it meanwhile. */
int sgpu_cuda_open(void *stream, uint64_t state, uint64_t first, bool last, uint64_t in,
		   uint64_t size, uint64_t out, enum sgpu_cuda_kernel kernel,
		   const struct sgpu_cuda_report *report, uint64_t *expected);
/* As sgpu_seal_chunks. SGPU_CUDA_SMALL: `out` may be the host's memory. */
int sgpu_cuda_seal(void *stream, uint64_t state, uint64_t first, bool last, uint64_t in,
		   uint64_t size, uint64_t out, enum sgpu_cuda_kernel kernel,
		   const struct sgpu_cuda_report *report, uint64_t *expected);

#ifdef __cplusplus
}
#endif
#endif
