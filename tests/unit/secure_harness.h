/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of secure contexts, on the device that $SGPU_TEST_DEVICE names: a context, and what
 * tests do with one.
 */
#ifndef SECURE_HARNESS_H
#define SECURE_HARNESS_H

#include "channel/channel.h"

#include "device_harness.h"

static struct sgpu_error error;
static struct sgpu_device *inner;

/* Whether the device gives pages; says why not. */
static inline bool open_inner(void)
{
	struct sgpu_pages_info info;

	inner = open_test_device(2, 0);
	if (inner && sgpu_device_pages(inner, &info, &error) == SGPU_OK) {
		return true;
	}
	printf("# %s\n", error.text);
	return false;
}

static inline struct sgpu_secure *make_context(const struct sgpu_secure_config *config)
{
	struct sgpu_secure *context = NULL;

	if (sgpu_secure_create(inner, config, &context, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
	}
	return context;
}

static inline void fill(uint8_t *data, uint64_t size, unsigned seed)
{
	for (uint64_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 31 + i / 253 + seed);
	}
}

/* Copies to the device and waits. */
static inline __attribute__((unused)) int put(struct sgpu_stream *stream, sgpu_devptr to,
					      const void *from, uint64_t size)
{
	struct sgpu_task task = { 0 };
	int rc = sgpu_copy_in(stream, to, from, size, &task),
	    synced = sgpu_stream_sync(stream, &error);

	if (rc != SGPU_OK) {
		error = task.error;
	}
	return rc != SGPU_OK ? rc : synced != SGPU_OK ? synced : task.code;
}

static inline __attribute__((unused)) int get(struct sgpu_stream *stream, void *to,
					      sgpu_devptr from, uint64_t size)
{
	struct sgpu_task task = { 0 };
	int rc = sgpu_copy_out(stream, to, from, size, &task),
	    synced = sgpu_stream_sync(stream, &error);

	if (rc != SGPU_OK) {
		error = task.error;
	}
	return rc != SGPU_OK ? rc : synced != SGPU_OK ? synced : task.code;
}

static inline __attribute__((unused)) bool all_zero(const uint8_t *data, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++) {
		if (data[i] != 0) {
			return false;
		}
	}
	return true;
}

#endif
