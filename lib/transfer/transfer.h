/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfer engine: moves bytes between the host and the memory of a device, and opens, seals
 * or digests them on the way. All copies of payloads go through it.
 *
 * An engine is made once a process for a device and kept: streams, staging buffers in pinned and
 * in device memory, and worker threads. It takes memory and threads when they are first needed, in
 * proportion to what is moved, within a bound, and keeps them. Many transfers run at once. They
 * take turns by chunk run, so that a large one does not hold up a small one.
 *
 * A transfer reads from a source or writes to a sink. Both are small tables of functions, so that
 * a pipe, a file, a region or memory are all the same to it. Its end is told by a call of `done`.
 *
 * What a transfer promises:
 * - After success of an input, every tag and the end mark, or the digest, have verified on the
 *   device's own copy.
 * - After a failure of an input its destination on the device is cleared before `done` is called.
 *   Nothing that was not verified stays readable. No kernel that reads it may be enqueued before
 *   `done`.
 * - Bytes that the host could change or cut short (mapped files) are touched by no processor, only
 *   by the device.
 * - Transfers never wait for one another for ever, however little staging memory there is.
 */
#ifndef SGPU_TRANSFER_H
#define SGPU_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/seal.h>

#include "device/device.h"

/* ---- the engine ---- */
struct sgpu_engine;

/* 0 stands for what was measured to be best. Unit: bytes; chunk runs are whole chunks of plaintext.
 */
struct sgpu_engine_config {
	unsigned workers;      /* threads; 0: sgpu_cpu_count() */
	uint64_t pinned_max;   /* most staging memory on the host; 64 MiB */
	uint64_t staged_run;   /* chunk run that goes through a staging buffer on the host; 2 MiB */
	uint64_t direct_run;   /* chunk run that the device reads or writes where it lies; 32 MiB */
	unsigned direct_count; /* staging buffers of that size on the device; 3 */
	uint64_t first_run;    /* smallest chunk run where a live copy begins; 512 KiB */
	uint64_t last_run; /* smallest chunk run where the device works alone, before or after the
			      bus; 1 MiB */
	unsigned live_buffers; /* staging buffers that one live copy uses at most */
	uint64_t kept_max;     /* most memory of regions that stays registered; a quarter of the
				  machine's */
	bool shared_files; /* other processes hold the descriptors of files, too, and may cut them
			      short at any time: no processor touches a mapping of one */
};

/* `device` is borrowed and must outlive the engine; NULL: an engine that works on the host alone.
 * config: NULL stands for zeros. Errors: SGPU_ENOMEM, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_engine_create(struct sgpu_device *device,
				       const struct sgpu_engine_config *config,
				       struct sgpu_engine **engine, struct sgpu_error *error);
/* All transfers have ended, and keys of live copies have been freed. Accepts NULL; wipes what it
 * held. */
void sgpu_engine_free(struct sgpu_engine **engine);

/* ---- sources and sinks ----
 * Positions count bytes from the begin of what is moved: of the first chunk where it is sealed,
 * behind its header. All functions may fail; *error is filled in then. They are called on workers,
 * on the thread that starts a small transfer, and on the thread that pumps an ordered one; never
 * on a stream's callback. */

struct sgpu_transfer_source {
	/* Fills `data` with exactly `size` bytes from `position` on. */
	int (*read)(void *context, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error);
	/* NULL, or: all of [0, size) in memory that stays until close; NULL where it is not to be
	 * had: then read is called. *registered: the device reads it by itself (sgpu_host_alloc,
	 * sgpu_host_register). Then no processor touches it, and it may be a mapping that somebody
	 * cuts short. Otherwise it is ordinary memory that nobody changes meanwhile. Called once,
	 * before anything is read. */
	void *(*view)(void *context, uint64_t size, bool *registered);
	/* NULL, or called once when nothing reads from the source any more, before done. May call
	 * the device. */
	void (*close)(void *context);
	/* NULL, or for a source of unknown size: as read, but at the end of the source *got is
	 * less than `size`. */
	int (*read_some)(void *context, uint64_t position, void *data, size_t size, size_t *got,
			 struct sgpu_error *error);
	/* NULL, or from any thread: its data are no longer wanted. A waiting read ends soon. */
	void (*stop)(void *context);
	/* Read in order, by the one thread that owns the pipe, in sgpu_transfer_pump. Else read by
	 * all workers. */
	bool ordered;
	void *context;
};

