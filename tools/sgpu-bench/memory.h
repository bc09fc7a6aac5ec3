/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that copies are measured with, and the time between two ends on a stream.
 */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <sgpu/bench.h>

/* Memory of the process, every page of it there, from a multiple of 2 MiB on, on a node or any
 * (-1); kept until the case ends. Errors: SGPU_EUNAVAILABLE when there are no such pages,
 * SGPU_ENOMEM. */
enum bench_pages {
	BENCH_PAGES_ANY, /* huge ones where the kernel has them */
	BENCH_PAGES_SMALL,
	BENCH_PAGES_TRANSPARENT, /* 2 MiB, as the kernel gives them on advice */
	BENCH_PAGES_HUGE,	 /* of those that the administrator has reserved */
};
SGPU_MUST_CHECK int bench_new_pages(struct sgpu_bench *bench, uint64_t size, enum bench_pages pages,
				    int node, void **memory, struct sgpu_error *error);
/* Memory of a way to the device, with the pattern of a seed; the pages and the node are for other
 * memory than the device's own. Errors: SGPU_EUNAVAILABLE when the device does not have the way;
 * those of bench_new_pages and sgpu_bench_new_pinned. */
enum bench_way { BENCH_PINNED, BENCH_PAGEABLE, BENCH_REGISTERED };
SGPU_MUST_CHECK int bench_new_source(struct sgpu_bench *bench, enum bench_way way,
				     enum bench_pages pages, int node, uint64_t size, uint64_t seed,
				     void **memory, struct sgpu_error *error);
/* Alters every page, so that what was there before does not pass for what was to come. */
void bench_spoil(void *memory, uint64_t size);
/* SGPU_EDIFFERS when the memory is not what sgpu_bench_fill made with the seed. */
SGPU_MUST_CHECK int bench_verify(const void *memory, uint64_t size, uint64_t seed,
				 struct sgpu_error *error);

/* Waits for tasks that were enqueued, the last one with `rc`, and tells what failed first. what:
 * "copy to the device". */
SGPU_MUST_CHECK int bench_finish(struct sgpu_stream *stream, int rc, const struct sgpu_task *tasks,
				 int count, const char *what, struct sgpu_error *error);
/* Copies that wait for their end. */
SGPU_MUST_CHECK int bench_to_device(struct sgpu_stream *stream, sgpu_devptr to, const void *from,
				    uint64_t size, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_from_device(struct sgpu_stream *stream, void *to, sgpu_devptr from,
				      uint64_t size, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
				struct sgpu_error *error);
/* bench_verify of device memory, by way of the host's, in which nothing of before is left. */
SGPU_MUST_CHECK int bench_verify_device(struct sgpu_stream *stream, sgpu_devptr memory,
					uint64_t size, uint64_t seed, void *scratch,
					struct sgpu_error *error);

#endif
