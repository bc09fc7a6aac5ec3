/* SPDX-License-Identifier: Apache-2.0
 *
 * Spaces and their frames: the checks, the entries, and the order in which a device's mappings
 * change with them.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <device/space.h>

/* ---- frames ---- */
int sgpu_frames_open(struct sgpu_frames *frames, uint64_t small, uint64_t big, uint64_t count,
		     struct sgpu_error *error)
{
	frames->mapped = calloc(count / 64 + 1, sizeof(uint64_t));
	if (!frames->mapped) {
		return sgpu_fail_nomem(error);
	}
	frames->small = small;
	frames->big = big;
	frames->count = (uint32_t)count;
	frames->per_big = (uint32_t)(big / small);
	return SGPU_OK;
}

void sgpu_frames_close(struct sgpu_frames *frames)
{
	free(frames->mapped);
	frames->mapped = NULL;
	frames->small = frames->big = 0;
}

/* Returns the bits of a page's frames in a word. A page's number of frames is a power of two and
 * divides its first frame, so these are bits within one word, or whole words. */
static uint64_t mask(uint32_t first, uint32_t count)
{
	return count >= 64 ? UINT64_MAX : (((uint64_t)1 << count) - 1) << (first % 64);
}

static bool any_mapped(const struct sgpu_frames *frames, uint32_t first, uint32_t count)
{
	uint64_t bits = mask(first, count);
	uint32_t word = first / 64, end = word + (count + 63) / 64;

	for (; word < end; word++) {
		if (frames->mapped[word] & bits) {
			return true;
		}
	}
	return false;
}

static void mark(struct sgpu_frames *frames, uint32_t first, uint32_t count, bool mapped)
{
	uint64_t bits = mask(first, count);
	uint32_t word = first / 64, end = word + (count + 63) / 64;

	for (; word < end; word++) {
		frames->mapped[word] =
			mapped ? frames->mapped[word] | bits : frames->mapped[word] & ~bits;
	}
}

/* ---- what a space maps; the lock is held ---- */
static int misplaced(const char *what, uint64_t at, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EUSAGE, "%s %#llx of the space", what, (unsigned long long)at);
}

static int check_place(const struct sgpu_space *space, uint64_t at, size_t count,
		       uint64_t page_size, struct sgpu_error *error)
{
	const struct sgpu_frames *frames = space->frames;
	uint64_t i, end;

	if (page_size != frames->small && page_size != frames->big) {
		return sgpu_fail(error, SGPU_EUSAGE, "there are no pages of %llu bytes",
				 (unsigned long long)page_size);
	}
	if (count == 0 || at % page_size != 0 || at > space->size ||
	    count > (space->size - at) / page_size) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%zu pages of %llu bytes do not fit at %#llx of a space of %llu",
				 count, (unsigned long long)page_size, (unsigned long long)at,
				 (unsigned long long)space->size);
	}
	end = (at + count * page_size) / frames->small;
	for (i = at / frames->small; i < end; i++) {
		if (space->entries[i] != 0) {
			return misplaced("something is mapped already at", i * frames->small,
					 error);
		}
	}
	return SGPU_OK;
}

/* Marks the frames of a list as mapped, or none of them if one is refused. */
static int take_frames(struct sgpu_frames *frames, const uint32_t *list, size_t count,
		       uint32_t each, struct sgpu_error *error)
{
	int rc = SGPU_OK;
	size_t i;

	for (i = 0; i < count && rc == SGPU_OK; i++) {
		if (list[i] >= frames->count || list[i] % each != 0) {
			rc = sgpu_fail(error, SGPU_EUSAGE, "no page begins at frame %lu of %lu",
				       (unsigned long)list[i], (unsigned long)frames->count);
		} else if (any_mapped(frames, list[i], each)) {
			rc = sgpu_fail(error, SGPU_EUSAGE, "frame %lu is mapped already",
				       (unsigned long)list[i]);
		} else {
			mark(frames, list[i], each, true);
		}
	}
	while (rc < 0 && --i > 0) {
		mark(frames, list[i - 1], each, false);
	}
	return rc;
}

