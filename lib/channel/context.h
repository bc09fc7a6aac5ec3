/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context, private to lib/channel.
 *
 *   ground    what contexts of one device share: the device, the processor and the allocator
 *   context   an owner's key, a channel and the owner's session on it, memory (an arena over
 *             mapped pages), streams
 *
 * A request that touches device memory is a direct call: the context looks up the allocation, the
 * processor checks that the range is the context's and makes kernels reach this context, and the
 * device enqueues the request. The untrusted allocator only sends commands, which the session
 * authorises and whose reports it checks.
 *
 * Locks are taken in this order: the arena's, the ground's (which also guards the session), the
 * processor's.
 */
#ifndef SGPU_SECURE_CONTEXT_H
#define SGPU_SECURE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "channel/channel.h"

#include <device/backend.h>

#include "device/arena.h"

enum {
	SGPU_SECURE_SENDS = 3, /* attempts to send a command that uses up an authorisation */
};

struct sgpu_ground {
	unsigned references; /* under `lock` */
	struct sgpu_device *device;
	struct sgpu_pages_info pages;
	struct sgpu_processor_config config;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	pthread_mutex_t lock;	      /* guards the allocator and what follows */
	struct sgpu_secure *sender;   /* whose commands the allocator sends */
	bool taken[SGPU_CHANNEL_MAX]; /* in use, or could not be destroyed */
};

struct sgpu_secure {
	struct sgpu_device_object object;
	struct sgpu_device_guard guard;
	struct sgpu_ground *ground;
	struct sgpu_key owner;
	sgpu_command_fn between;
	bool poisons; /* unused memory, on a CPU device */
	struct sgpu_grant grant;
	bool has_channel;
	struct sgpu_session *session;
	sgpu_devptr base; /* of the context's space */
	/* The range that a mapping's summaries have described so far, empty if both are 0; or the
	 * range still to be unmapped. */
	uint64_t first, next, end;
	pthread_mutex_t arena_lock;
	struct sgpu_arena arena;
	uint64_t mapped_most;	     /* most bytes ever mapped at once */
	bool authorisation_lost;     /* a sent authorisation may still be unused */
	struct sgpu_stream *clearer; /* of freed blocks */
	atomic_uint_fast64_t requests, refused, commands;
};

static inline struct sgpu_secure *sgpu_secure_guarded(struct sgpu_device_guard *guard)
{
	return (struct sgpu_secure *)(void *)((char *)guard - offsetof(struct sgpu_secure, guard));
}

/* ---- context.c ---- */
/* Opens a channel for an owner's key. Since the allocator is not trusted, the processor must vouch
 * for the grant, and the grant of a channel in use is refused: two owners would share it. */
SGPU_MUST_CHECK int sgpu_secure_channel_open(struct sgpu_secure *context,
					     const uint8_t owner_key[32], struct sgpu_grant *grant,
					     struct sgpu_error *error);
/* Destroys a channel, with an authorisation unless `session` is NULL or the processor refuses one,
 * since an earlier one was lost. If that fails, the channel stays, unusable, until the processor is
 * freed. */
void sgpu_secure_channel_close(struct sgpu_secure *context, uint32_t channel,
			       struct sgpu_session *session);

/* Returns the context behind a device, or NULL. */
struct sgpu_secure *sgpu_secure_of(struct sgpu_device *device);

/* ---- heap.c ---- */
/* Authorises a CH_PTE of the allocator that unmaps the next part of the range, and no other. */
void sgpu_secure_authorise(struct sgpu_secure *context, struct sgpu_command *command);
SGPU_MUST_CHECK int sgpu_secure_take_summary(struct sgpu_secure *context,
					     const struct sgpu_command *command,
					     struct sgpu_report *summary, struct sgpu_error *error);
void sgpu_secure_info(struct sgpu_device_guard *guard, struct sgpu_device_info *info);
SGPU_MUST_CHECK int sgpu_secure_alloc(struct sgpu_device_guard *guard, uint64_t size,
				      sgpu_devptr *memory, struct sgpu_error *error);
void sgpu_secure_give(struct sgpu_device_guard *guard, sgpu_devptr memory);
/* Frees all memory; all streams except the clearer must have been freed. */
void sgpu_secure_memory_close(struct sgpu_secure *context);

#endif
