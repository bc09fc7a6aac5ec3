/* SPDX-License-Identifier: Apache-2.0
 *
 * A channel for the cases that look inside of one.
 */
#include "cases.h"

static int send(void *argument, const struct sgpu_command *command, struct sgpu_reply *reply)
{
	struct bench_channel *channel = argument;
	const uint64_t begin = sgpu_now_ns();
	const int rc = sgpu_processor_command(channel->processor, command, reply);

	channel->spent_ns[command->op] += sgpu_now_ns() - begin;
	return rc;
}

static int open_channel(struct sgpu_device *device, struct bench_channel *channel,
			const struct sgpu_processor_config *config, struct sgpu_error *error)
{
	struct sgpu_grant grant = { 0 };
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &channel->owner, error);

	rc = rc ? rc : sgpu_processor_create(device, config, &channel->processor, error);
	rc = rc ? rc
		: sgpu_allocator_create(&channel->pages, config, send, channel, &channel->allocator,
					error);
	rc = rc ? rc
		: sgpu_allocator_channel(channel->allocator, channel->owner.public_half, &grant,
					 error);
	rc = rc ? rc : sgpu_session_open(&channel->owner, &grant, &channel->session, error);
	channel->number = grant.channel;
	return rc;
}

static void end_channel(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct bench_channel *channel = (struct bench_channel *)what;

	(void)bench, (void)size;
	sgpu_session_close(&channel->session);
	sgpu_allocator_free(&channel->allocator);
	sgpu_processor_free(&channel->processor);
	sgpu_key_clear(&channel->owner);
}

int bench_new_channel(struct sgpu_bench *bench, uint64_t big_pages, struct bench_channel **made,
		      struct sgpu_error *error)
{
	struct sgpu_processor_config config = { .hidden = 1 };
	struct bench_channel *channel;
	void *memory = NULL;
	int rc = sgpu_bench_new(bench, sizeof(*channel), &memory, error);

	*made = channel = memory;
	rc = rc ? rc : sgpu_bench_keep(bench, end_channel, (uintptr_t)memory, 0, error);
	rc = rc ? rc : sgpu_device_pages(bench->device, &channel->pages, error);
	rc = rc ? rc : sgpu_bench_fits(bench, 0, big_pages * channel->pages.big, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	config.unprotected = (uint32_t)(channel->pages.big / channel->pages.small);
	config.frames = (uint32_t)big_pages * config.unprotected;
	return open_channel(bench->device, channel, &config, error);
}
