/* SPDX-License-Identifier: Apache-2.0
 *
 * staging: what it costs to copy 4 KiB of the host's memory to the device, by the kind of memory,
 * and the number of threads that copy; and to register and unregister 4 KiB. All figures are in the
 * same unit, so that they can be added.
 */
#include <sched.h>
#include <stdlib.h>

#if SGPU_NUMA
#include <numa.h>
#endif

#include "stage/stage.h"
#include "cases.h"
#include "setup.h"

enum {
	PAGE = 4096,
	SEED = 7,
	WAYS = 5,
	FIRST_PAGEABLE = 1,
	FIRST_REGISTERED = 3
}; /* the kinds from each on have the same pages */
static const struct bench_sizes sizes = { 4 << 20 | 64 << 20, UINT64_MAX, WAYS + 1, 1, 0 };

static const struct kind {
	const char *name;
	enum bench_way way;
	enum bench_pages pages;
} kinds[WAYS] = {
	{ "pinned", BENCH_PINNED, BENCH_PAGES_ANY },
	{ "pageable", BENCH_PAGEABLE, BENCH_PAGES_SMALL },
	{ "pageable, THP", BENCH_PAGEABLE, BENCH_PAGES_TRANSPARENT },
	{ "registered", BENCH_REGISTERED, BENCH_PAGES_SMALL },
	{ "registered, THP", BENCH_REGISTERED, BENCH_PAGES_TRANSPARENT },
};

struct staging {
	struct bench_target to;
	struct sgpu_bench *bench;
	struct sgpu_pool *pool;
	struct sgpu_stream **streams; /* one per thread */
	uint64_t size;
	unsigned threads;
	int failed; /* code of a thread's copy */
	struct bench_source sources[WAYS];
	void *registered; /* the pageable memory that the point registers */
	int node;	  /* of memory and threads; -1: unknown */
};

/* ---- copies ---- */
static uint64_t share_at(const struct staging *s, uint64_t i)
{
	return s->size / PAGE * i / s->threads * PAGE;
}

static void copy_shares(void *argument, uint64_t begin, uint64_t end)
{
	struct staging *s = argument;
	const uint8_t *memory = s->sources[s->bench->variant].memory;

	for (uint64_t i = begin; i < end; i++) {
		const uint64_t at = share_at(s, i);
		int rc = sgpu_copy_in(s->streams[i], s->to.memory + at, memory + at,
				      share_at(s, i + 1) - at, NULL);

		rc = rc == SGPU_OK ? sgpu_stream_sync(s->streams[i], NULL) : rc;
		if (rc != SGPU_OK) {
			__atomic_store_n(&s->failed, rc, __ATOMIC_RELAXED);
		}
	}
}

static int copy_all(void *argument, struct sgpu_error *error)
{
	struct staging *s = argument;
	int rc;

	sgpu_pool_enter(s->pool);
	rc = sgpu_pool_for(s->pool, s->threads, 1, copy_shares, s);
	sgpu_pool_leave(s->pool);
	rc = rc == SGPU_OK ? s->failed : rc;
	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "cannot copy to the device: %s", sgpu_strerror(rc));
}

/* ---- registering ---- */
static int time_registration(void *argument, struct sgpu_error *error)
{
	const struct staging *s = argument;
	const uint64_t begin = sgpu_now_ns();
	const int rc = sgpu_host_register(s->bench->device, s->registered, s->size, error);
	const uint64_t between = sgpu_now_ns();

	if (rc == SGPU_OK) {
		sgpu_host_unregister(s->bench->device, s->registered);
	}
	bench_give_part(s->bench, begin, between, s->bench->variant == 1);
	return rc;
}

