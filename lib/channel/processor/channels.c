/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and frees channels, with their contexts.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "channel/processor/processor.h"

int sgpu_check_via(const struct sgpu_processor *processor, const struct sgpu_command *command,
		   struct sgpu_reply *reply)
{
	const struct sgpu_channel *via = sgpu_channel_of(processor, command->via);

	return via && !via->context
		       ? SGPU_OK
		       : sgpu_refuse(reply, SGPU_REFUSED_BOOTSTRAP,
				     "channel %u is no bootstrap channel", command->via);
}

struct sgpu_channel *sgpu_configurable(const struct sgpu_processor *processor,
				       const struct sgpu_command *command, struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = sgpu_channel_of(processor, command->channel);

	if (sgpu_check_via(processor, command, reply) != SGPU_OK) {
		return NULL;
	}
	if (!channel) {
		(void)sgpu_refuse(reply, SGPU_REFUSED_NO_CHANNEL, "there is no channel %u",
				  command->channel);
	} else if (!channel->context) {
		(void)sgpu_refuse(reply, SGPU_REFUSED_BOOTSTRAP,
				  "channel %u is a bootstrap channel", command->channel);
		return NULL;
	}
	return channel;
}

int sgpu_check_authorisation(const struct sgpu_channel *channel, uint64_t counter,
			     const uint8_t mac[SGPU_CHANNEL_MAC_SIZE], const uint64_t unmapped[2],
			     struct sgpu_reply *reply)
{
	const struct sgpu_channel_keys *keys = channel->context ? channel->context->keys : NULL;
	uint8_t expected[SGPU_CHANNEL_MAC_SIZE];
	bool verifies;

	if (!keys || counter != channel->authorisations + 1) {
		return sgpu_refuse(reply, SGPU_REFUSED_MAC,
				   "authorisation %llu of channel %u is not the next one",
				   (unsigned long long)counter, channel->id);
	}
	sgpu_mac_owner(keys, channel->serial, counter, unmapped, expected);
	verifies = sgpu_equal(expected, mac, SGPU_CHANNEL_MAC_SIZE);
	sgpu_wipe(expected, sizeof(expected));
	return verifies ? SGPU_OK
			: sgpu_refuse(reply, SGPU_REFUSED_MAC,
				      "authorisation %llu of channel %u does not verify",
				      (unsigned long long)counter, channel->id);
}

void sgpu_channel_free(struct sgpu_channel *channel)
{
	struct sgpu_context *context = channel ? channel->context : NULL;

	if (context) {
		sgpu_space_free(&context->space);
		free(context->tables);
		sgpu_secret_free(context->keys, sizeof(*context->keys));
		free(context);
	}
	if (channel) {
		sgpu_aead_free(&channel->aead);
		sgpu_aead_free(&channel->answer_aead);
		pthread_mutex_destroy(&channel->lock);
		free(channel);
	}
}
