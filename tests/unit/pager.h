/* SPDX-License-Identifier: Apache-2.0
 *
 * A device made of a few calls that do things to pages, at once: what a test puts under a command
 * processor. Spaces have handles of the test's.
 */
#ifndef PAGER_H
#define PAGER_H

#include <stdlib.h>
#include <string.h>

#include <device/space.h>

#include "channel/channel.h"

struct sgpu_pager {
	void *device;
	struct sgpu_pages_info info;
	int (*space_create)(void *device, uint64_t size, void **space, sgpu_devptr *base,
			    struct sgpu_error *error);
	void (*space_free)(void *device, void *space);
	int (*map)(void *device, void *space, uint64_t at, const uint32_t *pages, size_t count,
		   uint64_t page_size, struct sgpu_error *error);
	int (*unmap)(void *device, void *space, uint64_t at, uint64_t size,
		     struct sgpu_error *error);
	int (*clear)(void *device, void *space, uint64_t at, uint64_t size,
		     struct sgpu_error *error);
	int (*access)(void *device, void *space, bool on, struct sgpu_error *error);
	int (*measure)(void *device, void *space, uint64_t at, uint64_t size, const uint8_t *key,
		       uint8_t digest[SGPU_KT128_SIZE], struct sgpu_error *error);
};

enum { PAGED_SPACES = 64 };

struct paged_device;
struct paged_space {
	void *handle; /* NULL: it is free */
	uint64_t size;
	sgpu_devptr base;
};

struct paged_stream {
	struct sgpu_device_object object;
	struct paged_device *device;
};

struct paged_device {
	struct sgpu_device_object object;
	struct paged_stream stream;
	struct sgpu_pager pager;
	struct sgpu_frames frames;
	struct paged_space spaces[PAGED_SPACES];
};

static inline struct paged_device *paged_of(void *device)
{
	return device;
}

/* The space at an address. The processor asks for no other. */
static inline struct paged_space *paged_at(struct paged_device *device, sgpu_devptr address)
{
	struct paged_space *s = device->spaces;

	while (!s->handle || address < s->base || address - s->base >= s->size) {
		s++;
	}
	return s;
}

static inline void *paged_handle(const struct sgpu_space *space)
{
	return paged_at(paged_of(space->frames->device), space->range.address)->handle;
}

static inline struct sgpu_frames *paged_frames(struct sgpu_device *device)
{
	return &paged_of(device)->frames;
}

static inline int paged_prepare(struct sgpu_device *device, struct sgpu_error *error)
{
	(void)device;
	(void)error;
	return SGPU_OK;
}

static inline int paged_reserve(struct sgpu_device *device, uint64_t extent, sgpu_devptr *base,
				struct sgpu_error *error)
{
	struct paged_device *p = paged_of(device);
	struct paged_space *made = p->spaces;
	void *handle = NULL;
	int rc;

	while (made < p->spaces + PAGED_SPACES && made->handle) {
		made++;
	}
	if (made == p->spaces + PAGED_SPACES) {
		return sgpu_fail_nomem(error);
	}
	rc = p->pager.space_create(p->pager.device, extent, &handle, base, error);
	if (rc == SGPU_OK) {
		*made = (struct paged_space){ handle, extent, *base };
	}
	return rc;
}

static inline bool paged_release(struct sgpu_space *space)
{
	struct paged_device *p = paged_of(space->frames->device);
	struct paged_space *s = paged_at(p, space->range.address);

	p->pager.space_free(p->pager.device, s->handle);
	s->handle = NULL;
	return true;
}

static inline int paged_map(struct sgpu_space *space, uint64_t at, const uint32_t *pages,
			    size_t count, uint64_t page_size, struct sgpu_error *error)
{
	const struct sgpu_pager *pager = &paged_of(space->frames->device)->pager;

	return pager->map(pager->device, paged_handle(space), at, pages, count, page_size, error);
}

static inline int paged_unmap(struct sgpu_space *space, uint64_t at, uint64_t size,
			      struct sgpu_error *error)
{
	const struct sgpu_pager *pager = &paged_of(space->frames->device)->pager;

	return pager->unmap(pager->device, paged_handle(space), at, size, error);
}

static inline int paged_access(struct sgpu_space *space, bool on, struct sgpu_error *error)
{
	const struct sgpu_pager *pager = &paged_of(space->frames->device)->pager;

	return pager->access(pager->device, paged_handle(space), on, error);
}

static inline int paged_synchronize(struct sgpu_device *device, struct sgpu_error *error)
{
	(void)device;
	(void)error;
	return SGPU_OK;
}

static inline int paged_stream(struct sgpu_device *device, struct sgpu_stream **stream,
			       struct sgpu_error *error)
{
	(void)error;
	*stream = (struct sgpu_stream *)(void *)&paged_of(device)->stream;
	return SGPU_OK;
}

static inline void paged_stream_free(struct sgpu_stream *stream)
{
	(void)stream;
}

static inline int paged_sync(struct sgpu_stream *stream, struct sgpu_error *error)
{
	(void)stream;
	(void)error;
	return SGPU_OK;
}

/* The processor clears and measures, and does nothing else. */
static inline int paged_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work, int count)
{
	const bool clears = work->kind == SGPU_WORK_CLEAR;
	const sgpu_devptr memory = clears ? work->out : work->in;
	struct paged_device *device = ((struct paged_stream *)(void *)stream)->device;
	struct paged_space *s = paged_at(device, memory);
	const struct sgpu_pager *pager = &device->pager;

	(void)count; /* 1 */
	return clears ? pager->clear(pager->device, s->handle, memory - s->base, work->size,
				     &work->task->error)
		      : pager->measure(pager->device, s->handle, memory - s->base, work->size,
				       work->measure_key, work->to, &work->task->error);
}

/* The device; it has the calls of the pager as they are now. */
static inline struct sgpu_device *paged_device(struct paged_device *made,
					       const struct sgpu_pager *pager)
{
	static const struct sgpu_device_stream_calls stream = { .create = paged_stream,
								.free = paged_stream_free,
								.sync = paged_sync,
								.enqueue = paged_enqueue };
	static const struct sgpu_frame_calls frames = { .prepare = paged_prepare,
							.reserve = paged_reserve,
							.release = paged_release,
							.map = paged_map,
							.unmap = paged_unmap };
	static const struct sgpu_device_backend backend = { .name = "paged",
							    .synchronize = paged_synchronize,
							    .frames = paged_frames,
							    .access = paged_access,
							    .stream = &stream };

	memset(made, 0, sizeof(*made));
	made->object.backend = made->stream.object.backend = &backend;
	made->stream.device = made;
	made->pager = *pager;
	made->frames.device = (struct sgpu_device *)(void *)made;
	made->frames.calls = &frames;
	pthread_mutex_init(&made->frames.lock, NULL);
	sgpu_frames_open(&made->frames, pager->info.small, pager->info.big,
			 pager->info.total / pager->info.small);
	return (struct sgpu_device *)(void *)made;
}

#endif
