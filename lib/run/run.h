/* SPDX-License-Identifier: Apache-2.0
 *
 * A run, private to lib/run. Who touches what:
 *
 *   reader   the thread in sgpu_run_batch: admits the batch, brings in inline payloads, writes the response
 *   fetcher  brings in payloads from files and regions, so that they do not wait for the pipe
 *   drain    brings out results that are too large for pinned memory, when there are any
 *   driver   owns the graph: decides which operation is enqueued, fails dependents, starts outputs
 *   watcher  relays a pipe, and sees deadline and cancellation, so that no one blocks past them
 *   streams  the device's threads, which run kernels and callbacks
 *
 * The others speak to the driver by nodes in its queue; a node is posted at most once. Fields say whose they are;
 * what is set before the threads start is everyone's.
 */
#ifndef SGPU_RUN_RUN_H
#define SGPU_RUN_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include <sgpu/run.h>
#include <sgpu/stage.h>

enum {
	SGPU_RUN_PIECE_MIN = 1 << 20,  /* plaintext bytes of a piece: below, the fixed cost of a copy shows */
	SGPU_RUN_PIECE_MAX = 16 << 20,
	SGPU_RUN_PIECE_COPIED = 4 << 20, /* most that goes through pinned slots: the cores are slower than the bus */
	SGPU_RUN_PIECE_SHARED = 2 << 20, /* where each core has a slot of its own */
	SGPU_RUN_PINNED_MAX = 64 << 20, /* bytes of pinned memory for a loader, and for all results */
	SGPU_RUN_LOADERS = 2,          /* the reader's and the fetcher's */
	SGPU_RUN_STREAMS = 4,          /* that bring in, a loader; and that bring out */
	SGPU_RUN_SLOTS = 32,
	SGPU_RUN_AHEAD = 1024,        /* operations that are enqueued at once */
	SGPU_RUN_DRAIN_SLOTS = 3,
	SGPU_RUN_ENGINE_STREAMS = 8,   /* of operations, on a device with engines: what its driver gives queues to */
	SGPU_RUN_TOGETHER_MAX = 64 << 20, /* bytes of buffers that are one allocation there */
	SGPU_RUN_SMALL_SLOT = 128 << 10, /* bytes of slots that are one allocation there */
};

enum sgpu_run_node_kind { SGPU_NODE_STOP, SGPU_NODE_ARRIVED, SGPU_NODE_RAN, SGPU_NODE_LEFT };

struct sgpu_run_node {
	struct sgpu_run *run;
	struct sgpu_run_node *next;
	enum sgpu_run_node_kind kind;
	int index; /* segment or operation */
};

/* A payload on its way out: made and ended by the driver. */
struct sgpu_run_leaving;
/* Results on their way out through a thread of its own. */
struct sgpu_drain;

struct sgpu_run_segment {
	int in_batch;                 /* index in the batch, or -1 */
	/* arrival */
	struct sgpu_run_node arrived;
	atomic_int pending;           /* pieces under way, and one until the loader has ended */
	atomic_int in_code;           /* the first failure */
	struct sgpu_device_key *key;  /* of a sealed payload, until the driver has seen its arrival */
	struct sgpu_task digesting;   /* of a payload that is not sealed */
	uint8_t digest[SGPU_KT128_SIZE];
	char *in_text;                /* why; set by whoever set in_code, read after the node came */
	bool loaded;                  /* reader or fetcher: begun, so that it will be posted */
	/* departure: driver, then reader */
	struct sgpu_run_node left;
	struct sgpu_run_leaving *leaving;
	int out_code;
	char *out_text;
	uint8_t *out_data;            /* payload as the response carries it */
	bool out_pinned;              /* it is from sgpu_host_alloc */
	uint64_t out_size, out_actual;
	uint8_t out_digest[SGPU_KT128_SIZE]; /* where it is not sealed */
};

