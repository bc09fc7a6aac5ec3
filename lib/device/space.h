/* SPDX-License-Identifier: Apache-2.0
 *
 * The account of a device that maps pages: which frames are mapped, and where in which space. The
 * device does the mapping. The caller holds the lock of the frames, unless a function says
 * otherwise.
 */
#ifndef SGPU_DEVICE_SPACE_H
#define SGPU_DEVICE_SPACE_H

#include <pthread.h>

#include <sgpu/device.h>

#include <base/base.h>

/* Frames are counted in 31 bits: an entry of a space needs one for itself. */
#define SGPU_FRAMES_MAX ((uint64_t)0x7fffff00)

struct sgpu_frames {
	pthread_mutex_t lock;
	uint64_t small, big;	 /* bytes; 0: not opened yet */
	uint32_t count, per_big; /* frames in all, and of a big page */
	uint64_t *mapped;	 /* a bit a frame */
	void *spaces;		 /* their tables, by address */
};

/* One space; a device's struct sgpu_space holds one. */
struct sgpu_space_table {
	struct sgpu_range range; /* its addresses, in whole big pages */
	uint64_t size;
	bool reachable;
	uint32_t *entries; /* one a small page: frame + 1, and SGPU_ENTRY_BIG; 0: none */
	uint32_t *filled;  /* entries in use of each big page's room */
};
#define SGPU_ENTRY_BIG ((uint32_t)1 << 31)

/* Opens the account. The caller makes the lock before this and destroys it after close. `count` is
 * a multiple of big / small. */
SGPU_MUST_CHECK int sgpu_frames_open(struct sgpu_frames *frames, uint64_t small, uint64_t big,
				     uint64_t count, struct sgpu_error *error);
void sgpu_frames_close(struct sgpu_frames *frames);

/* Checks the size of a space. */
SGPU_MUST_CHECK int sgpu_space_check_size(const struct sgpu_frames *frames, uint64_t size,
					  struct sgpu_error *error);
/* Makes an empty table for addresses from `base`, and lists it. */
SGPU_MUST_CHECK int sgpu_space_table_open(struct sgpu_frames *frames,
					  struct sgpu_space_table *table, sgpu_devptr base,
					  uint64_t size, struct sgpu_error *error);
/* Removes the table; its frames are free again. */
void sgpu_space_table_close(struct sgpu_frames *frames, struct sgpu_space_table *table);

/* Removes the table of a space whose pages could not be unmapped. Its frames stay taken for good.
 */
void sgpu_space_table_abandon(struct sgpu_frames *frames, struct sgpu_space_table *table);

/* Enters pages after all checks; enters none when a check fails. Errors: SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_space_enter(struct sgpu_frames *frames, struct sgpu_space_table *table,
				     uint64_t at, const uint32_t *list, size_t count,
				     uint64_t page_size, struct sgpu_error *error);
/* Whether a range can be unmapped: whole pages, big ones not cut in two. */
SGPU_MUST_CHECK int sgpu_space_check_range(const struct sgpu_frames *frames,
					   const struct sgpu_space_table *table, uint64_t at,
					   uint64_t size, struct sgpu_error *error);
/* Removes the entries of a range that was checked. */
void sgpu_space_leave(struct sgpu_frames *frames, struct sgpu_space_table *table, uint64_t at,
		      uint64_t size);
/* The first run of mapped bytes at or after *at; false when there is none. */
bool sgpu_space_next_run(const struct sgpu_frames *frames, const struct sgpu_space_table *table,
			 uint64_t *at, uint64_t *size);

/* Finds an address in the device's memory, and how many of the `most` bytes from there lie in
 * consecutive frames. False: no space maps it. Takes the lock. */
bool sgpu_frames_place(struct sgpu_frames *frames, sgpu_devptr address, uint64_t most,
		       uint64_t *place, uint64_t *size);
/* Whether every byte is mapped in one reachable space. Takes the lock. */
bool sgpu_frames_reach(struct sgpu_frames *frames, sgpu_devptr address, uint64_t size);

#endif
