/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests of a session to a worker in another process or on another machine: items of command
 * groups, and their answers. Items name buffers, streams, keys and jobs by handles, which the
 * session chooses and the worker keeps in tables. No item names an address.
 *
 * Once a session has begun (keys.h), each message is a sealed group, answered by a sealed answer.
 * Whoever carries messages, through a pipe or a ring (remote/carrier.h), can stop them, and learns
 * their sizes.
 */
#ifndef SGPU_CHANNEL_GROUP_H
#define SGPU_CHANNEL_GROUP_H

#include "channel/channel.h"
#include <sgpu/device.h>

#include "channel/keys.h"

enum {
	SGPU_GROUP_BYTES = SGPU_GROUP_MAX - SGPU_TAG_SIZE, /* of items, and of answers */
	SGPU_GROUP_ITEMS = 128,				   /* most in one group */
	SGPU_GROUP_BUFFERS = 256,			   /* handles are below this */
	SGPU_GROUP_OBJECTS = 64, /* handles of keys, and of jobs, are below this */
	SGPU_GROUP_STREAMS = 8,
	SGPU_GROUP_TEXT_MAX = 160, /* most bytes of the texts of all failed items together */
	SGPU_ITEM_HEAD = 52,
	SGPU_MESSAGE_MAX = SGPU_GROUP_MAX + 64,
	SGPU_QUESTION_SIZE = 1, /* a zero byte */
	SGPU_REFUSAL_SIZE = 9,	/* zero (8), enum sgpu_refusal (1) */
};

/* Kinds, and the members that each uses besides `stream`. All other numbers are invalid. */
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

/* An item. Members that its kind does not use are zero (group_codec.c: `kinds`). Its head, up to
 * the tail, is sent as it lies in memory. */
struct sgpu_item {
	uint8_t kind; /* enum sgpu_item_kind */
	uint8_t stream;
	uint8_t last; /* 0 or 1 */
	uint8_t zero;
	uint32_t buffer, zeros, object;
	uint64_t offset, other_offset, size, first;
	uint32_t tail_size;
	const uint8_t *tail; /* borrowed */
};

/* ---- group_codec.c ---- */
/* Appends an item to the *size bytes of a group. Errors: SGPU_EUSAGE (the item does not fit, or is
 * invalid). */
SGPU_MUST_CHECK int sgpu_item_encode(const struct sgpu_item *item, uint8_t group[SGPU_GROUP_BYTES],
				     size_t *size, struct sgpu_error *error);
/* Reads all items of a group, or refuses all: SGPU_EINVALID. Items borrow from `bytes`. */
SGPU_MUST_CHECK int sgpu_items_decode(const uint8_t *bytes, size_t size,
				      struct sgpu_item items[SGPU_GROUP_ITEMS], int *count,
				      struct sgpu_error *error);
/* Writes ranges, SGPU_MODULE_RANGES_MAX at most, as the tail of an item. Returns the tail's
 * size. */
enum { SGPU_ITEM_RANGES_MAX = 38 + 20 * SGPU_MODULE_RANGES_MAX };
uint32_t sgpu_item_ranges_encode(const struct sgpu_remote_range *ranges, int count,
				 uint8_t tail[SGPU_ITEM_RANGES_MAX]);
/* Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_item_ranges_decode(const struct sgpu_item *item,
					    struct sgpu_remote_range ranges[SGPU_MODULE_RANGES_MAX],
					    int *count, struct sgpu_error *error);

/* Writes a CH_SUBMIT as a message: version 1 (1), operation (1), zero (2), via (4), channel (4),
 * counter (8), size (4), the group; integers are little endian. Returns the message's size. */
size_t sgpu_submit_encode(const struct sgpu_command *command, uint8_t message[SGPU_MESSAGE_MAX]);
/* Borrows the group from the message. Returns false if the bytes are not exactly one. */
bool sgpu_submit_decode(const uint8_t *message, size_t size, struct sgpu_command *command);

/* ---- group_client.c: the session's side ---- */
/* Sends a message and waits for the answer, of SGPU_MESSAGE_MAX bytes at most. */
typedef int (*sgpu_exchange_fn)(void *argument, const uint8_t *message, size_t size,
				uint8_t *answer, size_t *answer_size, struct sgpu_error *error);
enum { SGPU_GROUP_SENDS = 3 }; /* how often a group without an answer is sent */

struct sgpu_group_client;

/* Opens a session. `owner` signs the hello; NULL: a key drawn for it, for runners that take
 * anybody's sessions. `runner`: the runner's public key; only a process with its private half can
 * answer, and proves this by answering an empty group. Errors: SGPU_EAUTH, SGPU_EPOLICY (`owner` is
 * no owner of the runner), SGPU_EUSAGE (`runner` is symmetric), those of `exchange`. */
SGPU_MUST_CHECK int sgpu_group_client_open(const struct sgpu_signing_key *owner,
					   const struct sgpu_key *runner, sgpu_exchange_fn exchange,
					   void *argument, struct sgpu_group_client **client,
					   struct sgpu_error *error);
void sgpu_group_client_close(struct sgpu_group_client **client);
/* Adds an item to the group that is sent next. Errors: SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_group_client_add(struct sgpu_group_client *client,
					  const struct sgpu_item *item, struct sgpu_error *error);
/* Whether an item with a tail of `tail` bytes fits into the next group. */
bool sgpu_group_client_has_room(const struct sgpu_group_client *client, size_t tail);
/* Sends the group and waits until it has been carried out. Returns the code of the first item that
 * failed, or SGPU_OK. If no valid answer comes, sends the same bytes again, so that the group is
 * carried out once. If all attempts fail, returns SGPU_EAUTH or the code of `exchange`; then the
 * client cannot be used any more. */
SGPU_MUST_CHECK int sgpu_group_client_send(struct sgpu_group_client *client,
					   struct sgpu_error *error);

#endif
