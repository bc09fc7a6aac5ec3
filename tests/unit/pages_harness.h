/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of pages: a device, a stream of it, spaces, and words in device memory.
 */
#ifndef PAGES_HARNESS_H
#define PAGES_HARNESS_H

#include "device/device.h"
#include "device_harness.h"

static struct sgpu_device *device;
static struct sgpu_stream *stream;
static struct sgpu_pages_info info;
static struct sgpu_error error;

static inline void open_all(uint64_t limit)
{
	device = open_test_device(2, limit);
	CHECK(sgpu_stream_create(device, &stream, NULL) == SGPU_OK);
	CHECK(sgpu_device_pages(device, &info, &error) == SGPU_OK);
}

static inline void close_all(void)
{
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
}

struct room {
	struct sgpu_space *space;
	sgpu_devptr base;
};

/* A space of so many small pages that is reachable. */
static inline struct room make_room(uint64_t pages)
{
	struct room room = { 0 };

	CHECK(sgpu_space_create(device, pages * info.small, &room.space, &room.base, &error) ==
	      SGPU_OK);
	CHECK(room.base != 0 && room.base % info.small == 0);
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_OK);
	return room;
}

static inline int put(sgpu_devptr to, uint64_t value)
{
	struct sgpu_task task = { 0 };
	int code = sgpu_copy_in(stream, to, &value, sizeof(value), &task);

	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	return code == SGPU_OK ? task.code : code;
}

static inline int get(sgpu_devptr from, uint64_t *value)
{
	struct sgpu_task task = { 0 };
	int code = sgpu_copy_out(stream, value, from, sizeof(*value), &task);

	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	return code == SGPU_OK ? task.code : code;
}

static inline bool holds(sgpu_devptr from, uint64_t value)
{
	uint64_t found = ~value;

	return get(from, &found) == SGPU_OK && found == value;
}

#endif
