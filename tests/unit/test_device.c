/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device: selection, memory, and its limits.
 */
#include <stdint.h>

#include <sgpu/device.h>

#include "unit.h"

static struct sgpu_device *open_cpu(unsigned jobs, uint64_t limit)
{
	struct sgpu_device_config config = { .jobs = jobs, .memory_limit = limit };
	struct sgpu_device *device = NULL;

	CHECK(sgpu_device_open("cpu", &config, &device, NULL) == SGPU_OK);
	return device;
}

/* On a machine with a GPU the tests on the CUDA device say the rest. */
static bool has_gpu(void)
{
	struct sgpu_device *device = NULL;
	bool there = sgpu_device_open("cuda", NULL, &device, NULL) == SGPU_OK;

	sgpu_device_close(&device);
	return there;
}

UNIT_TEST(selectors_that_name_a_device)
{
	struct sgpu_device *device;
	struct sgpu_device_info info;
	const char *const good[] = { "cpu", "auto", NULL };
	size_t i, count = has_gpu() ? 1 : 3;

	for (i = 0; i < count; i++) {
		REQUIRE(sgpu_device_open(good[i], NULL, &device, NULL) == SGPU_OK);
		CHECK(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
		CHECK(strcmp(info.selector, "cpu") == 0);
		CHECK(strncmp(info.name, "CPU device, ", 12) == 0 && info.name[12] != '\0');
		CHECK(info.compute_units == sgpu_cpu_count());
		/* this process has some */
		CHECK(info.memory_total > 0 && info.memory_free < info.memory_total);
		sgpu_device_close(&device);
		CHECK(device == NULL);
	}
	sgpu_device_close(&device);
}

UNIT_TEST(selectors_that_name_none)
{
	static const struct {
		const char *selector;
		int code;
	} cases[] = {
		{ "cuda", SGPU_EUNAVAILABLE }, { "cuda:0", SGPU_EUNAVAILABLE },
		{ "cuda:", SGPU_EUSAGE },      { "cuda:GPU-5d0c", SGPU_EUNAVAILABLE },
		{ "cuda:GPU-", SGPU_EUSAGE },  { "cuda:GPU-g", SGPU_EUSAGE },
		{ "cuda:x", SGPU_EUSAGE },     { "", SGPU_EUSAGE },
		{ "gpu", SGPU_EUSAGE },	       { "cpux", SGPU_EUSAGE },
		{ "CPU", SGPU_EUSAGE },	       { "cpu:1", SGPU_EUNAVAILABLE },
	};
	struct sgpu_device *device;
	struct sgpu_error error;
	bool gpu = has_gpu();
	size_t i;

	for (i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		if (gpu && strncmp(cases[i].selector, "cuda", 4) == 0 &&
		    cases[i].code == SGPU_EUNAVAILABLE) {
			continue;
		}
		CHECK(sgpu_device_open(cases[i].selector, NULL, &device, &error) == cases[i].code);
		CHECK(device == NULL);
		CHECK(error.code == cases[i].code && strstr(error.text, cases[i].selector));
	}
	if (!gpu) {
		CHECK(sgpu_device_open("cuda", NULL, &device, &error) == SGPU_EUNAVAILABLE);
		CHECK(strstr(error.hint, "cpu"));
	}
}

UNIT_TEST(memory_is_aligned_apart_and_clear)
{
	static const uint64_t sizes[] = { 0,	 1,	  4095,		 4096,	  4097,
					  65536, 1 << 20, (1 << 20) + 1, 3 << 20, 9 << 20 };
	sgpu_devptr memory[SGPU_ARRAY_LENGTH(sizes)];
	struct sgpu_device *device = open_cpu(1, 0);
	size_t i, k;
	int round;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
			REQUIRE(sgpu_device_alloc(device, sizes[i], &memory[i], NULL) == SGPU_OK);
			CHECK(memory[i] != 0 && memory[i] % 4096 == 0);
			for (k = 0; k < sizes[i]; k++) {
				if (((unsigned char *)(uintptr_t)memory[i])[k] != 0) {
					CHECK(!"memory of an earlier owner");
					break;
				}
			}
			memset((void *)(uintptr_t)memory[i], 0xa5, sizes[i]);
			for (k = 0; k < i; k++) {
				CHECK(memory[i] >= memory[k] + sizes[k] ||
				      memory[k] >= memory[i] + sizes[i]);
				CHECK(memory[i] != memory[k]);
			}
		}
		for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
			sgpu_device_free(device, &memory[i], sizes[i]);
			CHECK(memory[i] == 0);
			sgpu_device_free(device, &memory[i], sizes[i]);
		}
	}
	sgpu_device_close(&device);
}

