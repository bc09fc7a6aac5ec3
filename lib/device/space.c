/* SPDX-License-Identifier: Apache-2.0
 *
 * Spaces and their entries, and the order in which a device's mappings change with them. The
 * processor of lib/channel has checked each change.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <device/space.h>

/* ---- what a space maps; the lock is held ---- */
static void enter(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
		  uint64_t page_size)
{
	const struct sgpu_frames *frames = space->frames;
	const uint32_t each = (uint32_t)(page_size / frames->small);
	uint64_t entry = at / frames->small;

	for (size_t i = 0; i < count; i++) {
		space->filled[entry / frames->per_big] += each;
		for (uint32_t k = 0; k < each; k++) {
			space->entries[entry++] = list[i] + k + 1;
		}
	}
}

static void leave(struct sgpu_space *space, uint64_t at, uint64_t size)
{
	const struct sgpu_frames *frames = space->frames;
	uint64_t entry = at / frames->small, end = entry + size / frames->small;

	for (; entry < end; entry++) {
		space->filled[entry / frames->per_big] -= space->entries[entry] != 0;
		space->entries[entry] = 0;
	}
}

uint64_t sgpu_space_seek(const struct sgpu_space *space, uint64_t entry, uint64_t end, bool used)
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
	const uint64_t small = space->frames->small, end = space->range.extent / small,
		       first = sgpu_space_seek(space, *at / small, end, true);

	*at = first * small;
	*size = (sgpu_space_seek(space, first, end, false) - first) * small;
	return first < end;
}

/* ---- spaces ---- */
void sgpu_space_fault(struct sgpu_space *space)
{
	space->frames->faulted += !space->faulted;
	space->faulted = true;
	space->reachable = false;
}

static int check_sound(bool faulted, struct sgpu_error *error)
{
	return faulted ? sgpu_fail(error, SGPU_EDEVICE,
				   "an earlier change of the mappings failed half-way")
		       : SGPU_OK;
}

static struct sgpu_space *space_of(struct sgpu_range *range)
{
	return range ? (struct sgpu_space *)(void *)((char *)range -
						     offsetof(struct sgpu_space, range))
		     : NULL;
}

static struct sgpu_frames *frames_of(struct sgpu_device *device, struct sgpu_error *error)
{
	const struct sgpu_device_backend *backend = sgpu_device_backend_of(device);

	if (backend->frames && !sgpu_device_guard_of(device)) {
		return backend->frames(device);
	}
	(void)sgpu_fail(error, SGPU_EUNAVAILABLE, "the device maps no pages");
	return NULL;
}

int sgpu_device_pages(struct sgpu_device *device, struct sgpu_pages_info *info,
		      struct sgpu_error *error)
{
	struct sgpu_frames *frames = frames_of(device, error);
	int rc;

