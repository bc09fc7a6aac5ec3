/* SPDX-License-Identifier: Apache-2.0
 *
 * A session's requests to a worker in another process or machine: items of command groups, and
 * their answers. Items name buffers, keys and jobs by handles, which the session chooses and the
 * worker keeps in tables; no item names an address.
 *
 * Once a session has begun (keys.h), each message is a sealed group or answer. Whoever carries
 * messages (remote/carrier.h) can stop them, and learns their sizes.
 */
#ifndef SGPU_CHANNEL_GROUP_H
#define SGPU_CHANNEL_GROUP_H

#include "channel/keys.h"
#include "channel/channel.h"
#include "device/device.h"

enum {
	SGPU_GROUP_BYTES = SGPU_GROUP_MAX - SGPU_TAG_SIZE, /* of items, and of answers */
	SGPU_GROUP_ITEMS = 128,				   /* most in one group */
	SGPU_GROUP_BUFFERS = 256,			   /* handles are below this */
	SGPU_GROUP_OBJECTS = 64,   /* handles of keys and of jobs are below this */
	SGPU_GROUP_TEXT_MAX = 160, /* bytes, of all failed items' texts together */
	SGPU_ITEM_HEAD = 52,
	SGPU_MESSAGE_MAX = SGPU_GROUP_MAX + 64,
	SGPU_QUESTION_SIZE = 1, /* a zero byte */
	SGPU_REFUSAL_SIZE = 9,	/* zero (8), enum sgpu_refusal (1) */
};

/* Kinds, and the members that each uses. Other numbers are invalid. */
enum sgpu_item_kind {
	SGPU_ITEM_ALLOC = 1,	/* buffer, size */
	SGPU_ITEM_FREE = 2,	/* buffer */
	SGPU_ITEM_KEY_LOAD = 6, /* object; tail: a struct sgpu_sealed_keys */
	SGPU_ITEM_KEY_FREE = 7, /* object */
	SGPU_ITEM_OPEN = 8, /* object, first, last, size, other_offset: sealed bytes of the shared
			       area; buffer, offset: destination */
	SGPU_ITEM_SEAL = 9, /* object, first, last, buffer, offset, size; other_offset: destination
			       in the shared area */
	SGPU_ITEM_JOB_LOAD = 16, /* object; tail: the text of a manifest */
	SGPU_ITEM_JOB_FREE = 17, /* object */
	SGPU_ITEM_JOB_RUN = 18,	 /* object; tail: the job's ranges */
	SGPU_ITEM_KINDS
};

/* Members that an item's kind does not use are zero (group_codec.c: `kinds`). The head, up to the
 * tail, is sent as it lies in memory. */
struct sgpu_item {
	uint8_t kind;
	uint8_t zero;
	uint8_t last;
	uint8_t pad;
	uint32_t buffer, zeros, object;
	uint64_t offset, other_offset, size, first;
	uint32_t tail_size;
	const uint8_t *tail; /* borrowed */
};

/* ---- group_codec.c ---- */
/* Appends an item to a group of *size bytes. Errors: SGPU_EUSAGE (an item that is invalid or does
 * not fit). */
SGPU_MUST_CHECK int sgpu_item_encode(const struct sgpu_item *item, uint8_t group[SGPU_GROUP_BYTES],
				     size_t *size, struct sgpu_error *error);
/* Reads all items of a group, or refuses all: SGPU_EINVALID. Items borrow from `bytes`. */
SGPU_MUST_CHECK int sgpu_items_decode(const uint8_t *bytes, size_t size,
				      struct sgpu_item items[SGPU_GROUP_ITEMS], int *count,
				      struct sgpu_error *error);
/* Writes at most SGPU_MODULE_RANGES_MAX ranges as an item's tail. Returns the tail's size. */
enum { SGPU_ITEM_RANGES_MAX = 38 + 20 * SGPU_MODULE_RANGES_MAX };
uint32_t sgpu_item_ranges_encode(const struct sgpu_remote_range *ranges, int count,
				 uint8_t tail[SGPU_ITEM_RANGES_MAX]);
/* Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_item_ranges_decode(const struct sgpu_item *item,
					    struct sgpu_remote_range ranges[SGPU_MODULE_RANGES_MAX],
					    int *count, struct sgpu_error *error);

/* Writes a CH_SUBMIT as a message: version 1 (1), operation (1), zero (2), twice the channel (4),
 * counter (8), size (4), the group. Returns the message's size. */
size_t sgpu_submit_encode(const struct sgpu_command *command, uint8_t message[SGPU_MESSAGE_MAX]);
/* Borrows the group from the message. Returns false if the bytes are not exactly one. */
bool sgpu_submit_decode(const uint8_t *message, size_t size, struct sgpu_command *command);

/* ---- group_client.c: the session's side ---- */
/* Sends a message and waits for the answer, of SGPU_MESSAGE_MAX bytes at most. */
typedef int (*sgpu_exchange_fn)(void *argument, const uint8_t *message, size_t size,
				uint8_t *answer, size_t *answer_size, struct sgpu_error *error);
enum { SGPU_GROUP_SENDS = 3 };

struct sgpu_group_client;

/* Opens a session. `owner` signs the hello; NULL: a key drawn for it, for runners that take
 * anybody's sessions. `runner`: the runner's public key; by answering an empty group a process
 * proves that it has the private half. Errors: SGPU_EAUTH, SGPU_EPOLICY (`owner` is no owner of the
 * runner), SGPU_EUSAGE (`runner` is symmetric), those of `exchange`. */
