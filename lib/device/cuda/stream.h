/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of the CUDA device is a CUDA stream and a queue of records, one for each piece of work
 * whose outcome the host wants. The device has no thread of its own: whoever waits for a stream or
 * an event, or asks for one, ends the stream's records up to there, in order, and fills in their
 * tasks. So no task shows an outcome before its work was checked. After a fault, whoever next uses
 * a stream ends all its records.
 *
 * Locks, in the order in which they are taken: a stream's (held while work is enqueued, to give the
 * queue the CUDA stream's order, and while records are ended), the keys', then at most one other.
 */
#ifndef SGPU_DEVICE_CUDA_STREAM_H
#define SGPU_DEVICE_CUDA_STREAM_H

#include <device/cuda/gpu.h>

enum {
	SGPU_CUDA_COUNTER_SETS = 64, /* launches between clearings of the counters */
	SGPU_CUDA_COUNTER_BYTES = SGPU_CUDA_COUNTER_SETS * SGPU_LAUNCH_COUNTERS * 4,
};

struct sgpu_cuda_record {
	bool opens;	    /* else it seals, if it has a key */
	uint64_t operation; /* the work's number in the stream; counts work without a record, too */
	struct sgpu_task *task; /* or NULL */
	int code;		/* an error known at enqueueing; its text is in the task */
	uint64_t enqueue_ns;
	struct sgpu_cuda_mark *mark; /* after the work of a timed task, or NULL */
	struct sgpu_cuda_status
		*status; /* of a launch: code and `actual`; with a key: struct sgpu_cuda_verdict */
	struct sgpu_device_key *key; /* OPEN, SEAL */
	CUdeviceptr out;	     /* OPEN, SEAL: memory to clear after a failure */
	uint64_t out_size;
	uint64_t expected;	   /* OPEN, SEAL: chunks that must be done */
	struct sgpu_cuda_sum *sum; /* of a digest or a measure, or NULL */
	struct sgpu_cuda_record *next;
};

/* Streams stay until the device is closed: a freed one is given out again with its native stream,
 * counters and numbers. */
struct sgpu_stream {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	CUstream native;
	struct sgpu_stream *next;      /* of the device */
	struct sgpu_stream *next_idle; /* under the device's lock */
	pthread_mutex_t lock;	       /* everything below */
	CUdeviceptr counters;	       /* sets of counters; 0: none yet */
	unsigned counters_used;
	CUdeviceptr scratch;	    /* for measures; 0: none yet */
	uint64_t enqueued;	    /* the number of the last work */
	atomic_uint_fast64_t ended; /* up to this number, the device has passed all work */
	struct sgpu_cuda_record *head, *tail, *spare;
	struct sgpu_cuda_record *latest; /* unless `tail` is NULL: the first of its operation */
	uint64_t end_ns;		 /* when the last ended record's work ended */
};

struct sgpu_event {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	CUevent native;
	struct sgpu_stream *stream; /* on which it was recorded, or NULL */
	uint64_t operation;	    /* the number of the last work before the event */
	uint64_t record_ns;
};

/* ---- clock.c ---- */
SGPU_MUST_CHECK int sgpu_cuda_clock_open(struct sgpu_device *device, enum sgpu_device_timer timer,
					 struct sgpu_error *error);
void sgpu_cuda_clock_close(struct sgpu_device *device);
/* *mark is to be given back even after a failure. */
CUresult sgpu_cuda_mark(struct sgpu_stream *stream, struct sgpu_cuda_mark **mark);
/* Gives a mark back, unless it is NULL. */
void sgpu_cuda_unmark(struct sgpu_device *device, struct sgpu_cuda_mark **mark);
/* *time: when the work before the mark ended, on the host's clock, clamped to [from, now]. Returns
 * false if the device's time is missing or far outside. */
bool sgpu_cuda_time_of(struct sgpu_device *device, struct sgpu_cuda_mark *mark, uint64_t from,
		       uint64_t *time);

/* ---- stream.c ---- */
extern const struct sgpu_device_stream_calls sgpu_cuda_stream_calls;
void sgpu_cuda_streams_close(struct sgpu_device *device);
/* Also for an event of another device. */
SGPU_MUST_CHECK int sgpu_cuda_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event);

/* Begin takes the stream's lock for enqueueing; commit copies the record and releases the lock. */
SGPU_MUST_CHECK int sgpu_cuda_begin(struct sgpu_stream *stream, struct sgpu_task *task);
/* `result` is that of the enqueueing; if it failed, the error's text begins with `what`. */
SGPU_MUST_CHECK int sgpu_cuda_commit(struct sgpu_stream *stream, struct sgpu_cuda_record *record,
				     CUresult result, const char *what);
/* For records of pieces of one operation, which end together. */
SGPU_MUST_CHECK int sgpu_cuda_commit_all(struct sgpu_stream *stream,
					 struct sgpu_cuda_record *records, int count,
					 CUresult result, const char *what);

/* ---- record.c ---- */
/* Ends the records up to `passed`, which the device must have passed; all, if the device is
 * faulted. The stream's lock is held. */
void sgpu_cuda_advance(struct sgpu_stream *stream, uint64_t passed);
/* Where the kernels report on a record that opens or seals. */
const volatile struct sgpu_cuda_verdict *sgpu_cuda_verdict(const struct sgpu_cuda_record *record);

/* ---- work.c ---- */
SGPU_MUST_CHECK int sgpu_cuda_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work,
				      int count);
SGPU_MUST_CHECK int sgpu_cuda_launch(struct sgpu_stream *stream, sgpu_launch_fn function,
				     void *argument, const struct sgpu_device_range *ranges,
				     int count, struct sgpu_task *task);

/* ---- digest.c ---- */
CUresult sgpu_cuda_digest(struct sgpu_stream *stream, const struct sgpu_work *work,
			  struct sgpu_cuda_record *record);
CUresult sgpu_cuda_measure(struct sgpu_stream *stream, const struct sgpu_work *work,
			   struct sgpu_cuda_record *record);
/* Call when the device has passed the record. */
void sgpu_cuda_sum_finish(const struct sgpu_cuda_sum *sum);
/* Accepts a pointer to NULL; clears the pointer. */
void sgpu_cuda_sum_free(struct sgpu_device *device, struct sgpu_cuda_sum **sum);

#endif