	memset(info, 0, sizeof(*info));
	if (!frames) {
		return SGPU_EUNAVAILABLE;
	}
	pthread_mutex_lock(&frames->lock);
	rc = frames->calls->prepare(device, error);
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

/* The lock is held. */
static int add_space(struct sgpu_frames *frames, struct sgpu_space *space, uint64_t size,
		     struct sgpu_error *error)
{
	const uint64_t rooms = (size + frames->big - 1) / frames->big;
	int rc;

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

int sgpu_space_create(struct sgpu_device *device, uint64_t size, struct sgpu_space **space,
		      sgpu_devptr *base, struct sgpu_error *error)
{
	struct sgpu_frames *frames = frames_of(device, error);
	struct sgpu_space *new;
	int rc;

	*space = NULL;
	if (!frames) {
		return SGPU_EUNAVAILABLE;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = sgpu_device_backend_of(device);
	new->frames = frames;
	pthread_mutex_lock(&frames->lock);
	rc = frames->calls->prepare(device, error);
	rc = rc ? rc : add_space(frames, new, size, error);
	pthread_mutex_unlock(&frames->lock);
	if (rc < 0) {
		free_record(new);
		return rc;
	}
	*space = new;
	*base = new->range.address;
	return SGPU_OK;
}

bool sgpu_pages_claim(struct sgpu_device *device, bool claimed)
{
	struct sgpu_frames *frames = frames_of(device, NULL);
	bool changed;

	pthread_mutex_lock(&frames->lock);
	changed = frames->claimed != claimed;
	frames->claimed = claimed;
	pthread_mutex_unlock(&frames->lock);
	return changed;
}

/* Pages that may still be mapped count as a fault for ever. The lock is held. */
static void remove_space(struct sgpu_space *space)
{
	struct sgpu_frames *frames = space->frames;

	if (frames->calls->release(space)) {
		frames->faulted -= space->faulted;
	} else {
		sgpu_space_fault(space);
	}
	sgpu_ranges_remove(&frames->spaces, &space->range);
	free_record(space);
}

/* Work of the device may use the pages. */
static int wait_idle(struct sgpu_frames *frames, struct sgpu_error *error)
{
	return sgpu_device_backend_of(frames->device)->synchronize(frames->device, error);
}

void sgpu_space_free(struct sgpu_space **space)
{
	struct sgpu_frames *frames;

	if (!space || !*space) {
		return;
	}
	frames = (*space)->frames;
	(void)wait_idle(frames, NULL); /* nothing runs on a device that is lost */
	pthread_mutex_lock(&frames->lock);
	remove_space(*space);
	pthread_mutex_unlock(&frames->lock);
	*space = NULL;
}

void sgpu_frames_empty(struct sgpu_frames *frames)
{
	struct sgpu_range *range;

	while ((range = sgpu_ranges_any(&frames->spaces))) {
		remove_space(space_of(range));
	}
}

/* ---- pages ---- */
int sgpu_page_map(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
		  uint64_t page_size, struct sgpu_error *error)
{
	struct sgpu_frames *frames = space->frames;
	int rc;

	pthread_mutex_lock(&frames->lock);
	/* In a faulted space these frames may still be mapped, too. */
	rc = check_sound(frames->faulted > 0, error);
	rc = rc ? rc : frames->calls->map(space, at, list, count, page_size, error);
	if (rc == SGPU_OK) {
		enter(space, at, list, count, page_size);
	}
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

int sgpu_page_unmap(struct sgpu_space *space, uint64_t at, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_frames *frames = space->frames;
	bool reachable;
	int rc;

	pthread_mutex_lock(&frames->lock);
	reachable = space->reachable;
	pthread_mutex_unlock(&frames->lock);
	rc = reachable ? wait_idle(frames, error) : SGPU_OK;
	pthread_mutex_lock(&frames->lock);
	rc = rc ? rc : check_sound(space->faulted, error);
	rc = rc ? rc : frames->calls->unmap(space, at, size, error);
	if (rc == SGPU_OK) {
		leave(space, at, size);
	}
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

int sgpu_space_access(struct sgpu_space *space, bool on, struct sgpu_error *error)
{
	return space->object.backend->access(space, on, error);
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
	rc = rc ? rc : check_sound(space->faulted, error);
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
bool sgpu_frames_reach(struct sgpu_frames *frames, sgpu_devptr address, uint64_t size)
{
	const struct sgpu_space *space;
	uint64_t offset, begin, end;
	bool reached = false;

	pthread_mutex_lock(&frames->lock);
	space = space_of(sgpu_ranges_find(&frames->spaces, address));
	offset = space ? address - space->range.address : 0;
	if (space && space->reachable && size <= space->range.extent - offset) {
		begin = offset / frames->small;
		end = (offset + (size ? size : 1) + frames->small - 1) / frames->small;
		reached = sgpu_space_seek(space, begin, end, false) == end;
	}
	pthread_mutex_unlock(&frames->lock);
	return reached;
}
