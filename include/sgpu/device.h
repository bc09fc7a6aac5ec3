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
struct sgpu_device_key;
struct sgpu_device_module;
struct sgpu_op_call; /* sgpu/ops.h */

/* Record of one piece of enqueued work; zero it before use. */
struct sgpu_task {
	int code;                   /* SGPU_OK or what went wrong */
	struct sgpu_error error;    /* its text */
	uint64_t begin_ns, end_ns;  /* sgpu_now_ns() clock; valid once the work has ended */
	uint64_t bad_chunk;         /* of a failed open */
	uint64_t actual;            /* of a launch: elements that an operation of unknown output size wrote */
};

struct sgpu_device_info {
	char name[128];          /* "CPU device, AMD EPYC 9B45" */
	char selector[64];       /* "cpu", "cuda:0" */
	char uuid[64];           /* "GPU-5d0c..." as other tools name it; "" when it has none */
	char driver[64];         /* "driver 580.159.04, CUDA 13.0"; "" when there is none */
	char vbios[32];          /* version of a GPU's firmware: "96.00.99.00.01"; "" when it is not known */
	char capability[16];     /* compute capability of a GPU: "9.0"; "" on the CPU */
	char confidential[32];   /* confidential computing of a GPU: "off", "on", "devtools", "unknown"; "" on the CPU */
	int numa_node;           /* nearest to it, or -1 */
	uint64_t memory_total, memory_free; /* bytes */
	unsigned compute_units;  /* workers, or multiprocessors */
	bool opens_on_device;    /* plaintext of HIGH segments is never in the host's memory; false on the CPU device,
	                            whose memory is a part of it (open_chunks works on every device) */
	bool pins_host_memory;   /* sgpu_host_alloc gives memory that the device reads by itself */
	bool registers;          /* sgpu_host_register may work here; refused in NVIDIA's confidential computing mode */
	bool secure;             /* a secure context (sgpu/secure.h) over the device */
	uint64_t piece;          /* plaintext bytes that a large transfer best moves at once; a multiple of SGPU_CHUNK */
};

struct sgpu_device_config {
	unsigned jobs;           /* CPU device: workers; 0: all */
	bool modules;            /* CPU device: start the process that modules run in at once, not when the first is loaded: for
	                            whoever may start none later, or holds keys by then */
	uint64_t memory_limit;   /* bytes of device memory, 0: no limit of ours */
	bool bare_keys;          /* keys cross the bus as they are, even where they could be agreed: to see what that costs;
	                            then whoever records the bus has them, and the data */
};

/* Bytes of device memory that belong together: what a launch touches. */
struct sgpu_device_range {
	sgpu_devptr address;
	uint64_t size;
};

/* ---- pages: what secure contexts are made of (sgpu/channel.h) ---- */
struct sgpu_pages_info {
	uint64_t small, big;     /* bytes; CPU device: 4 KiB and 2 MiB; CUDA: 2 MiB and 64 MiB */
	uint64_t total;          /* bytes of physical memory that pages can be made of; a multiple of big */
	bool fresh;              /* memory that was never mapped is zero */
};
/* A range of device addresses in which pages are mapped; nothing at first. */
struct sgpu_space;

/* The key that the device made for itself, so that keys of segments travel sealed to it. */
struct sgpu_device_agreement {
	bool agreed;             /* else keys cross the bus as they are; why stands in text */
	uint8_t public_key[32];  /* X25519, made on the device */
	char text[160];          /* "X25519 key made on the device; entropy: 132 of 132 sources, ..., health tests passed" */
};

/* What was loaded as code for the device. */
struct sgpu_device_code {
	char name[64];           /* "sgpu-cuda.so .nv_fatbin" */
	uint64_t size;
	uint8_t digest[32];      /* KT128, customisation SGPU_DEVICE_CODE_CUSTOM, of the bytes that the driver is given */
};
enum { SGPU_DEVICE_CODE_MAX = 8 };
#define SGPU_DEVICE_CODE_CUSTOM "sgpu measure v1"

/* A GPU's own attestation, from NVML. */
struct sgpu_device_evidence {
	char architecture[16];   /* "HOPPER", "BLACKWELL" */
	uint8_t *report, *chain; /* from malloc, the caller's; chain: certificates in PEM */
	size_t report_size, chain_size;
};

/* What runs on a stream: a kernel's host side. On the CPU device it is called on the stream's thread while it
 * holds a token of `pool`; on CUDA it is called at once and enqueues on `native` (a CUstream). A non-zero return
 * becomes the task's code. */
