/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the command processor, and the locks that guard it.
 *
 * The lock `tables` guards all that `activation` does not. Commands that change tables hold it as
 * writers, a request as a reader from sgpu_processor_enter to sgpu_processor_leave, so pages stay
 * mapped until its work is enqueued. A channel's `lock` keeps its groups in order.
 */
#ifndef SGPU_PROCESSOR_PROCESSOR_H
#define SGPU_PROCESSOR_PROCESSOR_H

#include <pthread.h>

#include "device/space.h"
#include "channel/channel.h"

#include "channel/keys.h"

/* A frame's entry in the table of pages; zero: the frame is free and full of zeros. */
enum sgpu_frame_use { SGPU_FRAME_FREE, SGPU_FRAME_DATA, SGPU_FRAME_DIRECTORY, SGPU_FRAME_TABLE };
struct sgpu_frame_entry {
	uint16_t owner : 10;
	uint16_t use : 2;
	uint16_t big : 1;    /* part of a big page */
	uint16_t marked : 1; /* named by the command being checked */
};
_Static_assert(SGPU_CHANNEL_MAX <= 1 << 10, "a channel's number fits into an entry");

/* A page table. Its entries are those of the channel's space. */
struct sgpu_table {
	bool exists;
	uint32_t frame, used; /* used: how many entries hold pages */
};

/* A channel with its context. */
struct sgpu_channel {
	uint32_t id, directory;
	struct sgpu_grant grant;
	struct sgpu_channel_keys *keys; /* in secret memory */
	struct sgpu_space *space;
	sgpu_devptr base;
	struct sgpu_table (*tables)[SGPU_KINDS];
	pthread_mutex_t lock;		      /* guards the next two lines */
	struct sgpu_aead *aead, *answer_aead; /* NULL: the channel takes no more groups */
	uint64_t groups, answers;	      /* groups taken; number of the last answered one */
	uint64_t authorisations, reports;     /* changed by writers of `tables` only */
};

struct sgpu_processor {
	struct sgpu_device *device;
	struct sgpu_stream *stream;
	struct sgpu_processor_config config;
	struct sgpu_layout layout;
	uint8_t id[16];

	pthread_rwlock_t tables;
	struct sgpu_frame_entry *frames;
	struct sgpu_channel *channels[SGPU_CHANNEL_MAX];
	uint32_t serials;
	uint32_t pages[SGPU_CHANNEL_PAGES_MAX];

	pthread_mutex_t activation;
	pthread_cond_t activation_turn;
	uint64_t tickets, turn;
	uint32_t holders;	     /* requests between enter and leave */
	struct sgpu_channel *active; /* whose context kernels reach */
};

/* ---- processor.c ---- */
int sgpu_refuse(struct sgpu_reply *reply, enum sgpu_refusal refusal, const char *format, ...)
	SGPU_PRINTF(3, 4);
/* As sgpu_refuse, when the device failed. The text ends with the device's, if any. */
int sgpu_refuse_device(struct sgpu_reply *reply, int code, const char *what);

/* ---- pages.c ---- */
/* Refuses frames that are no page, or that the channel cannot get. */
int sgpu_page_check(const struct sgpu_processor *processor, uint32_t channel, uint32_t first,
		    int kind, struct sgpu_reply *reply);
void sgpu_page_enter(struct sgpu_processor *processor, uint32_t first, int kind,
		     struct sgpu_frame_entry entry);
/* A data page must be clear; the frame of a directory or table never had contents. */
static inline void sgpu_page_free(struct sgpu_processor *processor, uint32_t first, int kind)
{
	sgpu_page_enter(processor, first, kind,
			(struct sgpu_frame_entry){ .use = SGPU_FRAME_FREE });
}
/* Whether [at, at + size), counted from the context's base, is mapped. */
bool sgpu_range_is_mapped(const struct sgpu_processor *processor,
			  const struct sgpu_channel *channel, uint64_t at, uint64_t size);

/* ---- channels.c ---- */
static inline struct sgpu_channel *sgpu_channel_of(const struct sgpu_processor *processor,
						   uint32_t id)
{
	return id < SGPU_CHANNEL_MAX ? processor->channels[id] : NULL;
}
/* Returns the command's channel, or refuses and returns NULL. */
struct sgpu_channel *sgpu_channel_named(const struct sgpu_processor *processor,
					const struct sgpu_command *command,
					struct sgpu_reply *reply);
/* Checks that `counter` is the channel's next authorisation and `mac` its MAC. unmapped: as in
 * sgpu_mac_owner. */
int sgpu_check_authorisation(const struct sgpu_channel *channel, uint64_t counter,
			     const uint8_t mac[SGPU_CHANNEL_MAC_SIZE], const uint64_t unmapped[2],
			     struct sgpu_reply *reply);
/* Clears, unmaps and frees all that the channel has, and the channel. If the device fails, nothing
 * is unmapped, but pages may have been cleared. forced: ends the channel even so, for the end of
 * the processor, after which nobody gets those pages. */
SGPU_MUST_CHECK int sgpu_channel_end(struct sgpu_processor *processor, struct sgpu_channel *channel,
				     bool forced, struct sgpu_error *error);

/* ---- activate.c ---- */
/* Makes the channel's context the one that kernels reach; NULL: they reach none. Waits for the
 * device. */
int sgpu_activate_now(struct sgpu_processor *processor, struct sgpu_channel *channel,
		      struct sgpu_error *error);
/* Clears a mapped range of the channel, and waits for that: while kernels reach no other context,
 * and after all work of the device, so no kernel writes there afterwards. */
int sgpu_pages_clear(struct sgpu_processor *processor, struct sgpu_channel *channel, uint64_t at,
		     uint64_t size, struct sgpu_error *error);

/* ---- the commands: the caller holds `tables` as a writer ---- */
typedef int sgpu_do(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply);
sgpu_do sgpu_do_create, sgpu_do_pde, sgpu_do_pte, sgpu_do_measure, sgpu_do_destroy;

#endif
