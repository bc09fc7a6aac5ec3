/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at the word after each pause, and at the clock now and then only.
 */
#include "base/spin.h"

#include <sgpu/base.h>

enum { PAUSES = 16 };

bool sgpu_spin(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	const uint64_t limit = ns > 0 ? sgpu_now_ns() + ns : 0;

	while (atomic_load(word) == seen) {
		if (ns == 0 || sgpu_now_ns() >= limit) {
			return false;
		}
		for (int i = 0; i < PAUSES && atomic_load(word) == seen; i++) {
			sgpu_pause();
		}
	}
	return true;
}
