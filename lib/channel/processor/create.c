/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_CREATE makes a channel with its context: keys, and an empty address space. Every step that can
 * fail comes before the channel is entered into the tables.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "channel/processor/processor.h"

static int make_context(const struct sgpu_processor *processor, struct sgpu_channel *channel,
			struct sgpu_error *error)
{
	struct sgpu_context *context = calloc(1, sizeof(*context));

	channel->context = context;
	if (context) {
		context->tables =
			calloc(processor->layout.directory_entries, sizeof(*context->tables));
	}
	return !context || !context->tables
		       ? sgpu_fail_nomem(error)
		       : sgpu_space_create(processor->device, processor->layout.space,
					   &context->space, &context->base, error);
}

/* Draws the CEK, which nobody but the owner keeps, and seals it. */
static int make_keys(const struct sgpu_processor *processor, struct sgpu_channel *channel,
		     const uint8_t owner_key[32], struct sgpu_error *error)
{
	struct sgpu_channel_keys *keys = sgpu_secret_alloc(sizeof(*keys));
	struct sgpu_grant *grant = &channel->grant;
	uint8_t cek[SGPU_KEY_SIZE];
	int rc;

	channel->context->keys = keys;
	if (!keys) {
		return sgpu_fail_nomem(error);
	}
	grant->channel = channel->id;
	grant->serial = channel->serial;
	memcpy(grant->processor, processor->id, sizeof(grant->processor));
	rc = sgpu_sha256(owner_key, 32, grant->owner_hash, error);
	rc = rc ? rc : sgpu_random(cek, sizeof(cek), error);
	rc = rc ? rc : sgpu_channel_derive(cek, processor->id, keys, error);
	rc = rc ? rc : sgpu_channel_aeads(keys, &channel->aead, &channel->answer_aead, error);
	rc = rc ? rc
		: sgpu_hpke_seal(owner_key, SGPU_GRANT_INFO, strlen(SGPU_GRANT_INFO), grant,
				 SGPU_GRANT_BIND_SIZE, cek, sizeof(cek), grant->enc,
				 grant->sealed_cek, error);
	sgpu_wipe(cek, sizeof(cek));
	return rc;
}

int sgpu_processor_vouch(struct sgpu_processor *processor, const struct sgpu_grant *grant,
			 struct sgpu_error *error)
{
	const struct sgpu_channel *channel;
	bool made;

	sgpu_tables_enter(processor);
	channel = sgpu_channel_of(processor, grant->channel);
	made = channel && channel->context && channel->context->keys &&
	       sgpu_equal(&channel->grant, grant, sizeof(*grant));
	sgpu_tables_leave(processor);
	return made ? SGPU_OK
		    : sgpu_fail(error, SGPU_EAUTH, "the grant of channel %u is not the processor's",
				(unsigned)grant->channel);
}

static void enter(struct sgpu_processor *processor, struct sgpu_channel *channel)
{
	processor->channels[channel->id] = channel;
	processor->serials = channel->serial;
	sgpu_page_take(processor, channel->directory, SGPU_SMALL,
		       (struct sgpu_frame_entry){
			       .owner = channel->id,
			       .use = SGPU_FRAME_DIRECTORY,
			       .locked = channel->context && channel->context->keys,
		       });
}

static int create(struct sgpu_processor *processor, const struct sgpu_command *command,
		  bool bootstrap, struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = calloc(1, sizeof(*channel));
	int rc = SGPU_OK;

	if (!channel) {
		return sgpu_refuse_device(reply, SGPU_ENOMEM, "cannot make a channel");
	}
	(void)pthread_mutex_init(&channel->lock, NULL);
	channel->id = command->channel;
	channel->serial = processor->serials + 1;
	channel->directory = command->create.directory;
	if (!bootstrap) {
		rc = make_context(processor, channel, &reply->error);
	}
	if (rc == SGPU_OK && command->create.has_key) {
		rc = make_keys(processor, channel, command->create.owner_key, &reply->error);
	}
	if (rc != SGPU_OK) {
		sgpu_channel_free(channel);
		return rc == SGPU_EINVALID
			       ? sgpu_refuse(reply, SGPU_REFUSED_MALFORMED,
					     "not a public key of X25519")
			       : sgpu_refuse_device(reply, SGPU_ENOMEM, "cannot make a channel");
	}
	reply->grant = channel->grant;
	enter(processor, channel);
	return SGPU_OK;
}

int sgpu_do_create(struct sgpu_processor *processor, const struct sgpu_command *command,
		   struct sgpu_reply *reply)
{
	const uint32_t frame = command->create.directory, id = command->channel;
	enum sgpu_frame_region region;

	if (id >= SGPU_CHANNEL_MAX || frame >= processor->config.frames) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE,
				   "channel %u with its directory in frame %u", id, frame);
	}
	region = sgpu_processor_region(processor, frame);
	const bool bootstrap = !command->create.has_key && region == SGPU_REGION_UNPROTECTED;

	if (!bootstrap && sgpu_check_via(processor, command, reply) != SGPU_OK) {
		return reply->code;
	}
	if (processor->channels[id]) {
		return sgpu_refuse(reply, SGPU_REFUSED_EXISTS, "channel %u exists", id);
	}
	if (!bootstrap && region != SGPU_REGION_PROTECTED) {
		return sgpu_refuse(reply, SGPU_REFUSED_REGION,
				   "frame %u, for the directory of channel %u, is not protected",
				   frame, id);
	}
	if (!sgpu_page_is_free(processor, frame, SGPU_SMALL)) {
		return sgpu_refuse(reply, SGPU_REFUSED_NOT_FREE,
				   "frame %u, for the directory of channel %u, is in use", frame,
				   id);
	}
	if (processor->serials == UINT32_MAX) {
		return sgpu_refuse(reply, SGPU_REFUSED_LIMIT,
				   "this processor has made all the channels it can");
	}
	return create(processor, command, bootstrap, reply);
}
