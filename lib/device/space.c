/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of spaces and of their frames.
 */
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

/* Whether any of frames [first, first + count) is mapped; `count` is 1 or that of a big page. */
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

/* ---- spaces ---- */
int sgpu_space_check_size(const struct sgpu_frames *frames, uint64_t size, struct sgpu_error *error)
{
	if (size == 0 || size % frames->small != 0 || size > INT64_MAX / 2) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "a space of %llu bytes is not one of whole pages of %llu",
				 (unsigned long long)size, (unsigned long long)frames->small);
	}
	return SGPU_OK;
}

int sgpu_space_table_open(struct sgpu_frames *frames, struct sgpu_space_table *table,
			  sgpu_devptr base, uint64_t size, struct sgpu_error *error)
{
	uint64_t rooms = (size + frames->big - 1) / frames->big;

	table->range = (struct sgpu_range){ base, rooms * frames->big };
	table->size = size;
	table->entries = calloc(rooms * frames->per_big, sizeof(uint32_t));
	table->filled = calloc(rooms, sizeof(uint32_t));
	if (!table->entries || !table->filled ||
	    !sgpu_ranges_insert(&frames->spaces, &table->range)) {
		free(table->entries);
		free(table->filled);
		return sgpu_fail_nomem(error);
	}
	return SGPU_OK;
}

void sgpu_space_table_close(struct sgpu_frames *frames, struct sgpu_space_table *table)
{
	sgpu_space_leave(frames, table, 0, table->size);
	sgpu_space_table_abandon(frames, table);
}

void sgpu_space_table_abandon(struct sgpu_frames *frames, struct sgpu_space_table *table)
{
	sgpu_ranges_remove(&frames->spaces, &table->range);
	free(table->entries);
	free(table->filled);
	table->entries = table->filled = NULL;
}

static int misplaced(const char *what, uint64_t at, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EUSAGE, "%s %#llx of the space", what, (unsigned long long)at);
}

/* Checks that the pages fit at `at` and that nothing is mapped there. */
static int check_place(const struct sgpu_frames *frames, const struct sgpu_space_table *table,
		       uint64_t at, size_t count, uint64_t page_size, struct sgpu_error *error)
{
	uint64_t i, end;

	if (page_size != frames->small && page_size != frames->big) {
		return sgpu_fail(error, SGPU_EUSAGE, "there are no pages of %llu bytes",
				 (unsigned long long)page_size);
	}
	if (count == 0 || at % page_size != 0 || at > table->size ||
	    count > (table->size - at) / page_size) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%zu pages of %llu bytes do not fit at %#llx of a space of %llu",
				 count, (unsigned long long)page_size, (unsigned long long)at,
				 (unsigned long long)table->size);
	}
	end = (at + count * page_size) / frames->small;
	for (i = at / frames->small; i < end; i++) {
		if (table->entries[i] != 0) {
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

int sgpu_space_enter(struct sgpu_frames *frames, struct sgpu_space_table *table, uint64_t at,
		     const uint32_t *list, size_t count, uint64_t page_size,
		     struct sgpu_error *error)
{
	uint32_t each = (uint32_t)(page_size / frames->small), flag = each > 1 ? SGPU_ENTRY_BIG : 0,
		 k;
	int rc = check_place(frames, table, at, count, page_size, error);
	uint64_t entry = at / frames->small;
	size_t i;

	if (rc == SGPU_OK) {
		rc = take_frames(frames, list, count, each, error);
	}
	for (i = 0; i < count && rc == SGPU_OK; i++) {
		table->filled[entry / frames->per_big] += each;
		for (k = 0; k < each; k++) {
			table->entries[entry++] = (list[i] + k + 1) | flag;
		}
	}
	return rc;
}

int sgpu_space_check_range(const struct sgpu_frames *frames, const struct sgpu_space_table *table,
			   uint64_t at, uint64_t size, struct sgpu_error *error)
{
	uint64_t begin = at / frames->small, end;

	if (at % frames->small != 0 || size % frames->small != 0 || at > table->size ||
	    size > table->size - at) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%llu bytes at %#llx of a space of %llu are not whole pages of it",
				 (unsigned long long)size, (unsigned long long)at,
				 (unsigned long long)table->size);
	}
	end = begin + size / frames->small;
	if (size > 0 && begin % frames->per_big != 0 && (table->entries[begin] & SGPU_ENTRY_BIG)) {
		return misplaced("a big page would be cut in two at", at, error);
	}
	if (size > 0 && end % frames->per_big != 0 && (table->entries[end] & SGPU_ENTRY_BIG)) {
		return misplaced("a big page would be cut in two at", at + size, error);
	}
	return SGPU_OK;
}

