/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context as a device. A request that touches the device's memory is checked, makes the
 * context the one that kernels reach, and is a direct call of the device. What moves no data of the
 * device goes straight to it: events, callbacks, host memory. A launch without ranges touches no
 * memory of the device. A module says what it touches, or does not run.
 */
#include <stdlib.h>

#include "secure/context.h"

static struct sgpu_secure *context_of(struct sgpu_device *device)
{
	return (struct sgpu_secure *)(void *)device;
}

static struct sgpu_secure_key *key_of(struct sgpu_device_key *key)
{
	return (struct sgpu_secure_key *)(void *)key;
}

/* ---- the device ---- */
/* It belongs to its context. */
static void close_device(struct sgpu_device *device)
{
	(void)device;
}

static int info(struct sgpu_device *device, struct sgpu_device_info *about,
		struct sgpu_error *error)
{
	struct sgpu_secure *context = context_of(device);
	uint64_t total, available, kept;
	int rc = sgpu_device_get_info(context->ground->device, about, error);

	if (rc == SGPU_OK) {
		sgpu_secure_figures(context, &total, &available, &kept);
		about->memory_free += kept;
		about->memory_total = total < about->memory_total ? total : about->memory_total;
		about->memory_free =
			available < about->memory_free ? available : about->memory_free;
		about->secure = true;
	}
	return rc;
}

static int synchronize(struct sgpu_device *device, struct sgpu_error *error)
{
	return sgpu_device_synchronize(context_of(device)->ground->device, error);
}

static void poll_device(struct sgpu_device *device)
{
	sgpu_device_poll(context_of(device)->ground->device);
}

static void cancel(struct sgpu_device *device, bool stop)
{
	sgpu_device_cancel(context_of(device)->ground->device, stop);
}

static int host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
		      struct sgpu_error *error)
{
	return sgpu_host_alloc(context_of(device)->ground->device, size, memory, error);
}

static void host_free(struct sgpu_device *device, void *memory, uint64_t size)
{
	sgpu_host_free(context_of(device)->ground->device, &memory, size);
}

static int host_register(struct sgpu_device *device, const void *memory, uint64_t size,
			 struct sgpu_error *error)
{
	return sgpu_host_register(context_of(device)->ground->device, memory, size, error);
}

static void host_unregister(struct sgpu_device *device, const void *memory)
{
	sgpu_host_unregister(context_of(device)->ground->device, memory);
}

static void limit_memory(struct sgpu_device *device, uint64_t bytes)
{
	sgpu_device_set_limit(context_of(device)->ground->device, bytes);
}

static int check_range(struct sgpu_device *device, sgpu_devptr memory, uint64_t size,
		       struct sgpu_task *task)
{
	return sgpu_secure_check_range(context_of(device), memory, size, task);
}

static int agree(struct sgpu_device *device, struct sgpu_device_agreement *agreement,
		 struct sgpu_error *error)
{
	return sgpu_device_agree(context_of(device)->ground->device, agreement, error);
}

static int code(struct sgpu_device *device, struct sgpu_device_code *list)
{
	return sgpu_device_code_digests(context_of(device)->ground->device, list, NULL);
}

static int evidence(struct sgpu_device *device, const uint8_t nonce[32],
		    struct sgpu_device_evidence *gained, struct sgpu_error *error)
{
	return sgpu_device_get_evidence(context_of(device)->ground->device, nonce, gained, error);
}

/* ---- streams; events are the device's own ---- */
static int stream_create(struct sgpu_device *device, struct sgpu_stream **stream,
			 struct sgpu_error *error)
{
	struct sgpu_secure *context = context_of(device);
	struct sgpu_secure_stream *made = calloc(1, sizeof(*made));
	int rc;

	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->object.backend = &context->backend;
	made->context = context;
	rc = sgpu_stream_create(context->ground->device, &made->inner, error);
	if (rc < 0) {
		free(made);
		return rc;
	}
	atomic_fetch_add_explicit(&context->streams, 1, memory_order_relaxed);
	*stream = (struct sgpu_stream *)(void *)made;
	return SGPU_OK;
}

static void stream_free(struct sgpu_stream *stream)
{
	struct sgpu_secure_stream *freed = sgpu_secure_stream_of(stream);

	atomic_fetch_sub_explicit(&freed->context->streams, 1, memory_order_relaxed);
	sgpu_stream_free(&freed->inner);
	free(freed);
}

static int stream_sync(struct sgpu_stream *stream, struct sgpu_error *error)
{
	return sgpu_stream_sync(sgpu_secure_stream_of(stream)->inner, error);
}

static int event_create(struct sgpu_device *device, struct sgpu_event **event,
			struct sgpu_error *error)
{
	return sgpu_event_create(context_of(device)->ground->device, event, error);
}

static int event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return sgpu_event_record(sgpu_secure_stream_of(stream)->inner, event);
}

static int stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return sgpu_stream_wait(sgpu_secure_stream_of(stream)->inner, event);
}

static int callback(struct sgpu_stream *stream, void (*function)(void *argument), void *argument)
{
	return sgpu_stream_callback(sgpu_secure_stream_of(stream)->inner, function, argument);
}

/* ---- requests ---- */
int sgpu_secure_check_range(struct sgpu_secure *context, sgpu_devptr address, uint64_t size,
			    struct sgpu_task *task)
{
	const struct sgpu_block *block;
	bool inside;

