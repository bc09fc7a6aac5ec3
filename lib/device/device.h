/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of devices beyond those of sgpu/device.h: events, launches, keys, opening and sealing, two
 * devices, evidence, pages.
 */
#ifndef SGPU_DEVICE_DEVICE_H
#define SGPU_DEVICE_DEVICE_H

#include <sgpu/device.h>

#include "host/host.h"

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
	uint8_t digest[32]; /* KT128, customised by SGPU_MEASURE_CUSTOM, of what the driver gets */
};
enum { SGPU_DEVICE_CODE_MAX = 8 };

/* A GPU's own attestation, from NVML. */
struct sgpu_device_evidence {
	char architecture[16];	 /* "HOPPER", "BLACKWELL" */
	uint8_t *report, *chain; /* chain: PEM certificates */
	size_t report_size, chain_size;
};

/* Argument of a launch's function. CUDA calls it during the enqueue, to enqueue kernels on `native`
 * (a CUstream). The CPU device calls it with a token of `pool`: on the stream's thread, or during
 * the enqueue if the stream is idle and the ranges are small. A non-zero return becomes the task's
 * code. CUDA may make the first use of a kernel wait for running ones; if these may never end, set
 * CUDA_MODULE_LOADING=EAGER before opening the device. */
struct sgpu_launch {
	struct sgpu_device *device;
	struct sgpu_pool *pool;
	void *native;
	struct sgpu_error *error;
	/* Two words that kernels may set, both zero at first. A status[0] other than 0, an enum
	 * sgpu_code, becomes the task's code; status[1] becomes its `actual`. On CUDA they are host
	 * memory. */
	int64_t *status;
	/* CUDA: SGPU_LAUNCH_COUNTERS scratch words in device memory, zero at every launch. */
	unsigned *counters;
};
enum { SGPU_LAUNCH_COUNTERS = 64 };
typedef int (*sgpu_op_fn)(struct sgpu_op_call *call, struct sgpu_launch *launch);
typedef int (*sgpu_launch_fn)(struct sgpu_launch *launch, void *argument);

/* A part of the system that a kind of devices needs, such as a driver. */
struct sgpu_device_part {
	char name[32]; /* "driver" */
	bool found;
	char text[160]; /* the part found, "580.159.04, serves CUDA 13.0", or what is missing */
	char hint[256]; /* how to get the part; "" if found */
};
enum { SGPU_DEVICE_PARTS_MAX = 8 };

/* ---- devices ---- */
/* The parts that all kinds of devices need. Returns how many, SGPU_DEVICE_PARTS_MAX at most. */
int sgpu_device_parts(struct sgpu_device_part *parts);

/* Starts the hosts, the processes in which the next `devices` CPU devices run modules. A host is
 * `program` under the name sgpu-module-host: sgpu-enclave executes itself. Call before this process
 * has secrets or confines itself. Errors: SGPU_EUNAVAILABLE, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_device_prepare_modules(const char *program, int devices,
						struct sgpu_error *error);
/* Returns the device's implementation of an operation, for sgpu_op_run in a launch, or NULL; NULL
 * for a CPU device, whose implementations are in the table of operations (lib/ops). */
sgpu_op_fn sgpu_device_op(struct sgpu_device *device, const char *name);
/* The workers of the host on which the device computes, or NULL. */
struct sgpu_pool *sgpu_device_pool(struct sgpu_device *device);
/* If `cancel` is set, asks running kernels to stop early and starts no others until called with
 * false. Their tasks end with SGPU_ECANCELED. */
void sgpu_device_cancel(struct sgpu_device *device, bool cancel);

/* Enqueues sgpu_measure_pages of device memory. `key`: NULL, or SGPU_KEY_SIZE bytes that stay until
 * `task`, never NULL, has ended. `digest`: SGPU_KT128_SIZE bytes of host memory, valid from then
 * on. Only digests of pages leave a GPU. */
SGPU_MUST_CHECK int sgpu_device_measure(struct sgpu_stream *stream, sgpu_devptr memory,
					uint64_t size, const uint8_t *key, uint8_t *digest,
					struct sgpu_task *task);

