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

static int probe(struct sgpu_error *error)
{
	(void)error;
	return SGPU_OK;
}

static void discard(struct sgpu_device *device)
{
	pthread_mutex_destroy(&device->host.lock);
	pthread_mutex_destroy(&device->pages.frames.lock);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static void close_device(struct sgpu_device *device)
{
	sgpu_cpu_streams_close(device);
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
	make_lock(&new->lock);
	make_lock(&new->pages.frames.lock);
	pthread_mutex_init(&new->host.lock, NULL);
	new->host.control = -1;
	code = sgpu_cpu_memory_open(&new->memory, config->memory_limit, error);
	if (code == SGPU_OK) {
		code = sgpu_pool_create(config->jobs, &new->pool, error);
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
	sgpu_cpu_wait_idle(device);
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
	.copy_in = sgpu_cpu_copy_in,
	.copy_out = sgpu_cpu_copy_out,
	.clear = sgpu_cpu_clear,
	.key_load = sgpu_cpu_key_load,
	.key_free = sgpu_cpu_key_free,
	.open_chunks = sgpu_cpu_open_chunks,
	.seal_chunks = sgpu_cpu_seal_chunks,
	.launch = sgpu_cpu_launch,
	.callback = sgpu_cpu_callback,
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
	.launch_on = sgpu_cpu_launch_on,
	.settle = settle,
	.module_launch_on = sgpu_cpu_module_launch_on,
	.module_confinement = sgpu_cpu_module_confinement,
	.module_broke_rules = sgpu_cpu_module_broke_rules,
};
