/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests on the CUDA device: the device and a stream, opened and closed by each test.
 */
#ifndef CUDA_HARNESS_H
#define CUDA_HARNESS_H

#include <stdint.h>

#include <sgpu/device.h>

#include "unit.h"

static struct sgpu_device *device;
static struct sgpu_stream *stream;

static inline bool begin(void)
{
	struct sgpu_error error = { 0 };

	if (sgpu_device_open("cuda", NULL, &device, &error) == SGPU_OK &&
	    sgpu_stream_create(device, &stream, &error) == SGPU_OK) {
		return true;
	}
	printf("# %s\n", error.text);
	return false;
}

static inline void finish(void)
{
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
}

static inline bool all_are(const uint8_t *data, uint64_t size, uint8_t value)
{
	uint64_t i;

	for (i = 0; i < size && data[i] == value; i++) {
	}
	return i == size;
}

static inline bool works(void)
{
	uint8_t in[1000], out[1000];
	sgpu_devptr memory = 0;
	bool same;

	memset(in, 0x3c, sizeof(in));
	same = sgpu_device_alloc(device, sizeof(in), &memory, NULL) == SGPU_OK &&
	       sgpu_copy_in(stream, memory, in, sizeof(in), NULL) == SGPU_OK &&
	       sgpu_copy_out(stream, out, memory, sizeof(out), NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK && memcmp(in, out, sizeof(in)) == 0;
	sgpu_device_free(device, &memory, sizeof(in));
	return same;
}

/* Where there is no GPU: nothing is tested. */
#define CUDA_OR_SKIP()                                                                       \
	do {                                                                                 \
		struct sgpu_error error_ = { 0 };                                            \
		if (sgpu_device_open("cuda", NULL, &device, &error_) == SGPU_EUNAVAILABLE) { \
			printf("1..0 # SKIP %s\n", error_.text);                             \
			return 0;                                                            \
		}                                                                            \
		sgpu_device_close(&device);                                                  \
	} while (0)

#endif
