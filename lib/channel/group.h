/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session asks of a worker in another process or on another machine: items of a command
 * group, and what is answered. Items name handles: of buffers, streams, keys and modules, which the
 * session chooses and the worker keeps in tables, and operations and functions by name. No item
 * names an address.
 *
 * A message is a hello (channel/keys.h), answered by a grant, or a sealed group, answered by a
 * sealed answer. How messages travel is the caller's business (sgpu_exchange_fn): a pipe, or a ring
 * (remote/carrier.h). Whoever carries them can stop things, and learns sizes.
 */
#ifndef SGPU_CHANNEL_GROUP_H
#define SGPU_CHANNEL_GROUP_H

#include "channel/channel.h"
#include <sgpu/device.h>

#include "channel/keys.h"

enum {
	SGPU_GROUP_BYTES = SGPU_GROUP_MAX - SGPU_TAG_SIZE, /* of items, and of answers */
	SGPU_GROUP_ITEMS = 128,				   /* in one group */
	SGPU_GROUP_BUFFERS = 256,			   /* handles are below */
	SGPU_GROUP_OBJECTS = 64,			   /* keys, modules, and jobs */
	SGPU_GROUP_STREAMS = 8,
	SGPU_GROUP_NAME_MAX = 64,  /* of an operation or a function */
	SGPU_GROUP_TEXT_MAX = 160, /* of an item that failed */
	SGPU_ITEM_HEAD = 52,
	SGPU_MESSAGE_MAX = SGPU_GROUP_MAX + 64,
};

enum sgpu_item_kind {
	SGPU_ITEM_ALLOC = 1, /* buffer, size */
	SGPU_ITEM_FREE,	     /* buffer */
	SGPU_ITEM_COPY_IN,   /* buffer, offset; tail: the bytes */
	SGPU_ITEM_COPY_OUT,  /* buffer, offset, size; the answer has the bytes */
	SGPU_ITEM_CLEAR,     /* buffer, offset, size */
	SGPU_ITEM_KEY_LOAD,  /* object; tail: salt, commitment, key, base nonce of struct
				sgpu_sealed_keys */
	SGPU_ITEM_KEY_FREE,  /* object */
	SGPU_ITEM_OPEN, /* object, first, last, size, other_offset: sealed bytes of the shared area;
			   buffer, offset: to */
	SGPU_ITEM_SEAL, /* object, first, last, buffer, offset, size; other_offset: to the shared
			   area */
	SGPU_ITEM_DIGEST,      /* buffer, offset, size; tail: customisation; the answer has
				  SGPU_KT128_SIZE bytes */
	SGPU_ITEM_LAUNCH,      /* tail: struct sgpu_item_call */
	SGPU_ITEM_MODULE_LOAD, /* object, size, other_offset: the image in the shared area; tail:
				  its digest */
	SGPU_ITEM_MODULE_FREE, /* object */
	SGPU_ITEM_MODULE_RUN,  /* object; tail: struct sgpu_item_call */
	SGPU_ITEM_WAIT,	       /* stream waits for what stream `other` has been given so far */
	SGPU_ITEM_JOB_LOAD,    /* object; tail: the text of a manifest */
	SGPU_ITEM_JOB_FREE,    /* object */
	SGPU_ITEM_JOB_RUN,     /* object; tail: struct sgpu_item_call with nothing but ranges */
	SGPU_ITEM_KINDS
};

/* An item. Members that its kind does not name are zero. */
struct sgpu_item {
	enum sgpu_item_kind kind;
	uint8_t stream;
	bool last;
	uint32_t buffer, other, object;
	uint64_t offset, other_offset, size, first;
	const uint8_t *tail; /* borrowed */
	uint32_t tail_size;
};

struct sgpu_item_range {
	uint32_t buffer;
	uint64_t offset, size;
};

/* What LAUNCH and MODULE_RUN start. `arguments` of an operation are its own; of a function they
 * are, for each: the range that it points at (1; 255: none), its size (1) and the value, without
 * one if it points at a range. */
struct sgpu_item_call {
	char name[SGPU_GROUP_NAME_MAX + 1];
	int range_count;
	struct sgpu_item_range ranges[SGPU_MODULE_RANGES_MAX];
	uint64_t written;		/* by range */
	struct sgpu_module_shape shape; /* of an operation: zero */
	const uint8_t *arguments;	/* borrowed */
	size_t arguments_size;
};