/* A launch under way; lives from its enqueuing until the driver has seen its end. */
struct sgpu_run_launch {
	struct sgpu_run *run;
	int operation;
	struct sgpu_op_call call;
	sgpu_op_fn on_device;         /* the device's own implementation, or NULL: the table's for the CPU */
	struct sgpu_task task;
	struct sgpu_task *clears;     /* of a module's outputs, by argument; or NULL */
};

enum sgpu_run_state { SGPU_OP_WAITING, SGPU_OP_ENQUEUED, SGPU_OP_DONE, SGPU_OP_FAILED };

struct sgpu_run_operation {
	struct sgpu_run_node ran;
	atomic_bool bad;              /* it failed: whatever depends on it may not run any more */
	/* driver */
	enum sgpu_run_state state;
	int waiting;                  /* arrivals and predecessors that hold it back */
	int code;
	char *text;                   /* why it failed by itself, or NULL */
	const char *cause;            /* whose text says why it was not run */
	struct sgpu_run_launch *launch;
	struct sgpu_event *event;     /* after its kernel, where an operation on another stream follows */
};

/* Staging memory for one piece. Free or in the hands of one piece. */
struct sgpu_run_slot {
	struct sgpu_run_loader *loader;
	bool busy;                    /* under run->mutex */
	void *host;
	bool lent;                    /* host memory is from sgpu_host_alloc, else from aligned_alloc */
	sgpu_devptr device;
	int segment;
	uint64_t bytes;
	atomic_int ends;              /* callbacks that are still to come, and one until all are enqueued */
	struct sgpu_task copy, open;
};

/* Who brings in. Its streams: those that copy, and one more that opens, or all of them do both. */
struct sgpu_run_loader {
	struct sgpu_run *run;
	int first_row, copy_count;
	bool apart;                   /* opening has a stream of its own */
	int slot_count;
	uint64_t piece, slot_size;    /* most plaintext bytes at once; bytes for them, sealed or not */
	struct sgpu_run_slot slots[SGPU_RUN_SLOTS];
	bool are_small;               /* slots share an allocation of device memory: */
	sgpu_devptr together;         /* that, once it is made */
	struct sgpu_pool *movers;     /* cores that read for it, made on first use */
};

/* One way out: a stream that seals and one that copies, or one for both. What is sealed waits in a slot for its copy:
 * one is enough where one stream does both in order, two where they overlap. */
struct sgpu_run_lane {
	int seal_row, copy_row;
	uint64_t slot_size;
	sgpu_devptr slots[2];
	struct sgpu_event *copied[2]; /* after the last copy out of the slot, or NULL */
	unsigned turn;
};

struct sgpu_run_buffer {
	sgpu_devptr memory;
	bool allocated;
};

struct sgpu_run {
	struct sgpu_device *device;
	struct sgpu_run_options options;
	atomic_uint_fast64_t begin_ns;
	atomic_uint_fast64_t end_ns;  /* 0 while it runs */
	bool used;

	/* stopping */
	atomic_int stop;              /* 0, or why all is to end: SGPU_ETIMEOUT, SGPU_ECANCELED, or what was wrong */
	atomic_bool cancel;           /* sgpu_run_cancel was called */
	atomic_uint_fast64_t stop_ns; /* when `stop` was set */
	atomic_bool on_device;        /* the device may have work of the run */
	int wake_fd;                  /* eventfd that wakes the watcher */

	/* admission */
	struct sgpu_tar_reader *tar;
	struct sgpu_batch *batch;
	struct sgpu_manifest *manifest;
	struct sgpu_plan *plan;
	bool keyed;
	uint8_t batch_key[SGPU_KEY_SIZE];
	char owner[SGPU_KID_SIZE + 1]; /* whose signature has verified; empty: nobody's was asked for */
	uint8_t response_id[SGPU_RESPONSE_ID_SIZE]; /* of the one response that this run gives */
	int *to_manifest;             /* by segment of the batch */
	struct sgpu_run_segment *segments;     /* by segment of the manifest */
	struct sgpu_run_operation *operations;
	int *after_start, *after;     /* followers of operation i: after[after_start[i]] ... */

