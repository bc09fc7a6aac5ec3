/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of an agreement on a key (agree.cu), in the order in which they run. All enqueue on
 * `stream` and return a cudaError_t. `room` is the address of device memory that nothing else
 * reaches, sgpu_cuda_agree_room() bytes.
 */
#ifndef SGPU_DEVICE_CUDA_AGREE_H
#define SGPU_DEVICE_CUDA_AGREE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_CUDA_SOURCES_MAX = 1024,
	SGPU_CUDA_SAMPLES = 1024, /* of a source */
	SGPU_CUDA_AGREE_DONE = 1, /* the last word of an answer: it is one */
	SGPU_CUDA_AGREE_ZERO = 2, /* the shared secret is zero */
};

/* What a kernel answers, in host memory that the device writes: a slot. */
struct sgpu_cuda_answer {
	uint8_t bytes[32];
	uint64_t none[3];
	uint64_t done; /* 0: the kernel has not run */
};

size_t sgpu_cuda_agree_room(unsigned sources);
/* Where struct sgpu_entropy_counts of each source are, and the session key as material for
 * sgpu_cuda_key_setup. */
uint64_t sgpu_cuda_agree_counts(uint64_t room, unsigned sources);
uint64_t sgpu_cuda_agree_material(uint64_t room, unsigned sources);

/* Each source's digest and counts; its samples stay in the multiprocessor. record: where copies of
 * the samples go, for tests that throw the digests away; 0: nowhere. */
int sgpu_cuda_agree_gather(void *stream, uint64_t room, unsigned sources, uint64_t record);
/* The private key from the digests, which are cleared; answers the public key. */
int sgpu_cuda_agree_make(void *stream, uint64_t room, unsigned sources, const uint8_t random[32],
			 uint64_t answer);
/* The session key as material; the private key is cleared. Answers the proof. */
int sgpu_cuda_agree_finish(void *stream, uint64_t room, unsigned sources,
			   const uint8_t host_public[32], uint64_t answer);

#ifdef __cplusplus
}
#endif
#endif