/* Enters pages; enters none if a check fails. */
static int enter(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
		 uint64_t page_size, struct sgpu_error *error)
{
	struct sgpu_frames *frames = space->frames;
	uint32_t each = (uint32_t)(page_size / frames->small), flag = each > 1 ? SGPU_ENTRY_BIG : 0,
		 k;
	int rc = check_place(space, at, count, page_size, error);
	uint64_t entry = at / frames->small;
	size_t i;

	if (rc == SGPU_OK) {
		rc = take_frames(frames, list, count, each, error);
	}
	for (i = 0; i < count && rc == SGPU_OK; i++) {
		space->filled[entry / frames->per_big] += each;
		for (k = 0; k < each; k++) {
			space->entries[entry++] = (list[i] + k + 1) | flag;
		}
	}
	return rc;
}

static int check_range(const struct sgpu_space *space, uint64_t at, uint64_t size,
		       struct sgpu_error *error)
{
	const struct sgpu_frames *frames = space->frames;
	uint64_t begin = at / frames->small, end;

	if (at % frames->small != 0 || size % frames->small != 0 || at > space->size ||
	    size > space->size - at) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%llu bytes at %#llx of a space of %llu are not whole pages of it",
				 (unsigned long long)size, (unsigned long long)at,
				 (unsigned long long)space->size);
	}
	end = begin + size / frames->small;
	if (size > 0 && begin % frames->per_big != 0 && (space->entries[begin] & SGPU_ENTRY_BIG)) {
		return misplaced("a big page would be cut in two at", at, error);
	}
	if (size > 0 && end % frames->per_big != 0 && (space->entries[end] & SGPU_ENTRY_BIG)) {
		return misplaced("a big page would be cut in two at", at + size, error);
	}
	return SGPU_OK;
}

static void leave(struct sgpu_space *space, uint64_t at, uint64_t size)
{
	struct sgpu_frames *frames = space->frames;
	uint64_t entry = at / frames->small, end = entry + size / frames->small, room;

	while (entry < end) {
		room = entry / frames->per_big;
		if (space->filled[room] == 0) {
			entry = (room + 1) * frames->per_big;
			continue;
		}
		if (space->entries[entry] != 0) {
			mark(frames, (space->entries[entry] & ~SGPU_ENTRY_BIG) - 1, 1, false);
			space->entries[entry] = 0;
			space->filled[room]--;
		}
		entry++;
	}
}

/* Returns the first entry from `entry` on that is in use (`used`) or free (not `used`), or `end`.
 */
static uint64_t seek(const struct sgpu_space *space, uint64_t entry, uint64_t end, bool used)
{
	const uint32_t per_big = space->frames->per_big;
	uint32_t whole = used ? 0 : per_big; /* big pages with this `filled` are skipped */

	while (entry < end) {
		if (entry % per_big == 0 && space->filled[entry / per_big] == whole) {
			entry += per_big;
		} else if ((space->entries[entry] != 0) == used) {
			break;
		} else {
			entry++;
		}
	}
	return entry < end ? entry : end;
}

bool sgpu_space_next_run(const struct sgpu_space *space, uint64_t *at, uint64_t *size)
{
	const uint64_t small = space->frames->small, end = space->size / small,
		       first = seek(space, *at / small, end, true);

	*at = first * small;
	*size = (seek(space, first, end, false) - first) * small;
	return first < end;
}

/* ---- spaces ---- */
static int check_sound(const struct sgpu_space *space, struct sgpu_error *error)
{
	return space->faulted ? sgpu_fail(error, SGPU_EDEVICE,
					  "the space is faulted: its mappings could not be changed")
			      : SGPU_OK;
}

