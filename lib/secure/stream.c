/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: a channel, the owner's session on it, and a stream of the device. A group is sealed once, under its number, and
 * the same bytes are sent until they are carried out: a second group with that number must not exist, and one that is
 * missing stops all that follow. So a lane whose group is lost for good is broken, and stays so.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "secure/secure.h"

/* ---- making ---- */
static void forget(struct sgpu_lane *lane)
{
	sgpu_session_close(&lane->session);
	sgpu_stream_free(&lane->inner);
	pthread_mutex_destroy(&lane->lock);
	sgpu_wipe(lane->group, sizeof(lane->group));
	free(lane);
}

/* The ground's lock is held. */
static struct sgpu_lane *take_spare(struct sgpu_secure *context)
{
	struct sgpu_lane *lane = context->spare;

	if (lane) {
		context->spare = lane->next;
		context->spare_count--;
		lane->next = NULL;
	}
	return lane;
}

/* The ground's lock is held. What the allocator says of the channel is not believed where it matters: two lanes of one
 * channel would take each other's groups. */
static int open_channel(struct sgpu_lane *lane, struct sgpu_error *error)
{
	struct sgpu_secure *context = lane->context;
	struct sgpu_ground *ground = context->ground;
	int rc;

	ground->sender = context;
	rc = sgpu_allocator_channel(ground->allocator, context->owner.public_half, &lane->grant, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	if (lane->grant.channel >= SGPU_CHANNEL_MAX || atomic_load(&ground->lanes[lane->grant.channel])) {
		return sgpu_fail(error, SGPU_EAUTH, "the allocator gave channel %u, which is in use",
				 (unsigned)lane->grant.channel);
	}
	rc = sgpu_processor_vouch(ground->processor, &lane->grant, error);
	if (rc == SGPU_OK) {
		rc = sgpu_session_open(&context->owner, &lane->grant, &lane->session, error);
	}
	/* Where another channel was made than the grant says, it stays until the processor goes. */
	if (rc != SGPU_OK &&
	    sgpu_allocator_destroy(ground->allocator, lane->grant.channel, 0, NULL, NULL) != SGPU_OK) {
		(void)sgpu_hint(error, "a channel stays as it is");
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	atomic_store(&ground->lanes[lane->grant.channel], lane);
	atomic_fetch_add(&context->channels, 1);
	return SGPU_OK;
}

int sgpu_lane_create(struct sgpu_secure *context, struct sgpu_lane **lane, struct sgpu_error *error)
{
	struct sgpu_lane *l;
	int rc;

	pthread_mutex_lock(&context->ground->lock);
	*lane = take_spare(context);
	pthread_mutex_unlock(&context->ground->lock);
	if (*lane) {
		return SGPU_OK;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->object.backend = &context->table;
	l->context = context;
	pthread_mutex_init(&l->lock, NULL);
	rc = sgpu_stream_create(context->ground->device, &l->inner, error);
	if (rc == SGPU_OK) {
		pthread_mutex_lock(&context->ground->lock);
		rc = open_channel(l, error);
		pthread_mutex_unlock(&context->ground->lock);
	}
	if (rc != SGPU_OK) {
		forget(l);
		return rc;
	}
	*lane = l;
	return SGPU_OK;
}

/* ---- ending ---- */
void sgpu_lane_give(struct sgpu_lane *lane)
{
	struct sgpu_secure *context = lane->context;
	bool kept = sgpu_stream_sync(lane->inner, NULL) == SGPU_OK && !lane->broken;

	if (kept) {
		pthread_mutex_lock(&context->ground->lock);
		kept = context->spare_count < SGPU_LANES_SPARE;
		if (kept) {
			lane->next = context->spare;
			context->spare = lane;
			context->spare_count++;
		}
		pthread_mutex_unlock(&context->ground->lock);
	}
	if (!kept) {
		sgpu_lane_free(lane);
	}
}

void sgpu_lane_free(struct sgpu_lane *lane)
{
	struct sgpu_secure *context = lane->context;
	struct sgpu_ground *ground = context->ground;
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
	uint64_t counter;

	/* Whatever arrives for it from here on is refused by its ticket; what was enqueued ends first. */
	sgpu_stream_free(&lane->inner);
	pthread_mutex_lock(&ground->lock);
	ground->sender = context;
	sgpu_session_destroy(lane->session, &counter, mac);
	/* Where a word was lost no later one is taken, but a channel also goes without. Where that does not get through either,
	 * it stays as it is until the processor goes: nobody can use it. */
	if (sgpu_allocator_destroy(ground->allocator, lane->grant.channel, counter, mac, NULL) == SGPU_OK ||
	    sgpu_allocator_destroy(ground->allocator, lane->grant.channel, 0, NULL, NULL) == SGPU_OK) {
		atomic_store(&ground->lanes[lane->grant.channel], NULL);
		pthread_mutex_unlock(&ground->lock);
		forget(lane);
		atomic_fetch_sub(&context->channels, 1);
		return;
	}
	lane->next = ground->lost;
	ground->lost = lane;
	pthread_mutex_unlock(&ground->lock);
	atomic_fetch_sub(&context->channels, 1);
}

/* ---- sending ---- */
/* Whether the group was taken; then waits until it has been carried out, which may be on another thread when someone on the
 * way sends it from there. */
static bool was_taken(struct sgpu_lane *lane)
{
	if (atomic_exchange(&lane->ticket, 0) != 0) {
		return false;
	}
	while (!atomic_load(&lane->ended)) {
		sched_yield();
	}
	return true;
}

/* Sends what is in lane->group until it has been carried out. What the reply says is no proof of anything. */
static int deliver(struct sgpu_lane *lane, uint64_t ticket, size_t size, uint64_t counter, struct sgpu_error *error)
{
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT, .via = lane->grant.channel,
					.channel = lane->grant.channel,
					.submit = { .group = lane->group, .size = (uint32_t)size, .counter = counter } };
	struct sgpu_reply reply;

	atomic_store(&lane->ended, false);
	atomic_store(&lane->ticket, ticket);
	for (int sends = 0; sends < SGPU_LANE_SENDS && atomic_load(&lane->ticket) != 0; sends++) {
		reply.refusal = SGPU_REFUSED_DEVICE;
		reply.error.text[0] = '\0';
		(void)sgpu_secure_send(lane->context, &command, &reply);
	}
	if (was_taken(lane)) {
		return lane->code;
	}
	lane->broken = true;
	return sgpu_fail(error, SGPU_EAUTH, "a command group of channel %u did not get through: %s",
			 (unsigned)lane->grant.channel,
			 reply.refusal > SGPU_REFUSED_NOT && reply.refusal < SGPU_REFUSALS ?
			 sgpu_refusal_name(reply.refusal) : "it was lost");
}

int sgpu_lane_submit(struct sgpu_lane *lane, struct sgpu_group *group, size_t size, struct sgpu_error *error)
{
	uint64_t counter = 0;
	int rc;

	pthread_mutex_lock(&lane->lock);
	if (lane->broken) {
		pthread_mutex_unlock(&lane->lock);
		return sgpu_fail(error, SGPU_EAUTH, "channel %u is broken: a command group of it was lost",
				 (unsigned)lane->grant.channel);
	}
	group->ticket = ++lane->drawn;
	group->count = 1;
	lane->error = error;
	lane->code = SGPU_EDEVICE;
	rc = sgpu_session_seal(lane->session, group, size, lane->group, &counter, error);
	if (rc == SGPU_OK) {
		rc = deliver(lane, group->ticket, size + SGPU_TAG_SIZE, counter, error);
	} else {
		lane->broken = true;
	}
	lane->error = NULL;
	pthread_mutex_unlock(&lane->lock);
	return rc;
}
