/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting without sleeping, for moments: to wake a thread that sleeps takes longer than most of
 * what is waited for.
 */
#ifndef SGPU_BASE_SPIN_H
#define SGPU_BASE_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static inline void sgpu_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* Until the word is another than `seen`, for `ns` at most. Returns whether it is. */
bool sgpu_spin(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns);

/* Whether this processor has UMWAIT, which waits without running instructions. */
bool sgpu_has_umwait(void);
/* Waits in UMWAIT until somebody writes to the word's cache line, or some microseconds have passed;
 * at once if the word is another than `seen`. Only where there is UMWAIT. */
void sgpu_umwait(const _Atomic uint32_t *word, uint32_t seen);

#endif
