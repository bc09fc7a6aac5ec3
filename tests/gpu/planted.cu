/* SPDX-License-Identifier: Apache-2.0
 *
 * planted memcheck|racecheck: a kernel with the mistake that the tool of this name is to find. With
 * "nothing", none.
 */
#include <string.h>

#include <cuda_runtime.h>

static __global__ void sum(int *out, int past, int together)
{
	__shared__ int word;

	if (threadIdx.x == 0) {
		word = 0;
	}
	__syncthreads();
	if (together) {
		word += (int)threadIdx.x;
	} else {
		atomicAdd(&word, (int)threadIdx.x);
	}
	__syncthreads();
	out[threadIdx.x + past] = word;
}

int main(int argc, char **argv)
{
	const char *mistake = argc > 1 ? argv[1] : "nothing";
	int *out;

	if (cudaMalloc((void **)&out, 64 * sizeof(int)) != cudaSuccess) {
		return 2;
	}
	sum<<<1, 64>>>(out, strcmp(mistake, "memcheck") == 0, strcmp(mistake, "racecheck") == 0);
	return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
