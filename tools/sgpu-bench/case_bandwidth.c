/* SPDX-License-Identifier: Apache-2.0
 *
 * bandwidth: plain copies between host memory and the device, in one or both directions. Pinned
 * memory is of the device's pool, pageable memory is ordinary. Many copies are enqueued back to
 * back and timed by the device; "one by one" waits for each and is timed by the host.
 */
#include <string.h>

#include "cases.h"

enum { COPIES_MAX = 64, SEED = 3, MEMORIES = 4 /* buffers of the host */ };
static const struct bench_sizes sizes = { BENCH_SWEEP(4 << 10, 1 << 30), MEMORIES, 2, 0 };

/* A direction copies one way or both; each has its own stream. */
enum way { H2D, D2H, WAYS };
static const struct direction {
	const char *name;
	enum way first, end;
} directions[] = { { "h2d", H2D, D2H }, { "d2h", D2H, WAYS }, { "both", H2D, WAYS } };

struct bandwidth {
	struct sgpu_bench *bench;
	struct sgpu_stream *streams[WAYS];
	sgpu_devptr to, from;		     /* on the device */
	void *pinned[WAYS], *pageable[WAYS]; /* of the host */
	bool is_pageable;
	uint64_t size, room; /* bytes of a copy; of a buffer, for all copies */
	int copies;
	const struct direction *direction; /* of the point */
	struct sgpu_task tasks[2 * WAYS];  /* of each way's first copy, and of its last */
};

static uint8_t *memory_of(const struct bandwidth *b, enum way way)
{
	return (b->is_pageable ? b->pageable : b->pinned)[way];
}

static int copy_one(const struct bandwidth *b, enum way way, int i, struct sgpu_task *task,
		    struct sgpu_error *error)
{
	const uint64_t at = (uint64_t)i * b->size;
	const int rc = way == H2D ? sgpu_copy_in(b->streams[H2D], b->to + at,
						 memory_of(b, H2D) + at, b->size, task)
				  : sgpu_copy_out(b->streams[D2H], memory_of(b, D2H) + at,
						  b->from + at, b->size, task);

	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot copy: %s", sgpu_strerror(rc));
}

/* Both ways alternate, so that both are busy from the start. Timing costs time, so only the first
 * and the last copy of each way are timed. */
static int enqueue(void *argument, struct sgpu_error *error)
{
	struct bandwidth *b = argument;
	const struct direction *d = b->direction;
	struct sgpu_task *task = b->tasks;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < b->copies; i++) {
		const bool timed = i == 0 || i + 1 == b->copies;

		for (enum way way = d->first; rc == SGPU_OK && way < d->end; way++) {
			rc = copy_one(b, way, i, timed ? task++ : NULL, error);
		}
	}
	return rc;
}

static int copy_enqueued(void *argument, struct sgpu_error *error)
{
	struct bandwidth *b = argument;
	const int ways = (int)(b->direction->end - b->direction->first);

	return sgpu_bench_enqueue(b->bench, &b->streams[b->direction->first], ways, enqueue, b,
				  b->tasks, b->copies > 1 ? 2 * ways : ways, error);
}

/* Copies of pageable memory do so anyway. */
static int copy_one_by_one(void *argument, struct sgpu_error *error)
{
	const struct bandwidth *b = argument;
	const struct direction *d = b->direction;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < b->copies; i++) {
		for (enum way way = d->first; rc == SGPU_OK && way < d->end; way++) {
			rc = copy_one(b, way, i, NULL, error);
		}
		for (enum way way = d->first; rc == SGPU_OK && way < d->end; way++) {
			rc = sgpu_stream_sync(b->streams[way], error);
		}
	}
	return rc;
}

static int prepare(void *argument, struct sgpu_error *error)
{
	const struct bandwidth *b = argument;

	if (b->direction->end == WAYS) {
		bench_spoil(memory_of(b, D2H), b->room);
	}
	return b->direction->first == H2D ? bench_clear(b->streams[H2D], b->to, b->room, error)
					  : SGPU_OK;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct bandwidth *b = argument;
	int rc = SGPU_OK;

	if (b->direction->end == WAYS) {
		rc = sgpu_bench_check(memory_of(b, D2H), b->room, SEED, error);
	}
	if (rc == SGPU_OK && b->direction->first == H2D) {
		rc = bench_verify_target(&(struct bench_target){ b->streams[D2H], b->to, b->room,
								 SEED, b->pageable[D2H] },
					 error);
	}
	return rc;
}

static int measure_direction(struct bandwidth *b, const struct direction *direction,
			     struct sgpu_error *error)
{
	const bool both = direction->end - direction->first > 1;
	const uint64_t operations = (uint64_t)b->copies * (both ? 2 : 1);
	const struct sgpu_bench_point point = {
		.parameters = { { "direction", direction->name, 0 },
				{ "size_bytes", NULL, b->size } },
		.bytes = b->size * operations,
		.operations = operations,
	};
	const bool pins = b->bench->info.pins_host_memory;
	struct bandwidth pageable;
	const struct sgpu_bench_variant variants[] = {
		{ "pinned", prepare, copy_enqueued, verify, b },
		{ "pinned, one by one", prepare, copy_one_by_one, verify, b },
		{ "pageable", prepare, copy_one_by_one, verify, &pageable },
	};

	b->direction = direction;
	pageable = *b;
	pageable.is_pageable = true;
	return sgpu_bench_measure(b->bench, &point, pins ? variants : &variants[2], pins ? 3 : 1,
				  error);
}

/* Measures enough copies to show the rate, or one if memory is short. */
static int measure_size(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct bandwidth *b = argument;
	const uint64_t copies = bench_repeats(size, COPIES_MAX);
	int rc;

	b->size = size;
	b->copies = sgpu_bench_fits(b->bench, MEMORIES * size * copies, 2 * size * copies, NULL) ==
				    SGPU_OK
			    ? (int)copies
			    : 1;
	b->room = size * (uint64_t)b->copies;
	rc = sgpu_bench_new_device_memory(b->bench, b->room, &b->to, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(b->bench, b->room, &b->from, error);
	for (enum way way = H2D; rc == SGPU_OK && way < WAYS; way++) {
		rc = bench_new_pages(b->bench, b->room, &b->pageable[way], error);
		if (rc == SGPU_OK && b->bench->info.pins_host_memory) {
			rc = sgpu_bench_new_pinned(b->bench, b->room, &b->pinned[way], error);
		}
		if (rc == SGPU_OK) {
			sgpu_bench_fill(b->pageable[way], b->room, SEED);
			(void)(b->pinned[way] && memcpy(b->pinned[way], b->pageable[way], b->room));
		}
	}
	rc = rc ? rc : bench_to_device(b->streams[H2D], b->from, b->pageable[H2D], b->room, error);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(directions); i++) {
		rc = measure_direction(b, &directions[i], error);
	}
	return rc;
}

int bench_bandwidth(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct bandwidth b = { .bench = bench, .streams = { bench->stream } };
	int rc = sgpu_bench_new_stream(bench, bench->device, &b.streams[D2H], error);

	if (rc == SGPU_OK && !bench->info.pins_host_memory) {
		sgpu_bench_waive(bench, NULL, "pinned", "device '%s' pins no memory",
				 bench->info.selector);
	}
	return rc ? rc : bench_each_size(bench, &sizes, measure_size, &b, error);
}