struct sgpu_transfer_sink {
	/* Takes exactly `size` bytes at `position`. */
	int (*write)(void *context, uint64_t position, const void *data, size_t size,
		     struct sgpu_error *error);
	/* As a source's: memory that is written; NULL: write is called. If there is no write, it is
	 * wiped after a failure of the transfer. */
	void *(*view)(void *context, uint64_t size, bool *registered);
	void (*close)(void *context);
	bool ordered;  /* written in order, in sgpu_transfer_pump */
	bool parallel; /* many calls of write at once get on, as in memory; in one file they wait
			  for each other */
	void *context;
};

/* Bytes [offset, offset + size) of a file or region. Read by pread on all cores; where the file
 * lies in memory (tmpfs, hugetlbfs), the device can register it, and that costs less than to copy
 * it, it is mapped and read by the device itself. region: where several transfers use the same
 * slice of one that has a name, the slice stays registered. `fd` and `name` are borrowed until the
 * transfer has ended. Errors: SGPU_ENOMEM, and then nothing is made. */
SGPU_MUST_CHECK int sgpu_source_from_file(struct sgpu_engine *engine, int fd, const char *name,
					  uint64_t offset, bool region,
					  struct sgpu_transfer_source *source,
					  struct sgpu_error *error);
/* The same written by pwrite, by all cores, into a regular file. What a transfer that failed has
 * written to a region stays. */
SGPU_MUST_CHECK int sgpu_sink_to_file(struct sgpu_engine *engine, int fd, const char *name,
				      uint64_t offset, bool region, struct sgpu_transfer_sink *sink,
				      struct sgpu_error *error);
/* Memory of this process; registered: from sgpu_host_alloc, or registered by the caller. */
struct sgpu_transfer_source sgpu_source_from_memory(const void *memory, bool registered);
struct sgpu_transfer_sink sgpu_sink_to_memory(void *memory, bool registered);

/* ---- transfers ---- */
struct sgpu_transfer;

enum sgpu_transfer_direction { SGPU_TRANSFER_IN, SGPU_TRANSFER_OUT };

const char *sgpu_transfer_path_name(
	enum sgpu_transfer_path path); /* "registered", "pinned", "pageable" */

enum sgpu_transfer_step {
	SGPU_STEP_READ, /* from the source by a processor, or registering it */
	SGPU_STEP_COPY_IN,
	SGPU_STEP_OPEN,
	SGPU_STEP_SEAL,
	SGPU_STEP_COPY_OUT,
	SGPU_STEP_WRITE, /* to the sink by a processor */
	SGPU_STEPS
};
/* What was done for one chunk run. */
struct sgpu_transfer_span {
	enum sgpu_transfer_step step;
	int row; /* stream of the engine, 0 to SGPU_ENGINE_ROWS - 1; -1: the host */
	uint64_t begin_ns, end_ns, bytes;
};
enum { SGPU_ENGINE_ROWS = 4 };
const char *sgpu_engine_row_name(int row); /* "copy in", "open", "seal", "copy out" */

struct sgpu_transfer_result {
	int code; /* SGPU_OK or what went wrong first, counted by position */
	struct sgpu_error error;
	uint64_t bad_chunk; /* SGPU_EAUTH of a sealed input: the lowest such chunk, counted as
			       `first` */
	uint8_t digest[SGPU_KT128_SIZE]; /* of a plain transfer that asked for one */
	uint64_t bytes[SGPU_PATHS];	 /* as they travelled */
	uint64_t begin_ns, end_ns;
};

