/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands of secure channels as bytes. Integers are little endian, nothing is padded, and
 * a command is exactly as long as its fields:
 *
 *   version 1 (1), op (1), flags (2), via (4), channel (4), and then for
 *   CH_CREATE   directory (4), with KEY: owner key (32)
 *   CH_PDE      index (4), table (4)
 *   CH_PTE      directory index (4), table index (4), count (4), with MAC: counter (8), MAC (32);
 *               `count` frames (4 each)
 *   CH_MEASURE  va (8), size (8)
 *   CH_DESTROY  with MAC: counter (8), MAC (32)
 *   CH_SUBMIT   counter (8), size (4), the group (size)
 *
 * Flags are bits: KEY 1 and MAC 1 as said; BIG 2 of CH_PDE and CH_PTE; KEYED 1 of CH_MEASURE. The
 * others are zero.
 */
#include <string.h>

#include <sgpu/base.h>

#include "channel/codec.h"
#include "channel/wire.h"

enum { VERSION = 1, HEADER_SIZE = 12, FLAG_FIRST = 1, FLAG_BIG = 2 };

static uint8_t *put_mac(uint8_t *at, uint64_t counter, const uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	return sgpu_put_bytes(sgpu_put_u64(at, counter), mac, SGPU_CHANNEL_MAC_SIZE);
}

/* ---- encoding ---- */
static uint32_t flags_of(const struct sgpu_command *command)
{
	switch (command->op) {
	case SGPU_CH_CREATE:
		return command->create.has_key ? FLAG_FIRST : 0;
	case SGPU_CH_PDE:
		return command->pde.big ? FLAG_BIG : 0;
	case SGPU_CH_PTE:
		return (command->pte.has_mac ? FLAG_FIRST : 0) | (command->pte.big ? FLAG_BIG : 0);
	case SGPU_CH_MEASURE:
		return command->measure.keyed ? FLAG_FIRST : 0;
	case SGPU_CH_DESTROY:
		return command->destroy.has_mac ? FLAG_FIRST : 0;
	default:
		return 0;
	}
}

/* 0: not a command. */
static size_t size_of(const struct sgpu_command *command)
{
	const size_t mac = 8 + SGPU_CHANNEL_MAC_SIZE;

	switch (command->op) {
	case SGPU_CH_CREATE:
		return HEADER_SIZE + 4 +
		       (command->create.has_key ? sizeof(command->create.owner_key) : 0);
	case SGPU_CH_PDE:
		return HEADER_SIZE + 8;
	case SGPU_CH_PTE:
		if (command->pte.count < 1 || command->pte.count > SGPU_CHANNEL_PAGES_MAX) {
			return 0;
		}
		return HEADER_SIZE + 12 + (command->pte.has_mac ? mac : 0) +
		       4 * (size_t)command->pte.count;
	case SGPU_CH_MEASURE:
		return HEADER_SIZE + 16;
	case SGPU_CH_DESTROY:
		return HEADER_SIZE + (command->destroy.has_mac ? mac : 0);
	case SGPU_CH_SUBMIT:
		if (command->submit.size < SGPU_TAG_SIZE || command->submit.size > SGPU_GROUP_MAX) {
			return 0;
		}
		return HEADER_SIZE + 12 + command->submit.size;
	default:
		return 0;
	}
}

static void encode_pte(const struct sgpu_command *command, uint8_t *at)
{
	at = sgpu_put_u32(at, command->pte.directory_index);
	at = sgpu_put_u32(at, command->pte.table_index);
	at = sgpu_put_u32(at, command->pte.count);
	if (command->pte.has_mac) {
		at = put_mac(at, command->pte.mac_counter, command->pte.mac);
	}
	for (uint32_t i = 0; i < command->pte.count; i++) {
		at = sgpu_put_u32(at, command->pte.pages[i]);
	}
}

static void encode_body(const struct sgpu_command *command, uint8_t *at)
{
	switch (command->op) {
	case SGPU_CH_CREATE:
		at = sgpu_put_u32(at, command->create.directory);
		if (command->create.has_key) {
			sgpu_put_bytes(at, command->create.owner_key,
				       sizeof(command->create.owner_key));
		}
		break;
	case SGPU_CH_PDE:
		sgpu_put_u32(sgpu_put_u32(at, command->pde.index), command->pde.table);
		break;
	case SGPU_CH_PTE:
		encode_pte(command, at);
		break;
	case SGPU_CH_MEASURE:
		sgpu_put_u64(sgpu_put_u64(at, command->measure.va), command->measure.size);
		break;
	case SGPU_CH_DESTROY:
		if (command->destroy.has_mac) {
			put_mac(at, command->destroy.mac_counter, command->destroy.mac);
		}
		break;
	case SGPU_CH_SUBMIT:
		at = sgpu_put_u32(sgpu_put_u64(at, command->submit.counter), command->submit.size);
		sgpu_put_bytes(at, command->submit.group, command->submit.size);
		break;
	}
}

