/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels' interface. Calls with a `stream`, a CUstream of the current context, enqueue on it
 * and return a cudaError_t, 0 if enqueued. Addresses are device addresses.
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
	SGPU_CUDA_MATERIAL = 48,     /* bytes: key (32), base nonce (12), zeros; aligned to 16 */
	SGPU_CUDA_DELIVERED = 44,    /* bytes of key and base nonce */
	SGPU_CUDA_KEY_STATE = 16896, /* bytes: round keys, powers of H, the nonce */
	SGPU_CUDA_KEYS = 32,	     /* most deliveries of a message */
	SGPU_CUDA_SMALL_CHUNKS = 12, /* most chunks of a run for the small kernel */
	SGPU_CUDA_RUNS = 32,	     /* most runs of a launch of that kernel */
};

/* A sealed key and its base nonce (delivery.cuh). */
struct sgpu_cuda_delivery {
	uint64_t counter;
	uint32_t words[SGPU_CUDA_DELIVERED / 4];
	uint32_t tag[4];
	uint32_t zero;
};
/* A kernel parameter. */
struct sgpu_cuda_message {
	uint64_t session; /* address of the session key's state */
	uint64_t states;  /* address of the first key's state; the others' follow */
	struct sgpu_cuda_delivery keys[SGPU_CUDA_KEYS];
};

/* The result of a chunk run, in host memory. The host first sets `bad` to UINT64_MAX and the others
 * to 0: a kernel that never ran has verified nothing. */
struct sgpu_cuda_verdict {
	uint64_t bad;	  /* lowest chunk that does not verify */
	uint64_t done;	  /* chunks that verified or were sealed */
	uint64_t refused; /* 1: the key was changed on its way; nothing was done */
};
/* A run that is opened as by sgpu_open_chunks or sealed as by sgpu_seal_chunks, at any alignment.
 * In opening, a wrong length or end is reported like a bad tag. */
struct sgpu_cuda_run {
	uint64_t state; /* of the key */
	uint64_t in, out;
	uint64_t size;
	uint64_t first;	   /* number of the first chunk */
	uint64_t verdict;  /* address of a struct sgpu_cuda_verdict */
	uint64_t counter;  /* address of 256 zero bytes for the kernel's use */
	uint64_t expected; /* set by the call: `done` after a success; 0: no kernel runs */
	bool last;
};

enum sgpu_cuda_kernel { SGPU_CUDA_FASTEST, SGPU_CUDA_SMALL, SGPU_CUDA_LARGE };

/* Call first, once for each device, with its context current. */
int sgpu_cuda_aead_prepare(void);
/* Makes `state` from `material`, which the kernel then clears. */
int sgpu_cuda_key_setup(void *stream, uint64_t material, uint64_t state);
/* Makes states, which must be clear before, of `count` keys. The state of a delivery that does not
 * verify stays clear: it opens and seals nothing. */
int sgpu_cuda_keys_deliver(void *stream, const struct sgpu_cuda_message *message, unsigned count);
/* Opens or seals runs by one kernel. Several runs, and those for SGPU_CUDA_SMALL, are of
 * SGPU_CUDA_SMALL_CHUNKS at most; none may write what another reads or writes. SGPU_CUDA_SMALL
 * reads each byte once, so sealed bytes may be in host memory that changes meanwhile. */
int sgpu_cuda_run_chunks(void *stream, int multiprocessors, bool open, struct sgpu_cuda_run *runs,
			 int count, enum sgpu_cuda_kernel kernel);

/* ---- digest.cu: KangarooTwelve (RFC 9861, KT128) of device memory ----
 * The GPU computes the leaves, one a thread, and the head: the state of the final node after the
 * message's first 8 KiB. The final node is one chain of permutations, which is slow in a single GPU
 * thread, so the CPU absorbs the chaining values, 1/256 of the data.
 *
 * Chaining values and the head cross the bus, never the message. But whoever knows its first 8064
 * bytes can compute the next 128 from the head. A message of one node stays on the GPU. */
/* Bytes of pinned host memory. */
size_t sgpu_cuda_digest_room(uint64_t size);
int sgpu_cuda_digest_enqueue(void *stream, uint64_t memory, uint64_t size, void *room);
/* Makes the digest of what the kernel left in `room`, of `size` bytes. */
void sgpu_cuda_digest_finish(const void *room, size_t size, uint8_t *result);

/* ---- measure.cu: the digests of pages of device memory ----
 * No more of the memory leaves the GPU. The CPU makes the measure, the digest of their list. */
struct sgpu_measure_custom; /* crypto/measure.h */
size_t sgpu_cuda_measure_scratch(void);
/* Later work on the stream finds SGPU_KT128_SIZE bytes a page at `digests`, in host memory, and
 * `scratch` cleared. After a failure some work may still run. */
int sgpu_cuda_measure_enqueue(void *stream, uint64_t memory, uint64_t size,
			      const struct sgpu_measure_custom *custom, uint64_t scratch,
			      uint8_t *digests);

/* ---- timer.cu ---- */
int sgpu_cuda_store_time(void *stream, uint64_t address);

/* ---- agree.cu: an agreement on a key, in the order in which the kernels run ----
 * `room`: memory of sgpu_cuda_agree_room() bytes that nothing else reaches. */
enum {
	SGPU_CUDA_SOURCES_MAX = 1024,
	SGPU_CUDA_SAMPLES = 1024, /* of a source */
	SGPU_CUDA_AGREE_DONE = 1, /* `done` of a valid answer */
	SGPU_CUDA_AGREE_ZERO = 2, /* `done` if the shared secret is zero */
};

/* A kernel's answer, in a status line. */
struct sgpu_cuda_answer {
	uint8_t bytes[32];
	uint64_t none[3];
	uint64_t done; /* 0: the kernel has not run */
};

size_t sgpu_cuda_agree_room(unsigned sources);
/* Addresses in `room` of the sources' struct sgpu_entropy_counts, and of the session key as
 * material for sgpu_cuda_key_setup. */
uint64_t sgpu_cuda_agree_counts(uint64_t room, unsigned sources);
uint64_t sgpu_cuda_agree_material(uint64_t room);

/* Makes each source's digest and counts; its samples stay in the multiprocessor. */
int sgpu_cuda_agree_gather(void *stream, uint64_t room, unsigned sources);
/* Makes the private key from the digests, which are cleared. The answer is the public key. */
int sgpu_cuda_agree_make(void *stream, uint64_t room, unsigned sources, const uint8_t random[32],
			 uint64_t answer);
/* Makes the session key as material; the private key is cleared. The answer is the proof. */
int sgpu_cuda_agree_finish(void *stream, uint64_t room, const uint8_t host_public[32],
			   uint64_t answer);

#ifdef __cplusplus
}
#endif
#endif
