/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU's memory and pages, the host's pinned memory, and keys.
 */
#ifndef SGPU_DEVICE_CUDA_MEMORY_H
#define SGPU_DEVICE_CUDA_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>

#include <device/arena.h>
#include <device/backend.h>
#include <device/cuda/driver.h>
#include <device/space.h>

enum { SGPU_CUDA_PAGE = 4096 };

/* A line of pinned host memory, for status words that the device writes. */
struct sgpu_cuda_status {
	volatile int64_t *host; /* 8 words */
	CUdeviceptr device;
	struct sgpu_cuda_status *next;
};

/* ---- memory.c ---- */
struct sgpu_cuda_memory {
	pthread_mutex_t lock;
	void *blocks; /* of callers, by address */
	void *shared; /* ranges that another device reaches, too (peer.c) */
	/* for the device's own use, which copies do not reach */
	struct sgpu_arena own;
	struct sgpu_cuda_region *regions; /* that `own` is cut from */
	uint64_t used, limit, total;
};
SGPU_MUST_CHECK int sgpu_cuda_memory_open(struct sgpu_device *device, uint64_t limit,
					  struct sgpu_error *error);
/* Clears and frees what is left. A faulted device's memory is freed with its context. */
void sgpu_cuda_memory_close(struct sgpu_device *device);
void sgpu_cuda_memory_figures(struct sgpu_device *device, uint64_t *total, uint64_t *available);
/* Allocates clear memory for the device's own use, which no copy reaches. May wait. */
SGPU_MUST_CHECK int sgpu_cuda_private_alloc(struct sgpu_device *device, uint64_t size,
					    CUdeviceptr *memory, struct sgpu_error *error);
/* Clears and frees such memory, in the order of the internal stream. Accepts 0. */
void sgpu_cuda_private_free(struct sgpu_device *device, CUdeviceptr memory);
SGPU_MUST_CHECK int sgpu_cuda_sync_internal(struct sgpu_device *device, struct sgpu_error *error);
/* Clears memory and waits for that; the context is current. */
CUresult sgpu_cuda_clear(struct sgpu_device *device, CUdeviceptr memory, uint64_t size);
/* Counts memory allocated elsewhere against the limit. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_cuda_memory_count(struct sgpu_device *device, uint64_t size,
					   struct sgpu_error *error);
void sgpu_cuda_memory_uncount(struct sgpu_device *device, uint64_t size);
int sgpu_cuda_memory_refuse(struct sgpu_device *device, CUresult result, uint64_t size,
			    struct sgpu_error *error);
/* Returns how many bytes can be allocated if `spare` are left to others. */
uint64_t sgpu_cuda_memory_spare(struct sgpu_device *device, uint64_t spare);
/* As sgpu_cuda_clear, from any thread, if the device is not faulted. Accepts 0 bytes. */
void sgpu_cuda_clear_now(struct sgpu_device *device, CUdeviceptr memory, uint64_t size);

/* ---- pages.c ---- */
/* A big page's state is in its first frame. */
struct sgpu_cuda_frame {
	CUmemGenericAllocationHandle handle;
	bool made, big;
};
struct sgpu_cuda_pages {
	struct sgpu_frames frames; /* its lock guards this struct; taken after a stream's `lock`,
				      before the device's lock */
	struct sgpu_cuda_frame *list;
	CUdeviceptr scratch; /* addresses at which pages are cleared */
};
extern const struct sgpu_frame_calls sgpu_cuda_frame_calls;
CUresult sgpu_cuda_handle_make(struct sgpu_device *device, uint64_t size,
			       CUmemGenericAllocationHandle *handle);
CUresult sgpu_cuda_page_access(struct sgpu_device *device, CUdeviceptr at, uint64_t size, bool on);
void sgpu_cuda_pages_close(struct sgpu_device *device);

/* ---- peer.c ---- */
SGPU_MUST_CHECK int sgpu_cuda_shared_alloc(struct sgpu_device *device, struct sgpu_device *peer,
					   uint64_t size, sgpu_devptr *memory,
					   struct sgpu_error *error);
void sgpu_cuda_shared_free(struct sgpu_device *device, struct sgpu_device *peer,
			   sgpu_devptr memory);

/* ---- pinned.c ---- */
struct sgpu_cuda_host {
	pthread_mutex_t lock;
	struct sgpu_arena arena;
	struct sgpu_cuda_pinned *pinned; /* steps of the pool, and registered memory */
	uint64_t step;			 /* bytes of the next step */
	struct sgpu_cuda_status *idle;
	struct sgpu_cuda_slab *slabs; /* memory that status lines are cut from */
};
SGPU_MUST_CHECK int sgpu_cuda_host_open(struct sgpu_device *device, struct sgpu_error *error);
void sgpu_cuda_host_close(struct sgpu_device *device);
SGPU_MUST_CHECK int sgpu_cuda_host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
					 struct sgpu_error *error);
void sgpu_cuda_host_free(struct sgpu_device *device, void *memory, uint64_t size);
/* Returns a line of zeros; NULL: out of memory. */
struct sgpu_cuda_status *sgpu_cuda_status_take(struct sgpu_device *device);
void sgpu_cuda_status_give(struct sgpu_device *device, struct sgpu_cuda_status *status);

SGPU_MUST_CHECK int sgpu_cuda_host_register(struct sgpu_device *device, const void *memory,
					    uint64_t size, struct sgpu_error *error);
void sgpu_cuda_host_unregister(struct sgpu_device *device, const void *memory);
/* Returns the address at which kernels reach host memory, or 0 if they do not. */
CUdeviceptr sgpu_cuda_reach(struct sgpu_device *device, const void *memory, uint64_t size,
			    bool write);

/* ---- keys.c ---- */
/* The agreement on a session key, without which no key is loaded. */
struct sgpu_cuda_trust {
	pthread_mutex_t lock; /* held during the agreement; taken before the keys' lock */
	atomic_bool ready;
	struct sgpu_error error; /* of a failure of the device, which is final */
	struct sgpu_device_agreement told;
	CUdeviceptr session; /* the session key's state */
	/* the session key on the host; this and the counter are under the keys' lock */
	struct sgpu_aead *aead;
	uint64_t counter;
};
struct sgpu_cuda_keys {
	pthread_mutex_t lock;
	struct sgpu_cuda_trust trust;
};
void sgpu_cuda_key_was_used(struct sgpu_device_key *key);
/* Gets the state's address and makes later work of `stream` wait for the key's set-up, as it does
 * already if the key was loaded together with `before`, which may be NULL. */
CUresult sgpu_cuda_key_use(struct sgpu_stream *stream, struct sgpu_device_key *key,
			   const struct sgpu_device_key *before, uint64_t *state);

/* ---- agree.c ---- */
struct sgpu_cuda_delivery;
/* Runs the agreement and the known-answer test, unless they have succeeded. A failure of the device
 * is final. The device's context is current. */
SGPU_MUST_CHECK int sgpu_cuda_keys_ready(struct sgpu_device *device, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cuda_agree(struct sgpu_device *device,
				    struct sgpu_device_agreement *agreement,
				    struct sgpu_error *error);
/* Seals a key for the device; the keys' lock is held. */
SGPU_MUST_CHECK int sgpu_cuda_seal_key(struct sgpu_device *device,
				       const struct sgpu_sealed_keys *material,
				       struct sgpu_cuda_delivery *delivery);
void sgpu_cuda_trust_close(struct sgpu_device *device);

#endif
