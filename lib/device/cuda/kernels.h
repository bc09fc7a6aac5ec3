/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels give the CUDA device. All calls enqueue on `stream` (a CUstream of the current
 * context) and return a cudaError_t, 0 when enqueued. Addresses are device addresses.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_H
#define SGPU_DEVICE_CUDA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- aead.cu: AES-256-GCM for the sealed format ---- */
enum {
	SGPU_CUDA_MATERIAL = 48,     /* AES-256 key (32), base nonce (12), zeros: aligned to 16 */
	SGPU_CUDA_DELIVERED = 44,    /* key and base nonce, where they are sealed */
	SGPU_CUDA_SMALL_CHUNKS = 12, /* most chunks of a run for the small kernel, which spreads
					each over multiprocessors */
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
	uint64_t refused; /* 1: the key was changed on its way; nothing was done */
};
/* Where a kernel leaves its verdict, and a counter for its use. */
struct sgpu_cuda_report {
	uint64_t verdict; /* device address of the struct */
	uint64_t counter; /* device address of a 64-bit word that is zero */
};

/* Which kernel runs: the one that takes less time, the one for short runs (SGPU_CUDA_SMALL_CHUNKS
 * at most), or the one for long runs. */
enum sgpu_cuda_kernel { SGPU_CUDA_FASTEST, SGPU_CUDA_SMALL, SGPU_CUDA_LARGE };

/* Bytes of device memory, aligned to 256, that a key takes: round keys, tables for GHASH, the
 * nonce. */
size_t sgpu_cuda_key_size(void);
/* Loads the kernels. Called once for each device, before any other call, with its context current.
 */
int sgpu_cuda_aead_prepare(void);
/* Makes `state` from `material`, which the kernel clears when it has read it. */
int sgpu_cuda_key_setup(void *stream, uint64_t material, uint64_t state);
/* Makes `state` from a delivery. One that does not verify makes a state that opens and seals
 * nothing. */
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

/* ---- digest.cu: KangarooTwelve (RFC 9861, KT128) of device memory ----
 * The GPU computes the leaves, one a thread, and the head: the state of the final node after the
 * message's first 8 KiB. The final node itself is one chain of permutations that threads cannot
 * share, and a single GPU thread is slow at it, so the processor takes the chaining values, 1/256
 * of the data, as they come. That is what bounds the rate of large digests: 256 times what one core
 * absorbs.
 *
 * What crosses the bus are chaining values and the head, never the message; but who knows all but
 * the last 128 of the first 8192 bytes can compute these from the head. A message of one node is
 * hashed on the GPU alone. */
/* What a device keeps for its digests: pinned memory, streams, events; grown as digests are
 * computed at once. */
struct sgpu_cuda_digests;

/* NULL: no memory. */
struct sgpu_cuda_digests *sgpu_cuda_digests_create(void);
/* Frees them; no digest may be pending, and the context must be sound. Accepts a pointer to NULL;
 * clears it. */
void sgpu_cuda_digests_free(struct sgpu_cuda_digests **digests);
/* Work enqueued on the stream later finds the 32 bytes at `result`, pinned host memory that begins
 * at a multiple of 16 and that the device knows as `result_address`. `custom`, at most 256 bytes,
 * is copied. From any thread. When it fails nothing is pending. */
int sgpu_cuda_digest_enqueue(struct sgpu_cuda_digests *digests, void *stream, uint64_t memory,
			     uint64_t size, const void *custom, size_t custom_size,
			     volatile void *result, uint64_t result_address);

/* ---- measure.cu: the digests of pages of device memory, of which a measure is made ----
 * The GPU computes them, all at once, and nothing else of the memory leaves it; the processor
 * computes the digest of their list. */
struct sgpu_measure_custom; /* crypto/measure.h */
/* Bytes of device memory that the kernels work in. */
size_t sgpu_cuda_measure_scratch(void);
/* Work enqueued on the stream later finds SGPU_KT128_SIZE bytes a page at `digests`, host memory,
 * and the scratch memory cleared. Some of it may be under way when it fails. */
int sgpu_cuda_measure_enqueue(void *stream, uint64_t memory, uint64_t size,
			      const struct sgpu_measure_custom *custom, unsigned multiprocessors,
			      uint64_t scratch, uint8_t *digests);

/* ---- timer.cu ---- */
/* Stores %globaltimer, in ns, at an address of device memory. */
int sgpu_cuda_store_time(void *stream, uint64_t address);

/* ---- agree.cu: an agreement on a key, in the order in which the kernels run ----
 * `room` is the address of device memory that nothing else reaches, sgpu_cuda_agree_room() bytes.
 */
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
/* Addresses of the sources' struct sgpu_entropy_counts, and of the session key as material for
 * sgpu_cuda_key_setup. */
uint64_t sgpu_cuda_agree_counts(uint64_t room, unsigned sources);
uint64_t sgpu_cuda_agree_material(uint64_t room, unsigned sources);

/* Makes each source's digest and counts; its samples stay in the multiprocessor. record: where
 * copies of the samples go, for tests that throw the digests away; 0: nowhere. */
int sgpu_cuda_agree_gather(void *stream, uint64_t room, unsigned sources, uint64_t record);
/* Makes the private key from the digests, which are cleared. The answer is the public key. */
int sgpu_cuda_agree_make(void *stream, uint64_t room, unsigned sources, const uint8_t random[32],
			 uint64_t answer);
/* Makes the session key as material; the private key is cleared. The answer is the proof. */
int sgpu_cuda_agree_finish(void *stream, uint64_t room, unsigned sources,
			   const uint8_t host_public[32], uint64_t answer);

#ifdef __cplusplus
}
#endif
#endif
