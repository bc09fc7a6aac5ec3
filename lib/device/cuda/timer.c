/* SPDX-License-Identifier: Apache-2.0
 *
 * Times by %globaltimer: words of device memory in which kernels of one thread store them. They are
 * in device memory, because in confidential computing mode what a kernel writes to the host's has
 * to be moved there first, which would be counted in the next task.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>
#include <device/cuda/timer.h>

enum { STAMPS = 65536, ROUNDS = 21 };
/* Rounds of the comparison are shorter than the slices of time that the GPU gives to other
 * processes, so that most of them are not interrupted. */
#define SPIN_MS 0.5

int sgpu_cuda_stamps_open(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	stamps->idle = malloc(STAMPS * sizeof(*stamps->idle));
	if (!stamps->idle) {
		return sgpu_fail_nomem(error);
	}
	/* The first word is for the bases. */
	for (stamps->count = 0; stamps->count < STAMPS - 1; stamps->count++) {
		stamps->idle[stamps->count] = STAMPS - 1 - stamps->count;
	}
	return sgpu_cuda_check(device,
			       sgpu_cu.cuMemAlloc(&stamps->memory, STAMPS * sizeof(uint64_t)),
			       "cannot allocate memory for times", error);
}

void sgpu_cuda_stamps_close(struct sgpu_device *device)
{
	if (device->stamps.memory && atomic_load(&device->faulted) == 0) {
		(void)sgpu_cu.cuMemFree(device->stamps.memory);
	}
	free(device->stamps.idle);
}

CUresult sgpu_cuda_stamp(struct sgpu_device *device, CUstream native, CUdeviceptr *stamp)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	pthread_mutex_lock(&device->pool_lock);
	*stamp = stamps->count == 0
			 ? 0
			 : stamps->memory + sizeof(uint64_t) * stamps->idle[--stamps->count];
	pthread_mutex_unlock(&device->pool_lock);
	return *stamp == 0 ? CUDA_ERROR_OUT_OF_MEMORY
			   : (CUresult)sgpu_cuda_store_time(native, *stamp);
}

void sgpu_cuda_stamp_give(struct sgpu_device *device, CUdeviceptr stamp)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	if (stamp) {
		pthread_mutex_lock(&device->pool_lock);
		stamps->idle[stamps->count++] =
			(uint32_t)((stamp - stamps->memory) / sizeof(uint64_t));
		pthread_mutex_unlock(&device->pool_lock);
	}
}

CUresult sgpu_cuda_stamp_read(struct sgpu_device *device, CUdeviceptr stamp, uint64_t *time)
{
	CUresult result = sgpu_cu.cuMemcpyDtoHAsync(time, stamp, sizeof(*time), device->clock);

	return result == CUDA_SUCCESS ? sgpu_cu.cuStreamSynchronize(device->clock) : result;
}

/* ---- both timers ---- */
struct pair {
	CUstream stream;
	CUevent events[2];
	CUdeviceptr stamps;
};

static CUresult mark_both(const struct pair *pair, int i)
{
	CUresult result = sgpu_cu.cuEventRecord(pair->events[i], pair->stream);

	return result == CUDA_SUCCESS
		       ? (CUresult)sgpu_cuda_store_time(
				 pair->stream, pair->stamps + (unsigned)i * sizeof(uint64_t))
		       : result;
}

static CUresult time_round(const struct pair *pair, uint64_t cycles,
			   struct sgpu_timer_comparison *times)
{
	uint64_t stamps[2] = { 0 }, begin = sgpu_now_ns();
	float elapsed = 0;
	CUresult result = mark_both(pair, 0);

	result = result ? result : (CUresult)sgpu_cuda_spin(pair->stream, cycles);
	result = result ? result : mark_both(pair, 1);
	result = result ? result : sgpu_cu.cuStreamSynchronize(pair->stream);
	times->host_ns = (double)(sgpu_now_ns() - begin);
	result = result ? result
			: sgpu_cu.cuEventElapsedTime(&elapsed, pair->events[0], pair->events[1]);
	result = result ? result
			: sgpu_cu.cuMemcpyDtoHAsync(stamps, pair->stamps, sizeof(stamps),
						    pair->stream);
	result = result ? result : sgpu_cu.cuStreamSynchronize(pair->stream);
	times->events_ns = (double)elapsed * 1e6;
	times->globaltimer_ns = (double)(int64_t)(stamps[1] - stamps[0]);
	return result;
}

static CUresult open_pair(struct pair *pair)
{
	CUresult result = sgpu_cu.cuStreamCreate(&pair->stream, CU_STREAM_NON_BLOCKING);

	result = result ? result : sgpu_cu.cuEventCreate(&pair->events[0], CU_EVENT_DEFAULT);
	result = result ? result : sgpu_cu.cuEventCreate(&pair->events[1], CU_EVENT_DEFAULT);
	return result ? result : sgpu_cu.cuMemAlloc(&pair->stamps, 2 * sizeof(uint64_t));
}

static void close_pair(struct sgpu_device *device, struct pair *pair)
{
	if (atomic_load(&device->faulted) != 0) {
		return; /* it goes with the context */
	}
	if (pair->stamps) {
		sgpu_cuda_note(device, sgpu_cu.cuMemFree(pair->stamps));
	}
	for (int i = 0; i < 2; i++) {
		if (pair->events[i]) {
			sgpu_cuda_note(device, sgpu_cu.cuEventDestroy(pair->events[i]));
		}
	}
	if (pair->stream) {
		sgpu_cuda_note(device, sgpu_cu.cuStreamDestroy(pair->stream));
	}
}

static int by_difference(const void *a, const void *b)
{
	const struct sgpu_timer_comparison *x = a, *y = b;
	const double difference =
		(x->events_ns - x->globaltimer_ns) - (y->events_ns - y->globaltimer_ns);

	return (difference > 0) - (difference < 0);
}

int sgpu_cuda_compare_timers(struct sgpu_device *device, struct sgpu_timer_comparison *comparison,
			     struct sgpu_error *error)
{
	struct sgpu_timer_comparison rounds[ROUNDS] = { { 0 } };
	struct pair pair = { 0 };
	CUresult result;
	int khz = 0, code = sgpu_cuda_enter(device, error);

	if (code < 0) {
		return code;
	}
	result = sgpu_cu.cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device->handle);
	result = result ? result : open_pair(&pair);
	/* The first round loads the kernels. */
	for (int i = -1; result == CUDA_SUCCESS && i < ROUNDS; i++) {
		result = time_round(&pair, (uint64_t)(khz * SPIN_MS), &rounds[i < 0 ? 0 : i]);
	}
	qsort(rounds, ROUNDS, sizeof(rounds[0]), by_difference);
	*comparison = rounds[ROUNDS / 2];
	code = sgpu_cuda_check(device, result, "cannot compare the timers", error);
	close_pair(device, &pair);
	return code;
}
