/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of the CUDA device, and the records of work on them.
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
#ifndef SGPU_DEVICE_CUDA_STREAM_H
#define SGPU_DEVICE_CUDA_STREAM_H

#include <device/cuda/gpu.h>

enum {
	SGPU_CUDA_COUNTER_SETS = 64, /* launches between two clearings of a stream's counters */
	SGPU_CUDA_COUNTER_BYTES = SGPU_CUDA_COUNTER_SETS * SGPU_LAUNCH_COUNTERS * 4,
};

enum sgpu_cuda_kind {
	SGPU_CUDA_PLAIN,
	SGPU_CUDA_LAUNCH,
	SGPU_CUDA_OPEN,
	SGPU_CUDA_SEAL,
	SGPU_CUDA_CALL,
	SGPU_CUDA_WAIT,
};

struct sgpu_cuda_record {
	enum sgpu_cuda_kind kind;
	uint64_t serial;
	uint64_t operation; /* the work's number in the stream; counts work without a record, too */
	struct sgpu_task *task; /* or NULL */
	int code;		/* an error known at enqueueing; its text is in the task */
	uint64_t enqueue_ns;
	CUevent event;		     /* CALL: recorded in its place, or NULL */
	struct sgpu_cuda_mark *mark; /* after the work of a timed task, or NULL */
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

/* ---- clock.c ---- */
SGPU_MUST_CHECK int sgpu_cuda_clock_open(struct sgpu_device *device, enum sgpu_device_timer timer,
					 struct sgpu_error *error);
void sgpu_cuda_clock_close(struct sgpu_device *device);
/* Enqueues a mark. *mark is to be given back even after a failure. */
CUresult sgpu_cuda_mark(struct sgpu_stream *stream, struct sgpu_cuda_mark **mark);
/* Gives a mark back, unless it is NULL. */
void sgpu_cuda_unmark(struct sgpu_device *device, struct sgpu_cuda_mark **mark);
/* *time: when the work before the mark ended, on the host's clock, clamped to [from, now]. Returns
 * false if the device's time is missing or far outside. */
bool sgpu_cuda_time_of(struct sgpu_device *device, struct sgpu_cuda_mark *mark, uint64_t from,
		       uint64_t *time);

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
SGPU_MUST_CHECK int sgpu_cuda_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work);
SGPU_MUST_CHECK int sgpu_cuda_launch(struct sgpu_stream *stream, sgpu_launch_fn function,
				     void *argument, const struct sgpu_device_range *ranges,
				     int count, struct sgpu_task *task);

/* ---- graph.c ---- */
extern const struct sgpu_device_graph_calls sgpu_cuda_graph_calls;
SGPU_MUST_CHECK int sgpu_cuda_graph_add(struct sgpu_stream *recorder, sgpu_launch_fn function,
					void *argument, const struct sgpu_device_range *ranges,
					int count, struct sgpu_task *task);
/* Ends an execution of a graph that the device has passed or that failed to start. Returns the code
 * of the first failed launch. */
int sgpu_cuda_graph_end(struct sgpu_recording *graph, struct sgpu_task *task);

#endif
