/* SPDX-License-Identifier: Apache-2.0
 *
 * bandwidth_bare [MIB]: copies between pinned memory and the device by bare CUDA calls, as
 * nvbandwidth measures them: a kernel holds the stream until 16 copies stand behind it between two
 * events; the median of three such samples counts. Prints the direction and the bytes a second, a
 * line each. The sgpu-bench case bandwidth is held to these figures (bandwidth.sh).
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

enum { COPIES = 16, SAMPLES = 3, DEFAULT_MIB = 512 };

#define CHECK(call)                                                             \
	do {                                                                    \
		cudaError_t result_ = (call);                                   \
		if (result_ != cudaSuccess) {                                   \
			std::fprintf(stderr, "bandwidth_bare: %s: %s\n", #call, \
				     cudaGetErrorString(result_));              \
			std::exit(3);                                           \
		}                                                               \
	} while (0)

static __global__ void hold(const volatile int *released)
{
	while (*released == 0) {
	}
}

static double sample(void *to, const void *from, size_t size, volatile int *released,
		     cudaStream_t stream)
{
	cudaEvent_t begin, end;
	float ms = 0;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream)); /* the warm-up */
	CHECK(cudaStreamSynchronize(stream));
	*released = 0;
	hold<<<1, 1, 0, stream>>>((const int *)released);
	CHECK(cudaGetLastError());
	CHECK(cudaEventRecord(begin, stream));
	for (int i = 0; i < COPIES; i++) {
		CHECK(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream));
	}
	CHECK(cudaEventRecord(end, stream));
	*released = 1;
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
	return (double)size * COPIES / (ms / 1e3);
}

int main(int argc, char **argv)
{
	const size_t size = (size_t)(argc > 1 ? std::atoi(argv[1]) : DEFAULT_MIB) << 20;
	void *host, *device, *word;
	cudaStream_t stream;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaHostAlloc(&host, size, cudaHostAllocPortable));
	CHECK(cudaHostAlloc(&word, sizeof(int), cudaHostAllocPortable | cudaHostAllocMapped));
	CHECK(cudaMalloc(&device, size));
	CHECK(cudaMemset(device, 0x5a, size));
	std::memset(host, 0xa5, size);
	for (int out = 0; out < 2; out++) {
		double rates[SAMPLES];

		for (double &rate : rates) {
			rate = sample(out ? host : device, out ? device : host, size,
				      (volatile int *)word, stream);
		}
		std::sort(rates, rates + SAMPLES);
		std::printf("%s %.0f\n", out ? "d2h" : "h2d", rates[SAMPLES / 2]);
	}
	return 0;
}
