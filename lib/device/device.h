/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of devices, beyond sgpu/device.h, for other parts of the library and the programs:
 * launches, events, recordings, keys, pages, and what crosses from one device to another.
 */
#ifndef SGPU_DEVICE_DEVICE_H
#define SGPU_DEVICE_DEVICE_H

#include <sgpu/device.h>

#include "base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A range of device addresses in which pages are mapped; empty at first. */
struct sgpu_space;

struct sgpu_event;
struct sgpu_device_key;
struct sgpu_op_call; /* ops/ops.h */

/* Code that was loaded for the device. */
struct sgpu_device_code {
	char name[64]; /* "sgpu-cuda.so .nv_fatbin" */
	uint64_t size;
	uint8_t digest[32]; /* KT128, customisation SGPU_MEASURE_CUSTOM, of the bytes that the
			       driver gets */
};
enum { SGPU_DEVICE_CODE_MAX = 8 };

/* A GPU's own attestation, from NVML. */
struct sgpu_device_evidence {
	char architecture[16];	 /* "HOPPER", "BLACKWELL" */
	uint8_t *report, *chain; /* the caller frees them; chain: certificates in PEM */
	size_t report_size, chain_size;
};

/* What a launch gets. The CPU device calls the launch's function on the stream's thread, which
 * holds a token of `pool`; CUDA calls it at once, and it enqueues kernels on `native` (a CUstream).
 * A non-zero return becomes the task's code. CUDA may make the first use of a kernel wait for
 * kernels that run. If one of these may never end, set CUDA_MODULE_LOADING=EAGER before the device
 * is opened. */
struct sgpu_launch {
	struct sgpu_device *device;
	struct sgpu_pool *pool;
	void *native;
	struct sgpu_error *error;
	/* Two words, zero at first, for results of the kernels. CUDA: host memory at an address
	 * that kernels can write. status[0]: an enum sgpu_code, the task's code unless it is 0;
	 * status[1]: the task's `actual`. */
	int64_t *status;
	/* CUDA: scratch words in device memory that are zero at every launch, SGPU_LAUNCH_COUNTERS
	 * of them. */
	unsigned *counters;
	bool recorded; /* the launch is recorded into a graph: one that needs more than kernels
			  returns SGPU_EUNAVAILABLE */
};
enum { SGPU_LAUNCH_COUNTERS = 64 };
/* A device's implementation of an operation. */
typedef int (*sgpu_op_fn)(struct sgpu_op_call *call, struct sgpu_launch *launch);
typedef int (*sgpu_launch_fn)(struct sgpu_launch *launch, void *argument);

/* A part of the system, such as a driver, that a kind of devices needs and that may be missing. */
struct sgpu_device_part {
	char name[32]; /* "driver" */
	bool found;
	char text[160]; /* what was found: "580.159.04, serves CUDA 13.0"; else what is missing */
	char hint[256]; /* how to get it; "" when it is there */
};
enum { SGPU_DEVICE_PARTS_MAX = 8 };

/* ---- devices ---- */
/* Kinds of devices, in order of preference: "cuda", "cpu"; NULL after the last. */
const char *sgpu_device_kind(int index);
/* Lists the parts that these kinds need, found or missing; no device need be there. Fills in
 * SGPU_DEVICE_PARTS_MAX parts at most and returns how many. */
int sgpu_device_parts(struct sgpu_device_part *parts);
/* Returns the implementation of an operation that devices of a kind have; no device need be there.
 * NULL: none. Always NULL for "cpu", whose implementations are in the table of operations. */
sgpu_op_fn sgpu_device_kind_op(const char *kind, const char *name);
/* The same as sgpu_device_kind_op, for a device. */
sgpu_op_fn sgpu_device_op(struct sgpu_device *device, const char *name);
/* Calls, without waiting, the callbacks of work that has ended. A thread of the device calls them
 * anyway; this saves a thread that needs a callback's effect the wait until that thread wakes up.
 * Not to be called from a callback. */
void sgpu_device_poll(struct sgpu_device *device);
/* With true, running kernels are asked to stop early, and later ones do not start, until this is
 * called with false. Their tasks end with SGPU_ECANCELED. */
void sgpu_device_cancel(struct sgpu_device *device, bool cancel);

