/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel of a digest (digest.cu) and its host side (digest_host.cu) share.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_DIGEST_STATE_CUH
#define SGPU_DEVICE_CUDA_KERNELS_DIGEST_STATE_CUH

#include <stdint.h>

#include <cuda_runtime.h>

#include <crypto/kt128.h>

enum {
	SGPU_DIGEST_THREADS = 64,  /* of a block */
	SGPU_DIGEST_SLICE = 16384, /* chunks that one kernel hashes: a warp for every scheduler of a
				      large GPU */
	SGPU_DIGEST_SLOTS = 16,	   /* slices whose chaining values may wait for the CPU */
	SGPU_DIGEST_SUFFIX_MAX = 256 + SGPU_KT128_LENGTH_MAX,
};

/* Pinned host memory that the GPU writes. */
struct sgpu_digest_mail {
	uint64_t hashed; /* slices hashed so far, for the CPU to read without a driver call; the
			    last one is not counted */
	uint64_t head[SGPU_KECCAK_LANES];
	alignas(16)
		uint8_t odd[2][SGPU_KT128_VALUE]; /* values of chunks that reach past the message */
	alignas(16) uint8_t values[SGPU_DIGEST_SLOTS][SGPU_DIGEST_SLICE * SGPU_KT128_VALUE];
};

struct sgpu_digest_work {
	const uint8_t *message;
	uint64_t size;
	uint64_t first, count;	       /* the first whole chunk, and how many */
	uint8_t *values;	       /* chaining values of these chunks */
	struct sgpu_digest_mail *mail; /* NULL: the message is one node */
	uint8_t *result;	       /* of a message that is one node */
	unsigned odd; /* chunks that reach past the message, if this kernel hashes them, too */
	unsigned suffix_size; /* the customisation string and its length */
	uint8_t suffix[SGPU_DIGEST_SUFFIX_MAX];
};

cudaError_t sgpu_digest_launch(const sgpu_digest_work &work, cudaStream_t stream);

#endif
