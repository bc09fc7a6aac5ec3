/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the CPU device.
 *
 * A stream is a queue and a thread that runs its items in order and sleeps while there are none.
 * Work that computes holds a token of the pool, which bounds the processors in use whatever the
 * number of streams.
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
	SGPU_CPU_CLASSES = 9,	  /* small blocks: 4 KiB to 1 MiB, powers of two */
	SGPU_CPU_STREAMS = 2048,  /* most in use at once: each has a thread */
	SGPU_CPU_PIECE = 1 << 20, /* plaintext bytes to move at a time */
};

/* ---- memory.c ---- */
struct sgpu_cpu_block {
	struct sgpu_range range;     /* its mapping */
	uint64_t size;		     /* as asked for */
	struct sgpu_cpu_block *next; /* next idle block of its class */
};

struct sgpu_cpu_memory {
	pthread_mutex_t lock;
	void *live;   /* blocks in use */
	void *shared; /* ranges of other devices' memory that this device reaches */
	struct sgpu_cpu_block *idle[SGPU_CPU_CLASSES]; /* cleared */
	uint64_t limit;				       /* UINT64_MAX: none */
	uint64_t budget;    /* bytes that the machine had available when nothing was allocated */
	uint64_t looked_ns; /* when `budget` was read */
	uint64_t used;
};

void sgpu_cpu_memory_open(struct sgpu_cpu_memory *memory, uint64_t limit);
/* Clears and frees everything. */
void sgpu_cpu_memory_close(struct sgpu_cpu_memory *memory);
SGPU_MUST_CHECK int sgpu_cpu_alloc(struct sgpu_device *device, uint64_t size, sgpu_devptr *memory,
				   struct sgpu_error *error);
void sgpu_cpu_free(struct sgpu_device *device, sgpu_devptr memory, uint64_t size);
SGPU_MUST_CHECK int sgpu_cpu_check_range(struct sgpu_device *device, sgpu_devptr address,
					 uint64_t size, struct sgpu_task *task);
void sgpu_cpu_memory_limit(struct sgpu_device *device, uint64_t bytes);
void sgpu_cpu_memory_figures(struct sgpu_cpu_memory *memory, uint64_t *total, uint64_t *available);
/* Counts bytes as in use until the device closes. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_cpu_memory_promise(struct sgpu_cpu_memory *memory, uint64_t size,
					    struct sgpu_error *error);
/* Returns how many bytes can be allocated in all. */
uint64_t sgpu_cpu_memory_most(struct sgpu_cpu_memory *memory);

/* As sgpu_shared_alloc. */
SGPU_MUST_CHECK int sgpu_cpu_shared_alloc(struct sgpu_device *device, struct sgpu_device *peer,
					  uint64_t size, sgpu_devptr *memory,
					  struct sgpu_error *error);
void sgpu_cpu_shared_free(struct sgpu_device *device, struct sgpu_device *peer, sgpu_devptr memory);

/* ---- pages.c ---- */
struct sgpu_cpu_pages {
	struct sgpu_frames frames; /* its lock guards this struct */
	int fd;			   /* the file of physical memory, once the frames are opened */
	uint64_t *made;		   /* one bit per frame: it counts as in use */
};
/* Zeroes memory. Creates hardly any page where nothing was written, since that is zero already. */
void sgpu_cpu_pages_clear(struct sgpu_device *device, sgpu_devptr memory, uint64_t size);
/* Frees everything without clearing; pages are cleared before they are unmapped. */
void sgpu_cpu_pages_close(struct sgpu_device *device);
extern const struct sgpu_device_page_calls sgpu_cpu_page_calls;

/* ---- module_image.c: the program that modules run in (tools/module-host), an ELF file without
 * debug information, which the library carries and starts from memory ---- */
extern const unsigned char sgpu_module_host_image[] __attribute__((visibility("hidden"))),
	sgpu_module_host_image_end[] __attribute__((visibility("hidden")));

/* ---- module_host.c: the process that modules run in ---- */
/* Makes a sealed memory file of code, `what` in messages; the caller closes *fd. Errors:
 * SGPU_EUNAVAILABLE: memory files may not be executed here; SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_cpu_code_file(const char *name, const char *what, const void *bytes,
				       size_t size, mode_t mode, int *fd, struct sgpu_error *error);
/* Starts the program with a duplicate of `control` as descriptor SGPU_HOST_CONTROL, /dev/null as
 * its standard streams, and no environment. Errors: SGPU_EUNAVAILABLE, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_module_host_spawn(int control, pid_t *pid, struct sgpu_error *error);
struct sgpu_host_answer;
struct sgpu_cpu_host {
	pthread_mutex_t lock; /* one request at a time */
	int control;	      /* -1: the host is not started */
	pid_t pid;
	struct sgpu_module_confinement confinement;
	atomic_bool broke_rules; /* a module made a forbidden system call */
};
/* Starts the host unless it is running. */
SGPU_MUST_CHECK int sgpu_cpu_host_start(struct sgpu_device *device, struct sgpu_error *error);
void sgpu_cpu_host_stop(struct sgpu_device *device);
/* Starts a worker that loads this image. *channel leads to the worker; on *report the host tells
 * how the worker ended. Closing *report ends the worker. */