/* Enqueues the measure of device memory in place (sgpu_measure_pages). `key`: SGPU_KEY_SIZE bytes,
 * copied at once, or NULL. `digest`: SGPU_KT128_SIZE bytes of host memory, valid once `task`, which
 * may not be NULL, has ended. A GPU computes the digests of the pages; nothing else leaves it. */
SGPU_MUST_CHECK int sgpu_device_measure(struct sgpu_stream *stream, sgpu_devptr memory,
					uint64_t size, const uint8_t *key, uint8_t *digest,
					struct sgpu_task *task);

/* How bytes got between host and device. */
enum sgpu_transfer_path {
	SGPU_PATH_REGISTERED, /* the device read or wrote the caller's memory directly */
	SGPU_PATH_PINNED,     /* the processors copied them into or out of pinned memory, which the
				 device reaches */
	SGPU_PATH_PAGEABLE,   /* through ordinary memory; the CPU device has no other path */
	SGPU_PATHS
};

/* ---- streams and events ---- */
/* Calls a host function when the work before it has ended. It must be short, and may call nothing
 * of the device. */
SGPU_MUST_CHECK int sgpu_stream_callback(struct sgpu_stream *stream,
					 void (*function)(void *argument), void *argument);
SGPU_MUST_CHECK int sgpu_event_create(struct sgpu_device *device, struct sgpu_event **event,
				      struct sgpu_error *error);
void sgpu_event_free(struct sgpu_event **event);
/* Records the event, which completes when all work enqueued on the stream before it has ended. An
 * event is recorded once, before anybody waits for it. */
SGPU_MUST_CHECK int sgpu_event_record(struct sgpu_stream *stream, struct sgpu_event *event);
/* Makes later work of the stream start only when the event has completed; the event may be freed
 * before that. Whoever waits for that later work has waited for the work before the event, too: its
 * tasks have ended and its callbacks were called. */
SGPU_MUST_CHECK int sgpu_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event);
/* Waits until an event that was recorded has completed. */
SGPU_MUST_CHECK int sgpu_event_sync(struct sgpu_event *event, struct sgpu_error *error);
/* Tells without waiting whether the event has completed. */
SGPU_MUST_CHECK int sgpu_event_query(struct sgpu_event *event, bool *done,
				     struct sgpu_error *error);
/* Enqueues a launch, naming the memory that it touches: a secure context (lib/secure) refuses
 * ranges outside itself. */
SGPU_MUST_CHECK int sgpu_device_launch_on(struct sgpu_stream *stream, sgpu_launch_fn function,
					  void *argument, const struct sgpu_device_range *ranges,
					  int count, struct sgpu_task *task);

/* ---- recordings: launches that are enqueued again and again with one call ---- */
struct sgpu_recording;
enum { SGPU_RECORDING_LAUNCHES_MAX = 64 };
/* Enqueues launches on `recorder`, which records them and carries out none. It may call nothing but
 * sgpu_device_launch_on, whose tasks tell at once which launches cannot be recorded. */
typedef int (*sgpu_record_fn)(struct sgpu_stream *recorder, void *argument,
			      struct sgpu_error *error);
/* Errors: SGPU_EUNAVAILABLE where the device records nothing, as the CPU device, or where a launch
 * needs more than kernels: then launch them one by one. Others as `function` returns them, and
 * SGPU_ENOMEM, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_device_record(struct sgpu_device *device, sgpu_record_fn function,
				       void *argument, struct sgpu_recording **recording,
				       struct sgpu_error *error);
/* Frees a recording, whose work must have ended. Accepts a pointer to NULL; clears it. */
void sgpu_recording_free(struct sgpu_recording **recording);
/* Enqueues all launches, in their order; the ranges that they touch are checked again. One run of a
 * recording at a time: SGPU_ERETRY at once while the one before has not ended. The task's code is
 * that of the first launch that failed, whose number is the task's `actual`. */
SGPU_MUST_CHECK int sgpu_recording_launch(struct sgpu_stream *stream,
					  struct sgpu_recording *recording, struct sgpu_task *task);

