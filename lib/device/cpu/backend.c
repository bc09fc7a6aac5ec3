/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <device/cpu/cpu.h>

static void close_device(struct sgpu_device *device)
{
	sgpu_cpu_streams_close(device);
	sgpu_cpu_host_stop(device);
	sgpu_frames_empty(&device->frames); /* pages are cleared before they are unmapped */
	sgpu_cpu_memory_close(&device->memory);
	sgpu_pool_free(&device->pool);
	pthread_mutex_destroy(&device->host.lock);
	pthread_mutex_destroy(&device->frames.lock);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

/* The lock spins before it sleeps, since it is held for moments only. */
static void make_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

static int open_device(const char *selector, const struct sgpu_device_config *config,
		       struct sgpu_device **device, struct sgpu_error *error)
{
	struct sgpu_device *new;
	int rc;

	if (strcmp(selector, "cpu") != 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "no device '%s': there is one CPU device, 'cpu'", selector);
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = &sgpu_device_cpu;
	make_lock(&new->lock);
	make_lock(&new->frames.lock);
	new->frames.device = new;
	new->frames.calls = &sgpu_cpu_frame_calls;
	sgpu_host_processor(new->processor, sizeof(new->processor));
	sgpu_cpu_host_take(new);
	sgpu_cpu_memory_open(&new->memory, config->memory_limit);
	rc = sgpu_pool_create(config->jobs, &new->pool, error);
	if (rc < 0) {
		close_device(new);
		return rc;
	}
	*device = new;
	return SGPU_OK;
}

static int info(struct sgpu_device *device, struct sgpu_device_info *about,
		struct sgpu_error *error)
{
	(void)error;
	snprintf(about->name, sizeof(about->name), "CPU device, %s", device->processor);
	snprintf(about->selector, sizeof(about->selector), "cpu");
	sgpu_cpu_memory_figures(&device->memory, &about->memory_total, &about->memory_free);
	about->compute_units = sgpu_pool_jobs(device->pool);
	about->opens_on_device = false;
	about->numa_node = -1;
	about->piece = SGPU_CPU_PIECE;
	snprintf(about->timer, sizeof(about->timer), "host");
	return SGPU_OK;
}

static int synchronize(struct sgpu_device *device, struct sgpu_error *error)
{
	(void)error;
	sgpu_cpu_wait_idle(device);
	return SGPU_OK;
}

static void cancel(struct sgpu_device *device, bool stop)
{
	sgpu_pool_cancel(device->pool, stop);
}

static struct sgpu_pool *pool_of(struct sgpu_device *device)
{
	return device->pool;
}

static struct sgpu_frames *frames_of(struct sgpu_device *device)
{
	return &device->frames;
}

const struct sgpu_device_backend sgpu_device_cpu = {
	.name = "cpu",
	.open = open_device,
	.close = close_device,
	.info = info,
	.synchronize = synchronize,
	.cancel = cancel,
	.pool = pool_of,
	.frames = frames_of,
	.access = sgpu_frames_access,
	.memory = &sgpu_cpu_memory_calls,
	.stream = &sgpu_cpu_stream_calls,
	.key = &sgpu_cpu_key_calls,
	.module = &sgpu_cpu_module_calls,
};
