/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the command processor: the table of pages, page tables, contexts and channels, and
 * the locks that guard them.
 *
 * The lock `tables` guards all that `activation` does not guard. Commands that change tables hold
 * it as writers, a request as a reader from sgpu_processor_enter to sgpu_processor_leave, so that
 * pages stay mapped until its work is enqueued. A channel's `lock` keeps its groups in order.
 */
#ifndef SGPU_PROCESSOR_PROCESSOR_H
#define SGPU_PROCESSOR_PROCESSOR_H

#include <pthread.h>

#include "device/device.h"
#include "channel/channel.h"

#include "channel/keys.h"
#include "channel/tables.h"

/* The entry of a frame in the table of pages; zero: free, contents unknown. `index`: for a data
 * page its position in its page table, for a page table the number of its entries in use. */
struct sgpu_frame_entry {
	uint64_t owner : 10;
	uint64_t mapped : 1, locked : 1, big : 1;
	uint64_t use : 2;
	uint64_t clean : 1;   /* cleared since it last held data */
	uint64_t stale : 1;   /* kernels may have written to it since it was cleared */
	uint64_t retired : 1; /* could not be cleared or unmapped: never used again */
	uint64_t marked : 1;  /* named by the command that is being checked */
	uint64_t directory : 12;
	uint64_t index : 13;
};
_Static_assert(sizeof(struct sgpu_frame_entry) == 8, "an entry takes 8 bytes a frame");
_Static_assert(SGPU_CHANNEL_ENTRIES <= 1 << 12 && SGPU_CHANNEL_MAX <= 1 << 10,
	       "indexes fit into an entry");

struct sgpu_context {
	struct sgpu_channel_keys *keys; /* in secret memory; NULL: the channel has no key */
	struct sgpu_space *space;
	sgpu_devptr base;
	struct sgpu_table *(*tables)[SGPU_KINDS];
	/* A page that may hold another context's data cannot be unmapped from this space, so
	 * kernels no longer run here. */
	bool faulted;
};

struct sgpu_channel {
	struct sgpu_context *context; /* its own; NULL: a bootstrap channel */
	uint32_t id, serial, directory;
	struct sgpu_grant grant; /* only with a key */
	struct sgpu_aead *aead;
	struct sgpu_aead *answer_aead;
	pthread_mutex_t lock;		  /* guards groups, answers, both aeads */
	uint64_t groups;		  /* groups taken so far */
	uint64_t answers;		  /* number of the group answered last */
	uint64_t authorisations, reports; /* changed by writers of `tables` only */
};

struct sgpu_processor {
	struct sgpu_device *device;
	struct sgpu_stream *stream; /* clears and measures pages */
	struct sgpu_pages_info info;
	struct sgpu_processor_config config;
	struct sgpu_layout layout;
	uint8_t id[16];

	pthread_rwlock_t tables;
	struct sgpu_frame_entry *frames;
	struct sgpu_channel *channels[SGPU_CHANNEL_MAX];
	uint32_t serials; /* serial numbers given so far */
	/* pages of the current command */
	uint32_t pages[SGPU_CHANNEL_PAGES_MAX];

	pthread_mutex_t activation;
	pthread_cond_t activation_turn;
	uint64_t tickets, turn;
	uint32_t holders; /* requests between enter and leave */
	struct sgpu_context *active;
};

static inline void sgpu_tables_enter(struct sgpu_processor *processor)
{
	pthread_rwlock_rdlock(&processor->tables);
}

static inline void sgpu_tables_leave(struct sgpu_processor *processor)
{
	pthread_rwlock_unlock(&processor->tables);
}

/* ---- processor.c ---- */
/* Fills in the reply and returns its code. */
int sgpu_refuse(struct sgpu_reply *reply, enum sgpu_refusal refusal, const char *format, ...)
	SGPU_PRINTF(3, 4);
/* As sgpu_refuse, when the device failed. The text ends with the device's own, if it gave one. */
int sgpu_refuse_device(struct sgpu_reply *reply, int code, const char *what);

