/* SPDX-License-Identifier: Apache-2.0
 *
 * What ../scale.ptx does, for the CPU device: cc -shared -fPIC -o scale.so scale.c, with sgpu's
 * headers in -I.
 */
#include <stdint.h>

#include <sgpu/device.h>

int scale(const struct sgpu_module_shape *shape, void *const *args, int arg_count);

/* args[i] points at parameter i: the value of a number, or the address of an argument's data. */
int scale(const struct sgpu_module_shape *shape, void *const *args, int arg_count)
{
	float *output = *(float *const *)args[0];
	const float *input = *(const float *const *)args[1];
	uint64_t n = *(const uint64_t *)args[2];
	float gain = *(const float *)args[3];
	uint64_t threads = (uint64_t)shape->grid[0] * shape->block[0];

	if (arg_count != 4) {
		return 1;
	}
	/* Elements beyond the grid are nobody's, as on a GPU. */
	for (uint64_t i = 0; i < n && i < threads; i++) {
		output[i] = gain * input[i];
	}
	return 0;
}
