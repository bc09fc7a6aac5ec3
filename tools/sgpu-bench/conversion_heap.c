/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion by a TDX or SNP guest's hardware: the heap of shared dma-bufs converts the pages of a
 * buffer when it is allocated, and back when it is freed. The ordinary heap does everything else
 * alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "conversion.h"

#define HEAP "/dev/dma_heap/system_cc_shared"

static int by_heap(const struct conversion_way *w, const struct conversion_call *call, double *ns,
		   struct sgpu_error *error)
{
	struct dma_heap_allocation_data buffer = { .len = call->pages * call->page_bytes,
						   .fd_flags = O_RDWR | O_CLOEXEC };
	uint64_t begin = sgpu_now_ns();

	if (ioctl(w->detail, DMA_HEAP_IOCTL_ALLOC, &buffer) != 0) {
		return sgpu_fail_errno(error, "cannot allocate %llu bytes of a heap",
				       (unsigned long long)buffer.len);
	}
	*ns = (double)(sgpu_now_ns() - begin);
	begin = sgpu_now_ns();
	close((int)buffer.fd);
	*ns = call->to_private ? (double)(sgpu_now_ns() - begin) : *ns;
	return SGPU_OK;
}

int conversion_by_hardware(struct conversion *c, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "source", "hardware", 0 } } };
	struct conversion_way ways[] = { { .name = "shared heap", .convert = by_heap },
					 { .name = "private heap", .convert = by_heap } };
	int rc = SGPU_OK;

	ways[0].detail = open(HEAP, O_RDONLY | O_CLOEXEC);
	if (ways[0].detail < 0) {
		sgpu_bench_waive(c->bench, &point, NULL,
				 "%s: %s: TDX and SNP guests have it, from Linux 7 on", HEAP,
				 strerror(errno));
		return SGPU_OK;
	}
	ways[1].detail = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	for (int i = 0; rc == SGPU_OK && i < 2 * CONVERSION_BATCHES; i++) {
		const struct conversion_call call = { i % 2, conversion_batches[i / 2],
						      CONVERSION_SMALL };

		rc = conversion_measure(c, "conversion", "hardware", &call, 1, ways,
					ways[1].detail < 0 ? 1 : 2, error);
	}
	rc = rc ? rc : conversion_stream(c, "hardware", CONVERSION_SMALL, ways, 1, error);
	close(ways[0].detail);
	close(ways[1].detail); /* or -1 */
	return rc;
}
