/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of a device that maps pages: which frames are mapped, in which space and where. The
 * device itself maps the pages. Callers hold the lock of struct sgpu_frames unless a function says
 * otherwise.
 */
#ifndef SGPU_DEVICE_SPACE_H
#define SGPU_DEVICE_SPACE_H

#include <pthread.h>

#include <sgpu/device.h>

#include <base/base.h>

/* Frame numbers have 31 bits, since an entry of a space uses one bit as a flag. */
#define SGPU_FRAMES_MAX ((uint64_t)0x7fffff00)

struct sgpu_frames {
	pthread_mutex_t lock;
	uint64_t small, big;	 /* bytes of a page; 0: not opened yet */
	uint32_t count, per_big; /* frames in all, and in a big page */
	uint64_t *mapped;	 /* one bit per frame */
	void *spaces;		 /* the spaces' tables, by address */
};

/* One space; a device's struct sgpu_space holds one. */
struct sgpu_space_table {
	struct sgpu_range range; /* its addresses, rounded up to whole big pages */
	uint64_t size;
	bool reachable;
	uint32_t *entries; /* per small page: frame + 1, SGPU_ENTRY_BIG for a big one; 0: none */
	uint32_t *filled;  /* per range of a big page's size: its entries in use */
};
#define SGPU_ENTRY_BIG ((uint32_t)1 << 31)

/* Initialises all but the lock, which the caller makes before this and destroys after close.
 * `count` is a multiple of big / small. */
SGPU_MUST_CHECK int sgpu_frames_open(struct sgpu_frames *frames, uint64_t small, uint64_t big,
				     uint64_t count, struct sgpu_error *error);
void sgpu_frames_close(struct sgpu_frames *frames);

SGPU_MUST_CHECK int sgpu_space_check_size(const struct sgpu_frames *frames, uint64_t size,
					  struct sgpu_error *error);
/* Makes an empty table for `size` bytes from `base`, and adds it to `frames`. */
SGPU_MUST_CHECK int sgpu_space_table_open(struct sgpu_frames *frames,
					  struct sgpu_space_table *table, sgpu_devptr base,
					  uint64_t size, struct sgpu_error *error);
/* Removes the table; its frames are no longer mapped. */
void sgpu_space_table_close(struct sgpu_frames *frames, struct sgpu_space_table *table);

/* Removes the table of a space whose pages could not be unmapped. Its frames stay mapped. */
void sgpu_space_table_abandon(struct sgpu_frames *frames, struct sgpu_space_table *table);

/* Enters pages into the table; enters none if a check fails. Errors: SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_space_enter(struct sgpu_frames *frames, struct sgpu_space_table *table,
				     uint64_t at, const uint32_t *list, size_t count,
				     uint64_t page_size, struct sgpu_error *error);
/* Checks that a range to unmap is whole pages and cuts no big page in two. */
SGPU_MUST_CHECK int sgpu_space_check_range(const struct sgpu_frames *frames,
					   const struct sgpu_space_table *table, uint64_t at,
					   uint64_t size, struct sgpu_error *error);
/* Removes the entries of a checked range. */
void sgpu_space_leave(struct sgpu_frames *frames, struct sgpu_space_table *table, uint64_t at,
		      uint64_t size);
/* Finds the first run of mapped bytes from *at on. False: there is none. */
bool sgpu_space_next_run(const struct sgpu_frames *frames, const struct sgpu_space_table *table,
			 uint64_t *at, uint64_t *size);

/* Finds *place, an address's offset in physical memory, and *size, how many of `most` bytes from
 * there lie in consecutive frames. False: no space maps the address. Takes the lock. */
bool sgpu_frames_place(struct sgpu_frames *frames, sgpu_devptr address, uint64_t most,
		       uint64_t *place, uint64_t *size);
/* Whether all bytes of a range are mapped in one reachable space. Takes the lock. */
bool sgpu_frames_reach(struct sgpu_frames *frames, sgpu_devptr address, uint64_t size);

#endif
