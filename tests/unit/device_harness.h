/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of devices: they run on the device that the environment variable SGPU_TEST_DEVICE
 * names, else on the CPU device. main() begins with DEVICE_OR_SKIP().
 */
#ifndef DEVICE_HARNESS_H
#define DEVICE_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/device.h>

#include "unit.h"

static inline const char *test_device(void)
{
	const char *name = getenv("SGPU_TEST_DEVICE");

	return name && *name ? name : "cpu";
}

static inline bool on_cpu(void)
{
	return strcmp(test_device(), "cpu") == 0;
}

#define CPU_ONLY(reason)              \
	do {                          \
		if (!on_cpu()) {      \
			SKIP(reason); \
		}                     \
	} while (0)

/* Opens the device under test. */
static inline struct sgpu_device *open_test_device(unsigned jobs, uint64_t limit)
{
	struct sgpu_device_config config = { .jobs = jobs,
					     .memory_limit = limit ? limit : UNIT_MEMORY };
	struct sgpu_device *device = NULL;
	struct sgpu_error error = { 0 };

	if (sgpu_device_open(test_device(), &config, &device, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
		CHECK(!"the device cannot be opened");
	}
	return device;
}

/* Leaves main with nothing tested where there is no such device. */
#define DEVICE_OR_SKIP()                                                        \
	do {                                                                    \
		struct sgpu_error error_ = { 0 };                               \
		struct sgpu_device *device_ = NULL;                             \
		if (sgpu_device_open(test_device(), NULL, &device_, &error_) == \
		    SGPU_EUNAVAILABLE) {                                        \
			printf("1..0 # SKIP %s\n", error_.text);                \
			return 0;                                               \
		}                                                               \
		sgpu_device_close(&device_);                                    \
	} while (0)

#endif