SGPU_MUST_CHECK int sgpu_cpu_host_worker(struct sgpu_device *device, int image, uint64_t size,
					 int *channel, int *report, struct sgpu_error *error);
/* Closes the descriptors that are not -1. The host then ends the worker, even a busy one. */
void sgpu_cpu_host_release(int *channel, int *report);
/* Fills *error with how a worker ended and returns its code, which is never SGPU_OK. */
int sgpu_cpu_host_ended(struct sgpu_device *device, struct sgpu_host_answer *answer,
			struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cpu_module_confinement(struct sgpu_device *device,
						struct sgpu_module_confinement *confinement,
						struct sgpu_error *error);
bool sgpu_cpu_module_broke_rules(struct sgpu_device *device);

/* ---- stream.c ---- */
enum sgpu_cpu_kind { SGPU_CPU_WORK, SGPU_CPU_CALL, SGPU_CPU_RECORD, SGPU_CPU_WAIT, SGPU_CPU_END };

/* One entry of a stream's queue. */
struct sgpu_cpu_item {
	enum sgpu_cpu_kind kind;
	/* WORK: performs the item; its result becomes the task's code */
	int (*work)(struct sgpu_device *device, const struct sgpu_cpu_item *item,
		    struct sgpu_task *task);
	bool moves;		/* WORK: only copies or clears */
	struct sgpu_task *task; /* or NULL */
	void *to;
	const void *from;
	uint64_t size;		     /* bytes */
	struct sgpu_device_key *key; /* to open or seal with */
	uint64_t first;		     /* the first chunk's index */
	bool last;		     /* the last chunk ends the segment */
	sgpu_launch_fn launch;
	void (*call)(void *argument); /* CALL */
	void *argument;		      /* of launch and call; or a digest's customisation */
	struct sgpu_event *event;     /* RECORD, WAIT: the item holds a reference */
};

struct sgpu_stream {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	pthread_t thread;
	struct sgpu_cpu_item *items; /* the queue, a ring: item n is at n % capacity */
	uint64_t capacity;	     /* a power of two */
	uint64_t enqueued, ended;    /* items, so far */
	pthread_cond_t work;	     /* an item was enqueued */
	pthread_cond_t progress;     /* an item ended */
	struct sgpu_stream *next;    /* the device's next stream */
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
	struct sgpu_pool *pool;
	struct sgpu_cpu_memory memory;
	struct sgpu_cpu_pages pages;
	struct sgpu_cpu_host host;
	pthread_mutex_t lock;	     /* guards the members below, streams and events */
	struct sgpu_stream *streams; /* all, until the device is closed */
	struct sgpu_stream *spare;   /* those that were freed */
	unsigned stream_count;
};

SGPU_MUST_CHECK int sgpu_cpu_stream_sync(struct sgpu_stream *stream, struct sgpu_error *error);
/* Waits until all enqueued work has ended. Not to be called from a callback or a launch. */
void sgpu_cpu_wait_idle(struct sgpu_device *device);
/* Waits for all work, then ends the threads and frees the streams. */
void sgpu_cpu_streams_close(struct sgpu_device *device);
/* Enqueues a copy of *item. */
SGPU_MUST_CHECK int sgpu_cpu_enqueue(struct sgpu_stream *stream, const struct sgpu_cpu_item *item);

SGPU_MUST_CHECK int sgpu_cpu_launch(struct sgpu_stream *stream, sgpu_launch_fn function,
				    void *argument, const struct sgpu_device_range *ranges,
				    int count, struct sgpu_task *task);
SGPU_MUST_CHECK int sgpu_cpu_callback(struct sgpu_stream *stream, void (*function)(void *argument),
				      void *argument);
/* As sgpu_stream_wait_peer. */
SGPU_MUST_CHECK int sgpu_cpu_peer_wait(struct sgpu_stream *stream, struct sgpu_event *event);
extern const struct sgpu_device_stream_calls sgpu_cpu_stream_calls;

/* ---- work.c, keys.c, modules.c ---- */
SGPU_MUST_CHECK int sgpu_cpu_enqueue_work(struct sgpu_stream *stream, const struct sgpu_work *work,
					  struct sgpu_task *task);
int sgpu_cpu_open_run(struct sgpu_device *device, const struct sgpu_cpu_item *item,
		      struct sgpu_task *task);
int sgpu_cpu_seal_run(struct sgpu_device *device, const struct sgpu_cpu_item *item,
		      struct sgpu_task *task);
extern const struct sgpu_device_memory_calls sgpu_cpu_memory_calls;
extern const struct sgpu_device_peer_calls sgpu_cpu_peer_calls;
extern const struct sgpu_device_key_calls sgpu_cpu_key_calls;
extern const struct sgpu_device_module_calls sgpu_cpu_module_calls;

#endif
