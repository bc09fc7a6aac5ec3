/* SPDX-License-Identifier: Apache-2.0
 *
 * The counts of crypto/entropy.h on the device: what the threads of a block share out among them.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_ENTROPY_CUH
#define SGPU_DEVICE_CUDA_KERNELS_ENTROPY_CUH

#include <device/cuda/kernels/portable.cuh>

#include "crypto/entropy.h"

/* One thread: runs and windows. */
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

/* How often a value is there. */
SGPU_ON_DEVICE uint32_t sgpu_entropy_times(const uint8_t *samples, uint32_t size, uint32_t value)
{
	uint32_t times = 0;

	SGPU_ROLL
	for (uint32_t i = 0; i < size; i++) {
		times += samples[i] == value;
	}
	return times;
}

/* Counts the samples that equal the sample `lag` before, among those that have a sample before by
 * every lag. */
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
