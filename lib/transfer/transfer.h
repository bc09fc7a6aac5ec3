/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfer engine moves bytes between the host and a device's memory, and opens, seals or
 * digests them on the way. All copies of large payloads go through it.
 *
 * A process keeps one engine for a device: workers that help to copy, and staging buffers in pinned
 * and in device memory, taken when first needed, in proportion to the bytes moved, up to a limit.
 *
 * A transfer belongs to the thread that drives it step by step: several may be under way, a chunk
 * run of each in turn. Transfers of all threads share the staging buffers; those of a lower rank
 * get them first.
 *
 * What a transfer promises:
 * - After success of an input, every tag and the end mark, or the digest, have verified on the
 *   device's own copy.
 * - After a failure of an input its destination on the device is cleared before the transfer ends:
 *   nothing unverified stays readable. No kernel that reads it may be enqueued before that end.
 * - No processor touches bytes that the host could change or cut short (mapped files); the device
 *   does.
 * - Transfers never deadlock, however little staging memory there is.
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

/* 0 stands for the default, measured to be best. Runs are whole chunks of plaintext, in bytes. */
struct sgpu_engine_config {
	unsigned workers;    /* on a GPU: threads that copy; 0: sgpu_cpu_count() */
	uint64_t pinned_max; /* most staging memory on the host; 64 MiB. Live copies of eight
				staged runs or more take direct_count times direct_run besides */
	uint64_t staged_run; /* chunk run through a staging buffer of the host; 2 MiB */
	uint64_t direct_run; /* chunk run in the caller's memory, or of such a live copy; 32 MiB */
	unsigned direct_count; /* device buffers of that size in each direction; 3 */
	uint64_t last_run; /* smallest: end of inputs and live copies, start of outputs; 1 MiB */
	uint64_t kept_max; /* most bytes of regions that stay registered; a quarter of memory */
	bool shared_files; /* other processes have the descriptors and may cut the files at any
			      time, so no processor touches their mappings */
};

/* Borrows `device`, which must outlive the engine. config NULL: all members are 0. Errors:
 * SGPU_ENOMEM, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_engine_create(struct sgpu_device *device,
				       const struct sgpu_engine_config *config,
				       struct sgpu_engine **engine, struct sgpu_error *error);
/* All transfers and keys of live copies must have been freed. Accepts NULL. Wipes memory. */
void sgpu_engine_free(struct sgpu_engine **engine);

/* Staging buffers for what is moved whole: of SGPU_TRANSFER_SMALL bytes and what sealing adds. */
#define SGPU_TRANSFER_SMALL ((uint64_t)128 << 10)
/* Least bytes of a read of an ordered source: fewer are not worth it; every pipe holds so many. */
#define SGPU_TRANSFER_SLICE ((uint64_t)32 << 10)
enum sgpu_staging_class {
	SGPU_STAGING_SMALL,
	SGPU_STAGING_LARGE,  /* a chunk run that is read, or written, by processors */
	SGPU_STAGING_DIRECT, /* one that only the device touches: device memory alone; or of a large
				live copy */
	SGPU_STAGING_CLASSES,
	SGPU_STAGING_NONE = SGPU_STAGING_CLASSES
};
struct sgpu_staging_buffer;
/* Gives NULL if all are in use. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_staging_take(struct sgpu_engine *engine,
				      struct sgpu_staging_buffer **buffer, void **host,
				      struct sgpu_error *error);
void sgpu_staging_give(struct sgpu_engine *engine, struct sgpu_staging_buffer *buffer);

/* ---- sources and sinks ----
 * Positions count bytes from the first that is moved, after the header of sealed data. A function
 * that fails fills in *error. Functions are called on the transfer's thread, read and write also on
 * workers, several at a time, unless the endpoint is ordered. */
