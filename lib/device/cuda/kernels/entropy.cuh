/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the counts of crypto/entropy.h on the device. A block's threads share out the calls.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_ENTROPY_CUH
#define SGPU_DEVICE_CUDA_KERNELS_ENTROPY_CUH

#include <device/cuda/kernels/portable.cuh>

#include "crypto/entropy.h"

/* Finds the longest run and the most repetitive window, by one thread. */
SGPU_ON_DEVICE void sgpu_entropy_walk(const uint8_t *samples, uint32_t size, uint32_t *longest_run,
				      uint32_t *most_in_window)
{
	uint32_t run = 0, inside = 0, longest = 0, most = 0;

	SGPU_ROLL
	for (uint32_t i = 0; i < size; i++) {
		run = i > 0 && samples[i] == samples[i - 1] ? run + 1 : 1;
		longest = run > longest ? run : longest;
		inside = i % SGPU_ENTROPY_WINDOW == 0 ? 0 : inside;
		inside += samples[i] == samples[i - i % SGPU_ENTROPY_WINDOW];
		most = inside > most ? inside : most;
	}
	*longest_run = longest;
	*most_in_window = most;
}

SGPU_ON_DEVICE uint32_t sgpu_entropy_times(const uint8_t *samples, uint32_t size, uint32_t value)
{
	uint32_t times = 0;

	SGPU_ROLL
	for (uint32_t i = 0; i < size; i++) {
		times += samples[i] == value;
	}
	return times;
}

/* Counts samples equal to the one `lag` earlier, without the first SGPU_ENTROPY_LAGS, so that every
 * lag compares the same number. */
SGPU_ON_DEVICE uint32_t sgpu_entropy_again(const uint8_t *samples, uint32_t size, uint32_t lag)
{
	uint32_t again = 0;

	SGPU_ROLL
	for (uint32_t i = SGPU_ENTROPY_LAGS; i < size; i++) {
		again += samples[i] == samples[i - lag];
	}
	return again;
}

#endif
