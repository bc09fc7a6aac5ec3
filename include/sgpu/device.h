/* SPDX-License-Identifier: Apache-2.0
 *
 * One interface to a device: memory apart from host memory, streams, events, asynchronous copies, opening and
 * sealing on the device, launches. The CPU device is the specification; every other must give the same bytes.
 *
 * Everything that takes a stream only enqueues. What became of it stands in the task that the caller passes, which
 * must live until the work has ended (an event after it, a stream or device synchronisation). Work of one stream
 * runs in order. A task that fails does not stop its stream.
 */
#ifndef SGPU_DEVICE_H
#define SGPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/base.h>
#include <sgpu/seal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t sgpu_devptr; /* an address in the device's memory; 0 is none */

struct sgpu_device;
struct sgpu_stream;
struct sgpu_event;

/* Record of one piece of enqueued work; zero it before use. */
struct sgpu_task {
	int code;                   /* SGPU_OK or what went wrong */
	struct sgpu_error error;    /* its text */
	uint64_t begin_ns, end_ns;  /* sgpu_now_ns() clock; valid once the work has ended */
	uint64_t bad_chunk;         /* of a failed open */
};

struct sgpu_device_info {
	char name[128];          /* "CPU device, AMD EPYC 9B45" */
	char selector[32];       /* "cpu", "cuda:0" */
	uint64_t memory_total, memory_free; /* bytes */
	unsigned compute_units;  /* workers, or multiprocessors */
	bool opens_on_device;    /* plaintext of HIGH segments is never in the host's memory; false on the CPU device,
	                            whose memory is a part of it (open_chunks works on every device) */
};

struct sgpu_device_config {
	unsigned jobs;           /* CPU device: workers; 0: all */
	uint64_t memory_limit;   /* bytes of device memory, 0: no limit of ours */
};

/* What runs on a stream: a kernel's host side. On the CPU device it is called on the stream's thread while it
 * holds a token of `pool`; on CUDA it is called at once and enqueues on `native` (a CUstream). A non-zero return
 * becomes the task's code. */
struct sgpu_launch {
	struct sgpu_device *device;
	struct sgpu_pool *pool;
	void *native;
	struct sgpu_error *error;
};
typedef int (*sgpu_launch_fn)(struct sgpu_launch *launch, void *argument);

/* A backend is one of these in one file, listed in lib/device/device.c. Memory that is freed is cleared first. */
struct sgpu_device_backend {
	const char *name; /* "cpu" */
	/* Whether a device can be had; if not, *error says what is missing and how to get it. */
	int (*probe)(struct sgpu_error *error);
	int (*open)(const char *selector, const struct sgpu_device_config *config, struct sgpu_device **device,
		    struct sgpu_error *error);
	void (*close)(struct sgpu_device *device);
	int (*info)(struct sgpu_device *device, struct sgpu_device_info *info, struct sgpu_error *error);
	int (*alloc)(struct sgpu_device *device, uint64_t size, sgpu_devptr *memory, struct sgpu_error *error);
	void (*free)(struct sgpu_device *device, sgpu_devptr memory, uint64_t size);
	int (*stream_create)(struct sgpu_device *device, struct sgpu_stream **stream, struct sgpu_error *error);
	void (*stream_free)(struct sgpu_stream *stream);
	int (*stream_sync)(struct sgpu_stream *stream, struct sgpu_error *error);
	int (*event_create)(struct sgpu_device *device, struct sgpu_event **event, struct sgpu_error *error);
	void (*event_free)(struct sgpu_event *event);
	int (*event_sync)(struct sgpu_event *event, struct sgpu_error *error);
	int (*event_record)(struct sgpu_stream *stream, struct sgpu_event *event);
	int (*stream_wait)(struct sgpu_stream *stream, struct sgpu_event *event);
	int (*copy_in)(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		       struct sgpu_task *task);
	int (*copy_out)(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size,
			struct sgpu_task *task);
	int (*clear)(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, struct sgpu_task *task);
	int (*open_chunks)(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys, uint64_t first, bool last,
			   sgpu_devptr in, uint64_t size, sgpu_devptr out, struct sgpu_task *task);
	int (*seal_chunks)(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys, uint64_t first, bool last,
			   sgpu_devptr in, uint64_t size, sgpu_devptr out, struct sgpu_task *task);
	int (*launch)(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument, struct sgpu_task *task);
	int (*callback)(struct sgpu_stream *stream, void (*function)(void *argument), void *argument);
	void (*cancel)(struct sgpu_device *device, bool cancel);
};

