/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA device: what its files share.
 *
 * A stream is a CUDA stream and a queue of records, one for each piece of work whose outcome the
 * host wants to know. The first thread to learn that the device has passed a record ends it: a
 * caller of stream_sync, event_sync, event_query or stream_free, or the completer, a thread of the
 * device that serves callbacks. Ending records, in order (sgpu_cuda_advance), fills in their tasks,
 * so no task shows an outcome before its work was checked.
 *
 * Locks, in the order in which they are taken: a stream's `order` (held while work is enqueued, so
 * that the queue has the order of the CUDA stream), that of an event or of the keys, the device's
 * `lock`, a stream's `queue`; then at most one of the other locks.
 */
#ifndef SGPU_DEVICE_CUDA_GPU_H
#define SGPU_DEVICE_CUDA_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include <device/arena.h>
#include <device/backend.h>
#include <device/cuda/driver.h>
#include <device/space.h>

enum {
	SGPU_CUDA_PAGE = 4096,
	SGPU_CUDA_PIECE = 16 << 20,  /* plaintext bytes of a chunk run in a large transfer */
	SGPU_CUDA_COUNTER_SETS = 64, /* launches between two clearings of a stream's counters */
	SGPU_CUDA_COUNTER_BYTES = SGPU_CUDA_COUNTER_SETS * SGPU_LAUNCH_COUNTERS * 4,
	SGPU_CUDA_NATIVES = 64, /* most idle native streams that are kept */
};
/* How long cancelled work may go on before it faults the device. */
#define SGPU_CUDA_GRACE_NS ((uint64_t)5000000000)

extern const struct sgpu_device_backend sgpu_cuda_backend;

/* A line of pinned host memory, for status words that the device writes. */
struct sgpu_cuda_status {
	volatile int64_t *host; /* 8 words */
	CUdeviceptr device;
	struct sgpu_cuda_status *next;
};

/* One moment on the device's and the host's clock. Device times are measured from a recent base,
 * since event times are floats and the clocks drift. */
struct sgpu_cuda_base {
	CUevent event;		    /* NULL when device_ns is used */
	uint64_t device_ns;	    /* %globaltimer */
	uint64_t host_ns, error_ns; /* error_ns: how far host_ns may be from that moment */
	unsigned references;
};

/* Words for times of %globaltimer. */
struct sgpu_cuda_stamps {
	CUdeviceptr memory;
	uint32_t *idle; /* indexes of idle words, and how many */
	uint32_t count;
};

struct sgpu_cuda_events {
	CUevent *list;
	unsigned count, room;
};

enum sgpu_cuda_kind {
	SGPU_CUDA_PLAIN,
	SGPU_CUDA_LAUNCH,
	SGPU_CUDA_OPEN,
	SGPU_CUDA_SEAL,
	SGPU_CUDA_CALL,
	SGPU_CUDA_WAIT,
};

#if defined(__x86_64__)
#define SGPU_CUDA_PAUSE() __builtin_ia32_pause()
#else
#define SGPU_CUDA_PAUSE() ((void)0)
#endif

struct sgpu_cuda_record {
	enum sgpu_cuda_kind kind;
	uint64_t serial;
	uint64_t operation; /* the work's number in the stream; counts work without a record, too */
	struct sgpu_task *task; /* or NULL */
	int code;		/* an error known at enqueueing; its text is in the task */
	uint64_t enqueue_ns;
	CUevent event; /* recorded after the work, or NULL */
	/* where the device stores the time after the work, in place of an event; or 0 */
	CUdeviceptr stamp;
	struct sgpu_cuda_base *base; /* from which `event` or `stamp` is measured */
	struct sgpu_cuda_status
		*status; /* LAUNCH: code and `actual`; OPEN, SEAL: struct sgpu_cuda_verdict */
	struct sgpu_device_key *key; /* OPEN, SEAL */
	CUdeviceptr out;	     /* OPEN, SEAL: memory to clear after a failure */
	uint64_t out_size;
	uint64_t expected;		   /* OPEN, SEAL: chunks that must be done */
	uint8_t *digest;		   /* where the digest in `status` is copied to, or NULL */
	struct sgpu_recording *graph;	   /* the graph that runs, or NULL */
	struct sgpu_cuda_measure *measure; /* the pending measure, or NULL */
	void (*call)(void *argument);	   /* CALL */
	void *argument;
	struct sgpu_stream *other; /* WAIT: the event's stream, a reference */
	uint64_t other_serial;	   /* WAIT: of the last record before the event */
	struct sgpu_cuda_record *next;
};

