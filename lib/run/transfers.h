/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfers of one batch: its inputs on their way to the device, and its results on their way back. Private to the
 * files that move payloads; inputs.h and outputs.h are what others see.
 */
#ifndef SGPU_RUN_TRANSFERS_H
#define SGPU_RUN_TRANSFERS_H

#include <pthread.h>
#include <stdatomic.h>

#include <sgpu/stage.h>

#include "run/admit.h"
#include "run/loop.h"
#include "run/memory.h"
#include "run/outputs.h"
#include "run/run.h"
#include "run/stock.h"
#include "run/threads.h"
#include "run/trace.h"

enum {
	SGPU_RUN_PIECE_MIN = 1 << 20,  /* plaintext bytes of a piece: below, the fixed cost of a copy shows */
	SGPU_RUN_PIECE_MAX = 16 << 20,
	SGPU_RUN_PIECE_COPIED = 4 << 20, /* most that goes through staging buffers: the cores are slower than the bus */
	SGPU_RUN_PIECE_SHARED = 2 << 20, /* where each core has a buffer of its own */
	SGPU_RUN_LOADERS = 2,          /* of the reader, and of the thread that fetches files */
	SGPU_RUN_STREAMS = 4,          /* that bring in, a loader; and that bring out */
	SGPU_RUN_SLOTS = 32,
	SGPU_RUN_DRAIN_SLOTS = 3,
	SGPU_RUN_SMALL_SLOT = 128 << 10, /* bytes of staging buffers that are one allocation on a device with engines */
};

struct sgpu_run_leaving;
struct sgpu_write_back;

struct sgpu_run_segment {
	/* input */
	struct sgpu_note arrived;
	atomic_int pending;           /* pieces under way, and one until the loader has ended */
	atomic_int in_code;           /* the first failure */
	struct sgpu_device_key *key;  /* of a sealed payload, until the loop has seen its arrival */
	struct sgpu_task digesting;   /* of a payload that is not sealed */
	uint8_t digest[SGPU_KT128_SIZE];
	struct sgpu_transfers *transfers;
	char *in_text;                /* why; set by whoever set in_code, read after the note came */
	bool loaded;                  /* a reader has begun, so that it will be posted */
	/* output: the loop's, then the writer's */
	struct sgpu_note left;
	struct sgpu_run_leaving *leaving;
	struct sgpu_output_end end;
	char *out_text;
	uint8_t *out_data;            /* payload as the response carries it */
	bool out_pinned;              /* it is from sgpu_host_alloc */
	uint64_t out_size;
};

/* Staging memory for one piece. Free or in the hands of one piece. */
struct sgpu_run_slot {
	struct sgpu_run_loader *loader;
	bool busy;                    /* under run->mutex */
	void *host;
	bool lent;                    /* host memory is from the runner's stock, else from aligned_alloc */
	sgpu_devptr device;
	int segment;
	uint64_t bytes;
	atomic_int ends;              /* callbacks that are still to come, and one until all are enqueued */
	struct sgpu_task copy, open;
};

/* One loader: copy streams, and an open stream where the device has copy engines. */
struct sgpu_run_loader {
	struct sgpu_transfers *run;
	int first_row, copy_count;
	bool apart;                   /* opening has a stream of its own */
	int slot_count;
	uint64_t piece, slot_size;    /* most plaintext bytes at once; bytes for them, sealed or not */
	struct sgpu_run_slot slots[SGPU_RUN_SLOTS];
	bool are_small;               /* slots share an allocation of device memory: */
	sgpu_devptr together;         /* that, once it is made */
};

/* One output stream, or a pair of one that seals and one that copies. What is sealed waits in a staging buffer for its
 * copy: one is enough where one stream does both in order, two where they overlap. */
struct sgpu_run_lane {
	int seal_row, copy_row;
	uint64_t slot_size;
	sgpu_devptr slots[2];
	struct sgpu_event *copied[2]; /* after the last copy out of the slot, or NULL */
	unsigned turn;
};

struct sgpu_transfers {
	struct sgpu_run_base *base;
	struct sgpu_job *job;
	void (*left)(void *owner);    /* an output has ended */
	void *owner;
	pthread_mutex_t mutex;        /* slots, and first failures */
	pthread_cond_t slot_free;
	struct sgpu_run_segment *segments;
	struct sgpu_run_rows rows;
	struct sgpu_stream **streams; /* by row behind those of operations; made by the one thread that uses it */
	struct sgpu_run_loader loaders[SGPU_RUN_LOADERS];
	int lane_count, next_lane, outputs_open;
	struct sgpu_run_lane lanes[SGPU_RUN_STREAMS + 1]; /* the loop's, and behind them the write-back's */
	uint64_t pinned_out;          /* bytes of pinned memory that results have */
	struct sgpu_write_back *drain;
};

/* The stream of a row, taken on first use. */
SGPU_MUST_CHECK int sgpu_run_stream(struct sgpu_transfers *run, int row, struct sgpu_stream **stream,
				    struct sgpu_error *error);
/* Later work of stream `to` waits for what is enqueued on `from` so far. */
SGPU_MUST_CHECK int sgpu_run_follow(struct sgpu_transfers *run, struct sgpu_stream *from, struct sgpu_stream *to,
				    struct sgpu_error *error);

