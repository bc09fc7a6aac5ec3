/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device made to look like a GPU: it pins host memory, registers what is mapped, copies
 * beside the rest, and every call may be made to fail. It tells of outcomes as late as it may, and
 * notes what a GPU would suffer from: memory that is not given back, copies from memory that is not
 * registered any more.
 */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"
#include "fake_backend.h"
#include "fake_tasks.h"
#include "run_harness.h"

enum { FAKE_REGISTERED_MAX = 8 };

struct fake_gpu {
	const struct sgpu_device_backend *real;
	struct fake_backend backend; /* its calls, with those of below */
	/* of secure contexts: memory is theirs to give */
	const struct sgpu_device_guard_calls *real_guard;
	struct sgpu_device_guard_calls guard;
	bool (*fails)(void); /* asked at every call; NULL: none does */
	/* what it is like */
	bool plain; /* as the device that it is: only calls may fail */
	uint64_t piece;
	bool pins, registers;
	bool no_host_memory; /* host_alloc fails */
	void (*before_copy_in)(uint64_t size);
	/* what it saw */
	atomic_uint_fast64_t lent, lent_most; /* bytes of host memory */
	atomic_int registered, registrations, hung, keys;
	atomic_bool cancelled;
	bool hangs;	      /* launches do, until they are cancelled, */
	atomic_bool *lets_go; /* and this, if any, is set */
	pthread_mutex_t lock;
	struct {
		const uint8_t *memory;
		uint8_t *pinned;
		uint64_t size;
	} maps[FAKE_REGISTERED_MAX];
};

static struct fake_gpu fake = { .piece = 4 << 20,
				.pins = true,
				.registers = true,
				.lock = PTHREAD_MUTEX_INITIALIZER };

/* Every call of the device begins so. */
static inline bool fake_fails(void)
{
	return fake.fails && fake.fails();
}

static inline int fake_error(struct sgpu_error *why)
{
	return sgpu_fail(why, SGPU_EDEVICE, "made to fail");
}

static inline int fake_info(struct sgpu_device *on, struct sgpu_device_info *info,
			    struct sgpu_error *why)
{
	int rc = fake.real->info(on, info, why);

	if (fake.plain) {
		return rc;
	}
	info->opens_on_device = true;
	info->pins_host_memory = fake.pins;
	info->registers = fake.registers;
	info->piece = fake.piece;
	info->compute_units = 132;
	return rc;
}

static inline int fake_alloc(struct sgpu_device *on, uint64_t size, sgpu_devptr *memory,
			     struct sgpu_error *why)
{
	return fake_fails() ? sgpu_fail(why, SGPU_ENOMEM, "made to fail")
			    : fake.real->memory->alloc(on, size, memory, why);
}

static inline int fake_guard_alloc(struct sgpu_device_guard *guard, uint64_t size,
				   sgpu_devptr *memory, struct sgpu_error *why)
{
	return fake_fails() ? sgpu_fail(why, SGPU_ENOMEM, "made to fail")
			    : fake.real_guard->alloc(guard, size, memory, why);
}

/* What a device makes goes through the table as well. */
static inline void fake_adopt(void *made)
{
	fake_backend_give(made, &fake.backend);
}

static inline int fake_stream_create(struct sgpu_device *on, struct sgpu_stream **stream,
				     struct sgpu_error *why)
{
	int rc = fake_fails() ? fake_error(why) : fake.real->stream->create(on, stream, why);

	if (rc == SGPU_OK) {
		fake_adopt(*stream);
	}
	return rc;
}

static inline int fake_event_create(struct sgpu_device *on, struct sgpu_event **event,
				    struct sgpu_error *why)
{
	int rc = fake_fails() ? fake_error(why) : fake.real->stream->event_create(on, event, why);

	if (rc == SGPU_OK) {
		fake_adopt(*event);
	}
	return rc;
}

static inline int fake_event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	int rc = SGPU_EDEVICE;

	fake_order(true);
	if (!fake_fails()) {
		rc = fake.real->stream->event_record(stream, event);
	}
	if (rc == SGPU_OK) {
		fake_event_note(event, stream);
	}
	fake_order(false);
	return rc;
}

static inline void fake_event_free(struct sgpu_event *event)
{
	fake_event_seen(event, false);
	fake.real->stream->event_free(event);
}

static inline int fake_stream_sync(struct sgpu_stream *stream, struct sgpu_error *why)
{
	uint64_t serial;
	int rc;

	fake_order(true);
	serial = fake_serial();
	fake_order(false);
	rc = fake.real->stream->sync(stream, why);

	fake_tasks_tell(stream, serial);
	return rc;
}

static inline void fake_stream_free(struct sgpu_stream *stream)
{
	if (fake.real->stream->sync(stream, NULL) == SGPU_OK) {
		fake_tasks_tell(stream, UINT64_MAX);
	}
	fake.real->stream->free(stream);
}