static struct sgpu_space *space_of(struct sgpu_range *range)
{
	return range ? (struct sgpu_space *)(void *)((char *)range -
						     offsetof(struct sgpu_space, range))
		     : NULL;
}

int sgpu_frames_info(struct sgpu_frames *frames, struct sgpu_pages_info *info,
		     struct sgpu_error *error)
{
	int rc;

	pthread_mutex_lock(&frames->lock);
	rc = frames->calls->prepare(frames->device, error);
	if (rc == SGPU_OK) {
		*info = (struct sgpu_pages_info){ .small = frames->small,
						  .big = frames->big,
						  .total = frames->count * frames->small };
	}
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

static void free_record(struct sgpu_space *space)
{
	free(space->entries);
	free(space->filled);
	free(space);
}

/* Reserves addresses for an empty space, and adds it. The lock is held. */
static int add_space(struct sgpu_frames *frames, struct sgpu_space *space, struct sgpu_error *error)
{
	uint64_t rooms = (space->size + frames->big - 1) / frames->big;
	int rc;

	if (space->size == 0 || space->size % frames->small != 0 || space->size > INT64_MAX / 2) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "a space of %llu bytes is not one of whole pages of %llu",
				 (unsigned long long)space->size,
				 (unsigned long long)frames->small);
	}
	space->range.extent = rooms * frames->big;
	space->entries = calloc(rooms * frames->per_big, sizeof(uint32_t));
	space->filled = calloc(rooms, sizeof(uint32_t));
	if (!space->entries || !space->filled) {
		return sgpu_fail_nomem(error);
	}
	rc = frames->calls->reserve(frames->device, space->range.extent, &space->range.address,
				    error);
	if (rc == SGPU_OK && !sgpu_ranges_insert(&frames->spaces, &space->range)) {
		(void)frames->calls->release(space);
		rc = sgpu_fail_nomem(error);
	}
	return rc;
}

int sgpu_frames_space(struct sgpu_frames *frames, uint64_t size, struct sgpu_space **space,
		      sgpu_devptr *base, struct sgpu_error *error)
{
	struct sgpu_space *new = calloc(1, sizeof(*new));
	int rc;

	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = sgpu_device_backend_of(frames->device);
	new->frames = frames;
	new->size = size;
	pthread_mutex_lock(&frames->lock);
	rc = frames->calls->prepare(frames->device, error);
	rc = rc ? rc : add_space(frames, new, error);
	pthread_mutex_unlock(&frames->lock);
	if (rc < 0) {
		free_record(new);
		return rc;
	}
	*space = new;
	*base = new->range.address;
	return SGPU_OK;
}

/* Frames that may still be mapped stay marked. The lock is held. */
static void remove_space(struct sgpu_space *space)
{
	struct sgpu_frames *frames = space->frames;

	if (frames->calls->release(space)) {
		leave(space, 0, space->size);
	}
	sgpu_ranges_remove(&frames->spaces, &space->range);
	free_record(space);
}

/* Waits for all work of the device, which may use the pages. */
static int wait_idle(struct sgpu_frames *frames, struct sgpu_error *error)
{
	return sgpu_device_backend_of(frames->device)->synchronize(frames->device, error);
}

void sgpu_frames_space_free(struct sgpu_space *space)
{
	struct sgpu_frames *frames = space->frames;

	(void)wait_idle(frames, NULL); /* nothing runs on a device that is lost */
	pthread_mutex_lock(&frames->lock);
	remove_space(space);
	pthread_mutex_unlock(&frames->lock);
}

void sgpu_frames_empty(struct sgpu_frames *frames)
{
	struct sgpu_range *range;

	while ((range = sgpu_ranges_any(&frames->spaces))) {
		remove_space(space_of(range));
	}
}

