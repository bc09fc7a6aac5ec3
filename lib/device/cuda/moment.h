/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a device's time to the host's clock, and tells whether that time is possible.
 */
#ifndef SGPU_DEVICE_CUDA_MOMENT_H
#define SGPU_DEVICE_CUDA_MOMENT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* The most that both clocks may differ by, apart from the error of the base: they drift apart by
 * some 10 us a second, of which twice as much is allowed. Events have steps of half a microsecond,
 * and the host's own clock is read between other things. */
#define SGPU_CUDA_STEP_NS ((uint64_t)20000)
#define SGPU_CUDA_DRIFT 50000

/* The device told that work ended `since_ns` after the host's moment `base`, which is known to
 * within `error_ns`. *moment: when the work ended, moved between `from` and `now` if need be.
 * Returns whether the device's time is possible. */
static inline bool sgpu_cuda_moment(uint64_t base, uint64_t error_ns, double since_ns,
				    uint64_t from, uint64_t now, uint64_t *moment)
{
	int64_t told = (int64_t)base, slack;

	now = now < from ? from : now;
	*moment = now;
	if (!isfinite(since_ns) || fabs(since_ns) > 1e18) {
		return false;
	}
	told += (int64_t)since_ns;
	*moment = told < (int64_t)from ? from : told > (int64_t)now ? now : (uint64_t)told;
	slack = (int64_t)(error_ns + SGPU_CUDA_STEP_NS +
			  (now > base ? (now - base) / SGPU_CUDA_DRIFT : 0));
	return told >= (int64_t)from - slack && told <= (int64_t)now + slack;
}

#endif
