/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device: what its files share.
 *
 * A stream is a queue of items. Threads of the device take a stream that has something to do, run its items in
 * order, and leave it when it is empty or has to wait for an event; so a stream is run by one thread at a time, as
 * many streams run at once as there are threads, and a batch of thousands of streams needs no thousands of threads.
 * What computes holds a token of the pool, which is what bounds the use of the processors.
 */
#ifndef SGPU_DEVICE_CPU_CPU_H
#define SGPU_DEVICE_CPU_CPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <sgpu/device.h>

#include <device/space.h>

enum {
	SGPU_CPU_PAGE = 4096,
	SGPU_CPU_CLASSES = 9,     /* small blocks: 4 KiB to 1 MiB, powers of two */
	SGPU_CPU_THREADS = 64,    /* threads that run streams, at most */
	SGPU_CPU_SPARE = 256,     /* items kept for reuse */
	SGPU_CPU_PIECE = 1 << 20, /* plaintext bytes that are best moved at once */
};

/* ---- memory.c ---- */
struct sgpu_cpu_block {
	uint64_t address;
	uint64_t size;                 /* as asked for */
	uint64_t extent;               /* bytes behind it that are its own */
	struct sgpu_cpu_block *next;   /* in the list of free blocks of its class */
};

struct sgpu_cpu_slab {
	void *memory;
	struct sgpu_cpu_slab *next;
};

struct sgpu_cpu_memory {
	pthread_mutex_t lock;
	void *live;                    /* tree of the blocks in use, by address */
	struct sgpu_cpu_block *idle[SGPU_CPU_CLASSES]; /* cleared */
	struct sgpu_cpu_slab *slabs;
	uint64_t slab_used;            /* bytes of the first slab that were ever given out */
	uint64_t limit;                /* ours; UINT64_MAX: none */
	uint64_t budget;               /* what the machine could give when nothing was allocated */
	uint64_t looked_ns;            /* when the budget was taken */
	uint64_t used;
};

SGPU_MUST_CHECK int sgpu_cpu_memory_open(struct sgpu_cpu_memory *memory, uint64_t limit, struct sgpu_error *error);
/* Clears and frees everything. */
void sgpu_cpu_memory_close(struct sgpu_cpu_memory *memory);
SGPU_MUST_CHECK int sgpu_cpu_alloc(struct sgpu_device *device, uint64_t size, sgpu_devptr *memory,
				   struct sgpu_error *error);
void sgpu_cpu_free(struct sgpu_device *device, sgpu_devptr memory, uint64_t size);
/* Whether [address, address + size) lies in one block that is in use. */
bool sgpu_cpu_owns(struct sgpu_device *device, sgpu_devptr address, uint64_t size);
SGPU_MUST_CHECK int sgpu_cpu_host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
					struct sgpu_error *error);
void sgpu_cpu_host_free(struct sgpu_device *device, void *memory, uint64_t size);
void sgpu_cpu_memory_figures(struct sgpu_cpu_memory *memory, uint64_t *total, uint64_t *available);
/* Counts bytes that are had otherwise, for good. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_cpu_memory_promise(struct sgpu_cpu_memory *memory, uint64_t size, struct sgpu_error *error);
/* What can be given out when nothing is. */
uint64_t sgpu_cpu_memory_most(struct sgpu_cpu_memory *memory);