static inline int fake_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return fake_fails() ? SGPU_EDEVICE : fake.real->stream->wait(stream, event);
}

/* Where a device finds what was registered: in pages that it has pinned, whatever became of the
 * mapping. */
static inline const void *fake_pinned(const void *from)
{
	const uint8_t *at = from;

	pthread_mutex_lock(&fake.lock);
	for (int i = 0; i < FAKE_REGISTERED_MAX; i++) {
		if (fake.maps[i].memory && at >= fake.maps[i].memory &&
		    at < fake.maps[i].memory + fake.maps[i].size) {
			from = fake.maps[i].pinned + (at - fake.maps[i].memory);
			break;
		}
	}
	pthread_mutex_unlock(&fake.lock);
	return from;
}

static inline int fake_enqueue_one(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	struct sgpu_work real = *work;
	struct sgpu_task *told;
	int rc = SGPU_EDEVICE;

	if (work->kind == SGPU_WORK_CLEAR) {
		return fake.real->stream->enqueue(stream, work, 1);
	}
	if (work->kind == SGPU_WORK_COPY_IN && fake.before_copy_in) {
		fake.before_copy_in(work->size);
	}
	fake_order(true);
	if (!fake_fails()) {
		told = fake_task_new(stream, work->task);
		real.task = told;
		if (work->kind == SGPU_WORK_COPY_IN) {
			real.from = fake_pinned(work->from);
		} else if (work->kind == SGPU_WORK_DIGEST || work->kind == SGPU_WORK_MEASURE) {
			struct fake_task *late = (struct fake_task *)(void *)told;

			late->digest_to = work->to;
			real.to = late->digest;
		}
		rc = fake.real->stream->enqueue(stream, &real, 1);
	}
	fake_order(false);
	return rc;
}

FAKE_ENQUEUE(fake_enqueue, fake_enqueue_one)

static inline int fake_key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material,
				int count, struct sgpu_device_key **keys, struct sgpu_error *why)
{
	int rc;

	if (fake_fails()) {
		return fake_error(why);
	}
	rc = fake.real->key->load(stream, material, count, keys, why);
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		fake_adopt(keys[i]);
		atomic_fetch_add(&fake.keys, 1);
	}
	return rc;
}

static inline void fake_key_free(struct sgpu_device_key *key)
{
	atomic_fetch_sub(&fake.keys, 1);
	fake.real->key->free(key);
}

static inline int fake_hang(struct sgpu_launch *launch, void *argument)
{
	(void)argument;
	atomic_fetch_add(&fake.hung, 1);
	while (!atomic_load(&fake.cancelled)) {
		usleep(1000);
	}
	while (fake.lets_go && !atomic_load(fake.lets_go)) {
		usleep(1000);
	}
	return sgpu_fail(launch->error, SGPU_ECANCELED, "given up");
}

static inline int fake_launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
			      const struct sgpu_device_range *ranges, int count,
			      struct sgpu_task *task)
{
	int rc = SGPU_EDEVICE;

	fake_order(true);
	if (!fake_fails()) {
		rc = fake.real->stream->launch(stream, fake.hangs ? fake_hang : function, argument,
					       ranges, count, fake_task_new(stream, task));
	}
	fake_order(false);
	return rc;
}

static inline void fake_cancel(struct sgpu_device *on, bool cancel)
{
	atomic_store(&fake.cancelled, cancel);
	fake.real->cancel(on, cancel);
}

static inline int fake_event_query(struct sgpu_event *event, bool *done, struct sgpu_error *why)
{
	int rc = fake.real->stream->event_query(event, done, why);

	if (*done) {
		fake_event_seen(event, true);
	}
	/* It has ended all the same: whoever is told that it failed must look after what it wrote.
	 */
	return *done && fake_fails() ? fake_error(why) : rc;
}

static inline int fake_host_alloc(struct sgpu_device *on, uint64_t size, void **memory,
				  struct sgpu_error *why)
{
	uint64_t lent;
	int rc;

	if (fake_fails() || fake.no_host_memory) {
		return sgpu_fail(why, SGPU_ENOMEM, "made to fail");
	}
	rc = fake.real->memory->host_alloc(on, size, memory, why);
	if (rc == SGPU_OK) {
		lent = atomic_fetch_add(&fake.lent, size) + size;
		if (lent > atomic_load(&fake.lent_most)) {
			atomic_store(&fake.lent_most, lent);
		}
	}
	return rc;
}

static inline void fake_host_free(struct sgpu_device *on, void *memory, uint64_t size)
{
	atomic_fetch_sub(&fake.lent, size);
	fake.real->memory->host_free(on, memory, size);
}

