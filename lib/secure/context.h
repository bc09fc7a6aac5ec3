/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context, private to lib/secure.
 *
 *   ground    what contexts of one device share: the processor, the allocator, and the device
 *             itself
 *   context   an owner's key, a channel and the owner's session on it, memory (an arena over
 *             mapped pages), streams
 *
 * A request is a direct call: the context looks up the allocation, the processor checks that the
 * range is the context's and makes the context the one that kernels reach, and the device enqueues
 * it. What the untrusted allocator does travels as commands, and the session authorises and checks
 * it.
 *
 * Locks, in this order: arena, ground. The session is used under the ground's. The processor has
 * its own behind them.
 */
#ifndef SGPU_SECURE_CONTEXT_H
#define SGPU_SECURE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "secure/secure.h"

#include <device/backend.h>

#include "device/arena.h"

enum {
	SGPU_SECURE_SENDS = 3, /* how often a command that uses up an authorisation is sent */
};

struct sgpu_ground {
	unsigned references; /* under `lock` */
	struct sgpu_device *device;
	struct sgpu_pages_info pages;
	struct sgpu_processor_config config;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	pthread_mutex_t lock;			/* the allocator, and what follows */
	struct sgpu_secure *sender;		/* whose commands the allocator makes */
	uint32_t asked[SGPU_CHANNEL_PAGES_MAX]; /* pages of the last CH_PTE that went out */
	uint8_t asked_hash[SGPU_KT128_SIZE];
	bool taken[SGPU_CHANNEL_MAX]; /* channels that somebody has, or that could not be destroyed
				       */
};

/* What the users of a context see as struct sgpu_stream. */
struct sgpu_secure_stream {
	struct sgpu_device_object object;
	struct sgpu_secure *context;
	struct sgpu_stream *inner;
	struct sgpu_secure_graph *recording; /* NULL: it carries out what it is given */
};

struct sgpu_secure {
	struct sgpu_device_object object;	      /* of struct sgpu_device */
	struct sgpu_device_backend backend;	      /* the calls of device.c, */
	struct sgpu_device_stream_calls stream_calls; /* and those of its streams */
	struct sgpu_ground *ground;
	struct sgpu_key owner;
	sgpu_command_fn between;
	void *between_argument;
	bool poisons; /* the device's memory is the host's */
	struct sgpu_grant grant;
	bool has_channel;
	struct sgpu_session *session; /* checks reports and authorises */
	sgpu_devptr base;	      /* of the context's addresses */
	/* memory */
	pthread_mutex_t arena_lock;
	struct sgpu_arena arena;
	uint64_t mapped_most;	     /* bytes that were mapped at one time */
	bool authorisation_lost;     /* one went out, and nothing proves what became of it */
	struct sgpu_stream *clearer; /* a stream of the device: clears what is freed */
	struct sgpu_event *mark;     /* recorded behind clearing `mark_serial`, or NULL */
	uint64_t mark_serial;
	/* copy.c */
	pthread_mutex_t copy_lock;
	struct sgpu_copier *copier;
	/* figures */
	atomic_uint_fast64_t requests, refused, commands, streams;
};

struct sgpu_secure_key {
	struct sgpu_device_object object;
	struct sgpu_secure *context;
	struct sgpu_device_key *inner;
};

struct sgpu_secure_module {
	struct sgpu_device_object object;
	struct sgpu_secure *context;
	struct sgpu_device_module *inner;
};

static inline struct sgpu_secure_stream *sgpu_secure_stream_of(struct sgpu_stream *stream)
{
	return (struct sgpu_secure_stream *)(void *)stream;
}

/* ---- context.c ---- */
/* A channel for an owner's key. What the allocator says of it is not believed where it matters: the
 * processor vouches for the grant, and no two have one channel, since they would share a session.
 */
SGPU_MUST_CHECK int sgpu_secure_channel_open(struct sgpu_secure *context,
					     const uint8_t owner_key[32], struct sgpu_grant *grant,
					     struct sgpu_error *error);
/* Destroys it, with the session's authorisation where there is one. Where that was lost no later
 * one is taken, but a channel also goes without. Where that does not get through either, the
 * channel stays until the processor goes: nobody can use it. */
void sgpu_secure_channel_close(struct sgpu_secure *context, uint32_t channel,
			       struct sgpu_session *session);

/* ---- graph.c ---- */
extern const struct sgpu_device_graph_calls sgpu_secure_graph_calls;
/* Keeps what a launch of a graph touches. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_secure_graph_note(struct sgpu_secure_graph *graph,
					   const struct sgpu_device_range *ranges, int count);

/* ---- device.c ---- */
/* Fills in the calls of a context over a device of `inner`. */
void sgpu_secure_calls(struct sgpu_secure *context, const struct sgpu_device_backend *inner);
/* The context that a device is, or NULL. */
struct sgpu_secure *sgpu_secure_of(struct sgpu_device *device);

/* Whether bytes lie in one allocation, by the context's own account, as on every device;
 * SGPU_EUSAGE, with its text in the task. */
SGPU_MUST_CHECK int sgpu_secure_check_range(struct sgpu_secure *context, sgpu_devptr address,
					    uint64_t size, struct sgpu_task *task);
/* Begins a request: each range lies in one allocation and, by the processor's account, in the
 * context. Whoever began one enqueues it on the device and ends it with sgpu_processor_leave.
 * Errors: SGPU_EUSAGE, SGPU_EDEVICE; the task has the text. */
SGPU_MUST_CHECK int sgpu_secure_begin(struct sgpu_secure *context,
				      const struct sgpu_device_range *ranges, int count,
				      struct sgpu_task *task);
/* Ends it; returns what the device said. */
int sgpu_secure_end(struct sgpu_secure *context, int rc);

/* ---- heap.c ---- */
SGPU_MUST_CHECK int sgpu_secure_alloc_row(struct sgpu_device *device, uint64_t size,
					  sgpu_devptr *memory, struct sgpu_error *error);
void sgpu_secure_free_row(struct sgpu_device *device, sgpu_devptr memory, uint64_t size);
/* Bytes that pages of the context could be made of in all, those that are not given out, and what
 * the device counts as taken though nobody has it: it keeps the memory of pages that were ever
 * mapped. */
void sgpu_secure_figures(struct sgpu_secure *context, uint64_t *total, uint64_t *available,
			 uint64_t *kept);
/* When all streams are gone but the clearer. */
void sgpu_secure_memory_close(struct sgpu_secure *context);

/* ---- copy.c ---- */
void sgpu_secure_copier_free(struct sgpu_secure *context);

/* ---- module.c ---- */
extern const struct sgpu_device_module_calls sgpu_secure_module_calls;

#endif