struct sgpu_transfer_request {
	enum sgpu_transfer_direction direction;
	/* SEALED: chunks from number `first` on are opened or sealed on the device under this key,
	 * which is borrowed until done. The header is not part of them. NULL: PLAIN. */
	struct sgpu_device_key *key;
	uint64_t first;
	bool last; /* sealed: the end mark is demanded, or written; without it size is whole chunks
		    */
	sgpu_devptr memory; /* plaintext; must stay until done */
	uint64_t size;	    /* bytes that cross: sealed ones of a sealed input; else plaintext */
	/* Plain: KT128 of all bytes, computed on the device: compared with `expected`, unless NULL
	 * (SGPU_EAUTH), and given in the result. */
	bool digested;
	const uint8_t *expected; /* SGPU_KT128_SIZE bytes, borrowed until done; in only */
	struct sgpu_transfer_source source; /* in */
	struct sgpu_transfer_sink sink;	    /* out */
	/* Out: the event after which the data are ready; NULL: they are ready now. Borrowed for the
	 * call of sgpu_transfer_start alone. Later outputs may wait for it too. */
	struct sgpu_event *after;
	uint64_t rank; /* those of lower rank go first; of one rank all advance by a chunk run in
			  turn */
	bool queued;   /* workers do all of it, even where it is small: one of many at once */
	/* NULL, or called once before anything else, where the source is called: may fill in what
	 * is not known before (key, memory, size, source, sink) and read the header. `stream` is
	 * for sgpu_device_key_load. An error ends the transfer. */
	int (*prepare)(void *argument, struct sgpu_stream *stream,
		       struct sgpu_transfer_request *request, struct sgpu_error *error);
	/* NULL, or told of each step once it has ended. On any thread; calls nothing of the device
	 * and nothing here. */
	void (*span)(void *argument, const struct sgpu_transfer_span *span);
	/* Called once, after everything else, on any thread, also before start has returned. It
	 * may post and count; it calls nothing of the device and nothing here but
	 * sgpu_transfer_free. The result lives for the call. NULL: sgpu_transfer_wait tells. */
	void (*done)(void *argument, const struct sgpu_transfer_result *result);
	void *argument; /* of prepare, span and done */
};

/* The request is copied. An error is returned only where nothing was started: then neither close
 * nor done is called. Everything else is told to done. A transfer of up to SGPU_TRANSFER_SMALL
 * bytes that is not queued is read and enqueued by the caller at once where there is a free staging
 * buffer; what is enqueued then needs no other thread. Errors: SGPU_ENOMEM, SGPU_EUSAGE,
 * SGPU_EDEVICE. */
#define SGPU_TRANSFER_SMALL ((uint64_t)128 << 10)
SGPU_MUST_CHECK int sgpu_transfer_start(struct sgpu_engine *engine,
					const struct sgpu_transfer_request *request,
					struct sgpu_transfer **transfer, struct sgpu_error *error);
/* Moves the bytes of an ordered source or sink on the calling thread, which blocks in it and
 * nobody else does. Returns when the source has been read to its end, also that of a transfer that
 * has failed meanwhile, so that what follows in the pipe can be read; or when the sink has all.
 * Errors are those of the source or sink itself, which done is told of as well, or SGPU_ECANCELED:
 * then the pipe is of no more use. */
SGPU_MUST_CHECK int sgpu_transfer_pump(struct sgpu_transfer *transfer, struct sgpu_error *error);
/* Ends it soon, with `code` (SGPU_ECANCELED, SGPU_ETIMEOUT); no-operation when it has ended. It
 * does not interrupt a read or write that blocks. From any thread, done included. */
void sgpu_transfer_cancel(struct sgpu_transfer *transfer, int code);
/* Waits until done has returned; *result unless NULL. Returns the result's code. Not in a
 * callback. */
int sgpu_transfer_wait(struct sgpu_transfer *transfer, struct sgpu_transfer_result *result);
/* Once done has been called, also within it. Accepts NULL. */
void sgpu_transfer_free(struct sgpu_transfer **transfer);
/* Start, pump where it is ordered, wait and free; close is called in any case. `result` may be
 * NULL; its code is returned. */