	/* driver's queue; slots wait on `slot_free` */
	pthread_mutex_t mutex;
	pthread_cond_t queue_filled, slot_free;
	struct sgpu_run_node *queue_head, *queue_tail;
	struct sgpu_run_node stop_node;

	/* driver */
	int *work;                    /* operations to look at: each is added once when nothing holds it back any more,
					 and once when it has failed */
	int work_head, work_tail;
	int arrivals_open, operations_open, outputs_open;
	int ahead;                    /* operations that are enqueued and of whose end it has not heard */
	int next_lane;
	uint64_t pinned_out;          /* bytes of pinned memory that results have */
	char *stray;                  /* a failed input that nothing reads */
	struct sgpu_run_module *modules; /* by segment, once one is used */
	char *broke_rules;               /* what a module did that is refused, or NULL; the driver's */

	struct sgpu_leases *leases;   /* regions, from admission to the end */

	/* device side */
	struct sgpu_run_buffer *buffers;
	sgpu_devptr together;         /* memory of all buffers; 0: each has its own */
	uint64_t together_size;
	struct sgpu_run_rows rows;
	struct sgpu_stream **streams; /* by row; made by the one thread that uses it */
	struct sgpu_run_loader loaders[SGPU_RUN_LOADERS];
	int lane_count;
	struct sgpu_run_lane lanes[SGPU_RUN_STREAMS + 1]; /* the driver's, and behind them the drain's */
	struct sgpu_drain *drain;

	/* what the device is like */
	bool engines;                 /* it copies beside the rest, so copies have streams of their own */
	bool pins;
	atomic_bool registers;        /* until it refuses */
	uint64_t piece;               /* most plaintext bytes that are moved at once */
	uint64_t pinned_max;
	unsigned cores;               /* that move bytes for an engine; 0 until it is known */

	/* what was done */
	atomic_int done, failed;
	atomic_uint_fast64_t bytes_in, bytes_out;
	atomic_int operation_count;
	pthread_mutex_t span_mutex;
	struct sgpu_span *spans;
	size_t span_count, span_capacity;
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_rungs rungs;  /* under span_mutex */
};

/* ---- run.c ---- */
/* Ends everything soon; the first reason stays. */
void sgpu_run_stop(struct sgpu_run *run, int code);
void sgpu_run_post(struct sgpu_run_node *node);
/* The stream of a row, made on first use. */
SGPU_MUST_CHECK int sgpu_run_stream(struct sgpu_run *run, int row, struct sgpu_stream **stream,
				    struct sgpu_error *error);
/* The memory of a buffer of the plan, made on first use by the thread that brings its first tenant. */
SGPU_MUST_CHECK int sgpu_run_memory(struct sgpu_run *run, int buffer, sgpu_devptr *memory,
				    struct sgpu_error *error);
/* Later work of stream `to` waits for what is enqueued on `from` so far. */
SGPU_MUST_CHECK int sgpu_run_follow(struct sgpu_run *run, struct sgpu_stream *from, struct sgpu_stream *to,
				    struct sgpu_error *error);
/* Text from a format, from malloc; NULL when memory is out. */
char *sgpu_run_text(const char *format, ...) SGPU_PRINTF(1, 2);

/* ---- admit.c: head, keys, policy, plan; nothing is enqueued ---- */
SGPU_MUST_CHECK int sgpu_run_admit(struct sgpu_run *run, struct sgpu_error *error);

/* ---- watch.c ---- */
struct sgpu_watch {
	struct sgpu_run *run;
	pthread_t thread;
	bool started;
	atomic_bool end;
	int in_fd;        /* what is relayed, or -1 */
	int relay_fd;     /* where to, or -1 */
	bool copies;      /* splice cannot */
	int error_number; /* of a failed read */
};
/* *fd is what to read the batch from instead of in_fd. */
SGPU_MUST_CHECK int sgpu_watch_start(struct sgpu_watch *watch, struct sgpu_run *run, int in_fd, int *fd,
				     struct sgpu_error *error);