UNIT_TEST(small_memory_is_cleared_when_it_is_freed)
{
	struct sgpu_device *device = open_cpu(1, 0);
	sgpu_devptr memory, again;

	REQUIRE(sgpu_device_alloc(device, 5000, &memory, NULL) == SGPU_OK);
	memset((void *)(uintptr_t)memory, 0x5a, 5000);
	again = memory;
	sgpu_device_free(device, &memory, 5000);
	REQUIRE(sgpu_device_alloc(device, 8000, &memory, NULL) == SGPU_OK);
	CHECK(memory == again);
	CHECK(((unsigned char *)(uintptr_t)memory)[4999] == 0 &&
	      ((unsigned char *)(uintptr_t)memory)[0] == 0);
	sgpu_device_close(&device);
}

UNIT_TEST(the_memory_limit_holds_and_freed_memory_counts_again)
{
	struct sgpu_device *device = open_cpu(1, 1 << 20);
	struct sgpu_device_info info;
	struct sgpu_error error;
	sgpu_devptr a, b;

	CHECK(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
	CHECK(info.memory_total == 1 << 20);
	CHECK(sgpu_device_alloc(device, (1 << 20) + 1, &a, &error) == SGPU_ENOMEM);
	CHECK(a == 0 && strstr(error.text, "device memory"));
	REQUIRE(sgpu_device_alloc(device, 600 << 10, &a, NULL) == SGPU_OK);
	CHECK(sgpu_device_alloc(device, 600 << 10, &b, NULL) == SGPU_ENOMEM);
	CHECK(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
	CHECK(info.memory_free == (1 << 20) - (600 << 10));
	sgpu_device_free(device, &a, 600 << 10);
	CHECK(sgpu_device_alloc(device, 1 << 20, &b, NULL) == SGPU_OK);
	sgpu_device_close(&device);
}

UNIT_TEST(what_the_machine_cannot_back_is_refused_at_once)
{
	static const uint64_t sizes[] = { (uint64_t)1 << 46, (uint64_t)1 << 62, UINT64_MAX,
					  UINT64_MAX - 4096 };
	struct sgpu_device *device = open_cpu(1, 0);
	struct sgpu_error error;
	struct sgpu_device_info info;
	sgpu_devptr memory;
	size_t i;
	int taken;

	for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		CHECK(sgpu_device_alloc(device, sizes[i], &memory, &error) == SGPU_ENOMEM);
		CHECK(memory == 0 && error.code == SGPU_ENOMEM);
	}
	/* Not in pieces either, though none of it is ever touched. */
	REQUIRE(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
	for (taken = 0; taken < 8; taken++) {
		if (sgpu_device_alloc(device, info.memory_free / 4, &memory, NULL) != SGPU_OK) {
			break;
		}
	}
	CHECK(taken >= 2 && taken <= 4);
	sgpu_device_close(&device);
}

int main(void)
{
	UNIT_RUN(selectors_that_name_a_device);
	UNIT_RUN(selectors_that_name_none);
	UNIT_RUN(memory_is_aligned_apart_and_clear);
	UNIT_RUN(small_memory_is_cleared_when_it_is_freed);
	UNIT_RUN(the_memory_limit_holds_and_freed_memory_counts_again);
	UNIT_RUN(what_the_machine_cannot_back_is_refused_at_once);
	return unit_done();
}