/* A native stream; it is kept for another stream when its own is freed. */
struct sgpu_cuda_native {
	CUstream native;
	CUdeviceptr counters; /* sets of counters for launches; 0: none yet */
	unsigned counters_used;
	CUdeviceptr scratch; /* for measures; 0: none yet */
};

struct sgpu_stream {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	/* NULL, or the graph that this stream records; it then lacks the fields after `native` */
	struct sgpu_recording *recording;
	CUstream native; /* kept.native */
	struct sgpu_cuda_native kept;
	pthread_mutex_t order;
	uint64_t operations, seen; /* work enqueued; work known to have ended; under `order` */
	/* the device writes the serials of callbacks here as it passes them */
	struct sgpu_cuda_status *passed;
	pthread_mutex_t queue; /* everything below */
	pthread_cond_t progress;
	struct sgpu_cuda_record *head, *tail, *spare;
	uint64_t serial, done;	  /* of the last record appended, of the last one ended */
	bool advancing;		  /* a thread is ending records */
	uint64_t end_ns;	  /* when the last ended record's work ended */
	atomic_uint calls;	  /* callbacks among the records */
	unsigned references;	  /* under the device's lock */
	bool listed;		  /* under the device's lock, as the next field */
	struct sgpu_stream *next; /* all streams of the device */
};

struct sgpu_event {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	CUevent native;
	pthread_mutex_t lock;
	struct sgpu_stream *stream; /* on which it was recorded, a reference; NULL: not yet */
	uint64_t serial;	    /* of the last record before the event */
	atomic_bool done;	    /* completed, and all records before it have ended */
};

/* ---- memory.c ---- */
/* Regions, and the blocks that are cut from them. */
struct sgpu_cuda_cuts {
	struct sgpu_arena arena;
	struct sgpu_cuda_region *regions;
};
struct sgpu_cuda_memory {
	pthread_mutex_t lock;
	struct sgpu_cuda_cuts blocks,
		own;  /* for callers; for the device's own use, which copies do not reach */
	void *shared; /* ranges that another device reaches, too (peer.c) */
	CUmemoryPool pool;
	uint64_t used, limit, total;
};
SGPU_MUST_CHECK int sgpu_cuda_memory_open(struct sgpu_device *device, uint64_t limit,
					  struct sgpu_error *error);
/* Clears and frees what is left. A faulted device's memory is freed with its context. */
void sgpu_cuda_memory_close(struct sgpu_device *device);
SGPU_MUST_CHECK int sgpu_cuda_alloc(struct sgpu_device *device, uint64_t size, sgpu_devptr *memory,
				    struct sgpu_error *error);
void sgpu_cuda_free(struct sgpu_device *device, sgpu_devptr memory, uint64_t size);
/* Returns SGPU_EUSAGE, also in the task, if the range is not inside one allocation. */
SGPU_MUST_CHECK int sgpu_cuda_check_range(struct sgpu_device *device, sgpu_devptr address,
					  uint64_t size, struct sgpu_task *task);
void sgpu_cuda_memory_limit(struct sgpu_device *device, uint64_t bytes);
void sgpu_cuda_memory_figures(struct sgpu_device *device, uint64_t *total, uint64_t *available);
/* Allocates memory for the device's own use, which no copy reaches. It is clear. May wait. */
SGPU_MUST_CHECK int sgpu_cuda_private_alloc(struct sgpu_device *device, uint64_t size,
					    CUdeviceptr *memory, struct sgpu_error *error);
