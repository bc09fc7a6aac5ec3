/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the group of a CH_SUBMIT, and seals its answer. The number of a group that verifies is used
 * up, even if the items fail; it is answered once.
 */
#include <string.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "channel/processor/processor.h"

/* `items` has room for the group. */
static int open_group(struct sgpu_channel *channel, const struct sgpu_command *command,
		      uint8_t *items, struct sgpu_reply *reply)
{
	const uint32_t size = command->submit.size;
	uint8_t nonce[SGPU_NONCE_SIZE];

	if (size < SGPU_TAG_SIZE || size > SGPU_GROUP_MAX) {
		return sgpu_refuse(reply, SGPU_REFUSED_MALFORMED, "a group of %u bytes", size);
	}
	if (!channel->aead) {
		return sgpu_refuse(reply, SGPU_REFUSED_SEAL, "channel %u takes no more groups",
				   channel->id);
	}
	if (command->submit.counter != channel->groups + 1) {
		return sgpu_refuse(reply, SGPU_REFUSED_COUNTER,
				   "group %llu of channel %u came when %llu was the next",
				   (unsigned long long)command->submit.counter, channel->id,
				   (unsigned long long)channel->groups + 1);
	}
	/* Copied, since the sender may write between authentication and decryption. */
	memcpy(items, command->submit.group, size);
	sgpu_group_nonce(channel->grant.serial, command->submit.counter, nonce);
	if (sgpu_aead_open(channel->aead, nonce, items, size - SGPU_TAG_SIZE, items,
			   items + size - SGPU_TAG_SIZE) != SGPU_OK) {
		return sgpu_refuse(reply, SGPU_REFUSED_SEAL,
				   "group %llu of channel %u does not verify",
				   (unsigned long long)command->submit.counter, channel->id);
	}
	channel->groups++;
	return SGPU_OK;
}

int sgpu_processor_bind(struct sgpu_processor *processor, const struct sgpu_grant *grant,
			const struct sgpu_hello *hello, struct sgpu_error *error)
{
	const uint32_t id = grant->channel;
	struct sgpu_channel_keys keys;
	struct sgpu_channel *channel;
	int rc;

	pthread_rwlock_rdlock(&processor->tables);
	channel = sgpu_channel_of(processor, id);
	if (!channel || !channel->aead || channel->groups > 0) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "channel %u cannot be bound any more", id);
		goto out;
	}
	keys = *channel->keys;
	rc = sgpu_channel_bind(&keys, hello, grant, error);
	pthread_mutex_lock(&channel->lock);
	rc = rc ? rc : sgpu_channel_aeads(&keys, &channel->aead, &channel->answer_aead, error);
	if (rc < 0) { /* the channel takes no more groups */
		sgpu_aead_free(&channel->aead);
		sgpu_aead_free(&channel->answer_aead);
	}
	pthread_mutex_unlock(&channel->lock);
	sgpu_wipe(&keys, sizeof(keys));
out:
	pthread_rwlock_unlock(&processor->tables);
	return rc;
}

int sgpu_processor_open_group(struct sgpu_processor *processor, const struct sgpu_command *command,
			      uint8_t items[SGPU_GROUP_MAX], size_t *size, struct sgpu_reply *reply)
{
	struct sgpu_channel *channel;

	*reply = (struct sgpu_reply){ .refusal = SGPU_REFUSED_NOT };
	pthread_rwlock_rdlock(&processor->tables);
	channel = sgpu_channel_named(processor, command, reply);
	if (channel) {
		pthread_mutex_lock(&channel->lock);
		(void)open_group(channel, command, items, reply);
		pthread_mutex_unlock(&channel->lock);
	}
	pthread_rwlock_unlock(&processor->tables);
	*size = reply->code == SGPU_OK ? command->submit.size - SGPU_TAG_SIZE : 0;
	return reply->code;
}

int sgpu_processor_answer(struct sgpu_processor *processor, uint32_t id, const void *answer,
			  size_t size, uint8_t *sealed, uint64_t *counter, struct sgpu_error *error)
{
	uint8_t nonce[SGPU_NONCE_SIZE];
	struct sgpu_channel *channel;
	int rc;

	pthread_rwlock_rdlock(&processor->tables);
	channel = sgpu_channel_of(processor, id);
	if (!channel || !channel->answer_aead || size > SGPU_GROUP_MAX - SGPU_TAG_SIZE) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "channel %u takes no answer of %zu bytes", id,
			       size);
		goto out;
	}
	pthread_mutex_lock(&channel->lock);
	if (channel->answers < channel->groups) {
		/* The number is used up before it seals anything, as in the session. */
		*counter = channel->answers = channel->groups;
		sgpu_group_nonce(channel->grant.serial, *counter, nonce);
		rc = sgpu_aead_seal(channel->answer_aead, nonce, answer, size, sealed,
				    sealed + size);
	} else {
		rc = sgpu_fail(error, SGPU_EUSAGE, "no group of channel %u is left to answer", id);
	}
	pthread_mutex_unlock(&channel->lock);
out:
	pthread_rwlock_unlock(&processor->tables);
	return rc;
}
