/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc: what it takes to get memory and to give it back: of the device, and of its pool on the
 * host.
 */
#include "cases.h"
#include "made.h"

enum { PAGE = 4096 };

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
		{ .name = "device", .work = get_device, .argument = &m },
		{ .name = "host pool", .work = get_host, .argument = &m },
	};
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, size } } };

	return sgpu_bench_measure(bench, &point, variants, 2, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	return bench_sweep(bench, PAGE, (uint64_t)1 << 30, (struct bench_need){ 1, 1, 0 }, measure,
			   bench, error);
}

const struct sgpu_bench_case case_alloc = {
	.name = "alloc",
	.help = "memory got and given back: device, host pool",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
