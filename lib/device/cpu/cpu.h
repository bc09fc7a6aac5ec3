/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the CPU device. A stream is a queue, and from its first large work on a
 * thread that runs its items in order and sleeps while there are none.
 */
#ifndef SGPU_DEVICE_CPU_CPU_H
#define SGPU_DEVICE_CPU_CPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <device/backend.h>
#include <device/space.h>

enum {
	SGPU_CPU_PAGE = 4096,
	SGPU_CPU_STREAMS = 2048,    /* most in use at once: each may have a thread */
	SGPU_CPU_PIECE = 1 << 20,   /* plaintext bytes to move at a time */
	SGPU_CPU_BRIEF = 128 << 10, /* bytes that brief work touches at most */
};

/* ---- memory.c ---- */
static inline void *sgpu_cpu_pointer(sgpu_devptr address)
{
	return (void *)(uintptr_t)address;
}

struct sgpu_cpu_block {
	struct sgpu_range range; /* its mapping */
	uint64_t size;		 /* as asked for */
};

struct sgpu_cpu_memory {
	pthread_mutex_t lock;
	void *live;	 /* blocks in use */
	void *shared;	 /* ranges of other devices' memory that this device reaches */
	uint64_t limit;	 /* UINT64_MAX: none */
	uint64_t budget; /* bytes that the machine had available when nothing was allocated */
	uint64_t total, available; /* of the machine */
	uint64_t looked_ns;	   /* when these were read */
	uint64_t used;
};

/* Maps unused memory at a multiple of `alignment`, itself one of pages; NULL: there is none. */
void *sgpu_cpu_map(uint64_t size, uint64_t alignment, int protection);
void sgpu_cpu_memory_open(struct sgpu_cpu_memory *memory, uint64_t limit);
void sgpu_cpu_memory_close(struct sgpu_cpu_memory *memory);
void sgpu_cpu_memory_figures(struct sgpu_cpu_memory *memory, uint64_t *total, uint64_t *available);
/* Counts bytes as in use until they are returned. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_cpu_memory_promise(struct sgpu_cpu_memory *memory, uint64_t size,
					    struct sgpu_error *error);
void sgpu_cpu_memory_return(struct sgpu_cpu_memory *memory, uint64_t size);
uint64_t sgpu_cpu_memory_most(struct sgpu_cpu_memory *memory);
/* Zeroes anonymous memory, and makes no page that was never used. */
void sgpu_cpu_clear(uint64_t address, uint64_t size);
extern const struct sgpu_device_memory_calls sgpu_cpu_memory_calls;

/* ---- pages.c ---- */
extern const struct sgpu_frame_calls sgpu_cpu_frame_calls;

/* ---- module_host.c: the process that modules run in ---- */
struct sgpu_cpu_host {
	pthread_mutex_t lock; /* one request at a time */
	int control;	      /* -1: none was prepared */
	pid_t pid;
	struct sgpu_module_confinement confinement;
	atomic_bool broke_rules; /* a module made a forbidden system call */
};
void sgpu_cpu_host_take(struct sgpu_device *device);
/* Errors: SGPU_EUNAVAILABLE (the device has no host). */
SGPU_MUST_CHECK int sgpu_cpu_host_check(struct sgpu_device *device, struct sgpu_error *error);
void sgpu_cpu_host_stop(struct sgpu_device *device);

/* ---- stream.c ---- */
/* A piece of work or an event. With neither, it ends the stream's thread. */
struct sgpu_cpu_item {
	/* the result becomes the task's code */
	int (*perform)(struct sgpu_device *device, const struct sgpu_cpu_item *item,
		       struct sgpu_task *task);
	/* `to` and `from` are set for device memory, too; for a launch, `task` alone is set */
	struct sgpu_work work;
	sgpu_launch_fn launch;
	void *argument;		  /* of launch */
	bool moves;		  /* it only copies or clears */
	bool brief;		  /* it takes less time than waking a thread */
	struct sgpu_event *event; /* the item holds a reference */
	bool waits;		  /* for the event; else it completes the event */
};

struct sgpu_stream {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	pthread_t thread; /* if it has started */
	bool started;
	struct sgpu_cpu_item *items; /* the queue, a ring: item n is at n % capacity */
	uint64_t capacity;	     /* a power of two */
	uint64_t enqueued, ended;    /* items, so far */
	bool lent;		     /* the thread that enqueues runs an item itself */
	pthread_cond_t work;
	pthread_cond_t progress;
	struct sgpu_stream *next; /* of the device */
	struct sgpu_stream *next_spare;
};

struct sgpu_event {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	unsigned references;
	bool recorded;
	bool done;
	pthread_cond_t completed;
};

struct sgpu_device {
	struct sgpu_device_object object;
	char processor[96];
	struct sgpu_pool *pool;
	struct sgpu_cpu_memory memory;
	struct sgpu_frames frames; /* pages */
	struct sgpu_cpu_host host;
	pthread_mutex_t lock;	     /* guards the members below, streams and events */
	struct sgpu_stream *streams; /* all, until the device is closed */
	struct sgpu_stream *spare;   /* those that were freed */
	unsigned stream_count;
};

/* Waits until all enqueued work has ended. Not to be called from a launch. */
void sgpu_cpu_wait_idle(struct sgpu_device *device);
void sgpu_cpu_streams_close(struct sgpu_device *device);
SGPU_MUST_CHECK int sgpu_cpu_enqueue(struct sgpu_stream *stream, const struct sgpu_cpu_item *item);
extern const struct sgpu_device_stream_calls sgpu_cpu_stream_calls;

/* ---- work.c, keys.c, modules.c ---- */
SGPU_MUST_CHECK int sgpu_cpu_enqueue_work(struct sgpu_stream *stream, const struct sgpu_work *work,
					  int count);
int sgpu_cpu_open_run(struct sgpu_device *device, const struct sgpu_cpu_item *item,
		      struct sgpu_task *task);
int sgpu_cpu_seal_run(struct sgpu_device *device, const struct sgpu_cpu_item *item,
		      struct sgpu_task *task);
extern const struct sgpu_device_key_calls sgpu_cpu_key_calls;
extern const struct sgpu_device_module_calls sgpu_cpu_module_calls;

#endif