SGPU_MUST_CHECK int sgpu_transfer_sync(struct sgpu_engine *engine,
				       const struct sgpu_transfer_request *request,
				       struct sgpu_transfer_result *result);

/* ---- live copies: plaintext in the host's memory, sealed only while it crosses the bus ---- */

/* A key for live copies, on the device and with every worker. It counts the chunks that it has
 * sealed, in both directions, so that no nonce is ever used twice: so `keys` must be fresh
 * (sgpu_sealed_keys_new) and not be used elsewhere. Another engine refuses it (SGPU_EUSAGE). */
struct sgpu_live_key;
SGPU_MUST_CHECK int sgpu_live_key_load(struct sgpu_engine *engine,
				       const struct sgpu_sealed_keys *keys,
				       struct sgpu_live_key **key, struct sgpu_error *error);
/* Wipes it; no copy with it may run. Accepts NULL. */
void sgpu_live_key_free(struct sgpu_live_key **key);

/* What a live copy to the device is made of, to be timed one upon the other, as Graviton (OSDI
 * 2018) breaks it down. What `to` holds afterwards is defined for the first, which protects
 * nothing, and for the last alone. */
enum sgpu_transfer_stage {
	SGPU_TRANSFER_STAGE,   /* copied into pinned memory by the processors, and from there to the
				  device */
	SGPU_TRANSFER_ENCRYPT, /* in place of the copy by the processors: AES-256 in counter mode */
	SGPU_TRANSFER_AUTHENTICATE, /* ... AES-256-GCM */
	SGPU_TRANSFER_OPEN,	    /* and opened on the device: a live copy */
};
/* Plaintext from ordinary host memory to the device. Returns when it has ended; live copies take
 * turns as a whole. `result` may be NULL; bad_chunk counts from the begin of the copy. After an
 * error the destination is cleared. */
SGPU_MUST_CHECK int sgpu_live_in(struct sgpu_engine *engine, struct sgpu_live_key *key,
				 enum sgpu_transfer_stage stage, const void *plaintext,
				 uint64_t size, sgpu_devptr to,
				 struct sgpu_transfer_result *result);
/* Plaintext from the device to ordinary host memory: a chunk reaches it only when it has verified.
 */
SGPU_MUST_CHECK int sgpu_live_out(struct sgpu_engine *engine, struct sgpu_live_key *key,
				  sgpu_devptr from, uint64_t size, void *plaintext,
				  struct sgpu_transfer_result *result);

/* ---- on the host alone: files and pipes, sealed, opened or copied without a device ---- */

/* A descriptor as a source or a sink; what it points to is borrowed. */
struct sgpu_descriptor {
	int fd;
	const char *name; /* for messages */
	bool positioned;  /* any part is read or written by any worker; else in order */
	uint64_t offset;  /* positioned only: where position 0 is */
	bool sparse; /* a sink, positioned: pages of zeros are not written. The file is fresh there,
			and the caller gives it its size. */
	/* private */
	int pipe; /* a non-blocking description of an output pipe, or -1 */
	bool waits, is_socket, stopped;
};
/* Positioned, at its current position, where fd is a regular file whose size says what a reader
 * gets and whose position says where a writer writes. */
void sgpu_descriptor_from_fd(int fd, const char *name, struct sgpu_descriptor *descriptor);
/* No reader or writer waits for another process in a way that a signal could not end: a wait ends
 * with SGPU_ECANCELED soon after sgpu_io_interrupt. */
struct sgpu_transfer_source sgpu_source_from_descriptor(struct sgpu_descriptor *descriptor);
struct sgpu_transfer_sink sgpu_sink_to_descriptor(struct sgpu_descriptor *descriptor);
/* When no transfer uses it any more. fd stays open. */
void sgpu_descriptor_close(struct sgpu_descriptor *descriptor);

#define SGPU_SIZE_UNKNOWN UINT64_MAX