/* How a transfer moved bytes between host and device. */
enum sgpu_transfer_path {
	SGPU_PATH_REGISTERED, /* the device read or wrote the caller's memory directly */
	SGPU_PATH_PINNED,     /* the CPU copied them into or out of pinned memory */
	SGPU_PATH_PAGEABLE,   /* through ordinary memory; the CPU device has no other path */
	SGPU_PATHS
};

/* ---- streams and events ----
 * No thread looks for the end of work. A task ends when the device has done the work and somebody
 * then waits for its stream, or waits for or queries an event recorded there after the work. After
 * a fault, any call for a stream ends its pending tasks. */

SGPU_MUST_CHECK int sgpu_event_create(struct sgpu_device *device, struct sgpu_event **event,
				      struct sgpu_error *error);
void sgpu_event_free(struct sgpu_event **event); /* also before it has completed */
/* The event completes when all earlier work of the stream has ended. An event is recorded once,
 * before anybody waits for it. */
SGPU_MUST_CHECK int sgpu_event_record(struct sgpu_stream *stream, struct sgpu_event *event);
/* Later work of the stream starts only after the event. When that work has ended, so has the work
 * before the event; its tasks end only when its own stream, or an event there, is waited for or
 * queried. Errors: SGPU_EUNAVAILABLE (an event of another kind of device). */
SGPU_MUST_CHECK int sgpu_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event);
SGPU_MUST_CHECK int sgpu_event_sync(struct sgpu_event *event, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_event_query(struct sgpu_event *event, bool *done,
				     struct sgpu_error *error);
/* `argument` must live until the task has ended. `ranges`, read during the call: all memory
 * that the launch touches; a secure context (lib/channel) refuses ranges outside itself. */
SGPU_MUST_CHECK int sgpu_device_launch_on(struct sgpu_stream *stream, sgpu_launch_fn function,
					  void *argument, const struct sgpu_device_range *ranges,
					  int count, struct sgpu_task *task);

/* ---- keys of sealed segments ---- */
/* Loads the keys and base nonces of `count` segments: all, or none after an error. Copies
 * `material` before it returns; then every stream of the device may use the keys. To a GPU each
 * goes sealed by itself under a session key (sgpu_device_agree), and the GPU makes round keys and
 * tables from it. If one is changed on its way, each task that uses it ends with SGPU_EAUTH. The
 * first load on a device waits for the agreement and a known-answer test of the kernels:
 * SGPU_EDEVICE if either fails. */
SGPU_MUST_CHECK int sgpu_device_keys_load(struct sgpu_stream *stream,
					  const struct sgpu_sealed_keys *material, int count,
					  struct sgpu_device_key **keys, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_device_key_load(struct sgpu_stream *stream,
					 const struct sgpu_sealed_keys *material,
					 struct sgpu_device_key **key, struct sgpu_error *error);
/* Frees a key, with which no work may be pending. The CPU device wipes it at once. A GPU clears the
 * keys that one message brought when the last of them is freed. Accepts a pointer to NULL; clears
 * it. */
void sgpu_device_key_free(struct sgpu_device_key **key);
/* As sgpu_open_chunks and sgpu_seal_chunks, in device memory, at any alignment. `in` and `out` may
 * not overlap. A failed open clears what it wrote before its task ends, but does not stop the
 * stream: enqueue nothing that reads `out` before the task has succeeded. */
SGPU_MUST_CHECK int sgpu_device_open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key,
					    uint64_t first, bool last, sgpu_devptr in,
					    uint64_t size, sgpu_devptr out, struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_device_seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key,
					    uint64_t first, bool last, sgpu_devptr in,
					    uint64_t size, sgpu_devptr out, struct sgpu_task *task);
/* Whether kernels reach `size` bytes of host memory, SGPU_REACHED_MAX at most. The CPU device's
 * reach all; a GPU's reach memory from sgpu_host_alloc and registered memory, which must be
 * writable if `write` is set. */
enum { SGPU_REACHED_MAX = 12 * SGPU_SEALED_CHUNK };
bool sgpu_device_reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write);

/* Waits a little before the next look at work waited for since `begin_ns`. */
void sgpu_device_pause(uint64_t begin_ns);

