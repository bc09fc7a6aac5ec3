/* SPDX-License-Identifier: Apache-2.0
 *
 * One interface to a device: memory apart from host memory, streams, asynchronous copies, modules.
 * The CPU device is the specification; every other device gives the same bytes.
 *
 * A function that takes a stream enqueues work. The task that the caller passes gets the outcome;
 * it must live until the work has ended, which the caller learns by synchronising the stream or the
 * device. If the function itself fails, there is no work, and the task has the error. The work of
 * one stream runs in order. A task that fails does not stop its stream.
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
struct sgpu_device_module;

/* The outcome of one piece of enqueued work; zero it before use. */
struct sgpu_task {
	int code;		 /* SGPU_OK or a negative code */
	struct sgpu_error error; /* its text */
	uint64_t begin_ns,
		end_ns; /* of the clock of sgpu_now_ns(); valid once the work has ended */
	bool mistimed;	/* begin_ns and end_ns are only bounds: the device gave impossible times */
	uint64_t bad_chunk; /* of a failed opening: the chunk's number */
	uint64_t actual; /* of a launch: elements written by an operation of unknown output size */
	bool untimed; /* set by the caller: the device need not take the time; end_ns is then when
			 the host saw the end */
};

struct sgpu_device_info {
	char name[128];	       /* "CPU device, AMD EPYC 9B45" */
	char selector[64];     /* "cpu", "cuda:0" */
	char uuid[64];	       /* "GPU-5d0c...", as other tools name it; "" when it has none */
	char driver[64];       /* "driver 580.159.04, CUDA 13.0"; "" when there is none */
	char vbios[32];	       /* version of a GPU's firmware: "96.00.99.00.01"; "" when unknown */
	char capability[16];   /* compute capability of a GPU: "9.0"; "" on the CPU */
	char confidential[32]; /* a GPU's confidential computing: "off", "on", "devtools",
				  "unknown"; else "" */
	int numa_node;	       /* the nearest NUMA node, or -1 */
	uint64_t memory_total, memory_free; /* bytes */
	unsigned compute_units;		    /* workers, or multiprocessors */
	/* Plaintext of HIGH segments is never in the host's memory; false on the CPU device, whose
	 * memory is host memory. Every device opens and seals. */
	bool opens_on_device;
	bool pins_host_memory; /* sgpu_host_alloc returns memory that the device reads by DMA */
	bool registers;	       /* sgpu_host_register may work; not in confidential computing mode */
	char timer[16]; /* a task's clock: "host", "events", "globaltimer" (enum sgpu_device_timer)
			 */
	bool secure;	/* this is a secure context (lib/channel) over a device */
	uint64_t piece; /* bytes of one step of a large transfer; a multiple of SGPU_CHUNK */
};

/* The source of the times of a GPU's tasks. In confidential computing mode, times between CUDA's
 * events are known to be wrong, even negative. A kernel of one thread after each timed task then
 * stores the GPU's register %globaltimer, which prolongs the task by some microseconds. */
enum sgpu_device_timer {
	SGPU_TIMER_AUTO, /* %globaltimer in confidential computing mode, else events */
	SGPU_TIMER_EVENTS,
	SGPU_TIMER_GLOBALTIMER,
};
const char *sgpu_device_timer_name(
	enum sgpu_device_timer timer); /* "auto", "events", "globaltimer" */

struct sgpu_device_config {
	unsigned jobs;		      /* CPU device: workers; 0: one per processor */
	uint64_t memory_limit;	      /* bytes of device memory; 0: no limit */
	enum sgpu_device_timer timer; /* of a GPU */
};

/* A range of device memory that a launch reads or writes. */
struct sgpu_device_range {
	sgpu_devptr address;
	uint64_t size;
};

/* ---- pages, of which secure contexts are made ---- */
struct sgpu_pages_info {
	uint64_t small, big; /* bytes; CPU device: 4 KiB and 2 MiB; CUDA: 2 MiB and 64 MiB */
	uint64_t total; /* bytes of physical memory that pages can be made of; a multiple of big */
};

