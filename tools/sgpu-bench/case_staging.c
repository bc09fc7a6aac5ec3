/* SPDX-License-Identifier: Apache-2.0
 *
 * staging: what it costs to bring 4 KiB of the host's memory to the device, by the kind of memory, the number of threads that
 * ask for it, and the NUMA node that it is on; and to register 4 KiB with the device and to let them go. All figures are in
 * the same unit, so that they can be added.
 */
#include <sched.h>
#include <stdlib.h>

#include <sgpu/stage.h>

#include "cases.h"
#include "made.h"
#include "memory.h"

enum { PAGE = 4096, SEED = 7, WAYS = 7 };
#define SIZE_LARGEST ((uint64_t)64 << 20)
static const uint64_t sizes[] = { (uint64_t)4 << 20, SIZE_LARGEST };

enum way { PINNED, PAGEABLE, REGISTERED };
static const struct kind {
	const char *name;
	enum way way;
	enum bench_pages pages;
} kinds[WAYS] = {
	{ "pinned", PINNED, BENCH_PAGES_ANY },
	{ "pageable", PAGEABLE, BENCH_PAGES_SMALL },
	{ "pageable, THP", PAGEABLE, BENCH_PAGES_TRANSPARENT },
	{ "pageable, hugetlb", PAGEABLE, BENCH_PAGES_HUGE },
	{ "registered", REGISTERED, BENCH_PAGES_SMALL },
	{ "registered, THP", REGISTERED, BENCH_PAGES_TRANSPARENT },
	{ "registered, hugetlb", REGISTERED, BENCH_PAGES_HUGE },
};

struct staging;
/* Memory of a kind, and what went wrong with its shares. */
struct source {
	struct staging *s;
	const struct kind *kind;
	void *memory;
	int failed;
};

struct staging {
	struct sgpu_bench *bench;
	struct sgpu_pool *pool;
	struct sgpu_stream **streams;  /* one a thread */
	sgpu_devptr to;
	void *check;
	uint64_t size;
	unsigned threads;
	struct source sources[WAYS];
	int count;
	bool waived[WAYS];
	int near, far;                 /* nodes; -1: there is none */
};

/* ---- copies ---- */
static uint64_t share_at(const struct staging *s, uint64_t i)
{
	return s->size / PAGE * i / s->threads * PAGE;
}

static void copy_shares(void *argument, uint64_t begin, uint64_t end)
{
	struct source *source = argument;
	struct staging *s = source->s;

	for (uint64_t i = begin; i < end; i++) {
		const uint64_t at = share_at(s, i);
		int rc = sgpu_copy_in(s->streams[i], s->to + at, (const uint8_t *)source->memory + at, share_at(s, i + 1) - at,
				      NULL);

		rc = rc == SGPU_OK ? sgpu_stream_sync(s->streams[i], NULL) : rc;
		if (rc != SGPU_OK) {
			__atomic_store_n(&source->failed, rc, __ATOMIC_RELAXED);
		}
	}
}

static int copy_all(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct source *source = argument;
	struct staging *s = source->s;
	int rc;

	(void)ns;
	sgpu_pool_enter(s->pool);
	rc = sgpu_pool_for(s->pool, s->threads, 1, copy_shares, source);
	sgpu_pool_leave(s->pool);
	rc = rc == SGPU_OK ? source->failed : rc;
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot copy to the device: %s", sgpu_strerror(rc));
}

static int clear_device(void *argument, struct sgpu_error *error)
{
	struct staging *s = ((struct source *)argument)->s;

	return bench_clear(s->streams[0], s->to, s->size, error);
}

static int verify_device(void *argument, struct sgpu_error *error)
{
	struct staging *s = ((struct source *)argument)->s;
	int rc = bench_from_device(s->streams[0], s->check, s->to, s->size, error);

	return rc == SGPU_OK ? bench_verify(s->check, s->size, SEED, error) : rc;
}

/* ---- registering ---- */
static int time_register(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct source *source = argument;
	struct sgpu_device *device = source->s->bench->device;
	const uint64_t begin = sgpu_now_ns();
	int rc = sgpu_host_register(device, source->memory, source->s->size, error);

	*ns = sgpu_now_ns() - begin;
	if (rc == SGPU_OK) {
		sgpu_host_unregister(device, source->memory);
	}
	return rc;
}

static int time_unregister(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct source *source = argument;
	struct sgpu_device *device = source->s->bench->device;
	int rc = sgpu_host_register(device, source->memory, source->s->size, error);
	uint64_t begin = sgpu_now_ns();

	if (rc == SGPU_OK) {
		sgpu_host_unregister(device, source->memory);
		*ns = sgpu_now_ns() - begin;
	}
	return rc;
}

/* ---- memory ---- */
static int open_source(struct staging *s, struct source *source, int node, bool registers, struct sgpu_error *error)
{
	struct sgpu_bench *bench = s->bench;
	const enum way way = source->kind->way;
	int rc;

	if (way == PINNED ? !bench->info.pins_host_memory : way == REGISTERED && !bench->info.registers) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "not to be had with device '%s'", bench->info.selector);
	}
	rc = way == PINNED ? sgpu_bench_new_pinned(bench, s->size, &source->memory, error) :
			     bench_new_pages(bench, s->size, source->kind->pages, node, &source->memory, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(source->memory, s->size, SEED);
	}
	return rc || way != REGISTERED || !registers ? rc : sgpu_bench_register(bench, source->memory, s->size, error);
}