/* ---- path.c: in which pieces, and on which transfer path ---- */
/* Plaintext bytes of the next piece, of `left` that remain: at most `most`, and towards the end half of what is left
 * but no less than SGPU_RUN_PIECE_MIN, so that little is to be opened when the last byte has come. All but the last
 * are multiples of SGPU_CHUNK, as `most` must be. */
uint64_t sgpu_piece_next(uint64_t left, uint64_t most);
/* Whether registering memory costs less than copying it on `cores` into pinned memory. huge: 2 MiB pages. */
bool sgpu_register_pays(uint64_t size, unsigned cores, bool huge);

/* ---- pin.c: the transfer path "registered" ---- */
/* A slice of a file in memory that the device reads by itself. Nothing else may touch the mapping: the file can be
 * cut short at any time. */
struct sgpu_pinned {
	const uint8_t *data;  /* of the slice; NULL: not registered */
	void *base;
	uint64_t size;        /* bytes mapped */
};
/* Registers `size` bytes at `offset` where that pays and can be had; returns whether. */
bool sgpu_pin(struct sgpu_transfers *run, int fd, uint64_t offset, uint64_t size, struct sgpu_pinned *pinned);
/* No copy may be pending. */
void sgpu_unpin(struct sgpu_transfers *run, struct sgpu_pinned *pinned);

/* ---- move.c: bytes moved by several cores ---- */
/* NULL where one core is to do it. */
struct sgpu_pool *sgpu_movers(struct sgpu_transfers *run, uint64_t size);
SGPU_MUST_CHECK int sgpu_move_read(struct sgpu_pool *pool, const struct sgpu_source *file, uint64_t position,
				   void *data, size_t size, struct sgpu_error *error);
void sgpu_move_copy(struct sgpu_pool *pool, void *to, const void *from, size_t size);

/* ---- staging.c: pieces on their way in ---- */
/* Waits for a free slot. They come back without fail: what a stop cuts short ends too. */
struct sgpu_run_slot *sgpu_slot_take(struct sgpu_run_loader *loader);
void sgpu_slot_give(struct sgpu_run_slot *slot);
/* Gives the slot the memory that it lacks; *path is that of its host memory. */
SGPU_MUST_CHECK int sgpu_slot_fill(struct sgpu_run_slot *slot, bool host, bool device, enum sgpu_transfer_path *path,
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
void sgpu_slots_free(struct sgpu_transfers *run);

/* ---- input.c: arrivals ---- */
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
void sgpu_load_miss(struct sgpu_transfers *run, int segment, int code, const char *text);
/* The first failure of a segment stands. */
void sgpu_load_fail(struct sgpu_transfers *run, int segment, int code, const char *text);
/* One of those that hold the segment back has ended; the last posts it. */
void sgpu_load_release(struct sgpu_transfers *run, int segment);

/* ---- output.c and write_back.c ---- */
struct sgpu_run_out_piece {
	uint64_t at, size;            /* plaintext bytes */
	struct sgpu_task seal, copy;
};

struct sgpu_run_leaving {
	struct sgpu_transfers *run;
	int segment;
	sgpu_devptr memory;           /* of the plaintext */
	struct sgpu_note *left;       /* posted when it has left */
	struct sgpu_run_lane *lane;
	bool sealed;
	bool drained;                 /* the drain enqueues it, piece by piece; else the driver all at once */
	enum sgpu_transfer_path path;
	uint64_t actual;
	int piece_count;
	struct sgpu_run_out_piece *pieces;
	struct sgpu_device_key *key;
	struct sgpu_task digest;      /* not sealed */
	atomic_int ends;              /* callbacks that are still to come, and one until all are enqueued */
	int code;                     /* why the drain could not go on */
	struct sgpu_error error;
	struct sgpu_run_leaving *next; /* in the drain's queue */
};

/* The header and the key, if it is to be sealed; else its digest is enqueued, on the lane's stream for sealing. */
SGPU_MUST_CHECK int sgpu_result_begin(struct sgpu_transfers *run, struct sgpu_run_leaving *l, struct sgpu_error *error);
/* Where a piece starts in the payload, and how many bytes it has there. */
uint64_t sgpu_result_offset(const struct sgpu_run_leaving *l, int piece, uint64_t *bytes);
/* Enqueues a piece, to host memory `to`; the copy is the last on the lane's stream for copies. */
SGPU_MUST_CHECK int sgpu_result_send(struct sgpu_transfers *run, struct sgpu_run_leaving *l, int piece, void *to,
				     struct sgpu_error *error);
/* Gives the memory of all results back. */
void sgpu_outputs_drop(struct sgpu_transfers *run);
/* What the lanes hold; their streams are gone. */
void sgpu_lanes_free(struct sgpu_transfers *run);
/* Waits until nothing of the lane is pending; the outcome of all of it is known then. Errors: SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_result_settle(struct sgpu_transfers *run, const struct sgpu_run_lane *lane);

/* ---- write_back.c ---- */
/* Queues it; a thread works as long as there is something. Its note is posted at the end. */
SGPU_MUST_CHECK int sgpu_drain_add(struct sgpu_transfers *run, struct sgpu_run_leaving *l, struct sgpu_error *error);
/* Gives its memory back; nothing may be in its queue. Twice does no harm. */
void sgpu_drain_free(struct sgpu_transfers *run);

#endif