/* The device's key, to which keys of segments are sealed on their way to the device. */
struct sgpu_device_agreement {
	bool agreed;		/* false: keys cross no bus */
	uint8_t public_key[32]; /* X25519, made on the device */
	char text[160]; /* "X25519 key made on the device; entropy: 132 of 132 sources, ..." */
};

/* How a module's function is started, in the terms of the CUDA Driver API's cuLaunchKernel. */
struct sgpu_module_shape {
	unsigned grid[3], block[3]; /* each at least 1 */
	unsigned shared_bytes;	    /* dynamic shared memory of a block */
};

/* The memory that a module's function works on. */
struct sgpu_module_memory {
	const struct sgpu_device_range *ranges;
	int count;	   /* SGPU_MODULE_RANGES_MAX at most */
	uint64_t written;  /* by range, from bit 0: the function writes the range, and does not read
			      it */
	const int *target; /* by argument: index of the range that it points at, or -1 */
};
enum { SGPU_MODULE_RANGES_MAX = 64 };

/* How the process that modules of the CPU device run in is confined; 0: not possible on this
 * machine. */
struct sgpu_module_confinement {
	uint8_t process;			 /* a process of its own */
	uint8_t user, mount, pid, net, ipc, uts; /* a namespace of its own, of each kind */
	uint8_t root;				 /* a root directory with nothing but libraries */
	uint8_t landlock; /* version of Landlock, which denies all files but libraries */
	uint8_t seccomp;  /* only the system calls of computing code; any other ends the process, by
			     name */
	uint8_t capabilities; /* no capabilities */
};

/* ---- devices ---- */

/* Opens a device. selector: "cpu", "cuda", "cuda:1", "cuda:GPU-5d0c..." (a UUID, or a prefix that
 * no other GPU's UUID has), "auto" (the first kind that has a device). Indexes count the devices
 * that CUDA_VISIBLE_DEVICES leaves. Errors: SGPU_EUNAVAILABLE, SGPU_EUSAGE for an unknown word. A
 * fault of a GPU (an illegal address, a trap, an uncorrectable memory error) ends its context:
 * everything pending and everything later ends with SGPU_EDEVICE. The process can then use no other
 * GPU either; it has to be started again. A kernel that still runs 5 s after sgpu_device_cancel is
 * abandoned: everything pending ends with SGPU_ECANCELED. */
SGPU_MUST_CHECK int sgpu_device_open(const char *selector, const struct sgpu_device_config *config,
				     struct sgpu_device **device, struct sgpu_error *error);
/* Clears and frees whatever is still allocated. */
void sgpu_device_close(struct sgpu_device **device);
SGPU_MUST_CHECK int sgpu_device_get_info(struct sgpu_device *device, struct sgpu_device_info *info,
					 struct sgpu_error *error);
/* Returns when all work that was enqueued before has ended, on all streams. Not to be called from a
 * launch. */
SGPU_MUST_CHECK int sgpu_device_synchronize(struct sgpu_device *device, struct sgpu_error *error);

/* On the first call, makes the device's key and agrees on a session key, after a test with a known
 * answer. This hides keys from those who record the bus, not from those who change its traffic or
 * read device memory: nothing proves whose key it is. A device whose memory is part of the host's
 * says that there is nothing to agree. Errors: SGPU_EDEVICE (a wrong answer, or the device's
 * entropy failed the health tests), also on all later calls. */
SGPU_MUST_CHECK int sgpu_device_agree(struct sgpu_device *device,
				      struct sgpu_device_agreement *agreement,
				      struct sgpu_error *error);
/* Describes the pages that the device maps. Errors: SGPU_EUNAVAILABLE (it maps none). */
SGPU_MUST_CHECK int sgpu_device_pages(struct sgpu_device *device, struct sgpu_pages_info *info,
				      struct sgpu_error *error);

/* ---- memory ---- */
/* Memory starts at a multiple of 4096; size 0 gives a valid address that holds nothing. Unit:
 * bytes. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_device_alloc(struct sgpu_device *device, uint64_t size,
				      sgpu_devptr *memory, struct sgpu_error *error);
/* Clears and frees memory without pending work. Sets *memory to 0; accepts 0 there. */
void sgpu_device_free(struct sgpu_device *device, sgpu_devptr *memory, uint64_t size);

