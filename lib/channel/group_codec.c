/* SPDX-License-Identifier: Apache-2.0
 *
 * Items of command groups as bytes: the head of struct sgpu_item, and a tail that depends on the
 * kind. The tail of a job's ranges: zero (1), their number (1), each range's buffer (4), offset (8)
 * and size (8), zero (36).
 */
#include <sgpu/base.h>

#include "base/base.h"
#include "channel/group.h"
#include "channel/wire.h"

enum {
	LAST = 2,
	BUFFER = 4,
	OBJECT = 16,
	OFFSET = 32,
	OTHER_OFFSET = 64,
	SIZE = 128,
	FIRST = 256,
	RANGE = BUFFER | OFFSET | SIZE,
	KEYS_SIZE = sizeof(struct sgpu_sealed_keys),
	RANGE_SIZE = 4 + 8 + 8,
	RANGES_END = 36, /* zeros after the ranges */
	RANGES_MIN = 1 + 1 + RANGES_END,
};

static const struct {
	uint16_t members;
	uint32_t tail_min, tail_max;
} kinds[SGPU_ITEM_KINDS] = {
	[SGPU_ITEM_ALLOC] = { BUFFER | SIZE, 0, 0 },
	[SGPU_ITEM_FREE] = { BUFFER, 0, 0 },
	[SGPU_ITEM_KEY_LOAD] = { OBJECT, KEYS_SIZE, KEYS_SIZE },
	[SGPU_ITEM_KEY_FREE] = { OBJECT, 0, 0 },
	[SGPU_ITEM_OPEN] = { OBJECT | FIRST | LAST | RANGE | OTHER_OFFSET, 0, 0 },
	[SGPU_ITEM_SEAL] = { OBJECT | FIRST | LAST | RANGE | OTHER_OFFSET, 0, 0 },
	[SGPU_ITEM_JOB_LOAD] = { OBJECT, 1, SGPU_GROUP_BYTES },
	[SGPU_ITEM_JOB_FREE] = { OBJECT, 0, 0 },
	[SGPU_ITEM_JOB_RUN] = { OBJECT, RANGES_MIN, SGPU_ITEM_RANGES_MAX },
};

_Static_assert(offsetof(struct sgpu_item, tail_size) + 4 == SGPU_ITEM_HEAD &&
		       KEYS_SIZE == SGPU_SALT_SIZE + SGPU_COMMITMENT_SIZE + SGPU_KEY_SIZE +
					    SGPU_NONCE_SIZE &&
		       __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "sgpu-session(5)");

static bool is_item(const struct sgpu_item *item)
{
	uint16_t members;

	if (item->kind >= SGPU_ITEM_KINDS || item->last > 1 || item->zero || item->pad ||
	    item->zeros || item->tail_size < kinds[item->kind].tail_min ||
	    item->tail_size > kinds[item->kind].tail_max) {
		return false;
	}
	members = (uint16_t)((item->last ? LAST : 0) | (item->buffer ? BUFFER : 0) |
			     (item->object ? OBJECT : 0) | (item->offset ? OFFSET : 0) |
			     (item->other_offset ? OTHER_OFFSET : 0) | (item->size ? SIZE : 0) |
			     (item->first ? FIRST : 0));
	return kinds[item->kind].members && (members & ~kinds[item->kind].members) == 0 &&
	       item->buffer < SGPU_GROUP_BUFFERS && item->object < SGPU_GROUP_OBJECTS;
}

int sgpu_item_encode(const struct sgpu_item *item, uint8_t group[SGPU_GROUP_BYTES], size_t *size,
		     struct sgpu_error *error)
{
	uint8_t *at = group + *size;

	if (!is_item(item)) {
		return sgpu_fail(error, SGPU_EUSAGE, "not an item: kind %d", (int)item->kind);
	}
	if (SGPU_GROUP_BYTES - *size < SGPU_ITEM_HEAD ||
	    SGPU_GROUP_BYTES - *size - SGPU_ITEM_HEAD < item->tail_size) {
		return sgpu_fail(error, SGPU_EUSAGE, "the group is full: %zu bytes", *size);
	}
	sgpu_put_bytes(sgpu_put_bytes(at, item, SGPU_ITEM_HEAD), item->tail, item->tail_size);
	*size += SGPU_ITEM_HEAD + item->tail_size;
	return SGPU_OK;
}