/* ---- pages ---- */
int sgpu_frames_map(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
		    uint64_t page_size, struct sgpu_error *error)
{
	struct sgpu_frames *frames = space->frames;
	int rc;

	pthread_mutex_lock(&frames->lock);
	rc = check_sound(space, error);
	rc = rc ? rc : enter(space, at, list, count, page_size, error);
	if (rc == SGPU_OK) {
		rc = frames->calls->map(space, at, list, count, page_size, error);
		if (rc < 0 && !space->faulted) {
			leave(space, at, count * page_size);
		}
	}
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

int sgpu_frames_unmap(struct sgpu_space *space, uint64_t at, uint64_t size,
		      struct sgpu_error *error)
{
	struct sgpu_frames *frames = space->frames;
	bool reachable;
	int rc;

	pthread_mutex_lock(&frames->lock);
	reachable = space->reachable;
	pthread_mutex_unlock(&frames->lock);
	rc = reachable ? wait_idle(frames, error) : SGPU_OK;
	pthread_mutex_lock(&frames->lock);
	rc = rc ? rc : check_sound(space, error);
	rc = rc ? rc : check_range(space, at, size, error);
	if (rc == SGPU_OK && size > 0) {
		rc = frames->calls->unmap(space, at, size, error);
		if (rc == SGPU_OK) {
			leave(space, at, size);
		}
	}
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

int sgpu_frames_access(struct sgpu_space *space, bool on, struct sgpu_error *error)
{
	struct sgpu_frames *frames = space->frames;
	int rc = SGPU_OK;
	bool before;

	pthread_mutex_lock(&frames->lock);
	before = space->reachable;
	if (before && !on) {
		/* Later requests are refused; wait for earlier ones. */
		space->reachable = false;
		pthread_mutex_unlock(&frames->lock);
		rc = wait_idle(frames, error);
		pthread_mutex_lock(&frames->lock);
	}
	rc = rc ? rc : check_sound(space, error);
	if (rc == SGPU_OK && before != on) {
		rc = frames->calls->access(space, on, error);
		/* Others could read the contents of a space that stayed reachable. */
		if (rc < 0 && (!on || frames->calls->access(space, false, NULL) < 0)) {
			rc = frames->calls->lose(space, error);
		}
	}
	space->reachable = rc == SGPU_OK && on;
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

/* ---- addresses ---- */
bool sgpu_frames_place(struct sgpu_frames *frames, sgpu_devptr address, uint64_t most,
		       uint64_t *place, uint64_t *size)
{
	const struct sgpu_space *space;
	uint64_t offset, entry, end = 0;
	uint32_t frame = 0;

	pthread_mutex_lock(&frames->lock);
	space = space_of(sgpu_ranges_find(&frames->spaces, address));
	offset = space ? address - space->range.address : 0;
	if (space && offset < space->size) {
		entry = offset / frames->small;
		end = space->size / frames->small;
		frame = space->entries[entry] & ~SGPU_ENTRY_BIG;
	}
	if (frame != 0) {
		*place = (frame - 1) * frames->small + offset % frames->small;
		*size = frames->small - offset % frames->small;
		while (*size < most && ++entry < end &&
		       (space->entries[entry] & ~SGPU_ENTRY_BIG) == ++frame) {
			*size += frames->small;
		}
		*size = *size < most ? *size : most;
	}
	pthread_mutex_unlock(&frames->lock);
	return frame != 0;
}

bool sgpu_frames_reach(struct sgpu_frames *frames, sgpu_devptr address, uint64_t size)
{
	const struct sgpu_space *space;
	uint64_t offset, begin, end;
	bool reached = false;

	pthread_mutex_lock(&frames->lock);
	space = space_of(sgpu_ranges_find(&frames->spaces, address));
	offset = space ? address - space->range.address : 0;
	if (space && space->reachable && offset < space->size && size <= space->size - offset) {
		begin = offset / frames->small;
		end = (offset + (size ? size : 1) + frames->small - 1) / frames->small;
		reached = seek(space, begin, end, false) == end;
	}
	pthread_mutex_unlock(&frames->lock);
	return reached;
}