/* ---- keys of sealed segments ---- */
/* Brings the key schedule of a segment to the device, with the tables that follow from it. `keys`
 * are copied at once. Every stream of the device may use the key as soon as this returns. It goes
 * to a GPU sealed under a session key (sgpu_device_agree), unless bare keys were asked for. If the
 * key was changed on its way, the first task that uses it ends with SGPU_EAUTH. The first key of a
 * device waits for the agreement and for a known answer of the kernels: SGPU_EDEVICE when either
 * fails. */
SGPU_MUST_CHECK int sgpu_device_key_load(struct sgpu_stream *stream,
					 const struct sgpu_sealed_keys *keys,
					 struct sgpu_device_key **key, struct sgpu_error *error);
/* Frees the key and wipes it on the device, too. No work with it may be pending. */
void sgpu_device_key_free(struct sgpu_device_key **key);
/* Open and seal as sgpu_open_chunks and sgpu_seal_chunks do, in device memory, at any alignment.
 * `in` and `out` may not overlap. What a failed open wrote is cleared before anybody learns that it
 * failed. So nothing that reads `out` may be enqueued before the task has ended well. */
SGPU_MUST_CHECK int sgpu_device_open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key,
					    uint64_t first, bool last, sgpu_devptr in,
					    uint64_t size, sgpu_devptr out, struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_device_seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key,
					    uint64_t first, bool last, sgpu_devptr in,
					    uint64_t size, sgpu_devptr out, struct sgpu_task *task);
/* Whether kernels reach these bytes of the host's memory, SGPU_REACHED_MAX at most: pinned memory
 * from sgpu_host_alloc, or registered memory, which must be writable for `write`. The CPU device
 * reaches none: it copies first. */
enum { SGPU_REACHED_MAX = 12 * SGPU_SEALED_CHUNK };
bool sgpu_device_reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write);

/* ---- two devices of one process ---- */
/* Allocates memory of `device` that `peer` reaches at the same
 * address; `peer` reaches no other memory of it. It is not for plaintext: what crosses between GPUs
 * can be recorded. sgpu_shared_free clears it; both devices must still be open then. Errors:
 * SGPU_EUNAVAILABLE (devices of two kinds, a secure context, GPUs without a way between them),
 * SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_shared_alloc(struct sgpu_device *device, struct sgpu_device *peer,
				      uint64_t size, sgpu_devptr *memory, struct sgpu_error *error);
void sgpu_shared_free(struct sgpu_device *device, struct sgpu_device *peer, sgpu_devptr *memory);
/* As sgpu_stream_wait, for an event of another device; but whoever waits for the later work has to
 * wait for the event, too, before they look at the tasks in front of it. Errors: SGPU_EUNAVAILABLE
 * as above. */
SGPU_MUST_CHECK int sgpu_stream_wait_peer(struct sgpu_stream *stream, struct sgpu_event *event);

/* Copies from one device to another. Only sealed data leave either: the first device seals chunk
 * runs, and the second opens each once it is sealed. The key is made by the process and known to
 * the two devices alone. */
struct sgpu_peer;
/* How ciphertext gets from the first device to the second. */
enum sgpu_peer_path {
	SGPU_PEER_AUTO,	  /* stored where that is possible, else through the host */
	SGPU_PEER_STORED, /* the sealing kernel writes it into memory of the second device */
	SGPU_PEER_HOST,	  /* it is sealed into memory of the first, and moved through the host's */
};

/* Members that are 0 or NULL stand for the best choice. */
struct sgpu_peer_config {
	enum sgpu_peer_path path;
	uint64_t run;	     /* plaintext bytes of a chunk run, rounded down to whole chunks */
	uint64_t key_chunks; /* how many chunks one key seals: then a fresh one takes its place */
	/* For tests: stands between the devices. It is called when a chunk run was sealed and
	 * before it is opened: `size` bytes of ciphertext at `sealed` in memory of the second
	 * device. */
	void (*between)(void *argument, uint64_t run, sgpu_devptr sealed, uint64_t size);
	void *argument;
};