/* As a kernel pins: a page that is not there is an error, and no fault. */
static inline uint8_t *fake_pin(const void *memory, uint64_t size)
{
	int file = memfd_create("pinned", MFD_CLOEXEC);
	uint8_t *pinned = malloc(size);
	uint64_t at = 0;
	ssize_t put;

	while (file >= 0 && at < size &&
	       (put = write(file, (const uint8_t *)memory + at, size - at)) > 0) {
		at += (uint64_t)put;
	}
	if (!pinned || at < size || pread(file, pinned, size, 0) != (ssize_t)size) {
		free(pinned);
		pinned = NULL;
	}
	close(file);
	return pinned;
}

static inline int fake_host_register(struct sgpu_device *on, const void *memory, uint64_t size,
				     struct sgpu_error *why)
{
	uint8_t *pinned;
	int i = 0;

	(void)on;
	if (fake_fails()) {
		return fake_error(why);
	}
	if (fake.plain) {
		return sgpu_fail(why, SGPU_EUNAVAILABLE, "the device registers no memory");
	}
	pinned = fake_pin(memory, size);
	if (!pinned) {
		return sgpu_fail(why, SGPU_EUNAVAILABLE, "cannot be pinned");
	}
	pthread_mutex_lock(&fake.lock);
	while (i < FAKE_REGISTERED_MAX - 1 && fake.maps[i].memory) {
		i++;
	}
	fake.maps[i].memory = memory;
	fake.maps[i].pinned = pinned;
	fake.maps[i].size = size;
	pthread_mutex_unlock(&fake.lock);
	atomic_fetch_add(&fake.registered, 1);
	atomic_fetch_add(&fake.registrations, 1);
	return SGPU_OK;
}

static inline void fake_host_unregister(struct sgpu_device *on, const void *memory)
{
	(void)on;
	if (fake.plain) {
		return;
	}
	pthread_mutex_lock(&fake.lock);
	for (int i = 0; i < FAKE_REGISTERED_MAX; i++) {
		if (fake.maps[i].memory == memory) {
			free(fake.maps[i].pinned);
			fake.maps[i].memory = NULL;
			atomic_fetch_sub(&fake.registered, 1);
			break;
		}
	}
	pthread_mutex_unlock(&fake.lock);
}

static inline void fake_give(struct sgpu_device *to, const struct sgpu_device_backend *backend,
			     const struct sgpu_device_guard_calls *guard)
{
	struct sgpu_device_object *object = (struct sgpu_device_object *)(void *)to;

	object->backend = backend;
	if (object->guard) {
		object->guard->calls = guard;
	}
}

/* From here on `device`, and those beside it, look like GPUs; they must be CPU devices, unless
 * fake.plain is set. */
static inline void make_fake_gpu(void)
{
	struct sgpu_device_object *object = (struct sgpu_device_object *)(void *)device;

	fake.real = object->backend;
	fake_backend_copy(&fake.backend, fake.real);
	if (object->guard) {
		fake.real_guard = object->guard->calls;
		fake.guard = *fake.real_guard;
		fake.guard.alloc = fake_guard_alloc;
	}
	fake.backend.table.info = fake_info;
	fake.backend.memory.alloc = fake_alloc;
	fake.backend.stream.create = fake_stream_create;
	fake.backend.stream.event_create = fake_event_create;
	fake.backend.stream.event_record = fake_event_record;
	fake.backend.stream.event_query = fake_event_query;
	fake.backend.stream.event_free = fake_event_free;
	fake.backend.stream.sync = fake_stream_sync;
	fake.backend.stream.free = fake_stream_free;
	fake.backend.stream.wait = fake_stream_wait;
	fake.backend.stream.enqueue = fake_enqueue;
	fake.backend.key.load = fake_key_load;
	fake.backend.key.free = fake_key_free;
	fake.backend.key.reaches = NULL;
	fake.backend.stream.launch = fake_launch;
	fake.backend.table.cancel = fake_cancel;
	fake.backend.table.pool = fake.plain ? fake.real->pool : NULL;
	fake.backend.memory.host_alloc = fake_host_alloc;
	fake.backend.memory.host_free = fake_host_free;
	fake.backend.memory.host_register = fake_host_register;
	fake.backend.memory.host_unregister = fake_host_unregister;
	fake_give(device, &fake.backend.table, &fake.guard);
	for (int i = 0; i < more_count; i++) {
		fake_give(more_devices[i], &fake.backend.table, &fake.guard);
	}
}

static inline void unmake_fake_gpu(void)
{
	fake_give(device, fake.real, fake.real_guard);
	for (int i = 0; i < more_count; i++) {
		fake_give(more_devices[i], fake.real, fake.real_guard);
	}
}

/* Nothing of a run is left. */
static inline bool fake_is_clean(void)
{
	return atomic_load(&fake.lent) == 0 && atomic_load(&fake.registered) == 0 &&
	       atomic_load(&fake.keys) == 0;
}

#endif
