/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_CREATE makes a channel with keys and an empty address space. Every step that can fail comes
 * before the tables change. CH_DESTROY clears a channel's pages before they are free, with or
 * without the owner's MAC, which only shows that the owner agrees.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "channel/processor/processor.h"

struct sgpu_channel *sgpu_channel_named(const struct sgpu_processor *processor,
					const struct sgpu_command *command,
					struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = sgpu_channel_of(processor, command->channel);

	if (!channel) {
		(void)sgpu_refuse(reply, SGPU_REFUSED_NO_CHANNEL, "there is no channel %u",
				  command->channel);
	}
	return channel;
}

int sgpu_check_authorisation(const struct sgpu_channel *channel, uint64_t counter,
			     const uint8_t mac[SGPU_CHANNEL_MAC_SIZE], const uint64_t unmapped[2],
			     struct sgpu_reply *reply)
{
	uint8_t expected[SGPU_CHANNEL_MAC_SIZE];
	bool verifies;

	if (counter != channel->authorisations + 1) {
		return sgpu_refuse(reply, SGPU_REFUSED_MAC,
				   "authorisation %llu of channel %u is not the next one",
				   (unsigned long long)counter, channel->id);
	}
	sgpu_mac_owner(channel->keys, channel->grant.serial, counter, unmapped, expected);
	verifies = sgpu_equal(expected, mac, SGPU_CHANNEL_MAC_SIZE);
	sgpu_wipe(expected, sizeof(expected));
	return verifies ? SGPU_OK
			: sgpu_refuse(reply, SGPU_REFUSED_MAC,
				      "authorisation %llu of channel %u does not verify",
				      (unsigned long long)counter, channel->id);
}

int sgpu_processor_vouch(struct sgpu_processor *processor, const struct sgpu_grant *grant,
			 struct sgpu_error *error)
{
	const struct sgpu_channel *channel;
	bool made;

	pthread_rwlock_rdlock(&processor->tables);
	channel = sgpu_channel_of(processor, grant->channel);
	made = channel && sgpu_equal(&channel->grant, grant, sizeof(*grant));
	pthread_rwlock_unlock(&processor->tables);
	return made ? SGPU_OK
		    : sgpu_fail(error, SGPU_EAUTH, "the grant of channel %u is not the processor's",
				(unsigned)grant->channel);
}

static void free_channel(struct sgpu_channel *channel)
{
	sgpu_space_free(&channel->space);
	free(channel->tables);
	sgpu_secret_free(channel->keys, sizeof(*channel->keys));
	sgpu_aead_free(&channel->aead);
	sgpu_aead_free(&channel->answer_aead);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
}

/* ---- CH_CREATE ---- */
/* Draws the CEK, which nobody but the owner keeps, and seals it. */
static int make_keys(const struct sgpu_processor *processor, struct sgpu_channel *channel,
		     const uint8_t owner_key[32], struct sgpu_error *error)
{
	struct sgpu_grant *grant = &channel->grant;
	uint8_t cek[SGPU_KEY_SIZE];
	int rc;

	*grant = (struct sgpu_grant){ .channel = channel->id, .serial = processor->serials + 1 };
	memcpy(grant->processor, processor->id, sizeof(grant->processor));
	rc = sgpu_sha256(owner_key, 32, grant->owner_hash, error);
	rc = rc ? rc : sgpu_random(cek, sizeof(cek), error);
	rc = rc ? rc : sgpu_channel_derive(cek, processor->id, channel->keys, error);
	rc = rc ? rc
		: sgpu_channel_aeads(channel->keys, &channel->aead, &channel->answer_aead, error);
	rc = rc ? rc
		: sgpu_hpke_seal(owner_key, SGPU_GRANT_INFO, strlen(SGPU_GRANT_INFO), grant,
				 SGPU_GRANT_BIND_SIZE, cek, sizeof(cek), grant->enc,
				 grant->sealed_cek, error);
	sgpu_wipe(cek, sizeof(cek));
	return rc;
}

static int make_channel(const struct sgpu_processor *processor, const struct sgpu_command *command,
			struct sgpu_channel **made, struct sgpu_error *error)
{
	struct sgpu_channel *channel = calloc(1, sizeof(*channel));
	int rc;