struct sgpu_endpoint {
	/* NULL, or the bytes, in ordinary memory that does not change meanwhile. A sink's is wiped
	 * after a failure of the transfer. registered: the device reaches it itself
	 * (sgpu_host_alloc, sgpu_host_register). */
	uint8_t *memory;
	bool registered;
	/* Fills `data` with exactly `size` bytes from `position` on. */
	int (*read)(void *context, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error);
	/* For sgpu_host_move, in place of `read`: at the source's end *got is less than `size`. */
	int (*read_some)(void *context, uint64_t position, void *data, size_t size, size_t *got,
			 struct sgpu_error *error);
	/* Takes exactly `size` bytes at `position`. */
	int (*write)(void *context, uint64_t position, const void *data, size_t size,
		     struct sgpu_error *error);
	/* NULL, or returns bytes [0, size) in memory that stays until close; if it returns NULL,
	 * they are read or written. No processor touches memory that is registered, so it may be a
	 * mapping that somebody cuts short. */
	void *(*view)(void *context, uint64_t size, bool write, bool *registered);
	/* NULL, or called once when nothing uses the endpoint any more, before the transfer ends.
	 * May call the device. */
	void (*close)(void *context);
	/* Read or written in order, by one thread. A source is read to its end even if the transfer
	 * fails, so the caller can read what follows in a pipe. Sinks: of sgpu_host_move alone. */
	bool ordered;
	bool parallel; /* several calls of write may run at the same time, unlike for a file */
	/* NULL, or whether a read of an ordered source would have to wait. Steps then read nothing,
	 * so the thread can do something else. */
	bool (*waits)(void *context);
	/* NULL, or returns how many bytes the next read of an ordered source may take. May step
	 * this transfer and others until so many have arrived. */
	uint64_t (*await)(void *context);
	bool live; /* what is read is sealed while it is read: all workers take part */
	void *context;
};

/* A file or region from `offset` on, which all cores read with pread and, if it is a regular file,
 * write with pwrite. region: a large slice of a region with a name is mapped and registered at
 * first use, stays so, and the device reaches it itself. What a failed transfer has written to a
 * region remains. Borrows `fd` and `name` until the transfer has ended. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_endpoint_in_file(struct sgpu_engine *engine, int fd, const char *name,
					  uint64_t offset, bool region,
					  struct sgpu_endpoint *endpoint, struct sgpu_error *error);

/* ---- transfers ---- */
/* Why a LOW input failed with SGPU_EAUTH. */
#define SGPU_TRANSFER_OTHER_DIGEST "its kt128 is not the one that the batch names"

struct sgpu_transfer;

enum sgpu_transfer_direction { SGPU_TRANSFER_IN, SGPU_TRANSFER_OUT };

enum sgpu_transfer_step {
	SGPU_STEP_READ, /* a processor reads from the source, or registers it */
	SGPU_STEP_COPY_IN,
	SGPU_STEP_OPEN,
	SGPU_STEP_SEAL,
	SGPU_STEP_COPY_OUT,
	SGPU_STEP_WRITE, /* a processor writes to the sink */
	SGPU_STEPS
};
struct sgpu_transfer_span {
	enum sgpu_transfer_step step;
	uint64_t begin_ns, end_ns, bytes;
};

struct sgpu_transfer_result {
	int code; /* SGPU_OK, or the error at the lowest position */
	struct sgpu_error error;
	uint64_t bad_chunk; /* SGPU_EAUTH of a sealed input: number of the lowest bad chunk */
	uint8_t digest[SGPU_KT128_SIZE]; /* if one was asked for */
	uint64_t bytes[SGPU_PATHS];	 /* by path */
	uint64_t begin_ns, end_ns;
};

struct sgpu_transfer_request {
	enum sgpu_transfer_direction direction;
	/* NULL: a plain transfer. Else the device opens or seals chunks from number `first` on
	 * under this borrowed key. The header is not moved. */
	struct sgpu_device_key *key;
	uint64_t first;
	bool last;	    /* sealed: the last chunk is included; else `size` is whole chunks */
	sgpu_devptr memory; /* of the plaintext; must stay until the end */
	uint64_t size;	    /* sealed bytes of a sealed input, else plaintext bytes */
	/* Plain: the device computes the KT128 of all bytes, for the result, and compares it with
	 * `expected` unless that is NULL (SGPU_EAUTH). */
	bool digested;
	const uint8_t *expected;  /* SGPU_KT128_SIZE bytes, borrowed; inputs only */
	struct sgpu_endpoint end; /* the source or the sink */
	uint64_t rank;		  /* transfers of lower ranks get staging buffers first */
	/* Streams for copies, and for opening, sealing and digests; borrowed. */
	struct sgpu_stream *copy, *crypt;
	bool untimed; /* as of its tasks */
	/* NULL, or called after each step, on the transfer's thread. */
	void (*span)(void *argument, const struct sgpu_transfer_span *span);
	void *argument;
};

