/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels reach one context at a time, since the contexts of a device share all mappings. Requests
 * are served in the order of their calls, so a busy context does not keep others out. The device
 * waits for enqueued work before it takes access away. CH_MEASURE, too, works on the active
 * context.
 */
#include <string.h>

#include <sgpu/base.h>

#include "channel/processor/processor.h"

/* `activation` is locked. After a failure no context is reachable, or the old one still is. */
static int replace(struct sgpu_processor *processor, struct sgpu_channel *channel,
		   struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (processor->active == channel) {
		return SGPU_OK;
	}
	if (processor->active) {
		rc = sgpu_space_access(processor->active->space, false, error);
		if (rc != SGPU_OK) {
			/* The old context is still reachable, so it stays active. */
			return rc;
		}
		processor->active = NULL;
	}
	if (channel) {
		rc = sgpu_space_access(channel->space, true, error);
		if (rc == SGPU_OK) {
			processor->active = channel;
		} else {
			/* Part of the context may be reachable. */
			(void)!sgpu_space_access(channel->space, false, NULL);
		}
	}
	return rc;
}

int sgpu_activate_now(struct sgpu_processor *processor, struct sgpu_channel *channel,
		      struct sgpu_error *error)
{
	pthread_mutex_lock(&processor->activation);
	int rc = replace(processor, channel, error);
	pthread_mutex_unlock(&processor->activation);
	return rc;
}

/* ---- requests ---- */
/* Makes the channel active until sgpu_processor_leave. */
static int activate(struct sgpu_processor *processor, struct sgpu_channel *channel,
		    struct sgpu_error *error)
{
	uint64_t ticket;
	int rc;

	pthread_mutex_lock(&processor->activation);
	ticket = processor->tickets++;
	while (ticket != processor->turn || (processor->active != channel && processor->holders)) {
		pthread_cond_wait(&processor->activation_turn, &processor->activation);
	}
	rc = replace(processor, channel, error);
	processor->holders += rc == SGPU_OK;
	if (++processor->turn != processor->tickets) {
		pthread_cond_broadcast(&processor->activation_turn);
	}
	pthread_mutex_unlock(&processor->activation);
	return rc;
}

static int no_space(uint32_t channel, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EUSAGE, "there is no channel %u", channel);
}

static int check_ranges(const struct sgpu_processor *processor, const struct sgpu_channel *channel,
			const struct sgpu_device_range *ranges, int count, struct sgpu_error *error)
{
	for (int i = 0; i < count; i++) {
		const struct sgpu_device_range *r = &ranges[i];

		if (r->size != 0 && (r->address < channel->base ||
				     !sgpu_range_is_mapped(processor, channel,
							   r->address - channel->base, r->size))) {
			return sgpu_fail(
				error, SGPU_EUSAGE,
				"%llu bytes at device address %#llx are not of this context",
				(unsigned long long)r->size, (unsigned long long)r->address);
		}
	}
	return SGPU_OK;
}

int sgpu_processor_enter(struct sgpu_processor *processor, uint32_t id,
			 const struct sgpu_device_range *ranges, int count,
			 struct sgpu_error *error)
{
	struct sgpu_channel *channel;
	int rc;

	pthread_rwlock_rdlock(&processor->tables);
	channel = sgpu_channel_of(processor, id);
	rc = channel ? check_ranges(processor, channel, ranges, count, error) : no_space(id, error);
	rc = rc ? rc : activate(processor, channel, error);
	if (rc != SGPU_OK) {
		pthread_rwlock_unlock(&processor->tables);
	}
	return rc;
}

void sgpu_processor_leave(struct sgpu_processor *processor)
{
	pthread_mutex_lock(&processor->activation);
	if (--processor->holders == 0 && processor->turn != processor->tickets) {
		pthread_cond_broadcast(&processor->activation_turn);
	}
	pthread_mutex_unlock(&processor->activation);
	pthread_rwlock_unlock(&processor->tables);
}

int sgpu_processor_space(struct sgpu_processor *processor, uint32_t id, sgpu_devptr *base,
			 struct sgpu_error *error)
{
	const struct sgpu_channel *channel;
	int rc = SGPU_OK;

	pthread_rwlock_rdlock(&processor->tables);
	channel = sgpu_channel_of(processor, id);
	if (channel) {
		*base = channel->base;
	} else {
		rc = no_space(id, error);
	}
	pthread_rwlock_unlock(&processor->tables);
	return rc;
}

/* ---- the processor's own work ---- */
/* Waits for the task, unless `enqueued` is the error of enqueuing it. Returns its outcome. */
static int finish(struct sgpu_processor *processor, int enqueued, const struct sgpu_task *task,
		  struct sgpu_error *error)
{
	int rc = enqueued == SGPU_OK ? sgpu_stream_sync(processor->stream, error) : SGPU_OK;

	if (rc < 0) {
		return rc;
	}
	rc = enqueued == SGPU_OK ? task->code : enqueued;
	return rc < 0 ? sgpu_fail(error, rc, "%s",
				  task->error.text[0] ? task->error.text : sgpu_strerror(rc))
		      : SGPU_OK;
}

int sgpu_pages_clear(struct sgpu_processor *processor, struct sgpu_channel *channel, uint64_t at,
		     uint64_t size, struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	int rc = sgpu_activate_now(processor, channel, error);

	/* Work that names the pages may still be queued. */
	rc = rc ? rc : sgpu_device_synchronize(processor->device, error);
	if (rc < 0) {
		return rc;
	}
	rc = sgpu_device_clear(processor->stream, channel->base + at, size, &task);
	return finish(processor, rc, &task, error);
}

int sgpu_do_measure(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = sgpu_channel_named(processor, command, reply);
	const uint64_t va = command->measure.va, size = command->measure.size;
	struct sgpu_report *report = &reply->report;
	struct sgpu_task task = { 0 };
	int rc;

	if (!channel) {
		return reply->code;
	}
	if (!size || va > processor->layout.space || size > processor->layout.space - va) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE, "%llu bytes at 0x%llx",
				   (unsigned long long)size, (unsigned long long)va);
	}
	if (!sgpu_range_is_mapped(processor, channel, va, size)) {
		return sgpu_refuse(reply, SGPU_REFUSED_NOT_MAPPED,
				   "%llu bytes at 0x%llx are not all mapped in channel %u",
				   (unsigned long long)size, (unsigned long long)va, channel->id);
	}
	*report = (struct sgpu_report){
		.channel = channel->id,
		.serial = channel->grant.serial,
		.counter = channel->reports + 1,
		.va = va,
		.size = size,
		.keyed = command->measure.keyed,
	};
	rc = sgpu_activate_now(processor, channel, &reply->error);
	if (rc == SGPU_OK) {
		rc = sgpu_device_measure(processor->stream, channel->base + va, size,
					 report->keyed ? channel->keys->measure : NULL,
					 report->digest, &task);
		rc = finish(processor, rc, &task, &reply->error);
	}
	if (rc != SGPU_OK) {
		memset(report, 0, sizeof(*report));
		return sgpu_refuse_device(reply, rc, "cannot measure");
	}
	channel->reports++;
	sgpu_mask_report(channel->keys, report);
	sgpu_mac_report(channel->keys, SGPU_CH_MEASURE, report, report->mac);
	return SGPU_OK;
}