/* ---- pages.c ---- */
struct sgpu_cpu_pages {
	struct sgpu_frames frames;     /* its lock guards all of this */
	int fd;                        /* physical memory; once the frames are opened */
	uint64_t *made;                /* a bit a frame: it counts as memory in use */
	struct sgpu_space *spaces;
};
SGPU_MUST_CHECK int sgpu_cpu_pages(struct sgpu_device *device, struct sgpu_pages_info *info, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cpu_space_create(struct sgpu_device *device, uint64_t size, struct sgpu_space **space,
					  sgpu_devptr *base, struct sgpu_error *error);
void sgpu_cpu_space_free(struct sgpu_space *space);
SGPU_MUST_CHECK int sgpu_cpu_page_map(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
				      uint64_t page_size, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cpu_page_unmap(struct sgpu_space *space, uint64_t at, uint64_t size,
					struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cpu_space_access(struct sgpu_space *space, bool on, struct sgpu_error *error);
/* Clears and frees everything. */
void sgpu_cpu_pages_close(struct sgpu_device *device);

/* ---- stream.c ---- */
enum sgpu_cpu_kind { SGPU_CPU_COPY, SGPU_CPU_CLEAR, SGPU_CPU_OPEN, SGPU_CPU_SEAL, SGPU_CPU_DIGEST, SGPU_CPU_LAUNCH,
		     SGPU_CPU_CALL,
		     SGPU_CPU_RECORD, SGPU_CPU_WAIT };

struct sgpu_cpu_item {
	enum sgpu_cpu_kind kind;
	bool last;                     /* OPEN, SEAL */
	struct sgpu_task *task;        /* or NULL */
	const void *from;
	void *to;
	uint64_t size, first;
	union {
		sgpu_launch_fn launch;
		void (*call)(void *argument);
	} function;
	void *argument;
	struct sgpu_event *event;      /* holds a reference */
	struct sgpu_device_key *key;   /* OPEN, SEAL */
	struct sgpu_cpu_item *next;
};

/* ---- keys.c ---- */
struct sgpu_device_key {
	struct sgpu_device_object object;
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *model;       /* only copied from */
};
SGPU_MUST_CHECK int sgpu_cpu_key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys,
				      struct sgpu_device_key **key, struct sgpu_error *error);
void sgpu_cpu_key_free(struct sgpu_device_key *key);

/* ---- modules.c ---- */
SGPU_MUST_CHECK int sgpu_cpu_module_load(struct sgpu_device *device, const void *image, size_t size,
					 struct sgpu_device_module **module, struct sgpu_error *error);
void sgpu_cpu_module_free(struct sgpu_device_module *module);
SGPU_MUST_CHECK int sgpu_cpu_module_launch(struct sgpu_stream *stream, struct sgpu_device_module *module,
					   const char *function, const struct sgpu_module_shape *shape,
					   void *const *args, const size_t *arg_sizes, int arg_count,
					   struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_cpu_module_launch_on(struct sgpu_stream *stream, struct sgpu_device_module *module,
					      const char *function, const struct sgpu_module_shape *shape,
					      void *const *args, const size_t *arg_sizes, int arg_count,
					      const struct sgpu_module_memory *memory, struct sgpu_task *task);

/* ---- module_host.c: the process that modules run in ---- */
struct sgpu_host_answer;
struct sgpu_cpu_host {
	pthread_mutex_t lock;          /* one request at a time */
	int control;                   /* -1: it is not started */
	pid_t pid;
	struct sgpu_module_confinement confinement;
	atomic_bool broke_rules;       /* a module did what is refused */
};
/* Does nothing when it runs. */
SGPU_MUST_CHECK int sgpu_cpu_host_start(struct sgpu_device *device, struct sgpu_error *error);
void sgpu_cpu_host_stop(struct sgpu_device *device);
/* A worker that loads this image: its answers come over *channel, how it ended over *report, and it ends when that is
 * closed. */
SGPU_MUST_CHECK int sgpu_cpu_host_worker(struct sgpu_device *device, int image, uint64_t size, int *channel, int *report,
					 struct sgpu_error *error);
/* Fills *error with how a worker ended and returns its code, which is never SGPU_OK. */
int sgpu_cpu_host_ended(struct sgpu_device *device, struct sgpu_host_answer *answer, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cpu_module_confinement(struct sgpu_device *device,
						struct sgpu_module_confinement *confinement, struct sgpu_error *error);
bool sgpu_cpu_module_broke_rules(struct sgpu_device *device);

enum sgpu_cpu_state { SGPU_CPU_IDLE, SGPU_CPU_READY, SGPU_CPU_RUNNING, SGPU_CPU_WAITING };

struct sgpu_stream {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	enum sgpu_cpu_state state;
	struct sgpu_cpu_item *head, *tail;
	struct sgpu_stream *next;      /* among the ready ones, or among those that wait for an event */
	uint64_t enqueued;
	atomic_uint_fast64_t ended;    /* items; written under the lock */
	unsigned syncing;              /* threads that wait in sync */
	pthread_cond_t progress;
};

struct sgpu_event {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	unsigned references;
	bool recorded;
	atomic_bool done;
	struct sgpu_stream *waiting;
	unsigned syncing;
	pthread_cond_t progress;
};

struct sgpu_device {
	struct sgpu_device_object object;
	struct sgpu_pool *pool;
	struct sgpu_cpu_memory memory;
	struct sgpu_cpu_pages pages;
	struct sgpu_cpu_host host;
	bool may_spin;                 /* there is another processor to wait for */
	pthread_mutex_t lock;          /* everything below, streams and events */
	pthread_cond_t work;
	struct sgpu_stream *ready, *ready_tail;
	atomic_uint ready_count;
	bool spinning;                 /* one idle thread looks at ready_count without sleeping */
	unsigned idle;                 /* threads asleep */
	bool starting;                 /* a thread was created and has not looked for work yet */
	bool stopping;
	unsigned busy;                 /* streams with work that has not ended */
	unsigned quieting;             /* threads that wait until there is none */
	pthread_cond_t quiet;
	unsigned thread_count, thread_max;
	pthread_t threads[SGPU_CPU_THREADS];
	struct sgpu_cpu_item *spare;
	unsigned spare_count;
};

/* Starts the first thread. */
SGPU_MUST_CHECK int sgpu_cpu_threads_start(struct sgpu_device *device, struct sgpu_error *error);
/* Runs what is still enqueued and can run, then ends the threads. */
void sgpu_cpu_threads_stop(struct sgpu_device *device);
/* Waits until no stream has work left. Not from a callback or a launch. */
void sgpu_cpu_quiet(struct sgpu_device *device);
/* Enqueues a copy of *item. */
SGPU_MUST_CHECK int sgpu_cpu_enqueue(struct sgpu_stream *stream, const struct sgpu_cpu_item *item);

SGPU_MUST_CHECK int sgpu_cpu_stream_create(struct sgpu_device *device, struct sgpu_stream **stream,
					   struct sgpu_error *error);
void sgpu_cpu_stream_free(struct sgpu_stream *stream);
SGPU_MUST_CHECK int sgpu_cpu_stream_sync(struct sgpu_stream *stream, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cpu_event_create(struct sgpu_device *device, struct sgpu_event **event,
					  struct sgpu_error *error);
void sgpu_cpu_event_free(struct sgpu_event *event);
SGPU_MUST_CHECK int sgpu_cpu_event_sync(struct sgpu_event *event, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cpu_event_query(struct sgpu_event *event, bool *done, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cpu_event_record(struct sgpu_stream *stream, struct sgpu_event *event);
SGPU_MUST_CHECK int sgpu_cpu_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event);

/* ---- work.c: what an item does, on the stream's thread ---- */
void sgpu_cpu_perform(struct sgpu_device *device, struct sgpu_cpu_item *item);
/* ---- chunks.c: OPEN and SEAL, with a token held; the code also goes into the task ---- */
int sgpu_cpu_open_chunks(struct sgpu_device *device, const struct sgpu_cpu_item *item, uint64_t *bad_chunk);
int sgpu_cpu_seal_chunks(struct sgpu_device *device, const struct sgpu_cpu_item *item);

/* ---- digest.c: DIGEST; its argument is freed ---- */
SGPU_MUST_CHECK int sgpu_cpu_digest(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, const void *custom,
				    size_t custom_size, uint8_t *digest, struct sgpu_task *task);
int sgpu_cpu_digest_now(struct sgpu_device *device, const struct sgpu_cpu_item *item, struct sgpu_error *error);

/* ---- cpu.c ---- */
/* Refuses a range that is not in one allocation: a kernel or a copy past it would reach another's data. */
SGPU_MUST_CHECK int sgpu_cpu_check_range(struct sgpu_stream *stream, sgpu_devptr address, uint64_t size,
					 struct sgpu_task *task);

#endif