enum sgpu_host_action { SGPU_HOST_COPY, SGPU_HOST_SEAL, SGPU_HOST_OPEN };

/* A range of bytes, with one source and one sink. Sealed bytes begin with their header. */
struct sgpu_host_part {
	enum sgpu_host_action action;
	const char *name; /* of the source, for messages */
	struct sgpu_transfer_source source;
	struct sgpu_transfer_sink sink;
	uint64_t from, to; /* positions where it begins */
	uint64_t size; /* bytes to read, or SGPU_SIZE_UNKNOWN: to the end of a source with read_some
			*/
	const uint8_t *key; /* SEAL, OPEN: of the segment, SGPU_KEY_SIZE bytes, and what it is bound
			       to. Only used */
	const void *context; /* when the part begins. */
	size_t context_size;
	const uint8_t
		*digest; /* COPY of known size: NULL, or the KT128 that the bytes must have: else
			    SGPU_EAUTH, which is known only when they have been written */
	/* NULL, or called once before anything else, in the order of the parts and one at a time:
	 * fills in what was not known before, but the size. What an ordered source has before the
	 * part can be read here. */
	int (*prepare)(void *argument, struct sgpu_host_part *part, struct sgpu_error *error);
	void *argument;
	/* results */
	uint64_t bytes_in, bytes_out;
};

struct sgpu_host_move {
	struct sgpu_host_part *parts;
	size_t count;
	unsigned jobs; /* threads; 0: sgpu_cpu_count() */
	void (*progress)(void *argument,
			 uint64_t bytes_in); /* or NULL; called from any thread, monotone */
	void *progress_argument;
	/* results of an error in a part */
	struct sgpu_host_part *failed; /* else NULL */
	uint64_t bad_chunk;	       /* of SGPU_EAUTH at a chunk, else SGPU_SIZE_UNKNOWN */
};

/* Moves the parts, in order, on all cores; chunk runs of several parts travel at once. Neighbours
 * that are not ordered, with sinks of their own, take turns: several files are written at once.
 * Memory: about 1 MiB a thread, whatever the sizes; a part with a digest takes up to 1/128 more of
 * what was read of it. Only verified chunks are ever written. An ordered sink gets exactly those
 * before the lowest bad one. Parts that share an ordered source or sink must not be mixed with
 * others that have one. Success means that every part, its end mark or its digest included, has
 * verified. Errors: that of the lowest chunk run that failed; SGPU_EKEY, SGPU_EAUTH, SGPU_ESYSTEM,
 * SGPU_ECANCELED, SGPU_ENOMEM. `close` of each source and sink is called if its part was begun. */
SGPU_MUST_CHECK int sgpu_host_move(struct sgpu_host_move *move, struct sgpu_error *error);

/* One part between descriptors. */
struct sgpu_seal_job {
	const uint8_t *key; /* SGPU_KEY_SIZE bytes */
	const void *context;
	size_t context_size;
	struct sgpu_descriptor in, out; /* from sgpu_descriptor_from_fd; out.sparse: open alone */
	uint64_t size; /* bytes to read from `in`, or SGPU_SIZE_UNKNOWN: to the end of file */
	unsigned jobs; /* threads; 0: sgpu_cpu_count() */
	void (*progress)(void *argument,
			 uint64_t bytes_in); /* or NULL; called from any thread, monotone */
	void *progress_argument;
	uint64_t bytes_in, bytes_out; /* results */
	uint64_t bad_chunk;	      /* result, as that of a move */
};
/* Seals `in` to `out`. A positioned `in` shorter than `size` is SGPU_ESYSTEM ("changed while it
 * was read"), and so is one of unknown size whose length changes meanwhile. On return a positioned
 * out.offset and in.offset have moved on. */
SGPU_MUST_CHECK int sgpu_seal_stream(struct sgpu_seal_job *job, struct sgpu_error *error);
/* Opens `in` to `out`. Errors: SGPU_EKEY, SGPU_EAUTH, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_open_stream(struct sgpu_seal_job *job, struct sgpu_error *error);

#endif