/* Both devices are borrowed. Errors: SGPU_EUSAGE (one device twice), SGPU_EUNAVAILABLE (the path
 * that was asked for), SGPU_ENOMEM, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_peer_open(struct sgpu_device *from, struct sgpu_device *to,
				   const struct sgpu_peer_config *config, struct sgpu_peer **peer,
				   struct sgpu_error *error);
/* Closes it; no copy may be under way. Accepts a pointer to NULL; clears it. */
void sgpu_peer_close(struct sgpu_peer **peer);
/* Copies, and returns when that is done; copies from several threads take turns. It does not wait
 * for streams: what writes `from` and what uses `to` must have ended. After any failure `to` is
 * cleared, all of it; a `to` that is not in one allocation of its device is not touched. Errors:
 * SGPU_EAUTH when something that passed between the devices was changed; SGPU_EUSAGE, SGPU_EDEVICE,
 * SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_peer_copy(struct sgpu_peer *peer, sgpu_devptr to, sgpu_devptr from,
				   uint64_t size, struct sgpu_error *error);

/* Whether a module of this device was ended because it made a forbidden system call. It then ran
 * other code than its owner meant, and its results should not be given out. */
bool sgpu_device_module_broke_rules(struct sgpu_device *device);

/* ---- code and evidence ---- */
/* Digests of the device's code, into `list` of SGPU_DEVICE_CODE_MAX; returns how many, none for the
 * CPU device, whose operations are part of the program. The digests are of the bytes that the
 * driver gets, since running code cannot be read back. Errors: negative. */
SGPU_MUST_CHECK int sgpu_device_code_digests(struct sgpu_device *device,
					     struct sgpu_device_code *list,
					     struct sgpu_error *error);
/* Makes the digest of the code in a file sgpu-cuda.so, which need not be loaded. Errors:
 * SGPU_ESYSTEM; SGPU_EINVALID when there is no code in it. */
SGPU_MUST_CHECK int sgpu_device_code_of_file(const char *path, struct sgpu_device_code *code,
					     struct sgpu_error *error);
/* The GPU's attestation report for a nonce, from NVML, not verified. Free it with
 * sgpu_device_evidence_clear. Errors: SGPU_EUNAVAILABLE when the GPU has none, as without
 * confidential computing. */
SGPU_MUST_CHECK int sgpu_device_get_evidence(struct sgpu_device *device, const uint8_t nonce[32],
					     struct sgpu_device_evidence *evidence,
					     struct sgpu_error *error);
void sgpu_device_evidence_clear(struct sgpu_device_evidence *evidence);

/* ---- pages: for lib/channel and lib/secure alone ----
 * Sizes and offsets are multiples of `small`; frames count small pages of physical memory; a big
 * page is named by its first frame, a multiple of big / small. A frame gets memory when it is first
 * mapped, and keeps it until the device is closed: from then on it counts as memory in use, and the
 * contents stay with it wherever it is mapped. Frames that were mapped as small pages can come back
 * as one big page, and the other way round; a GPU then makes new memory for them, zero, where the
 * CPU device keeps what was there. A frame is mapped at one place at a time. A call that is refused
 * changes nothing. Errors: SGPU_EUNAVAILABLE, SGPU_ENOMEM, SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_space_create(struct sgpu_device *device, uint64_t size,
				      struct sgpu_space **space, sgpu_devptr *base,
				      struct sgpu_error *error);
void sgpu_space_free(
	struct sgpu_space **space); /* waits for all work, unmaps; nothing is cleared */
SGPU_MUST_CHECK int sgpu_page_map(struct sgpu_space *space, uint64_t at, const uint32_t *frames,
				  size_t count, uint64_t page_size, struct sgpu_error *error);
/* Unmaps whatever of the range is mapped; a big page is not cut in two. Waits for all work of the
 * device while the space can be reached. */
SGPU_MUST_CHECK int sgpu_page_unmap(struct sgpu_space *space, uint64_t at, uint64_t size,
				    struct sgpu_error *error);
/* Sets whether kernels and copies reach the pages mapped now and later; at first they do not.
 * Turning it off waits for all work of the device. */
SGPU_MUST_CHECK int sgpu_space_access(struct sgpu_space *space, bool on, struct sgpu_error *error);

/* ---- the machine: under the limits of the control group that this process is in ---- */
/* Tells how many bytes of memory this process may have in all, and how many more it could take now
 * without a process being killed for want of memory. Either pointer may be NULL; UINT64_MAX:
 * unknown. */
void sgpu_host_memory(uint64_t *total, uint64_t *available);

/* The processor's name, "AMD EPYC 9B45": printable, cut to fit. */
void sgpu_host_processor(char *name, unsigned size);

#ifdef __cplusplus
}
#endif
#endif