struct sgpu_launch {
	struct sgpu_device *device;
	struct sgpu_pool *pool;
	void *native;
	struct sgpu_error *error;
	/* Two words, zero at first: what the launch found out while it ran. CUDA: an address for kernels, in host memory
	 * that the device can write. status[0]: an enum sgpu_code, the task's code when it is not 0; status[1]: the
	 * task's `actual`. */
	int64_t *status;
	/* CUDA: scratch words in device memory that are zero at every launch, SGPU_LAUNCH_COUNTERS of them. */
	unsigned *counters;
};
enum { SGPU_LAUNCH_COUNTERS = 64 };
/* A device's implementation of an operation: enqueues it on launch->native. */
typedef int (*sgpu_op_fn)(struct sgpu_op_call *call, struct sgpu_launch *launch);
typedef int (*sgpu_launch_fn)(struct sgpu_launch *launch, void *argument);

/* How a module's function is started: as the CUDA Driver API's cuLaunchKernel has it. */
struct sgpu_module_shape {
	unsigned grid[3], block[3];  /* each at least 1 */
	unsigned shared_bytes;       /* dynamic shared memory of a block */
};

/* The memory that a module's function works on. */
struct sgpu_module_memory {
	const struct sgpu_device_range *ranges;
	int count;                   /* SGPU_MODULE_RANGES_MAX at most */
	uint64_t written;            /* by range, from bit 0: the function writes it, and does not read it */
	const int *target;           /* by argument: the range that it points at, or -1 */
};
enum { SGPU_MODULE_RANGES_MAX = 64 };

/* What holds for the process that modules of the CPU device run in; 0: not to be had on this machine. */
struct sgpu_module_confinement {
	uint8_t process;             /* it has its own */
	uint8_t user, mount, pid, net, ipc, uts; /* its own namespace of each kind */
	uint8_t root;                /* a root with libraries in it, and nothing else */
	uint8_t landlock;            /* the version; it bars all files but libraries */
	uint8_t seccomp;             /* a list of the system calls that computing code makes; others end the process */
	uint8_t named;               /* the call that ended it is known by name */
	uint8_t capabilities;        /* it has none */
};

/* Something that a backend rests on and that may be missing. */
struct sgpu_device_part {
	char name[32];           /* "driver" */
	bool found;
	char text[160];          /* what was found: "580.159.04, serves CUDA 13.0"; else what is missing */
	char hint[256];          /* how to get it; "" when it is there */
};
enum { SGPU_DEVICE_PARTS_MAX = 8 };

/* Kinds of devices, in order of preference: "cuda", "cpu"; NULL behind the last. */
const char *sgpu_device_kind(int index);
/* What devices rest on, whether there is one or not: fills in at most SGPU_DEVICE_PARTS_MAX and returns how many. */
int sgpu_device_parts(struct sgpu_device_part *parts);
/* Their own implementation of an operation, which can be told without a device. NULL: they have none, or "cpu", whose
 * implementations are in the table of operations. */
sgpu_op_fn sgpu_device_kind_op(const char *kind, const char *name);

/* selector: "cpu", "cuda", "cuda:1", "cuda:GPU-5d0c..." (a UUID, or so much of it that only one fits), "auto" (the
 * first backend that has a device). Indexes count the devices that CUDA_VISIBLE_DEVICES leaves. Errors: SGPU_EUNAVAILABLE,
 * SGPU_EUSAGE for an unknown word. Close clears and frees whatever is still allocated.
 * A GPU's fault (an illegal address, a trap, an uncorrectable memory error) ends its context: everything pending and
 * everything later is SGPU_EDEVICE, and so is every other GPU that the process opens, which has to be started again.
 * A kernel that goes on 5 s after sgpu_device_cancel is given up, with SGPU_ECANCELED for all that is pending. */
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
 * until then. An event is recorded before it is waited for, once; it may be freed while work still waits for it. Who
 * waits for that later work has waited for what is before the event: its tasks have ended, its callbacks were called. */
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
/* The key schedule of one sealed segment, brought to the device once with the tables that follow from it. `keys` are
 * copied at once. It may be used on every stream of the device as soon as this returns. Free wipes it there, too; no
 * work with it may be pending. To a GPU it goes sealed under a session key (sgpu_device_agree), unless bare keys were
 * asked for. One that was changed on its way is found out by the first task with it: SGPU_EAUTH. The first key of a device
 * waits for the agreement and for a known answer of the kernels; SGPU_EDEVICE when either fails. */
SGPU_MUST_CHECK int sgpu_device_key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys,
					 struct sgpu_device_key **key, struct sgpu_error *error);