/* ---- work ---- */
/* Code compares these values: up to CLEAR, work only moves bytes; from OPEN on, it uses a key; from
 * OPEN_FROM on, kernels access host memory themselves. The host may change it meanwhile, so they
 * read each byte once. SGPU_EUSAGE at once if sgpu_device_reaches is false. */
enum sgpu_work_kind {
	SGPU_WORK_COPY_IN,
	SGPU_WORK_COPY_OUT,
	SGPU_WORK_CLEAR,
	SGPU_WORK_DIGEST,
	SGPU_WORK_MEASURE,
	SGPU_WORK_OPEN,
	SGPU_WORK_SEAL,
	SGPU_WORK_OPEN_FROM,
	SGPU_WORK_SEAL_TO,
};

/* A piece of work with device memory. Use MEASURE for HIGH memory, not DIGEST: of more than 8 KiB,
 * a GPU leaves KT128's final node to the CPU, so chaining values and the state after the first 8
 * KiB pass through host memory; who knows most of these bytes can compute the rest from that
 * state. */
struct sgpu_work {
	enum sgpu_work_kind kind;
	sgpu_devptr in, out; /* device memory: read, and written */
	const void *from;    /* host memory of COPY_IN, OPEN_FROM */
	void *to;	     /* host memory of COPY_OUT, SEAL_TO, and a digest */
	uint64_t size;	     /* bytes read; CLEAR: bytes written */
	struct sgpu_device_key *key;
	uint64_t first; /* number of the first chunk */
	bool last;
	const uint8_t *measure_key; /* MEASURE: SGPU_KEY_SIZE bytes, valid as `to` is; or NULL */
	struct sgpu_task *task;	    /* may be NULL, except for DIGEST and MEASURE */
	bool alone; /* nobody else changes the host's memory of OPEN_FROM, SEAL_TO */
};

/* Enqueues pieces in order; the descriptors are copied. Short chunk runs may share a kernel. After
 * an error, also in the bad piece's task, the pieces before that one are enqueued, and none after
 * it, whose tasks may stay as they were, with the code SGPU_OK. */
SGPU_MUST_CHECK int sgpu_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work,
				 int count);

/* ---- two devices of one process ---- */
/* Allocates memory of `device` that `peer` can also reach, at the same address. Others may record
 * what crosses, so keep no plaintext there. sgpu_shared_free clears the memory, and needs both
 * devices open. Errors: SGPU_EUNAVAILABLE (devices of two kinds, a secure context, GPUs without a
 * path between them), SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_shared_alloc(struct sgpu_device *device, struct sgpu_device *peer,
				      uint64_t size, sgpu_devptr *memory, struct sgpu_error *error);
void sgpu_shared_free(struct sgpu_device *device, struct sgpu_device *peer, sgpu_devptr *memory);

/* Copies from one device to another. Only sealed data cross: the first device seals chunk runs, and
 * the second opens them, with a key that the process makes for these two alone. */
struct sgpu_peer;
/* How ciphertext gets to the second device. */
enum sgpu_peer_path {
	SGPU_PEER_AUTO,	  /* STORED if possible, else HOST */
	SGPU_PEER_STORED, /* the sealing kernel writes it into memory of the second device */
	SGPU_PEER_HOST,	  /* sealed in the first device's memory and copied through the host's */
};

/* 0 or NULL selects a member's default. */
struct sgpu_peer_config {
	enum sgpu_peer_path path;
	uint64_t run;	     /* plaintext bytes of a chunk run, rounded down to whole chunks */
	uint64_t key_chunks; /* most chunks that one key seals; then a new key is made */
	/* For tests: called between sealing and opening chunk run `run`, whose ciphertext is `size`
	 * bytes at `sealed` in the second device. */
	void (*between)(void *argument, uint64_t run, sgpu_devptr sealed, uint64_t size);
	void *argument;
};