/* Clears and frees such memory, in the order of the internal stream. Accepts 0. */
void sgpu_cuda_private_free(struct sgpu_device *device, CUdeviceptr memory);
/* Waits until all work on the internal stream has ended. */
SGPU_MUST_CHECK int sgpu_cuda_sync_internal(struct sgpu_device *device, struct sgpu_error *error);
/* Clears memory, and waits for that; the context is current. */
CUresult sgpu_cuda_clear(struct sgpu_device *device, CUdeviceptr memory, uint64_t size);
/* Counts memory that was allocated elsewhere against the limit. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_cuda_memory_count(struct sgpu_device *device, uint64_t size,
					   struct sgpu_error *error);
void sgpu_cuda_memory_uncount(struct sgpu_device *device, uint64_t size);
/* Fills in the error for an allocation of `size` bytes that failed. */
int sgpu_cuda_memory_refuse(struct sgpu_device *device, CUresult result, uint64_t size,
			    struct sgpu_error *error);
/* Returns how many bytes can be allocated if `spare` bytes are left to others. */
uint64_t sgpu_cuda_memory_spare(struct sgpu_device *device, uint64_t spare);
/* Does the same from any thread, if the device is not faulted. Accepts 0 bytes. */
void sgpu_cuda_clear_now(struct sgpu_device *device, CUdeviceptr memory, uint64_t size);

/* ---- pages.c, frames.c ---- */
/* A big page's state is in its first frame. */
struct sgpu_cuda_frame {
	CUmemGenericAllocationHandle handle;
	bool made, big, raw; /* raw: its memory is new from the driver, with unknown contents */
};
struct sgpu_cuda_pages {
	struct sgpu_frames frames; /* its lock guards this struct; taken after a stream's `order`,
				      before the device's lock */
	struct sgpu_cuda_frame *list; /* an entry for each frame */
	CUdeviceptr scratch;	      /* addresses at which pages are cleared */
	uint32_t raw;		      /* pages not cleared since the driver gave their memory */
};
extern const struct sgpu_device_page_calls sgpu_cuda_page_calls;
#define SGPU_CUDA_PAGE_SMALL ((uint64_t)2 << 20)
#define SGPU_CUDA_PAGE_BIG ((uint64_t)64 << 20)
/* Calls of frames.c, which has the pages' memory. The frames' lock is held, and the device's
 * context is current. */
/* The first call divides the device's memory into frames. Errors: SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_cuda_frames_prepare(struct sgpu_device *device, struct sgpu_error *error);
/* Gets the memory of a page of this size, and allocates it if need be. If these frames have memory
 * for pages of the other size, that is cleared and returned to the driver first. */
SGPU_MUST_CHECK int sgpu_cuda_frame_handle(struct sgpu_device *device, uint32_t frame,
					   uint64_t page_size, CUmemGenericAllocationHandle *handle,
					   struct sgpu_error *error);
/* Allocates memory to be mapped. If there is none, returns the pool's free memory to the driver and
 * tries again. */
CUresult sgpu_cuda_handle_make(struct sgpu_device *device, uint64_t size,
			       CUmemGenericAllocationHandle *handle);
/* Grants or revokes this device's access to mapped addresses. */
CUresult sgpu_cuda_page_access(struct sgpu_device *device, CUdeviceptr at, uint64_t size, bool on);
/* Clears all pages and returns them to the driver; none may be mapped. */
void sgpu_cuda_frames_close(struct sgpu_device *device);
/* Unmaps, clears and frees all pages. A faulted device's pages are freed with its context. */
void sgpu_cuda_pages_close(struct sgpu_device *device);

/* ---- peer.c: memory that two GPUs reach ---- */
extern const struct sgpu_device_peer_calls sgpu_cuda_peer_calls;

/* ---- pinned.c: pinned host memory ---- */
struct sgpu_cuda_host {
	pthread_mutex_t lock;
	struct sgpu_arena arena;	 /* blocks in use, and free ones */
	struct sgpu_cuda_pinned *pinned; /* steps of the pool, and registered memory */
	uint64_t step;			 /* bytes of the next step */
	struct sgpu_cuda_status *idle;
	struct sgpu_cuda_slab *slabs; /* memory that status lines are cut from */
};
SGPU_MUST_CHECK int sgpu_cuda_host_open(struct sgpu_device *device, struct sgpu_error *error);
void sgpu_cuda_host_close(struct sgpu_device *device);
SGPU_MUST_CHECK int sgpu_cuda_host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
					 struct sgpu_error *error);