/* ---- frames.c ---- */
enum sgpu_frame_region { SGPU_REGION_UNPROTECTED, SGPU_REGION_PROTECTED, SGPU_REGION_HIDDEN };
enum sgpu_frame_use { SGPU_FRAME_DATA, SGPU_FRAME_DIRECTORY, SGPU_FRAME_TABLE };
enum sgpu_frame_region sgpu_processor_region(const struct sgpu_processor *processor,
					     uint32_t frame);
bool sgpu_page_is_free(const struct sgpu_processor *processor, uint32_t first, int kind);
bool sgpu_page_needs_clear(const struct sgpu_processor *processor, uint32_t first, int kind);
/* Takes a page. A data page is clear by now; a directory or table has no contents in its frame. */
void sgpu_page_take(struct sgpu_processor *processor, uint32_t first, int kind,
		    struct sgpu_frame_entry entry);
/* Frees a page. A data page must be clear; the frame of a directory or table still has its contents
 * from before it was taken. */
void sgpu_page_give(struct sgpu_processor *processor, uint32_t first, int kind);
void sgpu_page_retire(struct sgpu_processor *processor, uint32_t first, int kind);
static inline uint64_t sgpu_page_va(const struct sgpu_processor *processor, uint32_t directory,
				    uint32_t index, int kind)
{
	return directory * processor->layout.window + index * processor->layout.page_size[kind];
}
/* Whether [at, at + size), counted from the context's base, is mapped. */
bool sgpu_range_is_mapped(const struct sgpu_processor *processor,
			  const struct sgpu_context *context, uint64_t at, uint64_t size);

/* ---- channels.c ---- */
/* Returns channel `id`, or NULL. */
static inline struct sgpu_channel *sgpu_channel_of(const struct sgpu_processor *processor,
						   uint32_t id)
{
	return id < SGPU_CHANNEL_MAX ? processor->channels[id] : NULL;
}
/* Refuses the command unless it came through a bootstrap channel. */
int sgpu_check_via(const struct sgpu_processor *processor, const struct sgpu_command *command,
		   struct sgpu_reply *reply);
/* Returns the command's channel if it can be configured; else refuses, returns NULL. */
struct sgpu_channel *sgpu_configurable(const struct sgpu_processor *processor,
				       const struct sgpu_command *command,
				       struct sgpu_reply *reply);
/* Checks that `counter` is the channel's next authorisation, and that `mac` is of the unmapping of
 * `unmapped`, an address and a size, or, if that is NULL, of the destruction. */
int sgpu_check_authorisation(const struct sgpu_channel *channel, uint64_t counter,
			     const uint8_t mac[SGPU_CHANNEL_MAC_SIZE], const uint64_t unmapped[2],
			     struct sgpu_reply *reply);
void sgpu_channel_free(struct sgpu_channel *channel);

/* ---- activate.c ---- */
/* Makes the context the one that kernels reach; NULL: they reach none. Waits for the device. */
int sgpu_activate_now(struct sgpu_processor *processor, struct sgpu_context *context,
		      struct sgpu_error *error);

/* Waits for the task, unless `enqueued` is the error of enqueuing it. Returns its outcome. */
int sgpu_processor_wait(struct sgpu_processor *processor, int enqueued,
			const struct sgpu_task *task, struct sgpu_error *error);
/* Clears a mapped range of the context that kernels reach, after all running work of the device, so
 * that no kernel writes there afterwards, and waits for it. */
int sgpu_pages_clear(struct sgpu_processor *processor, const struct sgpu_context *context,
		     uint64_t at, uint64_t size, struct sgpu_error *error);

/* ---- the commands, each in a file of its name ----
 * The caller holds `tables` as a writer, for CH_SUBMIT as a reader. */
typedef int sgpu_do(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply);
sgpu_do sgpu_do_create, sgpu_do_pde, sgpu_do_pte, sgpu_do_measure, sgpu_do_destroy, sgpu_do_submit;

/* Destroys a channel without a MAC, and even if the device fails. */
void sgpu_destroy_by_force(struct sgpu_processor *processor, struct sgpu_channel *channel);

#endif
