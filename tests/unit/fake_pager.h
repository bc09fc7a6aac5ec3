/* SPDX-License-Identifier: Apache-2.0
 *
 * A pager over plain host memory: knows which frame is mapped where, what is reachable, what was
 * cleared and how often each call was made; finds fault with calls that no device would take; fails
 * when it is told to. A space's addresses are numbers.
 */
#ifndef FAKE_PAGER_H
#define FAKE_PAGER_H

#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"
#include "pager.h"

enum { FAKE_SPACES = 64, FAKE_NONE = -1 };
#define FAKE_SPAN ((sgpu_devptr)1 << 40)

enum fake_call {
	FAKE_MAP,
	FAKE_UNMAP,
	FAKE_CLEAR,
	FAKE_ACCESS,
	FAKE_MEASURE,
	FAKE_SPACE,
	FAKE_CALLS
};

struct fake_pager;
struct fake_space {
	struct fake_pager *fake;
	sgpu_devptr base;
	uint64_t pages;
	uint32_t *frames; /* of each small page, SGPU_NO_FRAME for none */
	uint32_t *first;  /* the page that it was mapped as: its first small page, so that none is
			     cut */
	bool reachable;
};

struct fake_pager {
	struct paged_device device;
	struct sgpu_pages_info info;
	uint32_t frames;
	uint8_t *memory;
	int *mapped;	   /* the space in which each frame is, or FAKE_NONE */
	uint32_t *cleared; /* how often each frame was cleared */
	struct fake_space *spaces[FAKE_SPACES];
	uint32_t calls[FAKE_CALLS];
	uint32_t fail_in;  /* the n-th call from now fails; 0: none does */
	bool fail_on;	   /* and all after it */
	uint32_t faults;   /* calls that no device would take */
	const char *fault; /* the last of them */
};

static inline int fake_fault(struct fake_pager *fake, const char *what, struct sgpu_error *error)
{
	fake->faults++;
	fake->fault = what;
	return sgpu_fail(error, SGPU_EUSAGE, "%s", what);
}

static inline bool fake_fails(struct fake_pager *fake, enum fake_call call,
			      struct sgpu_error *error)
{
	fake->calls[call]++;
	if (!fake->fail_in || --fake->fail_in) {
		return false;
	}
	fake->fail_in = fake->fail_on ? 1 : 0;
	(void)sgpu_fail(error, SGPU_EDEVICE, "the device failed on purpose");
	return true;
}

static inline int fake_number(const struct fake_space *space)
{
	int i = 0;

	while (space->fake->spaces[i] != space) {
		i++;
	}
	return i;
}

static inline int fake_space_create(void *device, uint64_t size, void **space, sgpu_devptr *base,
				    struct sgpu_error *error)
{
	struct fake_pager *fake = device;
	int i = 0;

	if (fake_fails(fake, FAKE_SPACE, error)) {
		return SGPU_EDEVICE;
	}
	while (i < FAKE_SPACES && fake->spaces[i]) {
		i++;
	}
	if (i == FAKE_SPACES || size % fake->info.small) {
		return fake_fault(fake, "too many spaces, or a part of a page", error);
	}
	struct fake_space *made = calloc(1, sizeof(*made));
	made->fake = fake;
	made->pages = size / fake->info.small;
	made->frames = malloc(made->pages * sizeof(*made->frames));
	made->first = calloc(made->pages, sizeof(*made->first));
	memset(made->frames, 0xff, made->pages * sizeof(*made->frames));
	made->base = FAKE_SPAN * (sgpu_devptr)(i + 1);
	fake->spaces[i] = made;
	*space = made;
	*base = made->base;
	return SGPU_OK;
}

static inline void fake_space_free(void *device, void *space)
{
	struct fake_pager *fake = device;
	struct fake_space *s = space;

	for (uint64_t i = 0; i < s->pages; i++) {
		if (s->frames[i] != SGPU_NO_FRAME) {
			fake->mapped[s->frames[i]] = FAKE_NONE;
		}
	}
	fake->spaces[fake_number(s)] = NULL;
	free(s->frames);
	free(s->first);
	free(s);
}

static inline int fake_map(void *device, void *space, uint64_t at, const uint32_t *pages,
			   size_t count, uint64_t page_size, struct sgpu_error *error)
{
	struct fake_pager *fake = device;
	struct fake_space *s = space;
	const uint64_t ratio = page_size / fake->info.small, to = at / fake->info.small;

	if (fake_fails(fake, FAKE_MAP, error)) {
		return SGPU_EDEVICE;
	}
	if (at % page_size || to + count * ratio > s->pages) {
		return fake_fault(fake, "mapping outside of the space or not aligned", error);
	}
	for (size_t i = 0; i < count * ratio; i++) {
		const uint64_t frame = pages[i / ratio] + i % ratio;

		if (frame >= fake->frames || pages[i / ratio] % ratio) {
			return fake_fault(fake, "mapping what is no page", error);
		}
		if (s->frames[to + i] != SGPU_NO_FRAME || fake->mapped[frame] != FAKE_NONE) {
			return fake_fault(fake, "mapping what is mapped", error);
		}
	}
	for (size_t i = 0; i < count * ratio; i++) {
		s->frames[to + i] = (uint32_t)(pages[i / ratio] + i % ratio);
		s->first[to + i] = (uint32_t)(to + i - i % ratio);
		fake->mapped[s->frames[to + i]] = fake_number(s);
	}
	return SGPU_OK;
}

