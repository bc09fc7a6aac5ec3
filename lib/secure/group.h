/* SPDX-License-Identifier: Apache-2.0
 *
 * What is sealed in a command group: a head, and items one behind the other. Both ends are in one program and one byte
 * order, and pointers of the host stand in items as they are: the seal says that they come from the context's owner.
 * Everything is a multiple of 8 bytes. Addresses of the device are checked by who carries the items out.
 */
#ifndef SGPU_SECURE_GROUP_H
#define SGPU_SECURE_GROUP_H

#include <sgpu/channel.h>
#include <sgpu/device.h>

enum { SGPU_GROUP_ITEMS_MAX = SGPU_GROUP_MAX - SGPU_TAG_SIZE, SGPU_GROUP_RANGES_MAX = 256,
       SGPU_MODULE_ARGUMENTS_MAX = 256 };

struct sgpu_group {
	/* Drawn anew for each group, and struck out when its sender gives up: a group that was held back on the way must
	 * not be carried out when what its pointers name is gone. */
	uint64_t ticket;
	uint64_t count;          /* of items */
};

enum sgpu_item_kind {
	SGPU_ITEM_COPY_IN = 1, SGPU_ITEM_COPY_OUT, SGPU_ITEM_CLEAR, SGPU_ITEM_KEY_LOAD, SGPU_ITEM_KEY_FREE, SGPU_ITEM_OPEN,
	SGPU_ITEM_SEAL, SGPU_ITEM_DIGEST, SGPU_ITEM_LAUNCH, SGPU_ITEM_MODULE_LOAD, SGPU_ITEM_MODULE_FREE,
	SGPU_ITEM_MODULE_LAUNCH,
};

struct sgpu_item {
	uint32_t kind;
	uint32_t size;           /* bytes, with this head */
};

struct sgpu_item_move {          /* COPY_IN, COPY_OUT; CLEAR without `host` */
	struct sgpu_item head;
	sgpu_devptr device;
	uint64_t size;
	uint64_t host;
	uint64_t task;
};

/* Keys of segments travel in the item itself, sealed with it. */
struct sgpu_item_key {           /* KEY_LOAD; KEY_FREE without `keys` */
	struct sgpu_item head;
	uint64_t key;            /* struct sgpu_secure_key */
	struct sgpu_sealed_keys keys;
	uint8_t rest[4];
};

struct sgpu_item_chunks {        /* OPEN, SEAL */
	struct sgpu_item head;
	uint64_t key;            /* struct sgpu_secure_key */
	uint64_t first, last;
	sgpu_devptr in;
	uint64_t size;
	sgpu_devptr out;
	uint64_t task;
};

struct sgpu_item_digest {
	struct sgpu_item head;
	sgpu_devptr memory;
	uint64_t size;
	uint64_t digest;
	uint64_t task;
	uint64_t custom_size;
	uint8_t custom[SGPU_DIGEST_CUSTOM_MAX];
};

struct sgpu_item_launch {        /* ranges follow */
	struct sgpu_item head;
	uint64_t function, argument;
	uint64_t task;
	uint64_t range_count;
};

struct sgpu_item_module {        /* MODULE_LOAD; MODULE_FREE without an image */
	struct sgpu_item head;
	uint64_t module;         /* struct sgpu_secure_module */
	uint64_t image, size;
};

/* Ranges follow, then sizes of arguments, 8 bytes each (above them, from bit 32, the range that it points at, counted from 1),
 * then values, each from a multiple of 8. */
struct sgpu_item_module_launch {
	struct sgpu_item head;
	uint64_t module;         /* struct sgpu_secure_module */
	uint64_t function;       /* its name */
	struct sgpu_module_shape shape;
	uint32_t rest;
	uint64_t task;
	uint64_t written;        /* by range */
	uint32_t range_count, arg_count;
};

static inline uint64_t sgpu_group_round(uint64_t size)
{
	return (size + 7) / 8 * 8;
}

_Static_assert(sizeof(struct sgpu_item_key) % 8 == 0, "items are multiples of 8 bytes");
_Static_assert(sizeof(struct sgpu_item_module_launch) % 8 == 0, "items are multiples of 8 bytes");
_Static_assert(sizeof(struct sgpu_device_range) == 16, "ranges are packed");

#endif