/* ---- points ---- */
static int measure_copies(struct staging *s, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = {
		.parameters = { { "size_bytes", NULL, s->size }, { "threads", NULL, s->threads } },
		.bytes = s->size,
		.operations = s->size / PAGE,
	};
	struct sgpu_bench_variant variants[WAYS];

	for (int i = 0; i < WAYS; i++) {
		variants[i] = (struct sgpu_bench_variant)BENCH_VARIANT(
			kinds[i].name, bench_clear_target, copy_all, bench_verify_target, s);
		variants[i].why = s->sources[i].why;
	}
	return sgpu_bench_measure(s->bench, &point, variants, WAYS, error);
}

/* Measures registering pageable `memory`, whose pages are as in the registered `kind`. */
static int measure_registration(struct staging *s, void *memory, const struct kind *kind,
				struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		BENCH_VARIANT("register", NULL, time_registration, NULL, s),
		BENCH_VARIANT("unregister", NULL, time_registration, NULL, s),
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "size_bytes", NULL, s->size }, { "memory", kind->name, 0 } },
		.operations = s->size / PAGE,
	};

	s->registered = memory;
	return sgpu_bench_measure(s->bench, &point, variants, 2, error);
}

static int measure_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct staging *s = argument;
	const unsigned jobs = s->bench->options.jobs;
	int rc;

	s->size = size;
	s->to = (struct bench_target){ .stream = s->streams[0], .size = size, .seed = SEED };
	rc = bench_new_pages(s->bench, size, BENCH_PAGES_ANY, -1, &s->to.scratch, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(s->bench, size, &s->to.memory, error);
	for (int i = 0; rc == SGPU_OK && i < WAYS; i++) {
		rc = bench_new_source(s->bench, kinds[i].way, kinds[i].pages, s->node, size, SEED,
				      &s->sources[i], error);
	}
	for (unsigned threads = 1; rc == SGPU_OK && threads < 2 * jobs; threads *= 2) {
		s->threads = threads < jobs ? threads : jobs;
		rc = measure_copies(s, error);
	}
	for (int i = FIRST_REGISTERED; rc == SGPU_OK && i < WAYS; i++) {
		const struct bench_source *source =
			&s->sources[i - FIRST_REGISTERED + FIRST_PAGEABLE];

		if (!s->sources[i].why && !source->why) {
			rc = measure_registration(s, source->memory, &kinds[i], error);
		}
	}
	return rc;
}

/* Binds the threads to the device's node or, if that is unknown, to the first one. */
static int choose_node(struct staging *s, struct sgpu_error *error)
{
	struct sgpu_numa_node *nodes = NULL;
	int count = 0, rc = sgpu_numa_nodes(&nodes, &count, error);

	s->node = -1;
	if (rc == SGPU_OK && count > 0) {
		s->node = s->bench->info.numa_node >= 0 ? s->bench->info.numa_node : nodes[0].node;
#if SGPU_NUMA
		rc = numa_run_on_node(s->node) == 0
			     ? SGPU_OK
			     : sgpu_fail_errno(error, "cannot run on NUMA node %d", s->node);
#endif
	}
	free(nodes);
	return rc;
}

int bench_staging(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const unsigned jobs = bench->options.jobs;
	struct staging s = { .bench = bench };
	cpu_set_t processors; /* on which the thread ran before */
	const bool bound = sched_getaffinity(0, sizeof(processors), &processors) == 0;
	int rc = choose_node(&s, error);

	rc = rc ? rc : bench_new_pool(bench, &s.pool, error);
	s.streams = sgpu_bench_new(bench, jobs * sizeof(*s.streams), NULL, error);
	rc = rc || s.streams ? rc : SGPU_ENOMEM;
	for (unsigned i = 0; rc == SGPU_OK && i < jobs; i++) {
		rc = sgpu_bench_new_stream(bench, bench->device, &s.streams[i], error);
	}
	rc = rc ? rc : bench_each_size(bench, &sizes, measure_size, &s, error);
	if (bound) {
		(void)sched_setaffinity(0, sizeof(processors), &processors);
	}
	return rc;
}