/* ---- group_codec.c ---- */
/* Writes an item behind *size bytes of a group. Errors: SGPU_EUSAGE (it does not fit, or is no
 * item). */
SGPU_MUST_CHECK int sgpu_item_encode(const struct sgpu_item *item, uint8_t group[SGPU_GROUP_BYTES],
				     size_t *size, struct sgpu_error *error);
/* Reads all items of a group, and how many bytes are answered when all of them are carried out.
 * Nothing of a group that is cut, has a rest, or names what is no handle is any good:
 * SGPU_EINVALID. Items borrow from `bytes`. */
SGPU_MUST_CHECK int sgpu_items_decode(const uint8_t *bytes, size_t size,
				      struct sgpu_item items[SGPU_GROUP_ITEMS], int *count,
				      struct sgpu_error *error);
/* Bytes that are answered to an item which was carried out. */
size_t sgpu_item_result(const struct sgpu_item *item);
/* A call as the tail of an item. `bytes` holds SGPU_GROUP_BYTES. Errors as above. */
SGPU_MUST_CHECK int sgpu_item_call_encode(const struct sgpu_item_call *call, uint8_t *bytes,
					  uint32_t *size, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_item_call_decode(const struct sgpu_item *item, struct sgpu_item_call *call,
					  struct sgpu_error *error);

/* A CH_SUBMIT as a message: version 1 (1), operation (1), zero (2), via (4), channel (4), counter
 * (8), size (4), the group; integers are little endian. Returns its size. */
size_t sgpu_submit_encode(const struct sgpu_command *command, uint8_t message[SGPU_MESSAGE_MAX]);
/* Whether it is one, of exactly that size. The group is borrowed. */
bool sgpu_submit_decode(const uint8_t *message, size_t size, struct sgpu_command *command);

/* ---- group_client.c: the session's side ---- */
/* Sends a message and waits for what is answered, which need not be true: SGPU_MESSAGE_MAX bytes at
 * most. */
typedef int (*sgpu_exchange_fn)(void *argument, const uint8_t *message, size_t size,
				uint8_t *answer, size_t *answer_size, struct sgpu_error *error);
enum { SGPU_GROUP_SENDS = 3 }; /* how often a group is sent whose answer does not come */

struct sgpu_group_client;

/* What became of an item: SGPU_OK and its result; or an error with its text; SGPU_EDEPENDENCY: not
 * carried out, because one before it failed. Borrows from the client, until its next group. */
struct sgpu_item_result {
	int code;
	const uint8_t *bytes;
	size_t size;
};

/* Gets a grant for the owner's X25519 key and opens a session on it. worker: the public key that a
 * quote names; then only who has its private half takes part, and an empty group has proved that
 * they do. NULL: anybody. Errors: SGPU_EAUTH, SGPU_EKEY, SGPU_EUSAGE (`worker` is symmetric), those
 * of `exchange`. */
SGPU_MUST_CHECK int sgpu_group_client_open(const struct sgpu_key *owner,
					   const struct sgpu_key *worker, sgpu_exchange_fn exchange,
					   void *argument, struct sgpu_group_client **client,
					   struct sgpu_error *error);
void sgpu_group_client_close(struct sgpu_group_client **client);
/* Adds an item to the group that is sent next. Errors: SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_group_client_add(struct sgpu_group_client *client,
					  const struct sgpu_item *item, struct sgpu_error *error);
/* Whether an item with a tail of so many bytes fits into that group. */
bool sgpu_group_client_has_room(const struct sgpu_group_client *client, size_t tail);
/* Sends the group and waits until it has been carried out, in order and once. results: one for each
 * item. Returns the code of the first item that failed, or SGPU_OK. A group whose answer does not
 * come is sent again; the same bytes under the same number, so that it is carried out once. When no
 * answer comes at all the client is of no use any more: SGPU_EAUTH, or what `exchange` said. */
SGPU_MUST_CHECK int sgpu_group_client_send(struct sgpu_group_client *client,
					   struct sgpu_item_result *results,
					   struct sgpu_error *error);

#endif
