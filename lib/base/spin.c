/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu_spin reads the word after each pause, but the clock only after PAUSES of them. In a long
 * wait it yields now and then: the thread that will change the word may be waiting for this very
 * processor, and the kernel may let that thread wait for milliseconds.
 */
#include "base/base.h"

#include <sched.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

/* ---- UMWAIT ---- */
#if defined(__x86_64__)
bool sgpu_has_umwait(void)
{
	static atomic_int known; /* 0: not asked yet, 1: no, 2: yes */
	unsigned a, b, c, d;
	int answer = atomic_load_explicit(&known, memory_order_relaxed);

	if (!answer) {
		answer = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 5)) ? 2 : 1;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
	}
	return answer == 2;
}

/* UMONITOR watches the cache line, and UMWAIT stops the core, in the lighter of its two states,
 * until it is written to or some microseconds have passed. The load between the two instructions
 * finds a write that came before UMONITOR. */
void sgpu_umwait(const _Atomic uint32_t *word, uint32_t seen)
{
	const uint64_t until = __builtin_ia32_rdtsc() + 20000;

	__asm__ volatile(".byte 0xf3, 0x0f, 0xae, 0xf0" /* umonitor %rax */
			 :
			 : "a"(word)
			 : "memory");
	if (atomic_load(word) == seen) {
		__asm__ volatile(".byte 0xf2, 0x0f, 0xae, 0xf1" /* umwait %ecx */
				 :
				 : "c"(1), "a"((uint32_t)until), "d"((uint32_t)(until >> 32))
				 : "memory", "cc");
	}
}
#else
bool sgpu_has_umwait(void)
{
	return false;
}

void sgpu_umwait(const _Atomic uint32_t *word, uint32_t seen)
{
	(void)word;
	(void)seen;
}
#endif