/* Host memory for copies, from a pool of the device: on a GPU it is pinned once, near the device,
 * and reused; on the CPU device it is plain memory. It starts at a multiple of 4096. Unit: bytes.
 * Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
				    struct sgpu_error *error);
/* Clears and returns memory without pending copies. Sets *memory to NULL; accepts NULL there. */
void sgpu_host_free(struct sgpu_device *device, void **memory, uint64_t size);
/* Lets the device read the caller's memory by DMA: whole pages, which may be mapped for reading
 * only. Errors: SGPU_EUNAVAILABLE where that is not possible (the CPU device; NVIDIA's confidential
 * computing mode; files on a disk); the caller then copies it. */
SGPU_MUST_CHECK int sgpu_host_register(struct sgpu_device *device, const void *memory,
				       uint64_t size, struct sgpu_error *error);
/* Call it before the memory is unmapped. */
void sgpu_host_unregister(struct sgpu_device *device, const void *memory);

/* Host memory must stay valid until the task has ended. Unit: bytes. Here and below, `task` may be
 * NULL unless a comment says otherwise, and a range that is not in one allocation of the device
 * fails immediately with SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from,
				 uint64_t size, struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from,
				  uint64_t size, struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_device_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
				      struct sgpu_task *task);

/* ---- streams ---- */
/* The CPU device does brief work of an idle stream in the call that enqueues it. Other work is done
 * by a thread of the stream or, if none can be started, also in the call. Errors: SGPU_ENOMEM, also
 * for more streams than the device serves. */
SGPU_MUST_CHECK int sgpu_stream_create(struct sgpu_device *device, struct sgpu_stream **stream,
				       struct sgpu_error *error);
void sgpu_stream_free(struct sgpu_stream **stream); /* waits for its work first */
SGPU_MUST_CHECK int sgpu_stream_sync(struct sgpu_stream *stream, struct sgpu_error *error);

/* ---- modules: kernels that came as data ---- */
/* CUDA: `image` is a cubin, a fatbin or PTX text. CPU device: an ELF shared object, whose functions
 * have the type sgpu_module_fn; it runs in a confined process of its own, which gets only the
 * memory that a launch names, and one launch of a module runs at a time. The image is copied. The
 * caller must have verified it. Errors: SGPU_EINVALID (not an image for this device), SGPU_EDEVICE;
 * CPU device: SGPU_EPOLICY (a refused system call), SGPU_EUNAVAILABLE (256 modules are loaded; or
 * the program prepared no process for them, as sgpu-enclave alone does). */
typedef int (*sgpu_module_fn)(const struct sgpu_module_shape *shape, void *const *args,
			      int arg_count);
SGPU_MUST_CHECK int sgpu_device_module_load(struct sgpu_device *device, const void *image,
					    size_t size, struct sgpu_device_module **module,
					    struct sgpu_error *error);
void sgpu_device_module_free(struct sgpu_device_module **module); /* no launch may be pending */
/* args[i] points at the value of argument i, arg_sizes[i] bytes (CPU device: 16 at most), which
 * this copies. `memory`, also copied, says which arguments are addresses, and of what memory; NULL:
 * none is. On the CPU device the function gets no other memory. Ranges that it writes are zero at
 * first, and changes to others are lost. Errors, returned or in the task: SGPU_EINVALID when there
 * is no such function, or when its parameters differ in number or size and the device can tell. */
SGPU_MUST_CHECK int sgpu_device_module_launch_on(
	struct sgpu_stream *stream, struct sgpu_device_module *module, const char *function,
	const struct sgpu_module_shape *shape, void *const *args, const size_t *arg_sizes,
	int arg_count, const struct sgpu_module_memory *memory, struct sgpu_task *task);
/* Tells how modules are confined: on a GPU, where they run, not at all (all zero). Errors:
 * SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_device_module_confinement(struct sgpu_device *device,
						   struct sgpu_module_confinement *confinement,
						   struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