	pthread_mutex_lock(&context->arena_lock);
	block = sgpu_arena_find(&context->arena, address);
	inside = block && address - block->range.address <= block->size &&
		 size <= block->size - (address - block->range.address);
	pthread_mutex_unlock(&context->arena_lock);
	return inside ? SGPU_OK : sgpu_task_refuse_range(task, address, size);
}

int sgpu_secure_begin(struct sgpu_secure *context, const struct sgpu_device_range *ranges,
		      int count, struct sgpu_task *task)
{
	int rc = SGPU_OK;

	for (int i = 0; i < count; i++) {
		rc = sgpu_secure_check_range(context, ranges[i].address, ranges[i].size, task);
		if (rc < 0) {
			return rc;
		}
	}
	rc = sgpu_processor_enter(context->ground->processor, context->grant.channel, ranges, count,
				  task ? &task->error : NULL);
	if (rc < 0) {
		if (task) {
			task->code = rc;
		}
		return rc;
	}
	atomic_fetch_add_explicit(&context->requests, 1, memory_order_relaxed);
	return SGPU_OK;
}

int sgpu_secure_end(struct sgpu_secure *context, int rc)
{
	sgpu_processor_leave(context->ground->processor);
	return rc;
}

static int enqueue(struct sgpu_stream *stream, const struct sgpu_work *work, struct sgpu_task *task)
{
	const struct sgpu_secure_stream *s = sgpu_secure_stream_of(stream);
	struct sgpu_work inner = *work;
	struct sgpu_device_range ranges[2];
	const int count = sgpu_work_ranges(work, ranges);
	int rc;

	if (work->key && key_of(work->key)->context != s->context) {
		return sgpu_task_refuse(task, SGPU_EPOLICY, "the key is not of this context");
	}
	inner.key = work->key ? key_of(work->key)->inner : NULL;
	rc = sgpu_secure_begin(s->context, ranges, count, task);
	return rc < 0 ? rc
		      : sgpu_secure_end(s->context, sgpu_device_enqueue(s->inner, &inner, task));
}

static int launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		  const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	const struct sgpu_secure_stream *s = sgpu_secure_stream_of(stream);
	int rc = sgpu_secure_begin(s->context, ranges, count, task);

	if (rc == SGPU_OK && s->recording) {
		rc = sgpu_secure_end(s->context,
				     sgpu_secure_graph_note(s->recording, ranges, count));
		return rc < 0 ? rc
			      : sgpu_device_launch_on(s->inner, function, argument, ranges, count,
						      task);
	}
	return rc < 0 ? rc
		      : sgpu_secure_end(s->context,
					sgpu_device_launch_on(s->inner, function, argument, ranges,
							      count, task));
}

/* ---- keys of segments ---- */
static int key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys,
		    struct sgpu_device_key **key, struct sgpu_error *error)
{
	const struct sgpu_secure_stream *s = sgpu_secure_stream_of(stream);
	struct sgpu_secure_key *new = calloc(1, sizeof(*new));
	int rc;

	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = s->object.backend;
	new->context = s->context;
	rc = sgpu_device_key_load(s->inner, keys, &new->inner, error);
	if (rc < 0) {
		free(new);
		return rc;
	}
	*key = (struct sgpu_device_key *)(void *)new;
	return SGPU_OK;
}

static void key_free(struct sgpu_device_key *key)
{
	sgpu_device_key_free(&key_of(key)->inner);
	free(key_of(key));
}

static bool reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write)
{
	return sgpu_device_reaches(context_of(device)->ground->device, memory, size, write);
}

static const struct sgpu_device_memory_calls memory_calls = {
	.alloc = sgpu_secure_alloc_row,
	.free = sgpu_secure_free_row,
	.host_alloc = host_alloc,
	.host_free = host_free,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.limit = limit_memory,
	.check = check_range,
};

static const struct sgpu_device_stream_calls stream_calls = {
	.create = stream_create,
	.free = stream_free,
	.sync = stream_sync,
	.wait = stream_wait,
	.callback = callback,
	.enqueue = enqueue,
	.launch = launch,
	.event_create = event_create,
	.event_record = event_record,
};

static const struct sgpu_device_key_calls key_calls = {
	.load = key_load,
	.free = key_free,
	.reaches = reaches,
	.agree = agree,
};

void sgpu_secure_calls(struct sgpu_secure *context, const struct sgpu_device_backend *inner)
{
	/* Events are the device's own. */
	context->stream_calls = stream_calls;
	context->stream_calls.event_free = inner->stream->event_free;
	context->stream_calls.event_sync = inner->stream->event_sync;
	context->stream_calls.event_query = inner->stream->event_query;
	context->backend = (struct sgpu_device_backend){
		.name = inner->name,
		.close = close_device,
		.info = info,
		.synchronize = synchronize,
		.poll = poll_device,
		.cancel = cancel,
		.op = inner->op,
		.code = code,
		.evidence = evidence,
		.memory = &memory_calls,
		.stream = &context->stream_calls,
		.graph = inner->graph ? &sgpu_secure_graph_calls : NULL,
		.key = &key_calls,
		.module = &sgpu_secure_module_calls,
	};
}

struct sgpu_secure *sgpu_secure_of(struct sgpu_device *device)
{
	bool secure = sgpu_device_backend_of(device)->module == &sgpu_secure_module_calls;

	return secure ? (struct sgpu_secure *)(void *)device : NULL;
}