/* Copies the request, and finds the bytes to move and their memory. After an error nothing was
 * begun, and the source or sink is not closed. Errors: SGPU_ENOMEM, SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_transfer_begin(struct sgpu_engine *engine,
					const struct sgpu_transfer_request *request,
					struct sgpu_transfer **transfer, struct sgpu_error *error);
/* Does what can be done now for at most one chunk run, without waiting for the device. Returns
 * whether there was anything. may_block: also reads from a source that has to wait, once no run is
 * under way. */
bool sgpu_transfer_step(struct sgpu_transfer *transfer, bool may_block);
/* Whether nothing of it is on the device. */
bool sgpu_transfer_is_idle(const struct sgpu_transfer *transfer);
/* Whether the source needs no more steps: all of it was read, or the transfer has ended. */
bool sgpu_transfer_has_read(const struct sgpu_transfer *transfer);
/* Ends a transfer soon, with `code` (SGPU_ECANCELED, SGPU_ETIMEOUT), if it has not ended. */
void sgpu_transfer_stop(struct sgpu_transfer *transfer, int code);
/* NULL until the transfer has ended. */
const struct sgpu_transfer_result *sgpu_transfer_end(const struct sgpu_transfer *transfer);
/* Frees a transfer that has ended. Accepts a pointer to NULL. */
void sgpu_transfer_free(struct sgpu_transfer **transfer);
/* Steps until the end; for a thread that has nothing else to do. */
const struct sgpu_transfer_result *sgpu_transfer_wait(struct sgpu_transfer *transfer);

/* ---- live copies: plaintext in the host's memory, sealed only while it crosses the bus ---- */

/* A key for live copies, on the device and with every worker. It is drawn here and used nowhere
 * else, and counts the chunks that it sealed, so no nonce is used twice. */
struct sgpu_live_key;
SGPU_MUST_CHECK int sgpu_live_key_load(struct sgpu_engine *engine, struct sgpu_live_key **key,
				       struct sgpu_error *error);
/* Wipes the key; no copy may use it any more. Accepts NULL. */
void sgpu_live_key_free(struct sgpu_live_key **key);

/* Copies plaintext from ordinary host memory to the key's device, and waits. One live copy with a
 * key runs at a time. The result's bad_chunk counts from the start of the copy. After an error the
 * destination is cleared. Returns the result's code. */
SGPU_MUST_CHECK int sgpu_live_in(struct sgpu_live_key *key, const void *plaintext, uint64_t size,
				 sgpu_devptr to, struct sgpu_transfer_result *result);

/* ---- on the host alone: files and pipes, sealed, opened or copied without a device ---- */

/* A descriptor as a source or a sink, which borrow it. */
struct sgpu_descriptor {
	int fd;
	const char *name; /* for messages */
	bool positioned;  /* any worker reads or writes any part; else in order */
	uint64_t offset;  /* positioned only: file offset of position 0 */
	bool sparse;	  /* for positioned sinks: writes no pages of zeros. The file must be empty
			     there, and the caller sets its size. */
	/* private */
	int pipe; /* another, non-blocking descriptor of an output pipe, or -1 */
	bool waits, is_socket;
};
/* The descriptor is positioned, at fd's offset, if fd is a regular file with a true size (not as in
 * /proc) and not written with O_APPEND. */