void sgpu_cuda_host_free(struct sgpu_device *device, void *memory, uint64_t size);
/* Returns a line of zeros; NULL: out of memory. */
struct sgpu_cuda_status *sgpu_cuda_status_take(struct sgpu_device *device);
/* Gives a line back, cleared. */
void sgpu_cuda_status_give(struct sgpu_device *device, struct sgpu_cuda_status *status);

SGPU_MUST_CHECK int sgpu_cuda_host_register(struct sgpu_device *device, const void *memory,
					    uint64_t size, struct sgpu_error *error);
void sgpu_cuda_host_unregister(struct sgpu_device *device, const void *memory);
/* Returns the address at which kernels reach host memory, or 0 if they do not. */
CUdeviceptr sgpu_cuda_reach(struct sgpu_device *device, const void *memory, uint64_t size,
			    bool write);

/* ---- graph.c ---- */
extern const struct sgpu_device_graph_calls sgpu_cuda_graph_calls;
SGPU_MUST_CHECK int sgpu_cuda_graph_add(struct sgpu_stream *recorder, sgpu_launch_fn function,
					void *argument, const struct sgpu_device_range *ranges,
					int count, struct sgpu_task *task);
/* Ends an execution of a graph that the device has passed or that failed to start. Returns the code
 * of the first failed launch. */
int sgpu_cuda_graph_end(struct sgpu_recording *graph, struct sgpu_task *task);

/* ---- keys.c ---- */
/* The agreement between the host and the device, which has to succeed before any key is loaded. */
struct sgpu_cuda_trust {
	pthread_mutex_t lock; /* held during the agreement; taken before the keys' lock */
	atomic_bool ready;
	struct sgpu_error error; /* of a failure of the device, which is final */
	struct sgpu_device_agreement told;
	CUdeviceptr session; /* the session key's state */
	/* the session key on the host; this and the counter are under the keys' lock */
	struct sgpu_aead *aead;
	uint64_t counter;
};
struct sgpu_cuda_keys {
	pthread_mutex_t lock;
	struct sgpu_cuda_trust trust;
};
SGPU_MUST_CHECK int sgpu_cuda_keys_load(struct sgpu_stream *stream,
					const struct sgpu_sealed_keys *material, int count,
					struct sgpu_device_key **keys, struct sgpu_error *error);
void sgpu_cuda_keys_free(struct sgpu_device_key **keys, int count);
/* Notes that work with the key has ended, and so has its set-up. */
void sgpu_cuda_key_was_used(struct sgpu_device_key *key);
/* Gets the state's address, and makes later work of `stream` wait until the key is set up, as it
 * does already if the key was loaded together with `before`, unless that is NULL. */
CUresult sgpu_cuda_key_use(struct sgpu_stream *stream, struct sgpu_device_key *key,
			   const struct sgpu_device_key *before, uint64_t *state);

/* ---- agree.c ---- */
struct sgpu_cuda_delivery;
/* Runs the known-answer test and the agreement, unless they have succeeded before. A failure of the
 * device is final. The device's context is current. */
