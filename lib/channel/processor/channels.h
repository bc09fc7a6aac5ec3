/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels and contexts: found, and freed.
 */
#ifndef SGPU_PROCESSOR_CHANNELS_H
#define SGPU_PROCESSOR_CHANNELS_H

#include "channel/processor/processor.h"

/* The channel that `id` names and that can be configured through `via`; NULL: refused. */
struct sgpu_channel *sgpu_configurable(struct sgpu_processor *processor, uint32_t via, uint32_t id,
				       struct sgpu_reply *reply);
/* Whether an authorisation is the next one of the channel, which has a key, and its MAC is as
 * `expected`. */
int sgpu_check_authorisation(const struct sgpu_channel *channel, uint64_t counter,
			     const uint8_t mac[SGPU_CHANNEL_MAC_SIZE],
			     const uint8_t expected[SGPU_CHANNEL_MAC_SIZE],
			     struct sgpu_reply *reply);
bool sgpu_is_bootstrap(const struct sgpu_processor *processor, uint32_t id);

void sgpu_channel_free(struct sgpu_channel *channel);
void sgpu_context_free(struct sgpu_processor *processor, struct sgpu_context *context);

#endif