SGPU_MUST_CHECK int sgpu_group_client_open(const struct sgpu_key *owner,
					   const struct sgpu_key *runner, sgpu_exchange_fn exchange,
					   void *argument, struct sgpu_group_client **client,
					   struct sgpu_error *error);
void sgpu_group_client_close(struct sgpu_group_client **client);
/* Errors: SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_group_client_add(struct sgpu_group_client *client,
					  const struct sgpu_item *item, struct sgpu_error *error);
bool sgpu_group_client_has_room(const struct sgpu_group_client *client, size_t tail);
/* Sends the group and waits for its end. Returns the code of the first failed item, or SGPU_OK. If
 * no valid answer comes, sends the same bytes again, so the group is carried out once. If all
 * attempts fail, returns SGPU_EAUTH or the code of `exchange`; then the client is useless. */
SGPU_MUST_CHECK int sgpu_group_client_send(struct sgpu_group_client *client,
					   struct sgpu_error *error);

/* ---- the worker's side: a server opens groups with the processor and answers them, and a worker
 * carries out their items on a secure context. A sender may use only its own channel, so every
 * handle, size, count and offset is checked. ---- */
/* Jobs are manifests whose operations work on the session's buffers (lib/remote/job.c). */
struct sgpu_group_jobs {
	/* Makes a job of a manifest. *bytes: the job's own device memory, at most `most`. */
	int (*load)(struct sgpu_device *device, const char *text, size_t size, uint64_t most,
		    void **job, uint64_t *bytes, struct sgpu_error *error);
	/* Frees a job that has no runs left. */
	void (*free)(void **job);
	/* Enqueues the operations. ranges: one for each INPUT, OUTPUT and INPUT_OUTPUT of the
	 * manifest, in order. *run is set even on failure, since some operations may be
	 * enqueued. */
	int (*start)(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges,
		     int count, void **run, struct sgpu_error *error);
	/* Frees a run of an idle stream. Returns the first failed operation's code. Accepts
	 * NULL. */
	int (*end)(void **run, struct sgpu_error *error);
};

struct sgpu_group_config {
	/* Memory shared with the session, which may change it at any time but cannot shrink it.
	 * Each byte is read once. NULL: none. */
	void *area;
	uint64_t area_size;
	uint64_t memory_limit;		    /* most device memory of the session; 0: no limit */
	const struct sgpu_group_jobs *jobs; /* NULL: none */
	const struct sgpu_session_authority *authority; /* borrowed */
};

/* ---- group_worker.c ---- */
struct sgpu_group_buffer {
	sgpu_devptr memory; /* 0: no buffer */
	uint64_t size;
};

struct sgpu_group_worker {
	struct sgpu_device *device;
	struct sgpu_group_config config;
	bool registered;     /* the area is registered with the device */
	sgpu_devptr staging; /* device memory of area_size bytes, or 0 */
	uint64_t used;	     /* bytes of the session's device memory */
	struct sgpu_group_buffer buffers[SGPU_GROUP_BUFFERS];
	struct sgpu_device_key *keys[SGPU_GROUP_OBJECTS];
	struct {
		void *job; /* made by config.jobs; NULL: none */
		uint64_t bytes;
	} jobs[SGPU_GROUP_OBJECTS];
	struct sgpu_stream *stream;
	/* of the current group */
	struct sgpu_item items[SGPU_GROUP_ITEMS];
	struct sgpu_task tasks[SGPU_GROUP_ITEMS];
	void *runs[SGPU_GROUP_ITEMS]; /* of items that run jobs */
	int settled;		      /* all opens before this item have verified */
};

/* Borrows the context and all that *config points to. One thread at a time. Even after an error the
 * worker must be closed. */
SGPU_MUST_CHECK int sgpu_group_worker_open(struct sgpu_group_worker *worker,
					   struct sgpu_secure *context,
					   const struct sgpu_group_config *config,
					   struct sgpu_error *error);
/* Waits for the enqueued work; clears and frees all objects of the session. Accepts zeros. */
void sgpu_group_worker_close(struct sgpu_group_worker *worker);
/* Carries out an opened group's items and waits for their end; carries out none of a malformed
 * group, and none after one that could not be enqueued. The answer begins with a code (4). After
 * SGPU_OK each item's code (4) and its error's size (4) and text follow; after another code, that
 * error's size (4) and text. */
void sgpu_group_worker_run(struct sgpu_group_worker *worker, const uint8_t *items, size_t size,
			   uint8_t answer[SGPU_GROUP_BYTES], size_t *answer_size);

/* ---- group_server.c ---- */
struct sgpu_group_server;
SGPU_MUST_CHECK int sgpu_group_server_create(struct sgpu_secure *context,
					     const struct sgpu_group_config *config,
					     struct sgpu_group_server **server,
					     struct sgpu_error *error);
void sgpu_group_server_free(struct sgpu_group_server **server);
/* Answers a message from the session: a question by a challenge, a hello by the grant, a group by
 * its number (8) and the sealed answer, a refused message by zero (8) and an enum sgpu_refusal (1).
 * If the last group comes again, it gets the same answer and is not carried out again. After an
 * error the server is of no use. One thread at a time. */
SGPU_MUST_CHECK int sgpu_group_server_handle(struct sgpu_group_server *server,
					     const uint8_t *message, size_t size,
					     uint8_t answer[SGPU_MESSAGE_MAX], size_t *answer_size,
					     struct sgpu_error *error);

#endif
