/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device, the specification of every other: its row in the table of backends, and the checks that every
 * request passes before it is enqueued.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <device/backends.h>
#include <device/cpu/cpu.h>
#include <device/host.h>
#include <seal/opened.h>

static int probe(struct sgpu_error *error)
{
	(void)error;
	return SGPU_OK;
}

static void discard(struct sgpu_device *device)
{
	pthread_cond_destroy(&device->quiet);
	pthread_cond_destroy(&device->work);
	pthread_mutex_destroy(&device->host.lock);
	pthread_mutex_destroy(&device->pages.frames.lock);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static void close_device(struct sgpu_device *device)
{
	sgpu_cpu_threads_stop(device);
	sgpu_cpu_host_stop(device);
	sgpu_cpu_pages_close(device);
	sgpu_cpu_memory_close(&device->memory);
	sgpu_pool_free(&device->pool);
	discard(device);
}

/* The lock is held for moments only, so that looking again is cheaper than sleeping. */
static void make_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

static int open_device(const char *selector, const struct sgpu_device_config *config, struct sgpu_device **device,
		       struct sgpu_error *error)
{
	struct sgpu_device *new;
	int code;

	if (strcmp(selector, "cpu") != 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "no device '%s': there is one CPU device, 'cpu'", selector);
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = &sgpu_device_cpu;
	new->may_spin = sgpu_cpu_count() > 1;
	make_lock(&new->lock);
	make_lock(&new->pages.frames.lock);
	pthread_mutex_init(&new->host.lock, NULL);
	new->host.control = -1;
	pthread_cond_init(&new->work, NULL);
	pthread_cond_init(&new->quiet, NULL);
	code = sgpu_cpu_memory_open(&new->memory, config->memory_limit, error);
	if (code == SGPU_OK) {
		code = sgpu_pool_create(config->jobs, &new->pool, error);
		if (code == SGPU_OK) {
			code = sgpu_cpu_threads_start(new, error);
		}
		if (code == SGPU_OK && config->modules) {
			code = sgpu_cpu_host_start(new, error);
		}
		if (code < 0) {
			close_device(new);
			return code;
		}
		*device = new;
		return SGPU_OK;
	}
	discard(new);
	return code;
}

static int info(struct sgpu_device *device, struct sgpu_device_info *about, struct sgpu_error *error)
{
	char processor[96];

	(void)error;
	sgpu_host_processor(processor, sizeof(processor));
	snprintf(about->name, sizeof(about->name), "CPU device, %s", processor);
	snprintf(about->selector, sizeof(about->selector), "cpu");
	sgpu_cpu_memory_figures(&device->memory, &about->memory_total, &about->memory_free);
	about->compute_units = sgpu_pool_jobs(device->pool);
	about->opens_on_device = false;
	about->numa_node = -1;
	about->piece = SGPU_CPU_PIECE;
	return SGPU_OK;
}

int sgpu_cpu_check_range(struct sgpu_stream *stream, sgpu_devptr address, uint64_t size, struct sgpu_task *task)
{
	if (sgpu_cpu_owns(stream->device, address, size) ||
	    sgpu_frames_reach(&stream->device->pages.frames, address, size)) {
		return SGPU_OK;
	}
	if (task) {
		task->code = sgpu_fail(&task->error, SGPU_EUSAGE, "%llu bytes at device address %#llx are not allocated",
				       (unsigned long long)size, (unsigned long long)address);
	}
	return SGPU_EUSAGE;
}

static int copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		   struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_COPY, .task = task, .from = from, .size = size,
				      .to = (void *)(uintptr_t)to };
	int code = sgpu_cpu_check_range(stream, to, size, task);

	return code < 0 ? code : sgpu_cpu_enqueue(stream, &item);
}

static int copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size, struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_COPY, .task = task, .to = to, .size = size,
				      .from = (const void *)(uintptr_t)from };
	int code = sgpu_cpu_check_range(stream, from, size, task);

	return code < 0 ? code : sgpu_cpu_enqueue(stream, &item);
}

static int clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_CLEAR, .task = task, .size = size,
				      .to = (void *)(uintptr_t)memory };
	int code = sgpu_cpu_check_range(stream, memory, size, task);

	return code < 0 ? code : sgpu_cpu_enqueue(stream, &item);
}

