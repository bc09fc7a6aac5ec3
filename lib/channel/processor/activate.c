/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels reach one context at a time, since the contexts of a device share all mappings. Requests
 * are served in the order of their calls, so that a busy context does not keep the others out. A
 * request for another context than the active one waits until no request is being enqueued. The
 * device waits for enqueued work before it takes access away.
 */
#include "channel/processor/processor.h"

/* Makes `context` the one that kernels reach. `activation` is locked. After a failure no context is
 * reachable, or the old one still is. */
static int replace(struct sgpu_processor *processor, struct sgpu_context *context,
		   struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (processor->active == context) {
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
	if (context) {
		rc = sgpu_space_access(context->space, true, error);
		if (rc == SGPU_OK) {
			processor->active = context;
		} else {
			/* Part of the context may be reachable. */
			(void)!sgpu_space_access(context->space, false, NULL);
		}
	}
	return rc;
}

int sgpu_activate_now(struct sgpu_processor *processor, struct sgpu_context *context,
		      struct sgpu_error *error)
{
	pthread_mutex_lock(&processor->activation);
	int rc = replace(processor, context, error);
	pthread_mutex_unlock(&processor->activation);
	return rc;
}

/* Makes the context active until sgpu_processor_leave. Callers are served in the order of their
 * calls. */
static int activate(struct sgpu_processor *processor, struct sgpu_context *context,
		    struct sgpu_error *error)
{
	uint64_t ticket;
	int rc;

	if (context->faulted) {
		return sgpu_fail(
			error, SGPU_EDEVICE,
			"the context has faulted: the device did not take a page of it back");
	}
	pthread_mutex_lock(&processor->activation);
	ticket = processor->tickets++;
	while (ticket != processor->turn || (processor->active != context && processor->holders)) {
		pthread_cond_wait(&processor->activation_turn, &processor->activation);
	}
	rc = replace(processor, context, error);
	processor->holders += rc == SGPU_OK;
	if (++processor->turn != processor->tickets) {
		pthread_cond_broadcast(&processor->activation_turn);
	}
	pthread_mutex_unlock(&processor->activation);
	return rc;
}

static struct sgpu_context *context_of(const struct sgpu_processor *processor, uint32_t id)
{
	const struct sgpu_channel *channel = sgpu_channel_of(processor, id);

	return channel ? channel->context : NULL;
}

static int no_space(uint32_t channel, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EUSAGE, "channel %u has no address space", channel);
}

static int check_ranges(const struct sgpu_processor *processor, const struct sgpu_context *context,
			const struct sgpu_device_range *ranges, int count, struct sgpu_error *error)
{
	for (int i = 0; i < count; i++) {
		const struct sgpu_device_range *r = &ranges[i];

		if (r->size != 0 && (r->address < context->base ||
				     !sgpu_range_is_mapped(processor, context,
							   r->address - context->base, r->size))) {
			return sgpu_fail(
				error, SGPU_EUSAGE,
				"%llu bytes at device address %#llx are not of this context",
				(unsigned long long)r->size, (unsigned long long)r->address);
		}
	}
	return SGPU_OK;
}

int sgpu_processor_enter(struct sgpu_processor *processor, uint32_t channel,
			 const struct sgpu_device_range *ranges, int count,
			 struct sgpu_error *error)
{
	struct sgpu_context *context;
	int rc;

	sgpu_tables_enter(processor);
	context = context_of(processor, channel);
	rc = context ? check_ranges(processor, context, ranges, count, error)
		     : no_space(channel, error);
	rc = rc ? rc : activate(processor, context, error);
	if (rc != SGPU_OK) {
		sgpu_tables_leave(processor);
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
	sgpu_tables_leave(processor);
}

int sgpu_processor_space(struct sgpu_processor *processor, uint32_t channel, sgpu_devptr *base,
			 uint64_t *size, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	sgpu_tables_enter(processor);
	const struct sgpu_context *context = context_of(processor, channel);
	if (context) {
		*base = context->base;
		*size = processor->layout.space;
	} else {
		rc = no_space(channel, error);
	}
	sgpu_tables_leave(processor);
	return rc;
}