/* Backends in order of preference, NULL-terminated. Static. */
const struct sgpu_device_backend *const *sgpu_device_backends(void);

/* selector: "cpu", "cuda", "cuda:1", "auto" (the first backend that has a device). Errors: SGPU_EUNAVAILABLE,
 * SGPU_EUSAGE for an unknown word. Close clears and frees whatever is still allocated. */
SGPU_MUST_CHECK int sgpu_device_open(const char *selector, const struct sgpu_device_config *config,
				     struct sgpu_device **device, struct sgpu_error *error);
void sgpu_device_close(struct sgpu_device **device);
SGPU_MUST_CHECK int sgpu_device_get_info(struct sgpu_device *device, struct sgpu_device_info *info,
					 struct sgpu_error *error);

/* Memory starts at a multiple of 4096; size 0 gives a valid pointer that holds nothing. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_device_alloc(struct sgpu_device *device, uint64_t size, sgpu_devptr *memory,
				      struct sgpu_error *error);
/* Clears and frees; no work on it may be pending. Accepts a pointer to 0; clears it. */
void sgpu_device_free(struct sgpu_device *device, sgpu_devptr *memory, uint64_t size);

SGPU_MUST_CHECK int sgpu_stream_create(struct sgpu_device *device, struct sgpu_stream **stream,
				       struct sgpu_error *error);
void sgpu_stream_free(struct sgpu_stream **stream); /* waits for its work first */
SGPU_MUST_CHECK int sgpu_stream_sync(struct sgpu_stream *stream, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_event_create(struct sgpu_device *device, struct sgpu_event **event,
				      struct sgpu_error *error);
void sgpu_event_free(struct sgpu_event **event);
/* The event completes when all work enqueued on the stream so far has; wait holds later work of a stream back
 * until then. An event is recorded before it is waited for, once; it may be freed while work still waits for it. */
SGPU_MUST_CHECK int sgpu_event_record(struct sgpu_stream *stream, struct sgpu_event *event);
/* The calling thread waits for an event that was recorded. */
SGPU_MUST_CHECK int sgpu_event_sync(struct sgpu_event *event, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event);

/* Host memory must stay until the task has ended. Unit: bytes. Here and below the task may be NULL; a range that is
 * not in one allocation of the device is SGPU_EUSAGE at once. */
SGPU_MUST_CHECK int sgpu_copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
				 struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size,
				  struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_device_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
				      struct sgpu_task *task);
/* As sgpu_open_chunks and sgpu_seal_chunks, in device memory; a failed open clears what it wrote. `keys` are copied
 * at once. in and out may not overlap. */
SGPU_MUST_CHECK int sgpu_device_open_chunks(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys,
					    uint64_t first, bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
					    struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_device_seal_chunks(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys,
					    uint64_t first, bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
					    struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_device_launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
				       struct sgpu_task *task);
/* Calls a host function, which must be short and may not enqueue, when the work before it has ended. */
SGPU_MUST_CHECK int sgpu_stream_callback(struct sgpu_stream *stream, void (*function)(void *argument),
					 void *argument);
/* Asks running kernels to stop early (their tasks end with SGPU_ECANCELED), until set to false. */
void sgpu_device_cancel(struct sgpu_device *device, bool cancel);

/* Every backend's struct sgpu_device, _stream and _event begin with this. */
struct sgpu_device_object {
	const struct sgpu_device_backend *backend;
};

#ifdef __cplusplus
}
#endif
#endif
