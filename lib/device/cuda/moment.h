/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's time on the host's clock.
 */
#ifndef SGPU_DEVICE_CUDA_MOMENT_H
#define SGPU_DEVICE_CUDA_MOMENT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* How far off a device's time may be, besides the base's error: STEP_NS, and 1 ns for each DRIFT ns
 * since the base, twice the 10 us a second by which the clocks drift apart. Event times have steps
 * of 0.5 us, and the host reads its clock a little before or after the device. */
#define SGPU_CUDA_STEP_NS ((uint64_t)20000)
#define SGPU_CUDA_DRIFT 50000

/* By the device, work ended `since_ns` after `base`, a host time known to within `error_ns`.
 * *moment: that end, clamped to `from` and `now`. Returns whether the device's time is possible. */
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
