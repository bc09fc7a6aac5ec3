/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps a list of the things that a case makes, and ends them in reverse order.
 */
#include <stdlib.h>

#include "bench/bench.h"

struct sgpu_bench_kept {
	struct sgpu_bench_kept *before;
	sgpu_bench_end_fn *end;
	uintptr_t what;
	uint64_t size;
};

int sgpu_bench_keep(struct sgpu_bench *bench, sgpu_bench_end_fn *end, uintptr_t what, uint64_t size,
		    struct sgpu_error *error)
{
	struct sgpu_bench_kept *kept = malloc(sizeof(*kept));

	if (!kept) {
		end(bench, what, size);
		return sgpu_fail_nomem(error);
	}
	*kept = (struct sgpu_bench_kept){ bench->kept, end, what, size };
	bench->kept = kept;
	return SGPU_OK;
}

void sgpu_bench_release(struct sgpu_bench *bench, const void *mark)
{
	struct sgpu_bench_kept *last;

	if (bench->device) { /* after an error, work may still be under way */
		(void)!sgpu_device_synchronize(bench->device, NULL);
	}
	while ((last = bench->kept) != mark) {
		bench->kept = last->before;
		last->end(bench, last->what, last->size);
		free(last);
	}
}

SGPU_BENCH_ENDING(end_stream, struct sgpu_stream, sgpu_stream_free)

static void end_device_memory(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	sgpu_devptr memory = what;

	sgpu_device_free(bench->device, &memory, size);
}

static void end_pinned(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	void *memory = (void *)what;

	sgpu_host_free(bench->device, &memory, size);
}

void sgpu_bench_end_memory(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	(void)bench, (void)size;
	free((void *)what);
}

void *sgpu_bench_new(struct sgpu_bench *bench, size_t size, sgpu_bench_end_fn *end,
		     struct sgpu_error *error)
{
	void *memory = calloc(1, size);

	if (!memory ||
	    sgpu_bench_keep(bench, sgpu_bench_end_memory, (uintptr_t)memory, 0, error) < 0 ||
	    (end && sgpu_bench_keep(bench, end, (uintptr_t)memory, 0, error) < 0)) {
		(void)sgpu_fail_nomem(error);
		return NULL;
	}
	return memory;
}

int sgpu_bench_new_stream(struct sgpu_bench *bench, struct sgpu_device *device,
			  struct sgpu_stream **stream, struct sgpu_error *error)
{
	const int rc = sgpu_stream_create(device, stream, error);

	return rc ? rc : sgpu_bench_keep(bench, end_stream, (uintptr_t)*stream, 0, error);
}

int sgpu_bench_new_device_memory(struct sgpu_bench *bench, uint64_t size, sgpu_devptr *memory,
				 struct sgpu_error *error)
{
	const int rc = sgpu_device_alloc(bench->device, size, memory, error);

	return rc ? rc : sgpu_bench_keep(bench, end_device_memory, *memory, size, error);
}

int sgpu_bench_new_pinned(struct sgpu_bench *bench, uint64_t size, void **memory,
			  struct sgpu_error *error)
{
	const int rc = sgpu_host_alloc(bench->device, size, memory, error);

	return rc ? rc : sgpu_bench_keep(bench, end_pinned, (uintptr_t)*memory, size, error);
}