SGPU_MUST_CHECK int sgpu_cuda_keys_ready(struct sgpu_device *device, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cuda_agree(struct sgpu_device *device,
				    struct sgpu_device_agreement *agreement,
				    struct sgpu_error *error);
/* Seals a key for the device; the lock of the keys is held. */
SGPU_MUST_CHECK int sgpu_cuda_seal_key(struct sgpu_device *device,
				       const struct sgpu_sealed_keys *material,
				       struct sgpu_cuda_delivery *delivery);
void sgpu_cuda_trust_close(struct sgpu_device *device);

/* ---- the device ---- */
struct sgpu_device {
	struct sgpu_device_object object;
	int ordinal;
	CUdevice handle;
	CUcontext context;
	struct sgpu_device_info info; /* all but what memory is left */
	bool memory_operations;	      /* streams can write words into host memory */
	bool registers_read_only;
	bool may_spin;
	bool stamps_time;		   /* %globaltimer, not events, times tasks */
	CUstream internal;		   /* clears and frees */
	CUstream clock;			   /* for bases and for reading stamps */
	struct sgpu_cuda_digests *digests; /* what the device's digests share */

	atomic_int faulted; /* 0, or the code with which all work ends */
	pthread_mutex_t fault_lock;
	struct sgpu_error fault;

	struct sgpu_cuda_memory memory;
	struct sgpu_cuda_pages pages;
	struct sgpu_cuda_host host;
	struct sgpu_cuda_keys keys;

	pthread_mutex_t pool_lock;		/* guards the fields below, up to `stamps` */
	struct sgpu_cuda_events idle_events[2]; /* without times, with times */
	struct sgpu_cuda_native natives[SGPU_CUDA_NATIVES]; /* idle */
	unsigned native_count;
	struct sgpu_cuda_base *base;
	uint64_t base_tried_ns; /* when a new base was last wanted */
	struct sgpu_cuda_stamps stamps;

	atomic_bool kernels_loaded;	/* all kernels of this build */
	atomic_uint_fast64_t cancel_ns; /* 0, or when all work was cancelled */

	pthread_mutex_t lock; /* everything below */
	struct sgpu_stream *streams;
	pthread_t completer;
	bool completer_started, stopping;
	atomic_bool completer_sleeps; /* written under the lock */
	pthread_cond_t work;
	atomic_uint calls; /* pending callbacks; not under the lock */

	struct sgpu_device *next_open; /* all open devices of the process */
};

/* ---- fault.c ---- */
/* Makes the device's context current in the thread; fails if the device is faulted. */
SGPU_MUST_CHECK int sgpu_cuda_enter(struct sgpu_device *device, struct sgpu_error *error);
/* Returns 0, or fills in an error whose text begins with `what` and returns its code. A result
 * after which the context is unusable faults the device. */
SGPU_MUST_CHECK int sgpu_cuda_check(struct sgpu_device *device, CUresult result, const char *what,
				    struct sgpu_error *error);
/* Does as sgpu_cuda_check, but fills in no error. */
void sgpu_cuda_note(struct sgpu_device *device, CUresult result);
/* Faults the device: all work, pending and later, ends with `code`. SGPU_ECANCELED: a kernel does
 * not end. */
void sgpu_cuda_fault(struct sgpu_device *device, int code, const char *text);
int sgpu_cuda_faulted(struct sgpu_device *device, struct sgpu_error *error);
/* Returns SGPU_EDEVICE if a fault has made CUDA unusable in this process. */
SGPU_MUST_CHECK int sgpu_cuda_process_sound(struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_cuda_wait(struct sgpu_device *device, CUevent event,
				   struct sgpu_error *error);

/* ---- clock.c ---- */
SGPU_MUST_CHECK int sgpu_cuda_clock_open(struct sgpu_device *device, struct sgpu_error *error);
void sgpu_cuda_clock_close(struct sgpu_device *device);
CUresult sgpu_cuda_event_take(struct sgpu_device *device, bool timed, CUevent *event);
/* Takes an event and records it on the stream. *event is to be given back even after a failure. */
CUresult sgpu_cuda_event_after(struct sgpu_device *device, bool timed, CUstream native,
			       CUevent *event);
void sgpu_cuda_event_give(struct sgpu_device *device, bool timed, CUevent event);
/* Enqueues a mark: an event, or a kernel that stores the time. */
CUresult sgpu_cuda_mark(struct sgpu_stream *stream, struct sgpu_cuda_record *record);
void sgpu_cuda_unmark(struct sgpu_device *device, struct sgpu_cuda_record *record);
/* *time: when the work before the mark ended, on the host's clock, clamped to [from, now]. Returns
 * false if the device's time is missing or far outside. */
bool sgpu_cuda_time_of(struct sgpu_device *device, const struct sgpu_cuda_record *record,
		       uint64_t from, uint64_t *time);

/* ---- stream.c, complete.c ---- */
extern const struct sgpu_device_stream_calls sgpu_cuda_stream_calls;
/* Returns the next stream of the device after `after`, whose reference is dropped, or the first
 * after NULL; with a reference, or NULL. look: passes over streams for which it returns 0; it is
 * called with the device's lock held. After streams were freed, some come again. */
struct sgpu_stream *sgpu_cuda_next_stream(struct sgpu_device *device, struct sgpu_stream *after,
					  uint64_t (*look)(struct sgpu_stream *stream),
					  uint64_t *found);
/* Returns the serial of the last record. */
uint64_t sgpu_cuda_last_serial(struct sgpu_stream *stream);
/* The stream that an event was recorded on, or NULL. */
struct sgpu_stream *sgpu_cuda_recorded_on(struct sgpu_event *event);
SGPU_MUST_CHECK int sgpu_cuda_callback(struct sgpu_stream *stream, void (*function)(void *argument),
				       void *argument);
/* Waits until the work enqueued on all streams has ended, and ends its records. Fails only if the
 * device is faulted. */
SGPU_MUST_CHECK int sgpu_cuda_synchronize(struct sgpu_device *device, struct sgpu_error *error);
void sgpu_cuda_stream_hold(struct sgpu_stream *stream);
void sgpu_cuda_stream_drop(struct sgpu_stream *stream);
/* Waits, without an event, until the stream is idle or the device is faulted. */
void sgpu_cuda_wait_until_idle(struct sgpu_stream *stream);
void sgpu_cuda_natives_close(struct sgpu_device *device);

/* Work is enqueued between begin and commit. Begin locks `order`; commit unlocks it. Commit copies
 * the record. */
SGPU_MUST_CHECK int sgpu_cuda_begin(struct sgpu_stream *stream, struct sgpu_task *task);
/* `result` is that of the enqueueing; if it failed, the error's text begins with `what`. */
SGPU_MUST_CHECK int sgpu_cuda_commit(struct sgpu_stream *stream, struct sgpu_cuda_record *record,
				     CUresult result, const char *what);
/* Does as sgpu_cuda_commit, for records of pieces of one operation, which end together. */
SGPU_MUST_CHECK int sgpu_cuda_commit_all(struct sgpu_stream *stream,
					 struct sgpu_cuda_record *records, int count,
					 CUresult result, const char *what);

/* Returns the code that a kernel left in a status word. */
int sgpu_cuda_code_from(int64_t word);
/* Ends all records up to this serial. The device must have passed them or be faulted. */
void sgpu_cuda_advance(struct sgpu_stream *stream, uint64_t serial);

SGPU_MUST_CHECK int sgpu_cuda_completer_start(struct sgpu_device *device, struct sgpu_error *error);
void sgpu_cuda_completer_stop(struct sgpu_device *device);
void sgpu_cuda_completer_wake(struct sgpu_device *device);

/* Computes the measure from the pages' digests; the device has passed its record. */
void sgpu_cuda_measure_finish(const struct sgpu_cuda_measure *measure);
/* Accepts a pointer to NULL; clears the pointer. */
void sgpu_cuda_measure_free(struct sgpu_device *device, struct sgpu_cuda_measure **measure);

/* ---- work.c ---- */
extern const struct sgpu_device_memory_calls sgpu_cuda_memory_calls;
extern const struct sgpu_device_key_calls sgpu_cuda_key_calls;
SGPU_MUST_CHECK int sgpu_cuda_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work,
				      int count);
SGPU_MUST_CHECK int sgpu_cuda_launch(struct sgpu_stream *stream, sgpu_launch_fn function,
				     void *argument, const struct sgpu_device_range *ranges,
				     int count, struct sgpu_task *task);
/* Whether kernels are no longer enqueued: their tasks end with SGPU_ECANCELED. */
bool sgpu_cuda_cancelled(const struct sgpu_device *device);

/* ---- backend.c ---- */
bool sgpu_cuda_in_confidential_mode(const struct sgpu_device *device);

/* ---- module.c ---- */
extern const struct sgpu_device_module_calls sgpu_cuda_module_calls;

/* ---- nvml.c: what NVIDIA's management library knows, if installed ---- */
/* Loads the library in a thread that the caller joins. Returns false if no thread was started; then
 * the first call that needs the library loads it. */
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