static int chunks(struct sgpu_stream *stream, const struct sgpu_cpu_item *item, uint64_t out_size)
{
	int code = sgpu_cpu_check_range(stream, (uintptr_t)item->from, item->size, item->task);

	if (code == SGPU_OK) {
		code = sgpu_cpu_check_range(stream, (uintptr_t)item->to, out_size, item->task);
	}
	return code == SGPU_OK ? sgpu_cpu_enqueue(stream, item) : code;
}

static int open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first, bool last,
		       sgpu_devptr in, uint64_t size, sgpu_devptr out, struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_OPEN, .task = task, .first = first, .last = last, .size = size,
				      .from = (const void *)(uintptr_t)in, .to = (void *)(uintptr_t)out, .key = key };

	return chunks(stream, &item, sgpu_opened_size(size));
}

static int seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first, bool last,
		       sgpu_devptr in, uint64_t size, sgpu_devptr out, struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_SEAL, .task = task, .first = first, .last = last, .size = size,
				      .from = (const void *)(uintptr_t)in, .to = (void *)(uintptr_t)out, .key = key };

	if (!last && size % SGPU_CHUNK != 0) {
		return SGPU_EUSAGE;
	}
	return chunks(stream, &item, size + (size / SGPU_CHUNK + last) * SGPU_TAG_SIZE);
}

static int launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument, struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_LAUNCH, .task = task, .function.launch = function,
				      .argument = argument };

	return sgpu_cpu_enqueue(stream, &item);
}

static int launch_on(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		     const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	int code = SGPU_OK, i;

	for (i = 0; i < count && code == SGPU_OK; i++) {
		code = sgpu_cpu_check_range(stream, ranges[i].address, ranges[i].size, task);
	}
	return code == SGPU_OK ? launch(stream, function, argument, task) : code;
}

static int callback(struct sgpu_stream *stream, void (*function)(void *argument), void *argument)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_CALL, .function.call = function, .argument = argument };

	return sgpu_cpu_enqueue(stream, &item);
}

/* Nothing has to be pinned for it. */
static int host_register(struct sgpu_device *device, const void *memory, uint64_t size, struct sgpu_error *error)
{
	(void)device;
	(void)memory;
	(void)size;
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "the CPU device registers no memory");
}

static void host_unregister(struct sgpu_device *device, const void *memory)
{
	(void)device;
	(void)memory;
}

static int settle(struct sgpu_device *device, struct sgpu_error *error)
{
	(void)error;
	sgpu_cpu_quiet(device);
	return SGPU_OK;
}

static void cancel(struct sgpu_device *device, bool stop)
{
	sgpu_pool_cancel(device->pool, stop);
}

const struct sgpu_device_backend sgpu_device_cpu = {
	.name = "cpu",
	.probe = probe,
	.open = open_device,
	.close = close_device,
	.info = info,
	.alloc = sgpu_cpu_alloc,
	.free = sgpu_cpu_free,
	.stream_create = sgpu_cpu_stream_create,
	.stream_free = sgpu_cpu_stream_free,
	.stream_sync = sgpu_cpu_stream_sync,
	.event_create = sgpu_cpu_event_create,
	.event_free = sgpu_cpu_event_free,
	.event_sync = sgpu_cpu_event_sync,
	.event_record = sgpu_cpu_event_record,
	.stream_wait = sgpu_cpu_stream_wait,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.clear = clear,
	.key_load = sgpu_cpu_key_load,
	.key_free = sgpu_cpu_key_free,
	.open_chunks = open_chunks,
	.seal_chunks = seal_chunks,
	.launch = launch,
	.callback = callback,
	.cancel = cancel,
	.digest = sgpu_cpu_digest,
	.event_query = sgpu_cpu_event_query,
	.host_alloc = sgpu_cpu_host_alloc,
	.host_free = sgpu_cpu_host_free,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.module_load = sgpu_cpu_module_load,
	.module_free = sgpu_cpu_module_free,
	.module_launch = sgpu_cpu_module_launch,
	.pages = sgpu_cpu_pages,
	.space_create = sgpu_cpu_space_create,
	.space_free = sgpu_cpu_space_free,
	.page_map = sgpu_cpu_page_map,
	.page_unmap = sgpu_cpu_page_unmap,
	.space_access = sgpu_cpu_space_access,
	.launch_on = launch_on,
	.settle = settle,
	.module_launch_on = sgpu_cpu_module_launch_on,
	.module_confinement = sgpu_cpu_module_confinement,
	.module_broke_rules = sgpu_cpu_module_broke_rules,
};
