/* SPDX-License-Identifier: Apache-2.0
 *
 * What a secure context is to its users, and what it did.
 */
#include "secure/secure.h"

struct sgpu_device *sgpu_secure_device(struct sgpu_secure *context)
{
	return (struct sgpu_device *)(void *)context;
}

struct sgpu_processor *sgpu_secure_processor(struct sgpu_secure *context)
{
	return context->ground ? context->ground->processor : NULL;
}

const struct sgpu_grant *sgpu_secure_grant(const struct sgpu_secure *context)
{
	return &context->grant;
}

int sgpu_secure_stream_create(struct sgpu_secure *context, struct sgpu_stream **stream, struct sgpu_error *error)
{
	return sgpu_stream_create(sgpu_secure_device(context), stream, error);
}

void sgpu_secure_get_stats(struct sgpu_secure *context, struct sgpu_secure_stats *stats)
{
	*stats = (struct sgpu_secure_stats){
		.requests = atomic_load(&context->requests),
		.refused = atomic_load(&context->refused),
		.commands = atomic_load(&context->commands),
		.streams = atomic_load(&context->streams),
	};
	pthread_mutex_lock(&context->arena_lock);
	stats->mapped_bytes = context->arena.mapped_bytes;
	stats->used_bytes = context->arena.used_bytes;
	pthread_mutex_unlock(&context->arena_lock);
}
