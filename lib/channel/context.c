/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context from creation to end, the ground of a device's contexts, and the guard through
 * which a context is used as a device.
 */
#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"
#include "channel/channel.h"
#include "channel/context.h"

enum { FRAMES_MIN = 32 };

/* ---- commands ---- */
static int send_command(struct sgpu_secure *context, const struct sgpu_command *command,
			struct sgpu_reply *reply)
{
	int rc;

	atomic_fetch_add_explicit(&context->commands, 1, memory_order_relaxed);
	rc = context->between ? context->between(NULL, command, reply)
			      : sgpu_processor_command(context->ground->processor, command, reply);
	if (reply->refusal != SGPU_REFUSED_NOT) {
		atomic_fetch_add_explicit(&context->refused, 1, memory_order_relaxed);
	}
	return rc;
}

/* The ground's lock is held. */
static int send_for_allocator(void *argument, const struct sgpu_command *given,
			      struct sgpu_reply *reply)
{
	const struct sgpu_ground *ground = argument;
	struct sgpu_command command = *given;
	int sends, rc;

	if (command.op == SGPU_CH_PTE && !command.pte.pages) {
		sgpu_secure_authorise(ground->sender, &command);
	}
	/* The processor accepts the owner's MACs only in order, so a command with a MAC is sent
	 * again if it was not carried out. */
	sends = (command.op == SGPU_CH_PTE && command.pte.has_mac) ||
				(command.op == SGPU_CH_DESTROY && command.destroy.has_mac)
			? SGPU_SECURE_SENDS
			: 1;
	do {
		rc = send_command(ground->sender, &command, reply);
	} while (--sends > 0 && reply->refusal != SGPU_REFUSED_NOT);
	if (rc == SGPU_OK && command.op == SGPU_CH_PTE) {
		rc = sgpu_secure_take_summary(ground->sender, &command, &reply->report,
					      &reply->error);
	}
	return rc;
}

/* ---- the ground ---- */
static void free_ground(struct sgpu_ground *ground)
{
	sgpu_allocator_free(&ground->allocator);
	sgpu_processor_free(&ground->processor);
	pthread_mutex_destroy(&ground->lock);
	free(ground);
}

static int make_ground(struct sgpu_device *device, struct sgpu_secure *context,
		       struct sgpu_error *error)
{
	struct sgpu_ground *ground = calloc(1, sizeof(*ground));
	int rc;

	context->ground = ground;
	if (!ground) {
		return sgpu_fail_nomem(error);
	}
	ground->references = 1;
	ground->device = device;
	pthread_mutex_init(&ground->lock, NULL);
	rc = sgpu_device_pages(device, &ground->pages, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	ground->config.frames = (uint32_t)sgpu_min_u64(ground->pages.total / ground->pages.small,
						       SGPU_NO_FRAME - 1);
	if (ground->config.frames < FRAMES_MIN) {
		return sgpu_fail(
			error, SGPU_ENOMEM,
			"the device has %llu bytes for pages, too few for a secure context",
			(unsigned long long)ground->pages.total);
	}
	rc = sgpu_processor_create(device, &ground->config, &ground->processor, error);
	return rc ? rc
		  : sgpu_allocator_create(&ground->pages, &ground->config, send_for_allocator,
					  ground, &ground->allocator, error);
}

static void leave_ground(struct sgpu_ground *ground)
{
	bool last;

	if (!ground) {
		return;
	}
	pthread_mutex_lock(&ground->lock);
	last = --ground->references == 0;
	pthread_mutex_unlock(&ground->lock);
	if (last) {
		free_ground(ground);
	}
}

/* ---- the context ---- */
int sgpu_secure_channel_open(struct sgpu_secure *context, const uint8_t owner_key[32],
			     struct sgpu_grant *grant, struct sgpu_error *error)
{
	struct sgpu_ground *ground = context->ground;
	int rc;

	pthread_mutex_lock(&ground->lock);
	ground->sender = context;
	rc = sgpu_allocator_channel(ground->allocator, owner_key, grant, error);
	if (rc < 0) {
		goto out;
	}
	if (grant->channel >= SGPU_CHANNEL_MAX || ground->taken[grant->channel]) {
		rc = sgpu_fail(error, SGPU_EAUTH, "the allocator gave channel %u, which is in use",
			       (unsigned)grant->channel);
		goto out;
	}
	rc = sgpu_processor_vouch(ground->processor, grant, error);
	ground->taken[grant->channel] = rc == SGPU_OK;
	/* If the allocator made another channel than the grant names, that channel remains until
	 * the processor is freed. */
	if (rc < 0 &&
	    sgpu_allocator_destroy(ground->allocator, grant->channel, 0, NULL, NULL) != SGPU_OK) {
		(void)sgpu_hint(error, "a channel stays as it is");
	}
out:
	pthread_mutex_unlock(&ground->lock);
	return rc;
}

void sgpu_secure_channel_close(struct sgpu_secure *context, uint32_t channel,
			       struct sgpu_session *session)
{
	struct sgpu_ground *ground = context->ground;
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
	uint64_t counter;
	int rc = SGPU_EAUTH;

	pthread_mutex_lock(&ground->lock);
	ground->sender = context;
	if (session) {
		sgpu_session_authorise(session, NULL, &counter, mac);
		rc = sgpu_allocator_destroy(ground->allocator, channel, counter, mac, NULL);
	}
	if (rc < 0) {
		rc = sgpu_allocator_destroy(ground->allocator, channel, 0, NULL, NULL);
	}
	ground->taken[channel] = rc < 0;
	pthread_mutex_unlock(&ground->lock);
}

static int set_up(struct sgpu_secure *context, struct sgpu_device *device,
		  const struct sgpu_secure_config *config, struct sgpu_error *error)
{
	struct sgpu_grant *grant = &context->grant;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &context->owner, error);

