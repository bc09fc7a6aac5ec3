/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a device: which frames are mapped, where, and whether work reaches them. The device
 * itself maps the pages, by the calls below.
 */
#ifndef SGPU_DEVICE_SPACE_H
#define SGPU_DEVICE_SPACE_H

#include <pthread.h>

#include <base/base.h>
#include <device/backend.h>

/* An entry of a space is the number of a frame, plus 1, in 32 bits. */
#define SGPU_FRAMES_MAX ((uint64_t)0xffffff00)

struct sgpu_frames {
	pthread_mutex_t lock; /* guards this struct and the spaces */
	struct sgpu_device *device;
	const struct sgpu_frame_calls *calls;
	uint64_t small, big;	 /* bytes of a page; 0: not prepared yet */
	uint32_t count, per_big; /* frames in all, and in a big page */
	void *spaces;		 /* by address */
	unsigned faulted;	 /* spaces whose mappings differ from their entries */
	bool claimed;		 /* a processor maps them */
};

struct sgpu_space {
	struct sgpu_device_object object;
	struct sgpu_frames *frames;
	struct sgpu_range range; /* its addresses: whole big pages */
	bool reachable;
	bool faulted;	   /* the space can only be freed */
	uint32_t *entries; /* per small page: frame + 1; 0: none */
	uint32_t *filled;  /* per range of a big page's size: its entries in use */
};

/* What a device does; the lock is held. */
struct sgpu_frame_calls {
	/* Calls sgpu_frames_open, unless that was done. `count` is a multiple of big / small. */
	int (*prepare)(struct sgpu_device *device, struct sgpu_error *error);
	int (*reserve)(struct sgpu_device *device, uint64_t extent, sgpu_devptr *base,
		       struct sgpu_error *error);
	/* Unmaps a space's pages, and releases its addresses. False: some pages may still be
	 * mapped. */
	bool (*release)(struct sgpu_space *space);
	/* The memory of the CPU device is zero, a GPU's as it was left. After a failure none is
	 * mapped, or the space is faulted. */
	int (*map)(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
		   uint64_t page_size, struct sgpu_error *error);
	/* After a failure all are mapped, or the space is faulted. */
	int (*unmap)(struct sgpu_space *space, uint64_t at, uint64_t size,
		     struct sgpu_error *error);
	/* After a failure the access to some pages may have changed. */
	int (*access)(struct sgpu_space *space, bool on, struct sgpu_error *error);
	/* Keeps everybody from a space whose access could not be revoked. Returns SGPU_EDEVICE. */
	int (*lose)(struct sgpu_space *space, struct sgpu_error *error);
};

static inline void sgpu_frames_open(struct sgpu_frames *frames, uint64_t small, uint64_t big,
				    uint64_t count)
{
	frames->small = small;
	frames->big = big;
	frames->count = (uint32_t)count;
	frames->per_big = (uint32_t)(big / small);
}
void sgpu_frames_empty(struct sgpu_frames *frames);
/* Notes that a change of the mappings failed half-way. Until the space is freed, nothing is mapped
 * anywhere. The lock is held. */
void sgpu_space_fault(struct sgpu_space *space);

/* As sgpu_space_access. */
SGPU_MUST_CHECK int sgpu_frames_access(struct sgpu_space *space, bool on, struct sgpu_error *error);

/* The next two are for holders of the lock, and for the only one who changes the space. */
/* The first entry from `entry` on that is in use (`used`) or free (not `used`), or `end`. */
uint64_t sgpu_space_seek(const struct sgpu_space *space, uint64_t entry, uint64_t end, bool used);
/* Finds the first run of mapped bytes from *at on. False: there is none. */
bool sgpu_space_next_run(const struct sgpu_space *space, uint64_t *at, uint64_t *size);
/* Whether all bytes of a range are mapped in one reachable space. Takes the lock. */
bool sgpu_frames_reach(struct sgpu_frames *frames, sgpu_devptr address, uint64_t size);

#endif
