/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests see of a command processor from within: its table of pages, what is reachable, and
 * whether all that it keeps agrees.
 */
#ifndef CHANNEL_CHECK_H
#define CHANNEL_CHECK_H

#include "channel/processor/processor.h"
#include "channel/channel.h"

struct sgpu_frame {
	bool mapped, big; /* big: part of a big page */
	enum sgpu_frame_use use;
	uint32_t owner;	  /* channel that mapped it */
	uint32_t entries; /* of a table: in use */
	uint64_t va;	  /* of data: where it stands in its context */
};
int sgpu_processor_frame(struct sgpu_processor *processor, uint32_t frame,
			 struct sgpu_frame *about);
/* Makes the channel's context the one that kernels reach. */
int sgpu_processor_activate(struct sgpu_processor *processor, uint32_t channel,
			    struct sgpu_error *error);
/* Whether [address, address + size) of the device is mapped, all of it, in the channel's context.
 */
bool sgpu_processor_reaches(struct sgpu_processor *processor, uint32_t channel, sgpu_devptr address,
			    uint64_t size);
/* Walks everything and compares it with the table of pages and with the four invariants;
 * SGPU_EINVALID with what is broken. */
int sgpu_processor_check(struct sgpu_processor *processor, struct sgpu_error *error);

/* Under a context; NULL: there is none yet. */
struct sgpu_processor *sgpu_secure_processor(struct sgpu_secure *context);
/* Gives pages that hold nothing back. */
int sgpu_secure_trim(struct sgpu_secure *context, struct sgpu_error *error);

static inline int sgpu_secure_malloc(struct sgpu_secure *context, uint64_t size,
				     sgpu_devptr *memory, struct sgpu_error *error)
{
	return sgpu_device_alloc(sgpu_secure_device(context), size, memory, error);
}

static inline void sgpu_secure_free(struct sgpu_secure *context, sgpu_devptr *memory)
{
	sgpu_device_free(sgpu_secure_device(context), memory, 0);
}

#endif