	if (rc == SGPU_OK && config->sibling) {
		context->ground = config->sibling->ground;
		pthread_mutex_lock(&context->ground->lock);
		context->ground->references++;
		pthread_mutex_unlock(&context->ground->lock);
	} else if (rc == SGPU_OK) {
		rc = make_ground(device, context, error);
	}
	rc = rc ? rc : sgpu_secure_channel_open(context, context->owner.public_half, grant, error);
	context->has_channel = rc == SGPU_OK;
	rc = rc ? rc : sgpu_session_open(&context->owner, grant, &context->session, error);
	rc = rc ? rc
		: sgpu_processor_space(context->ground->processor, grant->channel, &context->base,
				       error);
	return rc ? rc : sgpu_stream_create(device, &context->clearer, error);
}

/* ---- as a device ----
 * A launch without ranges touches no device memory. */
static int check(struct sgpu_device_guard *guard, sgpu_devptr address, uint64_t size,
		 struct sgpu_task *task)
{
	struct sgpu_secure *context = sgpu_secure_guarded(guard);
	const struct sgpu_block *block;
	bool inside;

	pthread_mutex_lock(&context->arena_lock);
	block = sgpu_arena_find(&context->arena, address);
	inside = block && address - block->range.address <= block->size &&
		 size <= block->size - (address - block->range.address);
	pthread_mutex_unlock(&context->arena_lock);
	return inside ? SGPU_OK : sgpu_task_refuse_range(task, address, size);
}

/* Each range must lie in one allocation and, as the processor checks, in the context. */
static int enter(struct sgpu_device_guard *guard, const struct sgpu_device_range *ranges, int count,
		 struct sgpu_task *task)
{
	struct sgpu_secure *context = sgpu_secure_guarded(guard);
	int rc = SGPU_OK;

	for (int i = 0; i < count; i++) {
		rc = check(guard, ranges[i].address, ranges[i].size, task);
		if (rc < 0) {
			return rc;
		}
	}
	rc = sgpu_processor_enter(context->ground->processor, context->grant.channel, ranges, count,
				  task ? &task->error : NULL);
	if (rc < 0) {
		if (task) {
			task->code = rc;
		}
		return rc;
	}
	atomic_fetch_add_explicit(&context->requests, 1, memory_order_relaxed);
	return SGPU_OK;
}

static void leave(struct sgpu_device_guard *guard)
{
	sgpu_processor_leave(sgpu_secure_guarded(guard)->ground->processor);
}

static const struct sgpu_device_guard_calls guard_calls = {
	.info = sgpu_secure_info,
	.alloc = sgpu_secure_alloc,
	.free = sgpu_secure_give,
	.check = check,
	.enter = enter,
	.leave = leave,
};

struct sgpu_secure *sgpu_secure_of(struct sgpu_device *device)
{
	struct sgpu_device_guard *guard = sgpu_device_guard_of(device);

	return guard ? sgpu_secure_guarded(guard) : NULL;
}

int sgpu_secure_create(struct sgpu_device *device, const struct sgpu_secure_config *config,
		       struct sgpu_secure **context, struct sgpu_error *error)
{
	static const struct sgpu_secure_config standard;
	struct sgpu_secure *new = calloc(1, sizeof(*new));
	int rc;

	*context = NULL;
	config = config ? config : &standard;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	if (config->sibling && config->sibling->ground->device != device) {
		free(new);
		return sgpu_fail(error, SGPU_EUSAGE, "sibling contexts are of one device");
	}
	new->guard = (struct sgpu_device_guard){ .calls = &guard_calls, .device = device };
	new->object = (struct sgpu_device_object){ sgpu_device_backend_of(device), &new->guard };
	new->between = config->between;
	new->poisons = strcmp(new->object.backend->name, "cpu") == 0;
	pthread_mutex_init(&new->arena_lock, NULL);
	*context = new; /* `between` reaches the processor through *context */
	rc = set_up(new, device, config, error);
	if (rc != SGPU_OK) {
		sgpu_secure_destroy(context);
	}
	return rc;
}

void sgpu_secure_destroy(struct sgpu_secure **context)
{
	struct sgpu_secure *c = context ? *context : NULL;

	if (!c) {
		return;
	}
	sgpu_secure_memory_close(c);
	sgpu_stream_free(&c->clearer);
	if (c->has_channel) {
		sgpu_secure_channel_close(c, c->grant.channel, c->session);
	}
	sgpu_session_close(&c->session);
	leave_ground(c->ground);
	pthread_mutex_destroy(&c->arena_lock);
	*context = NULL;
	sgpu_free_wiped(&c, sizeof(*c));
}

/* ---- the context for its users, and its figures ---- */
struct sgpu_device *sgpu_secure_device(struct sgpu_secure *context)
{
	return (struct sgpu_device *)(void *)context;
}

void sgpu_secure_get_stats(struct sgpu_secure *context, struct sgpu_secure_stats *stats)
{
	*stats = (struct sgpu_secure_stats){
		.requests = atomic_load(&context->requests),
		.refused = atomic_load(&context->refused),
		.commands = atomic_load(&context->commands),
	};
	pthread_mutex_lock(&context->arena_lock);
	stats->mapped_bytes = context->arena.mapped_bytes;
	stats->used_bytes = context->arena.used_bytes;
	pthread_mutex_unlock(&context->arena_lock);
}