static bool decode_item(struct sgpu_reader *reader, struct sgpu_item *item)
{
	sgpu_take_bytes(reader, item, SGPU_ITEM_HEAD);
	item->tail = sgpu_take(reader, item->tail_size);
	return !reader->bad && is_item(item);
}

int sgpu_items_decode(const uint8_t *bytes, size_t size, struct sgpu_item items[SGPU_GROUP_ITEMS],
		      int *count, struct sgpu_error *error)
{
	struct sgpu_reader reader = { .next = bytes, .left = size };

	*count = 0;
	while (reader.left > 0) {
		if (*count == SGPU_GROUP_ITEMS || !decode_item(&reader, &items[*count])) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "item %d of a command group is malformed", *count);
		}
		++*count;
	}
	return SGPU_OK;
}

/* ---- the ranges of a job ---- */
uint32_t sgpu_item_ranges_encode(const struct sgpu_remote_range *ranges, int count,
				 uint8_t tail[SGPU_ITEM_RANGES_MAX])
{
	uint8_t *at = tail;

	*at++ = 0;
	*at++ = (uint8_t)count;
	for (int i = 0; i < count; i++) {
		at = sgpu_put_u64(sgpu_put_u32(at, ranges[i].buffer), ranges[i].offset);
		at = sgpu_put_u64(at, ranges[i].size);
	}
	memset(at, 0, RANGES_END);
	return (uint32_t)(at + RANGES_END - tail);
}

int sgpu_item_ranges_decode(const struct sgpu_item *item,
			    struct sgpu_remote_range ranges[SGPU_MODULE_RANGES_MAX], int *count,
			    struct sgpu_error *error)
{
	struct sgpu_reader reader = { .next = item->tail, .left = item->tail_size };
	const uint8_t zero = sgpu_take_u8(&reader);

	*count = sgpu_take_u8(&reader);
	reader.bad = reader.bad || *count > SGPU_MODULE_RANGES_MAX ||
		     reader.left != (size_t)*count * RANGE_SIZE + RANGES_END;
	for (int i = 0; !reader.bad && i < *count; i++) {
		ranges[i].buffer = sgpu_take_u32(&reader);
		ranges[i].offset = sgpu_take_u64(&reader);
		ranges[i].size = sgpu_take_u64(&reader);
	}
	return reader.bad || zero || !sgpu_all_zero(reader.next, reader.left)
		       ? sgpu_fail(error, SGPU_EINVALID, "the ranges of a job are malformed")
		       : SGPU_OK;
}

/* ---- groups ---- */
enum { SUBMIT_VERSION = 1 };

size_t sgpu_submit_encode(const struct sgpu_command *command, uint8_t message[SGPU_MESSAGE_MAX])
{
	uint8_t *at = sgpu_put_u32(message, SUBMIT_VERSION | SGPU_CH_SUBMIT << 8);

	at = sgpu_put_u32(sgpu_put_u32(at, command->channel), command->channel);
	at = sgpu_put_u32(sgpu_put_u64(at, command->submit.counter), command->submit.size);
	return (size_t)(sgpu_put_bytes(at, command->submit.group, command->submit.size) - message);
}

bool sgpu_submit_decode(const uint8_t *message, size_t size, struct sgpu_command *command)
{
	struct sgpu_reader reader = { .next = message, .left = size };
	const uint32_t head = sgpu_take_u32(&reader), channel = sgpu_take_u32(&reader);

	*command = (struct sgpu_command){ .op = SGPU_CH_SUBMIT, .channel = sgpu_take_u32(&reader) };
	command->submit.counter = sgpu_take_u64(&reader);
	command->submit.size = sgpu_take_u32(&reader);
	if (head != (SUBMIT_VERSION | SGPU_CH_SUBMIT << 8) || channel != command->channel ||
	    command->submit.size < SGPU_TAG_SIZE || command->submit.size > SGPU_GROUP_MAX) {
		return false;
	}
	command->submit.group = sgpu_take(&reader, command->submit.size);
	return !reader.bad && reader.left == 0;
}
