/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the command processor: the table of pages, page tables, contexts and channels, and
 * who may touch them when.
 *
 * `tables` guards everything but what `activation` guards. Commands that change tables hold it as
 * writers; a request holds it as a reader from sgpu_processor_enter to sgpu_processor_leave, so
 * that nothing that was found mapped goes away before the work is enqueued. A channel's `lock` puts
 * its groups into their order.
 */
#ifndef SGPU_PROCESSOR_PROCESSOR_H
#define SGPU_PROCESSOR_PROCESSOR_H

#include <pthread.h>

#include <sgpu/channel.h>

#include "channel/keys.h"

enum { SGPU_SMALL, SGPU_BIG, SGPU_KINDS };

/* One for each frame; zero is a free frame of which nothing is known. `index` is the entry of data
 * in its table, and the number of entries of a table. */
struct sgpu_frame_entry {
	uint64_t owner : 10;
	uint64_t mapped : 1, locked : 1, big : 1;
	uint64_t use : 2;
	uint64_t clean : 1; /* was cleared when it became free */
	uint64_t stale : 1; /* the host wrote to it: no frame of a device's new memory any more */
	uint64_t aperture : 1; /* mapped for the host */
	uint64_t retired : 1;  /* the device would not give it back: nobody gets it */
	uint64_t missing : 1;  /* in a table, but the device did not map it again: it can only be
				  taken out */
	uint64_t marked : 1;   /* named by the command that is being checked */
	uint64_t references : 11;
	uint64_t directory : 12;
	uint64_t index : 13;
};
_Static_assert(sizeof(struct sgpu_frame_entry) == 8, "an entry takes 8 bytes a frame");
_Static_assert(SGPU_CHANNEL_ENTRIES <= 1 << 12 && SGPU_CHANNEL_MAX <= 1 << 10,
	       "indexes fit into an entry");

/* What a page table holds: kept here, not in its frame. */
struct sgpu_table {
	uint32_t frame;
	uint32_t entries[]; /* first frames of pages, SGPU_NO_FRAME for none */
};

/* Stands where a page was taken from a context without its owner's authorisation while other
 * channels of it go on. Nothing is mapped there any more: their kernels shall fail there, not find
 * an empty page in place of what they had. */
enum { SGPU_POISONED_FRAME = 0xfffffffe };

/* What the device has mapped at one index of the directories of a context, whichever channels'
 * tables say so. */
struct sgpu_window {
	uint32_t *entries[SGPU_KINDS];
	uint32_t used[SGPU_KINDS];
};

struct sgpu_context_keys {
	uint8_t cek[SGPU_KEY_SIZE];
	struct sgpu_channel_keys derived;
};

struct sgpu_context {
	struct sgpu_context *next;
	struct sgpu_channel *channels;
	struct sgpu_context_keys
		*keys; /* secret memory; NULL: a channel without key, alone in its context */
	uint8_t owner_key[32], owner_hash[SGPU_SHA256_SIZE];
	void *space;
	sgpu_devptr base;
	struct sgpu_window *windows;
	/* A page that was never this context's stands in its space uncleared, and the device does
	 * not take it back: no kernel gets there any more. */
	bool faulted;
};

struct sgpu_channel {
	struct sgpu_channel *next;    /* of its context */
	struct sgpu_context *context; /* NULL: a bootstrap channel */
	uint32_t id, serial, directory;
	struct sgpu_table *(*tables)[SGPU_KINDS];
	uint8_t grant_digest[SGPU_DIGEST_SIZE]; /* of a channel with a key */
	struct sgpu_aead *aead;
	struct sgpu_aead *answer_aead;
	pthread_mutex_t lock;		  /* groups, answers, both aeads */
	uint64_t groups;		  /* taken */
	uint64_t answers;		  /* the group that was answered last */
	uint64_t authorisations, reports; /* by writers */
};

struct sgpu_processor {
	struct sgpu_pager pager;
	struct sgpu_processor_config config;
	uint64_t page_size[SGPU_KINDS];
	uint32_t frames_of[SGPU_KINDS];	 /* frames of a page */
	uint32_t entries_of[SGPU_KINDS]; /* entries of a table */
	uint32_t directory_entries;
	uint8_t id[16];

	pthread_rwlock_t tables;
	struct sgpu_frame_entry *frames;
	struct sgpu_channel *channels[SGPU_CHANNEL_MAX];
	struct sgpu_context *contexts;
	uint32_t serials; /* given so far */
	void *aperture;	  /* space in which the host's frames are mapped; NULL until it is needed */
	/* of the command at work */
	uint32_t pages[SGPU_CHANNEL_PAGES_MAX];
	uint8_t actions[SGPU_CHANNEL_PAGES_MAX];

	pthread_mutex_t activation;
	pthread_cond_t activation_turn;
	uint64_t tickets, turn;
	uint32_t holders; /* requests between enter and leave */
	struct sgpu_context *active;
};

/* Readers of the tables. */
static inline void sgpu_tables_enter(struct sgpu_processor *processor)
{
	pthread_rwlock_rdlock(&processor->tables);
}

static inline void sgpu_tables_leave(struct sgpu_processor *processor)
{
	pthread_rwlock_unlock(&processor->tables);
}

#endif
