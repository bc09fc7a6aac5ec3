/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that a backend implements; sgpu/device.h and device.h describe them. device.c clears
 * out-parameters before a call. Backends clear memory before they free it.
 */
#ifndef SGPU_DEVICE_BACKEND_H
#define SGPU_DEVICE_BACKEND_H

#include "device/device.h"

/* Sets memory_limit of struct sgpu_device_config; memory above it stays allocated. The limit covers
 * allocations and all pages ever mapped, since the device keeps these, but not a driver's own
 * memory and code. 0: none. For any thread, also for a secure context. */
void sgpu_device_set_limit(struct sgpu_device *device, uint64_t bytes);

struct sgpu_device_memory_calls {
	int (*alloc)(struct sgpu_device *device, uint64_t size, sgpu_devptr *memory,
		     struct sgpu_error *error);
	void (*free)(struct sgpu_device *device, sgpu_devptr memory, uint64_t size);
	int (*host_alloc)(struct sgpu_device *device, uint64_t size, void **memory,
			  struct sgpu_error *error);
	void (*host_free)(struct sgpu_device *device, void *memory, uint64_t size);
	/* Both NULL: the device registers no memory. */
	int (*host_register)(struct sgpu_device *device, const void *memory, uint64_t size,
			     struct sgpu_error *error);
	void (*host_unregister)(struct sgpu_device *device, const void *memory);
	void (*limit)(struct sgpu_device *device, uint64_t bytes);
	/* Refuses a range that is not in one allocation, past whose end work would reach other
	 * data. */
	int (*check)(struct sgpu_device *device, sgpu_devptr memory, uint64_t size,
		     struct sgpu_task *task);
	/* Backends with the same call reach each other's events and memory. */
	int (*shared_alloc)(struct sgpu_device *device, struct sgpu_device *peer, uint64_t size,
			    sgpu_devptr *memory, struct sgpu_error *error);
	void (*shared_free)(struct sgpu_device *device, struct sgpu_device *peer,
			    sgpu_devptr memory);
};

/* The ranges of device memory that `work` touches; returns their number, 1 or 2. Check ranges[0]
 * first: unless it is allocated, its size may have made ranges[1] wrap around. */
int sgpu_work_ranges(const struct sgpu_work *work, struct sgpu_device_range ranges[2]);
struct sgpu_device_stream_calls {
	int (*create)(struct sgpu_device *device, struct sgpu_stream **stream,
		      struct sgpu_error *error);
	void (*free)(struct sgpu_stream *stream);
	int (*sync)(struct sgpu_stream *stream, struct sgpu_error *error);
	/* also for an event of another device of the backend */
	int (*wait)(struct sgpu_stream *stream, struct sgpu_event *event);
	/* Gets OPEN_FROM and SEAL_TO only if the key calls have `reaches`. Stops at the first piece
	 * that cannot be enqueued. */
	int (*enqueue)(struct sgpu_stream *stream, const struct sgpu_work *work, int count);
	int (*launch)(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		      const struct sgpu_device_range *ranges, int count, struct sgpu_task *task);
	int (*event_create)(struct sgpu_device *device, struct sgpu_event **event,
			    struct sgpu_error *error);
	void (*event_free)(struct sgpu_event *event);
	int (*event_record)(struct sgpu_stream *stream, struct sgpu_event *event);
	int (*event_query)(struct sgpu_event *event, bool *done, struct sgpu_error *error);
};

struct sgpu_device_key_calls {
	int (*load)(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material, int count,
		    struct sgpu_device_key **keys, struct sgpu_error *error);
	void (*free)(struct sgpu_device_key *key);
	/* NULL: kernels reach no host memory. */
	bool (*reaches)(struct sgpu_device *device, const void *memory, uint64_t size, bool write);
	/* NULL: keys never leave host memory, so no agreement is needed. */
	int (*agree)(struct sgpu_device *device, struct sgpu_device_agreement *agreement,
		     struct sgpu_error *error);
};

struct sgpu_device_module_calls {
	int (*load)(struct sgpu_device *device, const void *image, size_t size,
		    struct sgpu_device_module **module, struct sgpu_error *error);
	void (*free)(struct sgpu_device_module *module);
	/* memory: NULL when the caller does not say what the function works on. */
	int (*launch)(struct sgpu_stream *stream, struct sgpu_device_module *module,
		      const char *function, const struct sgpu_module_shape *shape,
		      void *const *args, const size_t *arg_sizes, int arg_count,
		      const struct sgpu_module_memory *memory, struct sgpu_task *task);
	/* Both NULL: modules run on the device itself, unconfined. */
	int (*confinement)(struct sgpu_device *device, struct sgpu_module_confinement *confinement,
			   struct sgpu_error *error);
	bool (*broke_rules)(struct sgpu_device *device);
};

