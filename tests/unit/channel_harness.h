/* SPDX-License-Identifier: Apache-2.0
 *
 * A processor over a fake pager, and short ways to say commands. Small pages have 64 bytes, big
 * ones four times as many.
 */
#ifndef CHANNEL_HARNESS_H
#define CHANNEL_HARNESS_H

#include <sgpu/base.h>

#include "channel_check.h"
#include "fake_pager.h"
#include "unit.h"

enum {
	FRAMES = 256,
	SMALL = 64,
	RATIO = 4,
	BIG = SMALL * RATIO,
	TABLE_SPAN = SGPU_CHANNEL_ENTRIES * SMALL,
	SPACE = 3 * TABLE_SPAN,
};

struct bench {
	struct fake_pager fake;
	struct sgpu_device *device;
	struct sgpu_processor_config config;
	struct sgpu_processor *processor;
	struct sgpu_command command;
	struct sgpu_reply reply;
	struct sgpu_key owner[2];
	uint8_t items[SGPU_GROUP_MAX]; /* of the last group */
	size_t items_size;
};

static inline struct sgpu_command create_command(uint32_t channel, uint32_t directory,
						 const struct sgpu_key *owner)
{
	struct sgpu_command command = { .op = SGPU_CH_CREATE, .channel = channel };

	command.create.directory = directory;
	memcpy(command.create.owner_key, owner->public_half, sizeof(command.create.owner_key));
	return command;
}

static inline enum sgpu_refusal say(struct bench *b, const struct sgpu_command *command)
{
	(void)sgpu_processor_command(b->processor, command, &b->reply);
	return b->reply.refusal;
}

static inline enum sgpu_refusal create(struct bench *b, uint32_t channel, uint32_t directory,
				       const struct sgpu_key *owner)
{
	b->command = create_command(channel, directory, owner);
	return say(b, &b->command);
}

static inline enum sgpu_refusal pde(struct bench *b, uint32_t channel, uint32_t index,
				    uint32_t table, bool big)
{
	b->command = (struct sgpu_command){ .op = SGPU_CH_PDE,
					    .channel = channel,
					    .pde = { .index = index, .table = table, .big = big } };
	return say(b, &b->command);
}

static inline enum sgpu_refusal pte(struct bench *b, uint32_t channel, uint32_t directory,
				    uint32_t index, bool big, uint32_t count, const uint32_t *pages)
{
	b->command = (struct sgpu_command){ .op = SGPU_CH_PTE,
					    .channel = channel,
					    .pte = { .directory_index = directory,
						     .table_index = index,
						     .big = big,
						     .count = count,
						     .pages = pages } };
	return say(b, &b->command);
}

/* With the session's word for it. */
static inline enum sgpu_refusal pte_authorised(struct bench *b, struct sgpu_session *session,
					       uint32_t channel, uint32_t directory, uint32_t index,
					       bool big, uint32_t count, const uint32_t *pages)
{
	const uint64_t page = big ? BIG : SMALL;

	b->command = (struct sgpu_command){ .op = SGPU_CH_PTE,
					    .channel = channel,
					    .pte = { .directory_index = directory,
						     .table_index = index,
						     .big = big,
						     .has_mac = true,
						     .count = count,
						     .pages = pages } };
	sgpu_session_authorise(
		session,
		(const uint64_t[]){ directory * (uint64_t)TABLE_SPAN + index * page, count * page },
		&b->command.pte.mac_counter, b->command.pte.mac);
	return say(b, &b->command);
}

static inline enum sgpu_refusal measure(struct bench *b, uint32_t channel, uint64_t va,
					uint64_t size, bool keyed)
{
	b->command = (struct sgpu_command){ .op = SGPU_CH_MEASURE,
					    .channel = channel,
					    .measure = { .va = va, .size = size, .keyed = keyed } };
	return say(b, &b->command);
}

static inline enum sgpu_refusal destroy(struct bench *b, uint32_t channel,
					struct sgpu_session *session)
{
	b->command = (struct sgpu_command){ .op = SGPU_CH_DESTROY, .channel = channel };
	if (session) {
		b->command.destroy.has_mac = true;
		sgpu_session_authorise(session, NULL, &b->command.destroy.mac_counter,
				       b->command.destroy.mac);
	}
	return say(b, &b->command);
}

static inline enum sgpu_refusal submit(struct bench *b, uint32_t channel, const uint8_t *group,
				       size_t size, uint64_t counter)
{
	b->command = (struct sgpu_command){
		.op = SGPU_CH_SUBMIT,
		.channel = channel,
		.submit = { .group = group, .size = (uint32_t)size, .counter = counter }
	};
	(void)sgpu_processor_open_group(b->processor, &b->command, b->items, &b->items_size,
					&b->reply);
	return b->reply.refusal;
}

/* Everything is as it should be: the processor's books, and the device under them. */
static inline bool sound(struct bench *b)
{
	struct sgpu_error error = { 0 };

	if (sgpu_processor_check(b->processor, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
		return false;
	}
	if (b->fake.faults) {
		printf("# %s\n", b->fake.fault);
		return false;
	}
	return true;
}

static inline struct sgpu_frame frame(struct bench *b, uint32_t number)
{
	struct sgpu_frame about = { 0 };

	CHECK(sgpu_processor_frame(b->processor, number, &about) == SGPU_OK);
	return about;
}

static inline struct sgpu_session *session_of(struct bench *b, const struct sgpu_key *owner)
{
	struct sgpu_session *session = NULL;

	CHECK(sgpu_session_open(owner, &b->reply.grant, &session, NULL) == SGPU_OK);
	return session;
}

static inline void bench_open(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	b->device = fake_pager_init(&b->fake, FRAMES, SMALL, RATIO);
	b->config = (struct sgpu_processor_config){ .frames = FRAMES, .space_size = SPACE };
	CHECK(sgpu_processor_create(b->device, &b->config, &b->processor, NULL) == SGPU_OK);
	CHECK(sgpu_key_generate(SGPU_KEY_X25519, &b->owner[0], NULL) == SGPU_OK);
	CHECK(sgpu_key_generate(SGPU_KEY_X25519, &b->owner[1], NULL) == SGPU_OK);
}

static inline void bench_close(struct bench *b)
{
	CHECK(sound(b));
	sgpu_processor_free(&b->processor);
	CHECK(b->fake.faults == 0);
	for (int i = 0; i < FAKE_SPACES; i++) {
		CHECK(!b->fake.spaces[i]);
	}
	fake_pager_clear(&b->fake);
}

#endif
