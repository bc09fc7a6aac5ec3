/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context, private to lib/secure.
 *
 *   ground    what contexts of one device share: the processor, the allocator, and the device itself
 *   context   an owner's key, memory (an arena over mapped pages), and its lanes
 *   lane      a channel, its session and a stream of the device: what the context's users see as a stream
 *
 * A request becomes an item of a command group, which a lane seals and sends; the processor opens it and gives it to the
 * executor (execute.c), which knows by the channel which lane, and so which context, it belongs to.
 *
 * Locks, in this order: arena, ground, lane. The processor has its own behind them. The executor takes none.
 */
#ifndef SGPU_SECURE_SECURE_H
#define SGPU_SECURE_SECURE_H

#include <pthread.h>
#include <stdatomic.h>

#include <sgpu/secure.h>

#include "secure/arena.h"
#include "secure/group.h"

enum {
	SGPU_LANE_SENDS = 3,       /* a group that did not get through is sent so often */
	SGPU_LANES_SPARE = 64,     /* lanes kept for the next stream: making one costs two key agreements */
};

struct sgpu_lane {
	struct sgpu_device_object object; /* of struct sgpu_stream */
	struct sgpu_secure *context;
	struct sgpu_stream *inner;
	struct sgpu_session *session;
	struct sgpu_grant grant;
	struct sgpu_lane *next;           /* among the spare ones */
	pthread_mutex_t lock;             /* everything below, and the session */
	bool broken;                      /* a group did not get through: nothing may follow it */
	uint64_t drawn;                   /* the last ticket */
	atomic_uint_fast64_t ticket;      /* of the group under way, until it is taken or given up; else 0 */
	atomic_bool ended;                /* the one that was taken has been carried out; code and error are set */
	int code;
	struct sgpu_error *error;         /* of whoever sends it, or NULL */
	uint8_t group[SGPU_GROUP_MAX];
};

struct sgpu_ground {
	unsigned references;              /* under `lock` */
	struct sgpu_device *device;
	struct sgpu_pager pager;
	struct sgpu_processor_config config;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	pthread_mutex_t lock;             /* the allocator, and what follows */
	struct sgpu_secure *sender;       /* whose commands the allocator makes */
	uint32_t asked[SGPU_CHANNEL_PAGES_MAX]; /* pages of the last CH_PTE that went out */
	uint8_t asked_hash[SGPU_CHANNEL_DIGEST_SIZE];
	_Atomic(struct sgpu_lane *) lanes[SGPU_CHANNEL_MAX]; /* by channel */
	struct sgpu_lane *lost;           /* whose channels could not be destroyed */
};

struct sgpu_secure {
	struct sgpu_device_object object; /* of struct sgpu_device */
	struct sgpu_device_backend table; /* the device's own, with the rows of device.c */
	struct sgpu_ground *ground;
	struct sgpu_key owner;
	sgpu_command_fn between;
	void *between_argument;
	bool poisons;                     /* the device's memory is the host's */
	struct sgpu_lane *first;          /* clears; its session checks reports and authorises */
	sgpu_devptr base;                 /* of the context's addresses */
	/* lanes: under the ground's lock */
	struct sgpu_lane *spare;
	unsigned spare_count;
	/* memory */
	pthread_mutex_t arena_lock;
	struct sgpu_arena arena;
	uint64_t mapped_most;             /* bytes that were mapped at one time */
	bool word_lost;                   /* the owner's word went out and nothing proves what became of it */
	struct sgpu_block *clearing, *clearing_tail; /* in the order of their serials */
	uint64_t clearing_bytes;
	uint64_t serial, cleared;         /* the last clearing that was enqueued, and the last that is known to be over */
	struct sgpu_event *mark;          /* recorded behind clearing `mark_serial`, or NULL */
	uint64_t mark_serial;
	/* copy.c */
	pthread_mutex_t copy_lock;
	struct sgpu_copier *copier;
	/* figures */
	atomic_uint_fast64_t groups, refused, commands, channels;
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

/* ---- secure.c ---- */
/* A command on its way to the processor; counts it. */
int sgpu_secure_send(struct sgpu_secure *context, const struct sgpu_command *command, struct sgpu_reply *reply);
/* The context that a device is, or NULL. */
struct sgpu_secure *sgpu_secure_of(struct sgpu_device *device);

/* ---- stream.c ---- */
SGPU_MUST_CHECK int sgpu_lane_create(struct sgpu_secure *context, struct sgpu_lane **lane, struct sgpu_error *error);
/* Waits for its work; keeps it for the next one, if it may be used again. */
void sgpu_lane_give(struct sgpu_lane *lane);
/* Destroys its channel with the owner's word. */
void sgpu_lane_free(struct sgpu_lane *lane);
/* Seals a group of one item and sends it; `group` stands before the item. Returns what became of it: SGPU_EAUTH when it
 * did not get through, else the executor's code. */
SGPU_MUST_CHECK int sgpu_lane_submit(struct sgpu_lane *lane, struct sgpu_group *group, size_t size,
				     struct sgpu_error *error);

/* ---- execute.c ---- */
int sgpu_secure_execute(void *ground, uint32_t channel, const uint8_t *items, size_t size, struct sgpu_error *error);

/* ---- device.c ---- */
/* The rows for a context over a device of `inner`. */
void sgpu_secure_table(const struct sgpu_device_backend *inner, struct sgpu_device_backend *table);
/* Whether bytes lie in one allocation; SGPU_EUSAGE, with its text in the task. */
SGPU_MUST_CHECK int sgpu_secure_check_range(struct sgpu_secure *context, sgpu_devptr address, uint64_t size,
					    struct sgpu_task *task);

/* ---- heap.c ---- */
SGPU_MUST_CHECK int sgpu_secure_alloc_row(struct sgpu_device *device, uint64_t size, sgpu_devptr *memory,
					  struct sgpu_error *error);
void sgpu_secure_free_row(struct sgpu_device *device, sgpu_devptr memory, uint64_t size);
bool sgpu_secure_owns(struct sgpu_secure *context, sgpu_devptr address, uint64_t size);
/* Bytes that pages of the context could be made of in all, those that are not given out, and what the device counts as taken
 * though nobody has it: it keeps the memory of pages that were ever mapped. */
void sgpu_secure_figures(struct sgpu_secure *context, uint64_t *total, uint64_t *available, uint64_t *kept);
/* When all lanes but the first are gone. */
void sgpu_secure_memory_close(struct sgpu_secure *context);

/* ---- copy.c ---- */
void sgpu_secure_copier_free(struct sgpu_secure *context);

/* ---- module.c ---- */
SGPU_MUST_CHECK int sgpu_secure_module_load_row(struct sgpu_device *device, const void *image, size_t size,
						struct sgpu_device_module **module, struct sgpu_error *error);
void sgpu_secure_module_free_row(struct sgpu_device_module *module);
SGPU_MUST_CHECK int sgpu_secure_module_launch_row(struct sgpu_stream *stream, struct sgpu_device_module *module,
						  const char *function, const struct sgpu_module_shape *shape,
						  void *const *args, const size_t *arg_sizes, int arg_count,
						  struct sgpu_task *task);

#endif