void sgpu_watch_end(struct sgpu_watch *watch);

/* ---- path.c: in which pieces, and on which rung ---- */
/* Plaintext bytes of the next piece, of `left` that remain: at most `most`, and towards the end half of what is left
 * but no less than SGPU_RUN_PIECE_MIN, so that little is to be opened when the last byte has come. All but the last
 * are multiples of SGPU_CHUNK, as `most` must be. */
uint64_t sgpu_piece_next(uint64_t left, uint64_t most);
/* Sealed bytes of a piece; the last carries the end mark. */
uint64_t sgpu_piece_sealed(uint64_t size, bool last);
/* Whether registering memory costs less than copying it on `cores` into pinned memory. huge: 2 MiB pages. */
bool sgpu_register_pays(uint64_t size, unsigned cores, bool huge);
void sgpu_rung_add(struct sgpu_run *run, bool out, enum sgpu_rung rung, uint64_t bytes);

/* ---- pin.c: the rung "registered" ---- */
/* A slice of a file in memory that the device reads by itself. Nothing else may touch the mapping: the file can be
 * cut short at any time. */
struct sgpu_pinned {
	const uint8_t *data;  /* of the slice; NULL: not registered */
	void *base;
	uint64_t size;        /* bytes mapped */
};
/* Registers `size` bytes at `offset` where that pays and can be had; returns whether. */
bool sgpu_pin(struct sgpu_run *run, int fd, uint64_t offset, uint64_t size, struct sgpu_pinned *pinned);
/* No copy may be pending. */
void sgpu_unpin(struct sgpu_run *run, struct sgpu_pinned *pinned);

/* ---- move.c: bytes moved by several cores ---- */
/* *pool, made on first use; NULL where one core is to do it. For one thread. */
struct sgpu_pool *sgpu_movers(struct sgpu_run *run, struct sgpu_pool **pool, uint64_t size);
SGPU_MUST_CHECK int sgpu_move_read(struct sgpu_pool *pool, const struct sgpu_source *file, uint64_t position,
				   void *data, size_t size, struct sgpu_error *error);
void sgpu_move_copy(struct sgpu_pool *pool, void *to, const void *from, size_t size);

/* ---- staging.c: pieces on their way in ---- */
/* Waits for a free slot. They come back without fail: what a stop cuts short ends too. */
struct sgpu_run_slot *sgpu_slot_take(struct sgpu_run_loader *loader);
void sgpu_slot_give(struct sgpu_run_slot *slot);
/* Gives the slot the memory that it lacks; *rung is that of its host memory. */
SGPU_MUST_CHECK int sgpu_slot_fill(struct sgpu_run_slot *slot, bool host, bool device, enum sgpu_rung *rung,
				   struct sgpu_error *error);
/* A piece that has been read: `bytes` at `from`, to device memory `to`, with a key through the slot's. */
struct sgpu_slot_piece {
	int segment;
	const void *from;
	uint64_t bytes;
	sgpu_devptr to;
	struct sgpu_device_key *key; /* or NULL */
	uint64_t chunk;
	bool last;
};
/* Hands it to the device: from here on the slot is the stream's. A failure is recorded as the segment's. */
void sgpu_slot_send(struct sgpu_run_slot *slot, const struct sgpu_slot_piece *piece);
/* Waits until all slots are free. */
void sgpu_slots_wait(struct sgpu_run_loader *loader);
void sgpu_slots_free(struct sgpu_run *run);

/* ---- input.c: arrivals ---- */
void sgpu_load_free(struct sgpu_run *run);
/* Where a payload's bytes come from: from a tar in order, from a file at any position and by any thread. A failure of
 * the source itself, not of the payload, is fatal. */
struct sgpu_load_source {
	int (*read)(const struct sgpu_load_source *source, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error);
	bool fatal;
	struct sgpu_tar_reader *tar;
	const struct sgpu_source *file;
	struct sgpu_pool *movers;     /* cores that read; NULL: one does */
};
/* Brings in segment `segment` of the manifest. Returns 0, or what was fatal; the payload's own failures are
 * recorded in the segment. Either way it will be posted. */
