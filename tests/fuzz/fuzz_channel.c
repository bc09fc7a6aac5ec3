/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands, one after another, each of bytes with their length before them: the processor may
 * refuse them, and after each the invariants hold (hostile.h, sgpu_processor_check). What no owner
 * authorised is never unmapped. The bytes of a command, integers little endian:
 *
 *   version 1 (1), op (1), flags (2), zero (4), channel (4), and then for
 *   CH_CREATE   directory (4), owner key (32)
 *   CH_PDE      index (4), table (4)
 *   CH_PTE      directory index (4), table index (4), count (4), with MAC: counter (8), MAC (32);
 *               `count` frames (4 each); if the first is SGPU_NO_FRAME, the command unmaps
 *   CH_MEASURE  va (8), size (8)
 *   CH_DESTROY  with MAC: counter (8), MAC (32)
 *   CH_SUBMIT   counter (8), size (4), the group (size)
 *
 * Flags are bits: MAC and KEYED (of CH_MEASURE) 1, BIG 2.
 */
#include "channel/wire.h"

#include "../unit/hostile.h"

enum { FIRST = 1, BIG = 2 };

static void read_mac(struct sgpu_reader *reader, uint64_t *counter, uint8_t *mac)
{
	*counter = sgpu_take_u64(reader);
	sgpu_take_bytes(reader, mac, SGPU_CHANNEL_MAC_SIZE);
}

static void read_pte(struct sgpu_reader *reader, uint32_t flags, uint32_t *pages,
		     struct sgpu_command *c)
{
	c->pte.directory_index = sgpu_take_u32(reader);
	c->pte.table_index = sgpu_take_u32(reader);
	c->pte.big = flags & BIG;
	c->pte.has_mac = flags & FIRST;
	c->pte.count = sgpu_take_u32(reader);
	if (c->pte.has_mac) {
		read_mac(reader, &c->pte.mac_counter, c->pte.mac);
	}
	for (uint32_t i = 0; i < c->pte.count && i < SGPU_CHANNEL_PAGES_MAX; i++) {
		pages[i] = sgpu_take_u32(reader);
	}
	c->pte.pages = pages[0] == SGPU_NO_FRAME ? NULL : pages;
}

static void read_body(struct sgpu_reader *reader, uint32_t flags, uint32_t *pages,
		      struct sgpu_command *c)
{
	switch (c->op) {
	case SGPU_CH_CREATE:
		c->create.directory = sgpu_take_u32(reader);
		sgpu_take_bytes(reader, c->create.owner_key, 32);
		break;
	case SGPU_CH_PDE:
		c->pde.index = sgpu_take_u32(reader);
		c->pde.table = sgpu_take_u32(reader);
		c->pde.big = flags & BIG;
		break;
	case SGPU_CH_PTE:
		read_pte(reader, flags, pages, c);
		break;
	case SGPU_CH_MEASURE:
		c->measure.va = sgpu_take_u64(reader);
		c->measure.size = sgpu_take_u64(reader);
		c->measure.keyed = flags & FIRST;
		break;
	case SGPU_CH_DESTROY:
		c->destroy.has_mac = flags & FIRST;
		if (c->destroy.has_mac) {
			read_mac(reader, &c->destroy.mac_counter, c->destroy.mac);
		}
		break;
	case SGPU_CH_SUBMIT:
		c->submit.counter = sgpu_take_u64(reader);
		c->submit.size = sgpu_take_u32(reader);
		c->submit.group = sgpu_take(reader, c->submit.size);
		break;
	}
}

static bool read_command(const uint8_t *bytes, size_t size, uint32_t *pages, struct sgpu_command *c)
{
	struct sgpu_reader reader = { .next = bytes, .left = size };
	uint32_t flags;

	memset(c, 0, sizeof(*c));
	(void)sgpu_take_u8(&reader);
	c->op = sgpu_take_u8(&reader);
	flags = (uint32_t)sgpu_take_integer(&reader, 2);
	(void)sgpu_take_u32(&reader);
	c->channel = sgpu_take_u32(&reader);
	read_body(&reader, flags, pages, c);
	return !reader.bad;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world world;
	struct sgpu_processor *processor = NULL;
	struct sgpu_error error = { 0 };
	static uint32_t pages[SGPU_CHANNEL_PAGES_MAX];
	struct sgpu_command command;
	struct sgpu_reply reply;

	memset(&world, 0, sizeof(world));
	if (sgpu_processor_create(world_device(&world), world_config(), &processor, NULL) < 0) {
		return 0;
	}
	for (size_t at = 0, length; at + 2 <= size; at += length) {
		length = data[at] | (size_t)data[at + 1] << 8;
		at += 2;
		length = length < size - at ? length : size - at;
		if (!read_command(data + at, length, pages, &command)) {
			continue;
		}
		/* The fuzzer knows no key: only a destruction may take pages away. */
		world.may_all = command.op == SGPU_CH_DESTROY;
		(void)sgpu_processor_command(processor, &command, &reply);
		if (world.broken || sgpu_processor_check(processor, &error) < 0) {
			fprintf(stderr, "%s\n", world.broken ? world.broken : error.text);
			abort();
		}
	}
	world.may_all = true;
	sgpu_processor_free(&processor);
	return 0;
}
