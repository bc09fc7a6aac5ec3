/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc: what it takes to get memory and to give it back: of the device, and of its pool on the host.
 */
#include "cases.h"

enum { PAGE = 4096 };

struct memory {
	struct sgpu_bench *bench;
	uint64_t size;
};

static int get_device(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct memory *m = argument;
	sgpu_devptr memory = 0;
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_device_alloc(m->bench->device, m->size, &memory, error);

	sgpu_device_free(m->bench->device, &memory, m->size);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int get_host(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct memory *m = argument;
	void *memory = NULL;
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_host_alloc(m->bench->device, m->size, &memory, error);

	sgpu_host_free(m->bench->device, &memory, m->size);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int measure(struct sgpu_bench *bench, uint64_t size, struct sgpu_error *error)
{
	struct memory m = { .bench = bench, .size = size };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "device", .run = get_device, .argument = &m },
		{ .name = "host pool", .run = get_host, .argument = &m },
	};
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, size } } };

	if (sgpu_bench_fits(bench, size, size, error) != SGPU_OK) {
		sgpu_bench_waive(bench, &point, NULL, "%s", error->text);
		return SGPU_OK;
	}
	return sgpu_bench_measure(bench, &point, variants, 2, error);
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, PAGE, (uint64_t)1 << 30, sizes), rc = SGPU_OK;

	(void)state;
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = measure(bench, sizes[i], error);
	}
	return rc;
}

const struct sgpu_bench_case case_alloc = {
	.name = "alloc",
	.help = "memory got and given back: device, host pool",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
