/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_SUBMIT: a sealed command group, and the sealed answer to it. A group's number must be the channel's next one and its
 * tag must verify; then the number is used up, whatever becomes of the items. A group is answered once, under its number.
 */
#include <string.h>

#include <sgpu/base.h>

#include "channel/processor/commands.h"
#include "channel/processor/refuse.h"
#include "channel/processor/request.h"

static int open_group(struct sgpu_channel *channel, const struct sgpu_command *command, struct sgpu_reply *reply)
{
	const uint32_t size = command->submit.size;
	uint8_t nonce[SGPU_NONCE_SIZE];

	if (command->submit.counter != channel->groups + 1) {
		return sgpu_refuse(reply, SGPU_REFUSED_COUNTER,
				   "group %llu of channel %u came when %llu was the next",
				   (unsigned long long)command->submit.counter, channel->id,
				   (unsigned long long)channel->groups + 1);
	}
	/* What is authenticated must be what is decrypted, while the sender may be writing. */
	memcpy(channel->items, command->submit.group, size);
	sgpu_group_nonce(channel->serial, command->submit.counter, nonce);
	if (sgpu_aead_open(channel->aead, nonce, channel->items, size - SGPU_TAG_SIZE, channel->items,
			   channel->items + size - SGPU_TAG_SIZE) != SGPU_OK) {
		return sgpu_refuse(reply, SGPU_REFUSED_SEAL, "group %llu of channel %u does not verify",
				   (unsigned long long)command->submit.counter, channel->id);
	}
	channel->groups++;
	return SGPU_OK;
}

/* Gives the items to whoever carries them out. */
static int deliver(struct sgpu_processor *processor, const struct sgpu_channel *channel, size_t size,
		     struct sgpu_reply *reply)
{
	int rc;

	if (!processor->config.take) {
		return size ? sgpu_refuse(reply, SGPU_REFUSED_GROUP,
					  "a group of %zu bytes, and nobody takes it", size)
			    : SGPU_OK;
	}
	rc = processor->config.take(processor->config.taker, channel->id, channel->items, size, &reply->error);
	if (rc == SGPU_EINVALID || rc == SGPU_EPOLICY) {
		reply->refusal = SGPU_REFUSED_GROUP;
	} else if (rc != SGPU_OK) {
		reply->refusal = SGPU_REFUSED_DEVICE;
	}
	reply->code = rc;
	if (rc != SGPU_OK && !reply->error.text[0]) {
		(void)sgpu_fail(&reply->error, rc, "a group of channel %u failed: %s", channel->id,
				sgpu_strerror(rc));
	}
	return rc;
}

int sgpu_do_submit(struct sgpu_processor *processor, const struct sgpu_command *command, struct sgpu_reply *reply)
{
	const uint32_t id = command->channel;
	struct sgpu_channel *channel = id < SGPU_CHANNEL_MAX ? processor->channels[id] : NULL;

	if (!channel) {
		return sgpu_refuse(reply, SGPU_REFUSED_NO_CHANNEL, "there is no channel %u", id);
	}
	if (!channel->context || command->via != id) {
		return sgpu_refuse(reply, SGPU_REFUSED_BOOTSTRAP, "a group for channel %u came through channel %u",
				   id, command->via);
	}
	if (command->submit.size < SGPU_TAG_SIZE || command->submit.size > SGPU_GROUP_MAX) {
		return sgpu_refuse(reply, SGPU_REFUSED_MALFORMED, "a group of %u bytes", command->submit.size);
	}
	if (!channel->aead) {
		return sgpu_refuse(reply, SGPU_REFUSED_SEAL, "channel %u has no key and takes no groups", id);
	}
	pthread_mutex_lock(&channel->lock);
	if (open_group(channel, command, reply) == SGPU_OK) {
		(void)deliver(processor, channel, command->submit.size - SGPU_TAG_SIZE, reply);
	}
	sgpu_wipe(channel->items, command->submit.size);
	pthread_mutex_unlock(&channel->lock);
	return reply->code;
}

int sgpu_processor_answer(struct sgpu_processor *processor, uint32_t id, const void *answer, size_t size, uint8_t *sealed,
			  uint64_t *counter, struct sgpu_error *error)
{
	uint8_t nonce[SGPU_NONCE_SIZE];
	struct sgpu_channel *channel;
	int rc;

	sgpu_tables_enter(processor);
	channel = id < SGPU_CHANNEL_MAX ? processor->channels[id] : NULL;
	if (!channel || !channel->answer_aead || size > SGPU_GROUP_MAX - SGPU_TAG_SIZE) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "channel %u takes no answer of %zu bytes", id, size);
		goto out;
	}
	pthread_mutex_lock(&channel->lock);
	if (channel->answers < channel->groups) {
		/* Used up before anything is sealed with it, as the session does. */
		*counter = channel->answers = channel->groups;
		sgpu_group_nonce(channel->serial, *counter, nonce);
		rc = sgpu_aead_seal(channel->answer_aead, nonce, answer, size, sealed, sealed + size);
	} else {
		rc = sgpu_fail(error, SGPU_EUSAGE, "no group of channel %u is left to answer", id);
	}
	pthread_mutex_unlock(&channel->lock);
out:
	sgpu_tables_leave(processor);
	return rc;
}