struct sgpu_frames;
struct sgpu_device_backend {
	const char *name; /* "cpu" */
	/* If no device is available, *error says what is missing and how to get it. */
	int (*probe)(struct sgpu_error *error); /* of CUDA alone */
	int (*open)(const char *selector, const struct sgpu_device_config *config,
		    struct sgpu_device **device, struct sgpu_error *error);
	void (*close)(struct sgpu_device *device);
	int (*info)(struct sgpu_device *device, struct sgpu_device_info *info,
		    struct sgpu_error *error);
	int (*synchronize)(struct sgpu_device *device, struct sgpu_error *error);
	void (*cancel)(struct sgpu_device *device, bool cancel);
	/* `pool` is NULL if the backend computes on no processor of the host, `frames` if it maps
	 * no pages. The next four may be NULL, too. */
	struct sgpu_pool *(*pool)(struct sgpu_device *device);
	struct sgpu_frames *(*frames)(struct sgpu_device *device); /* space.h */
	int (*access)(struct sgpu_space *space, bool on, struct sgpu_error *error);
	sgpu_op_fn (*op)(const char *name);
	int (*parts)(struct sgpu_device_part *parts);
	int (*code)(struct sgpu_device *device,
		    struct sgpu_device_code *list); /* returns how many */
	int (*evidence)(struct sgpu_device *device, const uint8_t nonce[32],
			struct sgpu_device_evidence *evidence, struct sgpu_error *error);
	const struct sgpu_device_memory_calls *memory;
	const struct sgpu_device_stream_calls *stream;
	const struct sgpu_device_key_calls *key;
	const struct sgpu_device_module_calls *module;
};

extern const struct sgpu_device_backend sgpu_device_cpu;
/* Gets the backend that sgpu-cuda.so has, which is loaded on first use. If there is no GPU for it,
 * *error says what is missing and how to get it. */
SGPU_MUST_CHECK int sgpu_cuda_load(const struct sgpu_device_backend **backend,
				   struct sgpu_error *error);

/* The guard of a secure context (lib/channel), which is used as a device. The context's calls,
 * streams, keys and modules are those of the device under it. Requests that touch device memory ask
 * the guard first. */
struct sgpu_device_guard {
	const struct sgpu_device_guard_calls *calls;
	struct sgpu_device *device; /* under the context */
};

struct sgpu_device_guard_calls {
	void (*info)(struct sgpu_device_guard *guard, struct sgpu_device_info *info);
	int (*alloc)(struct sgpu_device_guard *guard, uint64_t size, sgpu_devptr *memory,
		     struct sgpu_error *error);
	void (*free)(struct sgpu_device_guard *guard, sgpu_devptr memory);
	int (*check)(struct sgpu_device_guard *guard, sgpu_devptr memory, uint64_t size,
		     struct sgpu_task *task);
	/* Begins a request that touches these ranges; the caller then enqueues the request and
	 * calls leave, but not after an error. */
	int (*enter)(struct sgpu_device_guard *guard, const struct sgpu_device_range *ranges,
		     int count, struct sgpu_task *task);
	void (*leave)(struct sgpu_device_guard *guard);
};

/* Every backend's struct sgpu_device, _stream, _event, _device_key, _device_module and
 * _space begin with this. */
struct sgpu_device_object {
	const struct sgpu_device_backend *backend;
	struct sgpu_device_guard *guard; /* or NULL; device.c sets it in new objects */
};

static inline const struct sgpu_device_backend *sgpu_device_backend_of(const void *object)
{
	return ((const struct sgpu_device_object *)object)->backend;
}

static inline struct sgpu_device_guard *sgpu_device_guard_of(const void *object)
{
	return ((const struct sgpu_device_object *)object)->guard;
}

static inline int sgpu_guard_enter(struct sgpu_device_guard *guard,
				   const struct sgpu_device_range *ranges, int count,
				   struct sgpu_task *task)
{
	return guard ? guard->calls->enter(guard, ranges, count, task) : SGPU_OK;
}

static inline int sgpu_guard_leave(struct sgpu_device_guard *guard, int rc)
{
	if (guard) {
		guard->calls->leave(guard);
	}
	return rc;
}

SGPU_MUST_CHECK int sgpu_device_check(struct sgpu_device *device,
				      const struct sgpu_device_range *ranges, int count,
				      struct sgpu_task *task);

/* Store in the task, or NULL, why nothing was enqueued; return `code`, or SGPU_EUSAGE for a range
 * that is not in one allocation. */
int sgpu_task_refuse(struct sgpu_task *task, int code, const char *text);
int sgpu_task_refuse_range(struct sgpu_task *task, sgpu_devptr address, uint64_t size);

/* ---- elf.c: shared objects before the loader sees them ---- */
/* Returns why the loader should not see a file, such as "was cut short", or NULL. The loader would
 * read past the end of a truncated file, and say that one for another processor does not exist. */
const char *sgpu_elf_fault(const void *image, size_t size);

struct sgpu_elf_section {
	uint64_t offset;  /* in the file */
	uint64_t address; /* relative to the load address */
	uint64_t size;
};
/* False unless the section exists, is loaded, is not empty and lies wholly in the file. */
bool sgpu_elf_find_section(const void *image, size_t size, const char *name,
			   struct sgpu_elf_section *section);

/* ---- the digest of device code, in a file or loaded ---- */
#define SGPU_CODE_SECTION ".nv_fatbin"

void sgpu_device_code_digest(const void *bytes, uint64_t size, struct sgpu_device_code *code);
/* Maps a file for reading; the caller unmaps it. */
SGPU_MUST_CHECK int sgpu_code_file_map(const char *path, void **image, size_t *size,
				       struct sgpu_error *error);

/* ---- the interface between the program and sgpu-cuda.so, which exports one symbol ---- */
/* Incremented with each change of a struct of sgpu/device.h, a call of device/backend.h, or struct
 * sgpu_op_call. */
enum { SGPU_CUDA_PLUGIN_ABI = 15 };
#define SGPU_CUDA_PLUGIN_SYMBOL "sgpu_cuda_plugin"

struct sgpu_cuda_plugin {
	uint32_t abi; /* always the first member */
	uint32_t backend_size;
	const char *version; /* SGPU_VERSION */
	const struct sgpu_device_backend *backend;
};

#endif