void sgpu_device_key_free(struct sgpu_device_key **key);
/* As sgpu_open_chunks and sgpu_seal_chunks, in device memory, at any alignment. in and out may not overlap. What a
 * failed open wrote is cleared before whoever waits for it learns of its end; so nothing that reads `out` may be
 * enqueued before the task has ended well. */
SGPU_MUST_CHECK int sgpu_device_open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
					    bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
					    struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_device_seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
					    bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
					    struct sgpu_task *task);
/* KangarooTwelve (RFC 9861, KT128) of device memory where it lies, with a customisation string of at most
 * SGPU_DIGEST_CUSTOM_MAX bytes, copied at once. `digest`, SGPU_DIGEST_SIZE bytes in host memory, is valid once the
 * task has ended; the task is not NULL. A GPU leaves the last node of more than 8 KiB to the processor: the chaining
 * values of the others pass through host memory, and the state behind the first 8 KiB does, which tells the next bytes
 * to whoever knows those before. What it tells of HIGH memory, a digest tells as well to whoever can guess it. */
enum { SGPU_DIGEST_SIZE = 32, SGPU_DIGEST_CUSTOM_MAX = 256 };
SGPU_MUST_CHECK int sgpu_device_digest(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
				       const void *custom, size_t custom_size, uint8_t *digest,
				       struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_device_launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
				       struct sgpu_task *task);
/* The same for a launch that says what it touches: SGPU_EUSAGE when a range is not in one allocation of the device. A secure
 * context (sgpu/secure.h) refuses what leaves it. */
SGPU_MUST_CHECK int sgpu_device_launch_on(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
					  const struct sgpu_device_range *ranges, int count, struct sgpu_task *task);
/* Calls a host function, which must be short and may not enqueue, when the work before it has ended. */
SGPU_MUST_CHECK int sgpu_stream_callback(struct sgpu_stream *stream, void (*function)(void *argument),
					 void *argument);
/* Asks running kernels to stop early (their tasks end with SGPU_ECANCELED), until set to false. */
void sgpu_device_cancel(struct sgpu_device *device, bool cancel);

/* Whether an event that was recorded has completed, without waiting. */
SGPU_MUST_CHECK int sgpu_event_query(struct sgpu_event *event, bool *done, struct sgpu_error *error);

/* Host memory for copies, from a pool that the device keeps: on a GPU pinned once and lent again and again, near to
 * it; on the CPU device plain memory. Starts at a multiple of 4096. Cleared when it is given back. Unit: bytes. Errors:
 * SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
				    struct sgpu_error *error);
/* No copy may be pending. Accepts a pointer to NULL; clears it. */
void sgpu_host_free(struct sgpu_device *device, void **memory, uint64_t size);
/* Lets the device read memory of the caller by itself, which may be mapped for reading only; whole pages. Errors:
 * SGPU_EUNAVAILABLE where that is not to be had (the CPU device; NVIDIA's confidential computing mode; files on a disk):
 * copy it then. Unregister before it is unmapped. */
SGPU_MUST_CHECK int sgpu_host_register(struct sgpu_device *device, const void *memory, uint64_t size,
				       struct sgpu_error *error);
void sgpu_host_unregister(struct sgpu_device *device, const void *memory);

/* The device's implementation of an operation for sgpu_device_launch, or NULL; on the CPU device always NULL, since
 * the table of operations has it. */
sgpu_op_fn sgpu_device_op(struct sgpu_device *device, const char *name);

/* Kernels that came as data. CUDA: `image` is a cubin, a fatbin or PTX text; on the CPU device an ELF shared object,
 * whose functions have the type sgpu_module_fn. The image is copied. It must have been verified: it is code. Errors:
 * SGPU_EINVALID (not an image that this device takes), SGPU_EDEVICE; SGPU_EPOLICY, CPU device: it did what is refused.
 * On the CPU device a module runs in a process of its own, confined, that knows of the memory alone that a launch names; one
 * launch of a module runs at a time. */
typedef int (*sgpu_module_fn)(const struct sgpu_module_shape *shape, void *const *args, int arg_count);
SGPU_MUST_CHECK int sgpu_device_module_load(struct sgpu_device *device, const void *image, size_t size,
					    struct sgpu_device_module **module, struct sgpu_error *error);
void sgpu_device_module_free(struct sgpu_device_module **module); /* no launch may be pending */
/* args[i] points at the value of argument i, arg_sizes[i] bytes (CPU device: 16 at most), copied at once. `memory` says which
 * arguments are addresses of device memory, and of what: on the CPU device the function sees no other. There what it writes
 * is zero at first, and nothing else that it changes is kept. NULL: the caller does not say. Errors at once, or in the task
 * where the device learns of it later: SGPU_EINVALID when there is no such function, or its parameters differ in number or
 * size where the device can tell. */