/* Both devices must outlive *peer. Errors: SGPU_EUSAGE (one device twice), SGPU_EUNAVAILABLE (the
 * path that was asked for), SGPU_ENOMEM, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_peer_open(struct sgpu_device *from, struct sgpu_device *to,
				   const struct sgpu_peer_config *config, struct sgpu_peer **peer,
				   struct sgpu_error *error);
/* No copy may be under way. Accepts a pointer to NULL; clears it. */
void sgpu_peer_close(struct sgpu_peer **peer);
/* Returns when the copy has ended; copies of several threads run in turn. Work that writes `from`
 * or uses `to` must have ended before. Any failure clears all of `to`, unless `to` is not in one
 * allocation of its device. Errors: SGPU_EAUTH if data were changed between the devices;
 * SGPU_EUSAGE (also for more than key_chunks), SGPU_EDEVICE, SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_peer_copy(struct sgpu_peer *peer, sgpu_devptr to, sgpu_devptr from,
				   uint64_t size, struct sgpu_error *error);

/* Whether a module was ended for a forbidden system call. It then ran code that its owner did not
 * intend: do not give out its results. */
bool sgpu_device_module_broke_rules(struct sgpu_device *device);

/* ---- code and evidence ---- */
/* Digests the code given to the driver, since running code cannot be read back, into `list` of
 * SGPU_DEVICE_CODE_MAX. Returns the number of digests, 0 for the CPU device, whose operations are
 * part of the program, or a negative code. */
SGPU_MUST_CHECK int sgpu_device_code_digests(struct sgpu_device *device,
					     struct sgpu_device_code *list,
					     struct sgpu_error *error);
/* Digests the device code in a file sgpu-cuda.so, loaded or not. Errors: SGPU_ESYSTEM;
 * SGPU_EINVALID if the file has no device code. */
SGPU_MUST_CHECK int sgpu_device_code_of_file(const char *path, struct sgpu_device_code *code,
					     struct sgpu_error *error);
/* Gets the GPU's evidence for a nonce, unverified; free it with sgpu_device_evidence_clear. Errors:
 * SGPU_EUNAVAILABLE if the GPU has none, as without confidential computing. */
SGPU_MUST_CHECK int sgpu_device_get_evidence(struct sgpu_device *device, const uint8_t nonce[32],
					     struct sgpu_device_evidence *evidence,
					     struct sgpu_error *error);
void sgpu_device_evidence_clear(struct sgpu_device_evidence *evidence);

/* ---- pages: for lib/channel alone ----
 * Sizes and offsets are multiples of `small`. A frame is the number of a small page of physical
 * memory; a big page is named by its first frame, a multiple of big / small. A frame that is first
 * mapped gets zeroed memory, which counts as in use until the device is closed, and keeps its
 * contents wherever it is mapped. Frames of small pages can later form a big page, and vice versa:
 * a GPU then gives them new, zeroed memory, and the CPU device keeps their contents. The caller has
 * checked that ranges lie in the space, that no frame is mapped twice or over another, and that no
 * big page is cut in two. A failed call changes nothing. Errors: SGPU_EUNAVAILABLE, SGPU_ENOMEM,
 * SGPU_EDEVICE (mappings could not be changed back: then nothing is mapped any more until the space
 * is freed, which the processor does when it ends). */
SGPU_MUST_CHECK int sgpu_space_create(struct sgpu_device *device, uint64_t size,
				      struct sgpu_space **space, sgpu_devptr *base,
				      struct sgpu_error *error);
void sgpu_space_free(
	struct sgpu_space **space); /* waits for all work, unmaps; nothing is cleared */
SGPU_MUST_CHECK int sgpu_page_map(struct sgpu_space *space, uint64_t at, const uint32_t *frames,
				  size_t count, uint64_t page_size, struct sgpu_error *error);
/* Unmaps the mapped pages of the range. If the space is reachable, waits for all work of the device
 * first. */
SGPU_MUST_CHECK int sgpu_page_unmap(struct sgpu_space *space, uint64_t at, uint64_t size,
				    struct sgpu_error *error);
/* Whether kernels and copies reach the space's pages, also those mapped later; not so at first.
 * Turning access off waits for all work of the device. */
SGPU_MUST_CHECK int sgpu_space_access(struct sgpu_space *space, bool on, struct sgpu_error *error);
/* Makes the caller the one that maps pages, or ends that. There is at most one, who alone knows
 * what is mapped. False: somebody is already, or nobody was. */
SGPU_MUST_CHECK bool sgpu_pages_claim(struct sgpu_device *device, bool claimed);

#ifdef __cplusplus
}
#endif
#endif
