/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc: the time to allocate and free memory, of the device and of its pool on the host.
 */
#include "cases.h"
#include "setup.h"

static const struct bench_sizes sizes = { BENCH_SWEEP(4 << 10, 1 << 30), 1, 1, 0 };

struct memory {
	struct sgpu_bench *bench;
	uint64_t size;
};

static int get_device(void *argument, struct sgpu_error *error)
{
	const struct memory *m = argument;
	sgpu_devptr memory = 0;
	const int rc = sgpu_device_alloc(m->bench->device, m->size, &memory, error);

	sgpu_device_free(m->bench->device, &memory, m->size);
	return rc;
}

static int get_host(void *argument, struct sgpu_error *error)
{
	const struct memory *m = argument;
	void *memory = NULL;
	const int rc = sgpu_host_alloc(m->bench->device, m->size, &memory, error);

	sgpu_host_free(m->bench->device, &memory, m->size);
	return rc;
}

static int measure(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_bench *bench = argument;
	struct memory m = { .bench = bench, .size = size };
	const struct sgpu_bench_variant variants[] = {
		BENCH_VARIANT("device", NULL, get_device, NULL, &m),
		BENCH_VARIANT("host pool", NULL, get_host, NULL, &m),
	};
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, size } } };

	return sgpu_bench_measure(bench, &point, variants, 2, error);
}

int bench_alloc(struct sgpu_bench *bench, struct sgpu_error *error)
{
	return bench_each_size(bench, &sizes, measure, bench, error);
}