/* Whether all of it is mapped and, if asked for, reachable. */
static inline bool fake_has(const struct fake_space *s, uint64_t at, uint64_t size, bool reachable)
{
	const uint64_t small = s->fake->info.small;

	if (!size || at > s->pages * small || size > s->pages * small - at ||
	    (reachable && !s->reachable)) {
		return false;
	}
	for (uint64_t i = at / small; i <= (at + size - 1) / small; i++) {
		if (s->frames[i] == SGPU_NO_FRAME) {
			return false;
		}
	}
	return true;
}

static inline int fake_unmap(void *device, void *space, uint64_t at, uint64_t size,
			     struct sgpu_error *error)
{
	struct fake_pager *fake = device;
	struct fake_space *s = space;
	const uint64_t from = at / fake->info.small, end = (at + size) / fake->info.small;

	if (fake_fails(fake, FAKE_UNMAP, error)) {
		return SGPU_EDEVICE;
	}
	if (!fake_has(s, at, size, false) || at % fake->info.small || size % fake->info.small ||
	    s->first[from] < from ||
	    (end < s->pages && s->frames[end] != SGPU_NO_FRAME && s->first[end] < end)) {
		return fake_fault(fake, "unmapping what is not mapped, or a part of a page", error);
	}
	for (uint64_t i = from; i < end; i++) {
		fake->mapped[s->frames[i]] = FAKE_NONE;
		s->frames[i] = SGPU_NO_FRAME;
	}
	return SGPU_OK;
}

/* Copies between a mapped range and a buffer: to it, from it, or zeros (neither). */
static inline void fake_move(struct fake_space *s, uint64_t at, uint8_t *to, const uint8_t *from,
			     uint64_t size)
{
	const uint64_t small = s->fake->info.small;

	for (uint64_t done = 0, part; done < size; done += part) {
		uint8_t *memory = s->fake->memory + s->frames[(at + done) / small] * small +
				  (at + done) % small;

		part = small - (at + done) % small;
		part = part < size - done ? part : size - done;
		if (to) {
			memcpy(to + done, memory, part);
		} else if (from) {
			memcpy(memory, from + done, part);
		} else {
			memset(memory, 0, part);
			s->fake->cleared[s->frames[(at + done) / small]]++;
		}
	}
}

static inline int fake_clear(void *device, void *space, uint64_t at, uint64_t size,
			     struct sgpu_error *error)
{
	if (fake_fails(device, FAKE_CLEAR, error)) {
		return SGPU_EDEVICE;
	}
	if (!fake_has(space, at, size, true)) {
		return fake_fault(device, "clearing what is not mapped or not reachable", error);
	}
	fake_move(space, at, NULL, NULL, size);
	return SGPU_OK;
}

static inline int fake_access(void *device, void *space, bool on, struct sgpu_error *error)
{
	if (fake_fails(device, FAKE_ACCESS, error)) {
		return SGPU_EDEVICE;
	}
	((struct fake_space *)space)->reachable = on;
	return SGPU_OK;
}

static inline int fake_measure(void *device, void *space, uint64_t at, uint64_t size,
			       const uint8_t *key, uint8_t digest[SGPU_KT128_SIZE],
			       struct sgpu_error *error)
{
	if (fake_fails(device, FAKE_MEASURE, error)) {
		return SGPU_EDEVICE;
	}
	if (!fake_has(space, at, size, true)) {
		return fake_fault(device, "measuring what is not mapped or not reachable", error);
	}
	uint8_t *bytes = malloc(size);
	fake_move(space, at, bytes, NULL, size);
	sgpu_measure_pages(bytes, size, key, digest);
	free(bytes);
	return SGPU_OK;
}

/* A device with pages of `small` and of `ratio` times as many bytes. */
static inline struct sgpu_device *fake_pager_init(struct fake_pager *fake, uint32_t frames,
						  uint64_t small, uint32_t ratio)
{
	memset(fake, 0, sizeof(*fake));
	fake->info = (struct sgpu_pages_info){ .small = small,
					       .big = small * ratio,
					       .total = frames * small };
	fake->frames = frames;
	fake->memory = calloc(frames, small);
	fake->mapped = malloc(frames * sizeof(*fake->mapped));
	fake->cleared = calloc(frames, sizeof(*fake->cleared));
	memset(fake->mapped, 0xff, frames * sizeof(*fake->mapped));
	const struct sgpu_pager pager = {
		.device = fake,
		.info = fake->info,
		.space_create = fake_space_create,
		.space_free = fake_space_free,
		.map = fake_map,
		.unmap = fake_unmap,
		.clear = fake_clear,
		.access = fake_access,
		.measure = fake_measure,
	};
	return paged_device(&fake->device, &pager);
}

static inline void fake_pager_clear(struct fake_pager *fake)
{
	free(fake->memory);
	free(fake->mapped);
	free(fake->cleared);
}

/* The space that has this address; NULL: none. */
static inline struct fake_space *fake_space_at(struct fake_pager *fake, sgpu_devptr address)
{
	const uint64_t i = address / FAKE_SPAN;

	return i && i <= FAKE_SPACES ? fake->spaces[i - 1] : NULL;
}

/* What a kernel sees, or that it faults: false. */
static inline bool fake_load(struct fake_pager *fake, sgpu_devptr address, void *to, uint64_t size)
{
	struct fake_space *s = fake_space_at(fake, address);

	if (!s || !fake_has(s, address - s->base, size, true)) {
		return false;
	}
	fake_move(s, address - s->base, to, NULL, size);
	return true;
}

static inline bool fake_store(struct fake_pager *fake, sgpu_devptr address, const void *from,
			      uint64_t size)
{
	struct fake_space *s = fake_space_at(fake, address);

	if (!s || !fake_has(s, address - s->base, size, true)) {
		return false;
	}
	fake_move(s, address - s->base, NULL, from, size);
	return true;
}

#endif