void sgpu_space_leave(struct sgpu_frames *frames, struct sgpu_space_table *table, uint64_t at,
		      uint64_t size)
{
	uint64_t entry = at / frames->small, end = entry + size / frames->small, room;

	while (entry < end) {
		room = entry / frames->per_big;
		if (table->filled[room] == 0) {
			entry = (room + 1) * frames->per_big;
			continue;
		}
		if (table->entries[entry] != 0) {
			mark(frames, (table->entries[entry] & ~SGPU_ENTRY_BIG) - 1, 1, false);
			table->entries[entry] = 0;
			table->filled[room]--;
		}
		entry++;
	}
}

/* Returns the first entry from `entry` on that is in use (`used`) or free (not `used`), or `end`.
 */
static uint64_t seek(const struct sgpu_frames *frames, const struct sgpu_space_table *table,
		     uint64_t entry, uint64_t end, bool used)
{
	uint32_t whole = used ? 0 : frames->per_big; /* big pages with this `filled` are skipped */

	while (entry < end) {
		if (entry % frames->per_big == 0 &&
		    table->filled[entry / frames->per_big] == whole) {
			entry += frames->per_big;
		} else if ((table->entries[entry] != 0) == used) {
			break;
		} else {
			entry++;
		}
	}
	return entry < end ? entry : end;
}

bool sgpu_space_next_run(const struct sgpu_frames *frames, const struct sgpu_space_table *table,
			 uint64_t *at, uint64_t *size)
{
	uint64_t end = table->size / frames->small,
		 first = seek(frames, table, *at / frames->small, end, true);

	*at = first * frames->small;
	*size = (seek(frames, table, first, end, false) - first) * frames->small;
	return first < end;
}

bool sgpu_frames_place(struct sgpu_frames *frames, sgpu_devptr address, uint64_t most,
		       uint64_t *place, uint64_t *size)
{
	const struct sgpu_space_table *table;
	uint64_t offset, entry, end = 0;
	uint32_t frame = 0;

	pthread_mutex_lock(&frames->lock);
	table = (const struct sgpu_space_table *)(const void *)sgpu_ranges_find(&frames->spaces,
										address);
	offset = table ? address - table->range.address : 0;
	if (table && offset < table->size) {
		entry = offset / frames->small;
		end = table->size / frames->small;
		frame = table->entries[entry] & ~SGPU_ENTRY_BIG;
	}
	if (frame != 0) {
		*place = (frame - 1) * frames->small + offset % frames->small;
		*size = frames->small - offset % frames->small;
		while (*size < most && ++entry < end &&
		       (table->entries[entry] & ~SGPU_ENTRY_BIG) == ++frame) {
			*size += frames->small;
		}
		*size = *size < most ? *size : most;
	}
	pthread_mutex_unlock(&frames->lock);
	return frame != 0;
}

bool sgpu_frames_reach(struct sgpu_frames *frames, sgpu_devptr address, uint64_t size)
{
	const struct sgpu_space_table *table;
	uint64_t offset, begin, end;
	bool reached = false;

	pthread_mutex_lock(&frames->lock);
	table = (const struct sgpu_space_table *)(const void *)sgpu_ranges_find(&frames->spaces,
										address);
	offset = table ? address - table->range.address : 0;
	if (table && table->reachable && offset < table->size && size <= table->size - offset) {
		begin = offset / frames->small;
		end = (offset + (size ? size : 1) + frames->small - 1) / frames->small;
		reached = seek(frames, table, begin, end, false) == end;
	}
	pthread_mutex_unlock(&frames->lock);
	return reached;
}
