/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU that is open.
 */
#ifndef SGPU_DEVICE_CUDA_GPU_H
#define SGPU_DEVICE_CUDA_GPU_H

#include <device/cuda/memory.h>

enum {
	SGPU_CUDA_PIECE = 16 << 20, /* plaintext bytes of a chunk run in a large transfer */
	SGPU_CUDA_EVENTS = 256,	    /* most idle events kept */
};

extern const struct sgpu_device_backend sgpu_cuda_backend;

struct sgpu_cuda_mark;
struct sgpu_cuda_timer;

/* One moment by the device's clock and by the host's (clock.c). */
struct sgpu_cuda_base {
	struct sgpu_cuda_mark *mark;
	uint64_t host_ns, error_ns; /* error_ns: how far host_ns may be from that moment */
};

struct sgpu_cuda_clock {
	const struct sgpu_cuda_timer *timer;
	CUstream native;      /* for bases and for reading marks */
	pthread_mutex_t lock; /* everything below */
	struct sgpu_cuda_mark *idle;
	struct sgpu_cuda_base base;
	uint64_t tried_ns; /* when a new base was last wanted */
};

struct sgpu_device {
	struct sgpu_device_object object;
	int ordinal;
	CUdevice handle;
	CUcontext context;
	struct sgpu_device_info info; /* all but what memory is left */
	bool sees_words;	      /* what kernels write into host memory is seen at once */
	bool registers_read_only;
	CUstream internal;

	atomic_int faulted; /* 0, or the code with which all work ends */
	pthread_mutex_t fault_lock;
	struct sgpu_error fault;

	struct sgpu_cuda_memory memory;
	struct sgpu_cuda_pages pages;
	struct sgpu_cuda_host host;
	struct sgpu_cuda_keys keys;

	struct sgpu_cuda_clock clock;

	atomic_bool kernels_loaded;
	atomic_uint_fast64_t cancel_ns; /* 0, or when all work was cancelled */

	pthread_mutex_t lock; /* everything below */
	struct sgpu_stream *streams, *idle_streams;
	CUevent idle_events[SGPU_CUDA_EVENTS];
	unsigned event_count;
};

/* ---- fault.c ---- */
/* Makes the device's context current in the thread; fails if the device is faulted. */
SGPU_MUST_CHECK int sgpu_cuda_enter(struct sgpu_device *device, struct sgpu_error *error);
/* Fails with a text that begins with `what`. Faults the device if the context is unusable. */
SGPU_MUST_CHECK int sgpu_cuda_check(struct sgpu_device *device, CUresult result, const char *what,
				    struct sgpu_error *error);
/* The same, but any failure faults the device, which is of no use without this call. */
SGPU_MUST_CHECK int sgpu_cuda_must(struct sgpu_device *device, CUresult result,
				   struct sgpu_error *error);
void sgpu_cuda_note(struct sgpu_device *device, CUresult result);
/* All work, pending and later, ends with `code`. SGPU_ECANCELED: a kernel does not end. */
void sgpu_cuda_fault(struct sgpu_device *device, int code, const char *text);
int sgpu_cuda_faulted(struct sgpu_device *device, struct sgpu_error *error);
/* Returns SGPU_EDEVICE if a fault has made CUDA unusable in this process. */
SGPU_MUST_CHECK int sgpu_cuda_process_sound(struct sgpu_error *error);

/* ---- work.c ---- */
extern const struct sgpu_device_memory_calls sgpu_cuda_memory_calls;
extern const struct sgpu_device_key_calls sgpu_cuda_key_calls;
/* Whether kernels are no longer enqueued: their tasks end with SGPU_ECANCELED. */
bool sgpu_cuda_cancelled(const struct sgpu_device *device);

/* ---- wait.c ---- */
CUresult sgpu_cuda_event_take(struct sgpu_device *device, CUevent *event);
/* Records an event, which is to be given back even after a failure. */
CUresult sgpu_cuda_event_after(struct sgpu_device *device, CUstream native, CUevent *event);
void sgpu_cuda_event_give(struct sgpu_device *device, CUevent event);
void sgpu_cuda_events_close(struct sgpu_device *device);
/* Faults the device if work pending at `since_ns` goes on long after that and after the device was
 * cancelled. Returns whether the device is faulted. Every wait calls this, so each one ends. */
bool sgpu_cuda_overdue(struct sgpu_device *device, uint64_t since_ns);
/* Fails only if the device is faulted. */
SGPU_MUST_CHECK int sgpu_cuda_wait(struct sgpu_device *device, CUevent event,
				   struct sgpu_error *error);
/* Waits, without an event, until the stream is idle or the device is faulted. */
void sgpu_cuda_wait_until_idle(struct sgpu_stream *stream);

/* ---- stream.c ---- */
/* Waits for the work on all streams, and ends its records. Fails only if the device is faulted. */
SGPU_MUST_CHECK int sgpu_cuda_synchronize(struct sgpu_device *device, struct sgpu_error *error);

/* ---- backend.c ---- */
bool sgpu_cuda_in_confidential_mode(const struct sgpu_device *device);

/* ---- module.c ---- */
extern const struct sgpu_device_module_calls sgpu_cuda_module_calls;

/* ---- nvml.c ---- */
/* Loads the library in a thread that the caller joins. False: no thread was started, and the first
 * call that needs the library loads it. */
bool sgpu_cuda_nvml_start(pthread_t *thread);
/* state: "on", "off", "devtools" or "unknown". version: the driver's, "" if not known. */
void sgpu_cuda_confidential(char *state, size_t size);
void sgpu_cuda_driver_version(char *version, size_t size);
bool sgpu_cuda_nvml_found(void);
/* version: of the GPU's firmware, "" if not known. */
void sgpu_cuda_vbios(const char *uuid, char *version, size_t size);
SGPU_MUST_CHECK int sgpu_cuda_evidence(struct sgpu_device *device, const uint8_t nonce[32],
				       struct sgpu_device_evidence *evidence,
				       struct sgpu_error *error);

/* ---- code.c ---- */
SGPU_MUST_CHECK int sgpu_cuda_code(struct sgpu_device *device, struct sgpu_device_code *list);

#endif