	*made = channel;
	if (!channel) {
		return sgpu_fail_nomem(error);
	}
	(void)pthread_mutex_init(&channel->lock, NULL);
	channel->id = command->channel;
	channel->directory = command->create.directory;
	channel->keys = sgpu_secret_alloc(sizeof(*channel->keys));
	channel->tables = calloc(processor->layout.directory_entries, sizeof(*channel->tables));
	rc = channel->keys && channel->tables
		     ? sgpu_space_create(processor->device, processor->layout.space,
					 &channel->space, &channel->base, error)
		     : sgpu_fail_nomem(error);
	rc = rc ? rc : make_keys(processor, channel, command->create.owner_key, error);
	if (rc != SGPU_OK) {
		free_channel(channel);
	}
	return rc;
}

int sgpu_do_create(struct sgpu_processor *processor, const struct sgpu_command *command,
		   struct sgpu_reply *reply)
{
	const uint32_t id = command->channel, frame = command->create.directory;
	struct sgpu_channel *channel;
	int rc;

	if (id >= SGPU_CHANNEL_MAX) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE, "channel %u: they are below %d", id,
				   SGPU_CHANNEL_MAX);
	}
	if (processor->channels[id]) {
		return sgpu_refuse(reply, SGPU_REFUSED_EXISTS, "channel %u exists", id);
	}
	if (sgpu_page_check(processor, id, frame, SGPU_SMALL, reply) != SGPU_OK) {
		return reply->code;
	}
	if (processor->serials == UINT32_MAX) {
		return sgpu_refuse(reply, SGPU_REFUSED_LIMIT,
				   "this processor has made all the channels it can");
	}
	rc = make_channel(processor, command, &channel, &reply->error);
	if (rc != SGPU_OK) {
		return rc == SGPU_EINVALID ? sgpu_refuse(reply, SGPU_REFUSED_MALFORMED,
							 "not a public key of X25519")
					   : sgpu_refuse_device(reply, rc, "cannot make a channel");
	}
	reply->grant = channel->grant;
	processor->channels[id] = channel;
	processor->serials++;
	sgpu_page_enter(processor, frame, SGPU_SMALL,
			(struct sgpu_frame_entry){ .owner = id, .use = SGPU_FRAME_DIRECTORY });
	return SGPU_OK;
}

/* ---- CH_DESTROY ---- */
static void leave_pages(struct sgpu_processor *processor, const struct sgpu_channel *channel)
{
	const uint64_t small = processor->layout.page_size[SGPU_SMALL];
	const struct sgpu_table *table = channel->tables[0];
	uint64_t at = 0, size;

	for (; sgpu_space_next_run(channel->space, &at, &size); at += size) {
		for (uint64_t entry = at / small; entry < (at + size) / small; entry++) {
			sgpu_page_free(processor, channel->space->entries[entry] - 1, SGPU_SMALL);
		}
	}
	for (; table < channel->tables[processor->layout.directory_entries]; table++) {
		if (table->exists) {
			sgpu_page_free(processor, table->frame, SGPU_SMALL);
		}
	}
	sgpu_page_free(processor, channel->directory, SGPU_SMALL);
}

int sgpu_channel_end(struct sgpu_processor *processor, struct sgpu_channel *channel, bool forced,
		     struct sgpu_error *error)
{
	uint64_t at = 0, size;
	int rc = SGPU_OK;

	for (; (rc == SGPU_OK || forced) && sgpu_space_next_run(channel->space, &at, &size);
	     at += size) {
		rc = sgpu_pages_clear(processor, channel, at, size, error);
	}
	if (rc == SGPU_OK || forced) {
		rc = sgpu_activate_now(processor, NULL, error);
	}
	if (rc != SGPU_OK && !forced) {
		return rc;
	}
	processor->active = processor->active == channel ? NULL : processor->active;
	leave_pages(processor, channel);
	processor->channels[channel->id] = NULL;
	free_channel(channel); /* and its space, which unmaps the pages */
	return SGPU_OK;
}

int sgpu_do_destroy(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = sgpu_channel_named(processor, command, reply);
	int rc;

	if (!channel || (command->destroy.has_mac &&
			 sgpu_check_authorisation(channel, command->destroy.mac_counter,
						  command->destroy.mac, NULL, reply) != SGPU_OK)) {
		return reply->code;
	}
	rc = sgpu_channel_end(processor, channel, false, &reply->error);
	return rc ? sgpu_refuse_device(reply, rc, "cannot clear what the channel has") : SGPU_OK;
}