int sgpu_command_encode(const struct sgpu_command *command, uint8_t *bytes, size_t capacity,
			size_t *size, struct sgpu_error *error)
{
	*size = size_of(command);
	if (!*size) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a command with operation %d cannot be encoded", (int)command->op);
	}
	if (*size > capacity) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a command of %zu bytes does not fit into %zu", *size, capacity);
	}
	uint32_t flags = flags_of(command);
	bytes[0] = VERSION;
	bytes[1] = (uint8_t)command->op;
	bytes[2] = (uint8_t)flags;
	bytes[3] = 0;
	encode_body(command, sgpu_put_u32(sgpu_put_u32(bytes + 4, command->via), command->channel));
	return SGPU_OK;
}

/* ---- decoding ---- */
static void take_mac(struct sgpu_reader *reader, uint64_t *counter,
		     uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	*counter = sgpu_take_u64(reader);
	sgpu_take_bytes(reader, mac, SGPU_CHANNEL_MAC_SIZE);
}

static void decode_pte(struct sgpu_reader *reader, uint32_t flags, uint32_t *pages,
		       struct sgpu_command *command)
{
	command->pte.directory_index = sgpu_take_u32(reader);
	command->pte.table_index = sgpu_take_u32(reader);
	command->pte.big = flags & FLAG_BIG;
	command->pte.has_mac = flags & FLAG_FIRST;
	command->pte.count = sgpu_take_u32(reader);
	if (command->pte.has_mac) {
		take_mac(reader, &command->pte.mac_counter, command->pte.mac);
	}
	if (command->pte.count < 1 || command->pte.count > SGPU_CHANNEL_PAGES_MAX ||
	    reader->left != 4 * (size_t)command->pte.count) {
		reader->bad = true;
		return;
	}
	for (uint32_t i = 0; i < command->pte.count; i++) {
		pages[i] = sgpu_take_u32(reader);
	}
	command->pte.pages = pages;
}

static void decode_submit(struct sgpu_reader *reader, struct sgpu_command *command)
{
	command->submit.counter = sgpu_take_u64(reader);
	command->submit.size = sgpu_take_u32(reader);
	if (command->submit.size < SGPU_TAG_SIZE || command->submit.size > SGPU_GROUP_MAX) {
		reader->bad = true;
		return;
	}
	command->submit.group = sgpu_take(reader, command->submit.size);
}

static void decode_body(struct sgpu_reader *reader, uint32_t flags, uint32_t *pages,
			struct sgpu_command *command)
{
	switch (command->op) {
	case SGPU_CH_CREATE:
		command->create.directory = sgpu_take_u32(reader);
		command->create.has_key = flags & FLAG_FIRST;
		if (command->create.has_key) {
			sgpu_take_bytes(reader, command->create.owner_key,
					sizeof(command->create.owner_key));
		}
		break;
	case SGPU_CH_PDE:
		command->pde.index = sgpu_take_u32(reader);
		command->pde.table = sgpu_take_u32(reader);
		command->pde.big = flags & FLAG_BIG;
		break;
	case SGPU_CH_PTE:
		decode_pte(reader, flags, pages, command);
		break;
	case SGPU_CH_MEASURE:
		command->measure.va = sgpu_take_u64(reader);
		command->measure.size = sgpu_take_u64(reader);
		command->measure.keyed = flags & FLAG_FIRST;
		break;
	case SGPU_CH_DESTROY:
		command->destroy.has_mac = flags & FLAG_FIRST;
		if (command->destroy.has_mac) {
			take_mac(reader, &command->destroy.mac_counter, command->destroy.mac);
		}
		break;
	case SGPU_CH_SUBMIT:
		decode_submit(reader, command);
		break;
	}
}

int sgpu_command_decode(const uint8_t *bytes, size_t size, uint32_t *pages,
			struct sgpu_command *command, struct sgpu_error *error)
{
	struct sgpu_reader reader = { .next = bytes, .left = size };
	const uint8_t version = sgpu_take_u8(&reader), op = sgpu_take_u8(&reader);
	const uint32_t flags = (uint32_t)sgpu_take_integer(&reader, 2);

	memset(command, 0, sizeof(*command));
	if (reader.bad || version != VERSION || op < SGPU_CH_CREATE || op > SGPU_CH_SUBMIT) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "not a command: %zu bytes, version %u, operation %u", size,
				 version, op);
	}
	command->op = op;
	command->via = sgpu_take_u32(&reader);
	command->channel = sgpu_take_u32(&reader);
	decode_body(&reader, flags, pages, command);
	if (reader.bad || reader.left) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a command with operation %u is not %zu bytes long", op, size);
	}
	if (flags != flags_of(command)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "unknown flags 0x%04x in a command with operation %u", flags, op);
	}
	return SGPU_OK;
}