SGPU_MUST_CHECK int sgpu_load_segment(struct sgpu_run_loader *loader, int segment,
				      const struct sgpu_load_source *source, struct sgpu_error *error);
/* Posts a segment that did not come. */
void sgpu_load_miss(struct sgpu_run *run, int segment, int code, const char *text);
/* The first failure of a segment stands. */
void sgpu_load_fail(struct sgpu_run *run, int segment, int code, const char *text);
/* One of those that hold the segment back has ended; the last posts it. */
void sgpu_load_release(struct sgpu_run *run, int segment);
/* The driver has seen the arrival: nothing is pending any more. Twice does no harm. */
void sgpu_load_end(struct sgpu_run *run, int segment);

/* ---- fetch.c: who brings what ---- */
/* Reads the rest of the tar. */
SGPU_MUST_CHECK int sgpu_fetch_inline(struct sgpu_run *run, struct sgpu_error *error);
/* Thread: payloads from files and regions. */
void *sgpu_fetch_files(void *run);
bool sgpu_fetch_needed(const struct sgpu_run *run);
/* Takes every region that the batch names, so that none outlives the run however it ends. */
SGPU_MUST_CHECK int sgpu_fetch_take(struct sgpu_run *run, struct sgpu_error *error);

/* ---- setup.c: what the run needs before its threads start ---- */
SGPU_MUST_CHECK int sgpu_run_setup(struct sgpu_run *run, struct sgpu_error *error);

/* ---- graph.c ---- */
void *sgpu_drive(void *run); /* thread */

/* ---- launch.c ---- */
/* Enqueues an operation that nothing holds back; its node is posted when it has ended. */
SGPU_MUST_CHECK int sgpu_execute(struct sgpu_run *run, int operation, struct sgpu_error *error);

/* What a launch touches: its tensors and its scratch memory. Returns how many ranges that is. */
enum { SGPU_RUN_RANGES_MAX = SGPU_ARGUMENTS_MAX + 1 };
int sgpu_launch_ranges(const struct sgpu_run_launch *launch, struct sgpu_device_range ranges[SGPU_RUN_RANGES_MAX]);

/* ---- module.c: operations whose kernel a segment brings ---- */
/* Enqueues the launch: its outputs are cleared, then its function is started. The segment has arrived. */
SGPU_MUST_CHECK int sgpu_module_start(struct sgpu_run *run, struct sgpu_run_launch *launch,
				      struct sgpu_stream *stream, struct sgpu_error *error);
/* What became of it, into launch->task. */
void sgpu_module_end(struct sgpu_run *run, struct sgpu_run_launch *launch);
/* When no launch is pending any more. */
void sgpu_modules_free(struct sgpu_run *run);

/* ---- output.c ---- */
/* Enqueues the way out of a segment of `actual` bytes; its node is posted at the end. */
SGPU_MUST_CHECK int sgpu_result_start(struct sgpu_run *run, int segment, uint64_t actual, struct sgpu_error *error);
/* What became of it. */
SGPU_MUST_CHECK int sgpu_result_end(struct sgpu_run *run, int segment, struct sgpu_error *error);
/* Gives the memory of a payload back. */
void sgpu_result_drop(struct sgpu_run *run, int segment);
/* What the lanes hold; their streams are gone. */
void sgpu_lanes_free(struct sgpu_run *run);

/* ---- respond.c ---- */
SGPU_MUST_CHECK int sgpu_respond(struct sgpu_run *run, int fd, const char *name, struct sgpu_error *error);

/* ---- trace.c ---- */
void sgpu_span_add(struct sgpu_run *run, enum sgpu_span_kind kind, int row, const char *label, uint64_t begin_ns,
		   uint64_t end_ns, uint64_t bytes);
void sgpu_span_sort(struct sgpu_run *run);

#endif
