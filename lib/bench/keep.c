/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps a list of the things that a case makes, and ends them in reverse order.
 */
#include <stdlib.h>

#include "bench/private.h"

static int add(struct sgpu_bench *bench, struct sgpu_bench_kept kept, struct sgpu_error *error)
{
	return sgpu_bench_append((void **)&bench->state->kept, &bench->state->kept_count, &kept,
				 sizeof(kept), error);
}

int sgpu_bench_keep(struct sgpu_bench *bench, sgpu_bench_end_fn *end, uintptr_t what, uint64_t size,
		    struct sgpu_error *error)
{
	const int rc = add(bench, (struct sgpu_bench_kept){ end, what, size, false }, error);

	if (rc != SGPU_OK) {
		end(bench, what, size);
	}
	return rc;
}

size_t sgpu_bench_mark(const struct sgpu_bench *bench)
{
	return bench->state->kept_count;
}

void sgpu_bench_release(struct sgpu_bench *bench, size_t mark)
{
	struct sgpu_bench_private *state = bench->state;

	if (state->kept_count > mark &&
	    bench->device) { /* after an error, work may still be under way */
		(void)!sgpu_device_synchronize(bench->device, NULL);
	}
	while (state->kept_count > mark) {
		const struct sgpu_bench_kept last = state->kept[--state->kept_count];

		if (last.end) {
			last.end(bench, last.what, last.size);
		}
		if (last.is_memory) {
			free((void *)last.what);
		}
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

void *sgpu_bench_new(struct sgpu_bench *bench, size_t size, sgpu_bench_end_fn *end,
		     struct sgpu_error *error)
{
	void *memory = calloc(1, size);

	if (!memory) {
		(void)sgpu_fail_nomem(error);
	} else if (add(bench, (struct sgpu_bench_kept){ end, (uintptr_t)memory, size, true },
		       error) != SGPU_OK) {
		free(memory);
		memory = NULL;
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