void sgpu_descriptor_from_fd(int fd, const char *name, struct sgpu_descriptor *descriptor);
/* A call that waits for another process ends with SGPU_ECANCELED soon after sgpu_io_interrupt. */
struct sgpu_endpoint sgpu_endpoint_of(struct sgpu_descriptor *descriptor);
/* No transfer may use the descriptor any more. fd stays open. */
void sgpu_descriptor_close(struct sgpu_descriptor *descriptor);

#define SGPU_SIZE_UNKNOWN UINT64_MAX

enum sgpu_host_action { SGPU_HOST_COPY, SGPU_HOST_SEAL, SGPU_HOST_OPEN };

/* Sealed bytes begin with their header. */
struct sgpu_host_part {
	enum sgpu_host_action action;
	const char *name; /* the source's, for messages */
	/* Without `write`, a COPY is read right to the sink's memory; without memory, nowhere. */
	struct sgpu_endpoint source, sink;
	uint64_t from, to;   /* where the part begins in source and sink */
	uint64_t size;	     /* bytes to read; SGPU_SIZE_UNKNOWN: to the end, with read_some */
	const uint8_t *key;  /* SEAL, OPEN: the segment's key, SGPU_KEY_SIZE bytes, and context */
	const void *context; /* used only when the part begins */
	size_t context_size;
	const uint8_t *header; /* SEAL: NULL, or a header that was drawn for this part before */
	const uint8_t *digest; /* COPY of known size: NULL, or the expected KT128, checked after the
				  bytes were written (SGPU_EAUTH) */
	uint8_t *found;	       /* COPY of known size: NULL, or receives the KT128 */
	/* NULL, or called once before all else, for one part after the other: fills in unknown
	 * members, except the size, and may read what precedes the part in an ordered source. */
	int (*prepare)(void *argument, struct sgpu_host_part *part, struct sgpu_error *error);
	void *argument;
	/* results */
	uint64_t bytes_in, bytes_out;
	/* private; zeroed */
	bool open; /* from its beginning until all its chunk runs were delivered */
	struct sgpu_sealed_keys keys;
	struct sgpu_host_digest *computed;
	uint64_t runs;	/* chunk runs; UINT64_MAX while unknown; 0: not begun */
	uint64_t next;	/* the chunk run to claim next */
	uint64_t ended; /* chunk runs that were delivered */
};

struct sgpu_host_move {
	struct sgpu_host_part *parts;
	size_t count;
	unsigned jobs; /* threads; 0: sgpu_cpu_count() */
	void (*progress)(void *argument,
			 uint64_t bytes_in); /* NULL, or called on any thread; bytes_in grows */
	void *progress_argument;
	/* results if a part fails */
	struct sgpu_host_part *failed; /* else NULL */
	uint64_t bad_chunk;	       /* chunk of an SGPU_EAUTH, else SGPU_SIZE_UNKNOWN */
};

/* Moves the parts in order, on all cores, several chunk runs at a time. Adjacent parts that are not
 * ordered and have different sinks are moved together, so several files are written at a time.
 * Memory: about 1 MiB a thread, whatever the sizes, and up to 1/256 of the bytes read of a part
 * with a digest. Only verified chunks are written; an ordered sink gets exactly those before the
 * lowest bad one. Between parts that share an ordered source or sink, no part may have another
 * ordered one. After success every part, with its end mark or digest, has verified. Errors: that of
 * the lowest failed chunk run; SGPU_EKEY, SGPU_EAUTH, SGPU_ESYSTEM, SGPU_ECANCELED, SGPU_ENOMEM.
 * `close` of each source and sink is called if its part was begun. */
SGPU_MUST_CHECK int sgpu_host_move(struct sgpu_host_move *move, struct sgpu_error *error);

/* Moves the one part of `move`, which has no source, sink and name yet, from `in` to `out`. A part
 * of unknown size is all that follows in `in`. Fails with SGPU_ESYSTEM ("changed while it was
 * read") if a positioned `in` is shorter than a known size or changes its length. Advances
 * in->offset and out->offset if positioned. */
SGPU_MUST_CHECK int sgpu_host_move_file(struct sgpu_host_move *move, struct sgpu_descriptor *in,
					struct sgpu_descriptor *out, struct sgpu_error *error);

#endif
