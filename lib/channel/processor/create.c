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

static int make_keys(const struct sgpu_processor *processor, struct sgpu_context *context,
		     struct sgpu_error *error)
{
	int rc;

	context->keys = sgpu_secret_alloc(sizeof(*context->keys));
	if (!context->keys) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_random(context->keys->cek, sizeof(context->keys->cek), error);
	return rc ? rc
		  : sgpu_channel_derive(context->keys->cek, processor->id, &context->keys->derived,
					error);
}

static int make_context(const struct sgpu_processor *processor, struct sgpu_context *context,
			bool has_key, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	context->tables = calloc(processor->layout.directory_entries, sizeof(*context->tables));
	if (!context->tables) {
		return sgpu_fail_nomem(error);
	}
	if (has_key) {
		rc = make_keys(processor, context, error);
	}
	return rc < 0 ? rc
		      : sgpu_space_create(processor->device, processor->layout.space,
					  &context->space, &context->base, error);
}

static struct sgpu_channel *make_channel(const struct sgpu_processor *processor,
					 const struct sgpu_command *command, bool bootstrap,
					 struct sgpu_error *error)
{
	struct sgpu_channel *channel = calloc(1, sizeof(*channel));
	struct sgpu_context *context = NULL;
	int rc = SGPU_OK;

	if (!channel) {
		(void)sgpu_fail_nomem(error);
		return NULL;
	}
	(void)pthread_mutex_init(&channel->lock, NULL);
	channel->id = command->channel;
	channel->serial = processor->serials + 1;
	channel->directory = command->create.directory;
	if (!bootstrap) {
		channel->context = context = calloc(1, sizeof(*context));
		rc = context ? make_context(processor, context, command->create.has_key, error)
			     : sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK && command->create.has_key) {
		rc = sgpu_channel_aeads(&context->keys->derived, &channel->aead,
					&channel->answer_aead, error);
	}
	if (rc != SGPU_OK) {
		sgpu_channel_free(channel);
		return NULL;
	}
	return channel;
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

static int make_grant(const struct sgpu_processor *processor, struct sgpu_channel *channel,
		      const uint8_t owner_key[32], struct sgpu_error *error)
{
	struct sgpu_grant *grant = &channel->grant;
	const uint8_t *cek = channel->context->keys->cek;
	int rc = sgpu_sha256(owner_key, 32, grant->owner_hash, error);

	grant->channel = channel->id;
	grant->serial = channel->serial;
	memcpy(grant->processor, processor->id, sizeof(grant->processor));
	return rc ? rc
		  : sgpu_hpke_seal(owner_key, SGPU_GRANT_INFO, strlen(SGPU_GRANT_INFO), grant,
				   SGPU_GRANT_BIND_SIZE, cek, SGPU_KEY_SIZE, grant->enc,
				   grant->sealed_cek, error);
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
			       .clean = processor->frames[channel->directory].clean,
			       .stale = processor->frames[channel->directory].stale,
		       });
}

static int create(struct sgpu_processor *processor, const struct sgpu_command *command,
		  bool bootstrap, struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = make_channel(processor, command, bootstrap, &reply->error);
	int rc = channel ? SGPU_OK : SGPU_ENOMEM;

	if (channel && command->create.has_key) {
		rc = make_grant(processor, channel, command->create.owner_key, &reply->error);
		reply->grant = channel->grant;
	}
	if (rc != SGPU_OK) {
		sgpu_channel_free(channel);
		return rc == SGPU_EINVALID
			       ? sgpu_refuse(reply, SGPU_REFUSED_MALFORMED,
					     "not a public key of X25519")
			       : sgpu_refuse_device(reply, SGPU_ENOMEM, "cannot make a channel");
	}
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