SGPU_MUST_CHECK int sgpu_device_module_launch_on(struct sgpu_stream *stream, struct sgpu_device_module *module,
						 const char *function, const struct sgpu_module_shape *shape,
						 void *const *args, const size_t *arg_sizes, int arg_count,
						 const struct sgpu_module_memory *memory, struct sgpu_task *task);
/* How modules are confined. On a GPU: not at all (all zero), they run there. Errors: SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_device_module_confinement(struct sgpu_device *device,
						   struct sgpu_module_confinement *confinement,
						   struct sgpu_error *error);
/* Whether a module of this device was ended because it did what is refused: then what runs is not what its owner meant, and
 * no result of it should be given out. */
bool sgpu_device_module_broke_rules(struct sgpu_device *device);

/* Whether keys travel sealed to a key that the device made; makes it on the first call, after a known answer. It keeps keys
 * from who records the bus, not from who changes what crosses it or reads device memory: nothing proves whose key it is. On a
 * device whose memory is the runner's own it says that there is nothing to agree. Errors: SGPU_EDEVICE (no known answer, or its
 * entropy failed the health tests), then for good. */
SGPU_MUST_CHECK int sgpu_device_agree(struct sgpu_device *device, struct sgpu_device_agreement *agreement,
				      struct sgpu_error *error);
/* Digests of the device's code, into `list` of SGPU_DEVICE_CODE_MAX; returns how many (the CPU device has none of its own: its
 * operations are the program's). Of the bytes that the driver is given: what runs cannot be read back. Errors: negative. */
SGPU_MUST_CHECK int sgpu_device_code_digests(struct sgpu_device *device, struct sgpu_device_code *list,
					     struct sgpu_error *error);
/* The same from the file of the CUDA device, sgpu-cuda.so, which need not be loaded. Errors: SGPU_ESYSTEM, SGPU_EINVALID
 * where there is none in it. */
SGPU_MUST_CHECK int sgpu_device_code_of_file(const char *path, struct sgpu_device_code *code, struct sgpu_error *error);
/* The GPU's attestation report for a nonce, as NVML gives it: nothing of it is verified. Free it with the next one. Errors:
 * SGPU_EUNAVAILABLE where it has none: no confidential computing. */
SGPU_MUST_CHECK int sgpu_device_get_evidence(struct sgpu_device *device, const uint8_t nonce[32],
					     struct sgpu_device_evidence *evidence, struct sgpu_error *error);
void sgpu_device_evidence_clear(struct sgpu_device_evidence *evidence);

/* Returns when all work that was enqueued before has ended, on all streams. Not from a callback or a launch. */
SGPU_MUST_CHECK int sgpu_device_synchronize(struct sgpu_device *device, struct sgpu_error *error);

/* ---- pages: for lib/channel and lib/secure alone ----
 * Sizes and offsets are multiples of `small`; frames count small pages of physical memory; a big page is named by its first
 * frame, a multiple of big / small. A frame gets memory when it is first mapped, and keeps it until the device is closed: from
 * then on it counts as memory in use, and the contents stay with it wherever it is mapped. Frames that were mapped as small
 * pages can come back as one big page, and the other way round; a GPU then makes new memory for them, zero, where the CPU
 * device keeps what was there. A frame is mapped at one place at a time. A call that is refused changes nothing.
 * Errors: SGPU_EUNAVAILABLE, SGPU_ENOMEM, SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_device_pages(struct sgpu_device *device, struct sgpu_pages_info *info, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_space_create(struct sgpu_device *device, uint64_t size, struct sgpu_space **space,
				      sgpu_devptr *base, struct sgpu_error *error);
void sgpu_space_free(struct sgpu_space **space); /* waits for all work, unmaps; nothing is cleared */
SGPU_MUST_CHECK int sgpu_page_map(struct sgpu_space *space, uint64_t at, const uint32_t *frames, size_t count,
				  uint64_t page_size, struct sgpu_error *error);
/* Unmaps whatever of the range is mapped; a big page is not cut in two. Waits for all work of the device while the space can
 * be reached. */
SGPU_MUST_CHECK int sgpu_page_unmap(struct sgpu_space *space, uint64_t at, uint64_t size, struct sgpu_error *error);
/* Whether kernels and copies reach what is mapped, now and later; not at first. Taking it away waits for all work of the
 * device. */
SGPU_MUST_CHECK int sgpu_space_access(struct sgpu_space *space, bool on, struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
