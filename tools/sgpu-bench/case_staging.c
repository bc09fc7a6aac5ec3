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
#include "memory.h"

enum { PAGE = 4096, SEED = 7, WAYS = 7 };
static const uint64_t sizes[] = { (uint64_t)4 << 20, (uint64_t)64 << 20 };

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
	bool registered;
	int failed;
};

struct staging {
	struct sgpu_bench *bench;
	struct sgpu_pool *pool;
	struct sgpu_stream **streams;  /* one a thread */
	sgpu_devptr to;
	void *check;
	uint64_t room, size;
	unsigned threads;
	struct source sources[WAYS];
	int count;
	bool waived[WAYS];
	int near, far;                 /* nodes; -1: there is none */
	cpu_set_t processors;          /* on which the thread ran before */
	bool bound;
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
static void close_sources(struct staging *s)
{
	while (s->count > 0) {
		struct source *source = &s->sources[--s->count];

		if (source->registered) {
			sgpu_host_unregister(s->bench->device, source->memory);
		}
		if (source->kind->way == PINNED) {
			sgpu_host_free(s->bench->device, &source->memory, s->size);
		} else {
			bench_unmap(&source->memory, s->size);
		}
	}
}

static int open_source(struct staging *s, struct source *source, int node, struct sgpu_error *error)
{
	const struct sgpu_device_info *info = &s->bench->info;
	const enum way way = source->kind->way;
	int rc;

	if (way == PINNED ? !info->pins_host_memory : way == REGISTERED && !info->registers) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "not to be had with device '%s'", info->selector);
	}
	rc = way == PINNED ? sgpu_host_alloc(s->bench->device, s->size, &source->memory, error) :
			     bench_map_pages(s->size, source->kind->pages, node, &source->memory, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(source->memory, s->size, SEED);
	}
	if (rc == SGPU_OK && way == REGISTERED) {
		rc = sgpu_host_register(s->bench->device, source->memory, s->size, error);
		source->registered = rc == SGPU_OK;
	}
	return rc;
}

/* What is not to be had is told once. */
static int open_sources(struct staging *s, int node, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < WAYS; i++) {
		struct source *source = &s->sources[s->count++];

		*source = (struct source){ .s = s, .kind = &kinds[i] };
		rc = open_source(s, source, node, error);
		if (rc == SGPU_EUNAVAILABLE) {
			if (!s->waived[i]) {
				sgpu_bench_waive(s->bench, NULL, kinds[i].name, "%s", error->text);
			}
			s->waived[i] = true;
			bench_unmap(&source->memory, s->size);
			s->count--;
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

static int measure_registering(struct staging *s, struct source *source, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "register", .run = time_register, .argument = source },
		{ .name = "unregister", .run = time_unregister, .argument = source },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "size_bytes", NULL, s->size }, { "memory", source->kind->name, 0 } },
		.operations = s->size / PAGE,
	};

	sgpu_host_unregister(s->bench->device, source->memory);
	source->registered = false;
	return sgpu_bench_measure(s->bench, &point, variants, 2, error);
}

static int measure_node(struct staging *s, int node, struct sgpu_error *error)
{
	const unsigned jobs = s->bench->options.jobs;
	int rc = open_sources(s, node, error);

	for (unsigned threads = 1; rc == SGPU_OK && threads < 2 * jobs; threads *= 2) {
		s->threads = threads < jobs ? threads : jobs;
		rc = measure_copies(s, node, error);
	}
	for (int i = 0; rc == SGPU_OK && node == s->near && i < s->count; i++) {
		if (s->sources[i].registered) {
			rc = measure_registering(s, &s->sources[i], error);
		}
	}
	close_sources(s);
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	const struct sgpu_bench_point far = { .parameters = { { "memory_node", "far", 0 } } };
	struct staging *s = state;
	int rc = SGPU_OK;

	if (s->far < 0 && s->room > 0) {
		sgpu_bench_waive(bench, &far, NULL, "no second NUMA node is known here");
	}
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(sizes); i++) {
		if (sgpu_bench_wants(bench, sizes[i])) {
			s->size = sizes[i];
			rc = measure_node(s, s->near, error);
			rc = rc == SGPU_OK && s->far >= 0 ? measure_node(s, s->far, error) : rc;
		}
	}
	return rc;
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
			s->far = nodes[i].node != s->near && nodes[i].free > 8 * s->room ? nodes[i].node : s->far;
		}
		s->bound = sched_getaffinity(0, sizeof(s->processors), &s->processors) == 0;
		rc = sgpu_numa_run(s->near, error);
	}
	free(nodes);
	return rc;
}

static int setup(struct sgpu_bench *bench, void **state, struct sgpu_error *error)
{
	struct staging *s = calloc(1, sizeof(*s));
	int rc;

	*state = s;
	if (!s) {
		return sgpu_fail_nomem(error);
	}
	s->bench = bench;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		s->room = sgpu_bench_wants(bench, sizes[i]) ? sizes[i] : s->room;
	}
	if (s->room == 0) {
		return SGPU_OK;
	}
	rc = choose_nodes(s, error);
	rc = rc ? rc : sgpu_bench_fits(bench, (WAYS + 1) * s->room, s->room, error);
	rc = rc ? rc : sgpu_pool_create(bench->options.jobs, &s->pool, error);
	s->streams = calloc(bench->options.jobs, sizeof(struct sgpu_stream *));
	rc = rc ? rc : s->streams ? bench_map(s->room, &s->check, error) : sgpu_fail_nomem(error);
	rc = rc ? rc : sgpu_device_alloc(bench->device, s->room, &s->to, error);
	for (unsigned i = 0; rc == SGPU_OK && i < bench->options.jobs; i++) {
		rc = sgpu_stream_create(bench->device, &s->streams[i], error);
	}
	return rc;
}

static void teardown(struct sgpu_bench *bench, void *state)
{
	struct staging *s = state;

	if (!s) {
		return;
	}
	for (unsigned i = 0; s->streams && i < bench->options.jobs; i++) {
		sgpu_stream_free(&s->streams[i]);
	}
	free(s->streams);
	sgpu_device_free(bench->device, &s->to, s->room);
	bench_unmap(&s->check, s->room);
	sgpu_pool_free(&s->pool);
	if (s->bound) {
		(void)sched_setaffinity(0, sizeof(s->processors), &s->processors);
	}
	free(s);
}

const struct sgpu_bench_case case_staging = {
	.name = "staging",
	.help = "4 KiB from each kind of host memory to the device, by threads and NUMA node, and registered",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.setup = setup,
	.run = run,
	.teardown = teardown,
};