/* What is not to be had is told once. */
static int open_sources(struct staging *s, int node, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	s->count = 0;
	for (int i = 0; rc == SGPU_OK && i < WAYS; i++) {
		struct source *source = &s->sources[s->count];

		*source = (struct source){ .s = s, .kind = &kinds[i] };
		rc = open_source(s, source, node, true, error);
		s->count += rc == SGPU_OK;
		if (rc == SGPU_EUNAVAILABLE) {
			if (!s->waived[i]) {
				sgpu_bench_waive(s->bench, NULL, kinds[i].name, "%s", error->text);
			}
			s->waived[i] = true;
			rc = SGPU_OK;
		}
	}
	return rc;
}

/* ---- points ---- */
static int measure_copies(struct staging *s, int node, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = {
		.parameters = { { "size_bytes", NULL, s->size }, { "threads", NULL, s->threads },
				{ "memory_node", node == s->near ? "near" : "far", 0 } },
		.bytes = s->size, .operations = s->size / PAGE,
	};
	struct sgpu_bench_variant variants[WAYS];

	for (int i = 0; i < s->count; i++) {
		variants[i] = (struct sgpu_bench_variant){ .name = s->sources[i].kind->name, .prepare = clear_device,
							   .run = copy_all, .verify = verify_device,
							   .argument = &s->sources[i] };
	}
	return sgpu_bench_measure(s->bench, &point, variants, s->count, error);
}

/* Of pages that were not registered before. */
static int measure_registering(struct staging *s, const struct kind *kind, struct sgpu_error *error)
{
	struct source source = { .s = s, .kind = kind };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "register", .run = time_register, .argument = &source },
		{ .name = "unregister", .run = time_unregister, .argument = &source },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "size_bytes", NULL, s->size }, { "memory", kind->name, 0 } },
		.operations = s->size / PAGE,
	};
	const size_t mark = sgpu_bench_mark(s->bench);
	int rc = open_source(s, &source, s->near, false, error);

	rc = rc == SGPU_OK ? sgpu_bench_measure(s->bench, &point, variants, 2, error) :
			     bench_or_waive(s->bench, &point, NULL, rc, error);
	sgpu_bench_release(s->bench, mark);
	return rc;
}

static int measure_node(struct staging *s, int node, struct sgpu_error *error)
{
	const unsigned jobs = s->bench->options.jobs;
	const size_t mark = sgpu_bench_mark(s->bench);
	int rc = open_sources(s, node, error);

	for (unsigned threads = 1; rc == SGPU_OK && threads < 2 * jobs; threads *= 2) {
		s->threads = threads < jobs ? threads : jobs;
		rc = measure_copies(s, node, error);
	}
	sgpu_bench_release(s->bench, mark);
	for (int i = 0; rc == SGPU_OK && node == s->near && i < s->count; i++) {
		if (s->sources[i].kind->way == REGISTERED) {
			rc = measure_registering(s, s->sources[i].kind, error);
		}
	}
	return rc;
}

static int measure_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct staging *s = argument;
	int rc;

	s->size = size;
	rc = bench_new_pages(s->bench, size, BENCH_PAGES_ANY, -1, &s->check, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(s->bench, size, &s->to, error);
	rc = rc ? rc : measure_node(s, s->near, error);
	return rc == SGPU_OK && s->far >= 0 ? measure_node(s, s->far, error) : rc;
}

/* The threads run near the device; where that is not known, on any node. */
static int choose_nodes(struct staging *s, struct sgpu_error *error)
{
	struct sgpu_numa_node *nodes = NULL;
	int count = 0, rc = sgpu_numa_nodes(&nodes, &count, error);

	s->near = s->far = -1;
	if (rc == SGPU_OK && count > 0) {
		s->near = s->bench->info.numa_node >= 0 ? s->bench->info.numa_node : nodes[0].node;
		for (int i = 0; i < count; i++) {
			s->far = nodes[i].node != s->near && nodes[i].free > 8 * SIZE_LARGEST ? nodes[i].node : s->far;
		}
		rc = sgpu_numa_run(s->near, error);
	}
	free(nodes);
	return rc;
}

static int measure_sizes(struct staging *s, struct sgpu_error *error)
{
	const struct sgpu_bench_point far = { .parameters = { { "memory_node", "far", 0 } } };
	const unsigned jobs = s->bench->options.jobs;
	int rc = choose_nodes(s, error);

	if (rc == SGPU_OK && s->far < 0) {
		sgpu_bench_waive(s->bench, &far, NULL, "no second NUMA node is known here");
	}
	rc = rc ? rc : bench_new_pool(s->bench, &s->pool, error);
	rc = rc ? rc : sgpu_bench_new(s->bench, jobs * sizeof(*s->streams), (void **)&s->streams, error);
	for (unsigned i = 0; rc == SGPU_OK && i < jobs; i++) {
		rc = sgpu_bench_new_stream(s->bench, s->bench->device, &s->streams[i], error);
	}
	return rc ? rc : bench_each_size(s->bench, sizes, SGPU_ARRAY_LENGTH(sizes), (struct bench_need){ WAYS + 1, 1, 0 },
					 measure_size, s, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct staging s = { .bench = bench };
	cpu_set_t processors; /* on which the thread ran before */
	const bool bound = sched_getaffinity(0, sizeof(processors), &processors) == 0;
	int rc = SGPU_OK;

	if (sgpu_bench_wants(bench, sizes[0]) || sgpu_bench_wants(bench, SIZE_LARGEST)) {
		rc = measure_sizes(&s, error);
	}
	if (bound) {
		(void)sched_setaffinity(0, sizeof(processors), &processors);
	}
	return rc;
}

const struct sgpu_bench_case case_staging = {
	.name = "staging",
	.help = "4 KiB from each kind of host memory to the device, by threads and NUMA node, and registered",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
