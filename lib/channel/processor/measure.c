/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_MEASURE computes a digest of memory mapped in a channel, for its owner.
 */
#include <string.h>

#include <sgpu/base.h>

#include "channel/processor/processor.h"

int sgpu_do_measure(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = sgpu_configurable(processor, command, reply);
	const uint64_t va = command->measure.va, size = command->measure.size;
	struct sgpu_measurement *measurement = &reply->measurement;
	struct sgpu_task task = { 0 };
	int rc;

	if (!channel) {
		return reply->code;
	}
	if (!size || va > processor->layout.space || size > processor->layout.space - va) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE, "%llu bytes at 0x%llx",
				   (unsigned long long)size, (unsigned long long)va);
	}
	if (command->measure.keyed && !channel->context->keys) {
		return sgpu_refuse(reply, SGPU_REFUSED_MALFORMED,
				   "channel %u has no key to measure with", channel->id);
	}
	if (!sgpu_range_is_mapped(processor, channel->context, va, size)) {
		return sgpu_refuse(reply, SGPU_REFUSED_NOT_MAPPED,
				   "%llu bytes at 0x%llx are not all mapped in channel %u",
				   (unsigned long long)size, (unsigned long long)va, channel->id);
	}
	*measurement = (struct sgpu_measurement){
		.channel = channel->id,
		.serial = channel->serial,
		.counter = channel->reports + 1,
		.va = va,
		.size = size,
		.keyed = command->measure.keyed,
	};
	rc = sgpu_activate_now(processor, channel->context, &reply->error);
	if (rc == SGPU_OK) {
		rc = sgpu_device_measure(processor->stream, channel->context->base + va, size,
					 measurement->keyed ? channel->context->keys->measure
							    : NULL,
					 measurement->digest, &task);
		rc = sgpu_processor_wait(processor, rc, &task, &reply->error);
	}
	if (rc != SGPU_OK) {
		memset(measurement, 0, sizeof(*measurement));
		return sgpu_refuse_device(reply, rc, "cannot measure");
	}
	channel->reports++;
	if (channel->context->keys) {
		sgpu_mask_measurement(channel->context->keys, measurement);
		sgpu_mac_measurement(channel->context->keys, measurement, measurement->mac);
	}
	return SGPU_OK;
}
