/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu_spin reads the word after each pause, but the clock only after PAUSES of them. A long wait
 * yields now and then: the thread that will change the word may be waiting for this processor, and
 * the kernel may let that thread wait for milliseconds.
 */
#include "base/base.h"

#include <sched.h>

#include <sgpu/base.h>

enum { PAUSES = 16, LOOKS_BEFORE_YIELD = 8 };

bool sgpu_spin(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	uint64_t limit = 0, now;
	unsigned looks = 0;

	if (ns == 0) {
		return atomic_load(word) != seen;
	}
	for (;;) {
		for (int i = 0; i < PAUSES; i++) {
			if (atomic_load(word) != seen) {
				return true;
			}
			sgpu_pause();
		}
		now = sgpu_now_ns();
		if (limit == 0) {
			limit = now + ns;
		} else if (now >= limit) {
			return atomic_load(word) != seen;
		}
		if (++looks % LOOKS_BEFORE_YIELD == 0) {
			(void)sched_yield();
		}
	}
}
