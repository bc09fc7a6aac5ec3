/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve (RFC 9861, KT128) of device memory. The GPU computes the leaves, one a thread, and
 * the head: the state of the final node after the message's first 8 KiB. The final node itself is
 * one chain of permutations that nothing can share; a GPU's thread is slow at that, so the
 * processor takes the chaining values, 1/256 of the data, as they come. That is what bounds the
 * rate of large digests: 256 times what one core absorbs.
 *
 * What crosses the bus are chaining values and the head, never the message; but who knows all but
 * the last 128 of the first 8192 bytes can compute these from the head. A message of one node is
 * hashed on the GPU alone.
 *
 * Calls return a cudaError_t, and want the device's context current. Addresses are device
 * addresses.
 */
#ifndef SGPU_DEVICE_CUDA_DIGEST_H
#define SGPU_DEVICE_CUDA_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a device keeps for its digests: pinned memory, streams, events; grown as digests are
 * computed at once. */
struct sgpu_cuda_digests;

/* NULL: no memory. */
struct sgpu_cuda_digests *sgpu_cuda_digests_create(void);
/* No digest may be pending, and the context is sound. Accepts a pointer to NULL; clears it. */
void sgpu_cuda_digests_free(struct sgpu_cuda_digests **digests);
/* Enqueues on `stream`, a CUstream: work enqueued on it later finds the 32 bytes at `result`,
 * pinned host memory that begins at a multiple of 16 and that the device knows as `result_address`.
 * `custom`, at most 256 bytes, is copied. From any thread. When it fails nothing is pending. */
int sgpu_cuda_digest_enqueue(struct sgpu_cuda_digests *digests, void *stream, uint64_t memory,
			     uint64_t size, const void *custom, size_t custom_size,
			     volatile void *result, uint64_t result_address);

#ifdef __cplusplus
}
#endif
#endif
