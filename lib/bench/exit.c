/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of an exit on this machine, in cycles of the time-stamp counter.
 */
#include <cpuid.h>

#include <sgpu/base.h>

#include "bench/bench.h"

void sgpu_bench_leave_guest(void)
{
	unsigned a, b, c, d;

	__cpuid(0, a, b, c, d);
}

enum { EXITS = 1001, RATE_NS = 5000000 };

/* Returns the median cycles of a CPUID, which a hypervisor answers; 0: there is none. */
static uint64_t measure_guest_exit(void)
{
	double cycles[EXITS];
	unsigned a, b, c = 0, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 31))) {
		return 0;
	}
	for (int i = 0; i < EXITS; i++) {
		const uint64_t begin = __builtin_ia32_rdtsc();

		sgpu_bench_leave_guest();
		cycles[i] = (double)(__builtin_ia32_rdtsc() - begin);
	}
	return (uint64_t)sgpu_bench_summarise(cycles, EXITS).median;
}

struct sgpu_bench_exit sgpu_bench_measure_exit(void)
{
	const uint64_t begin_ns = sgpu_now_ns(), begin = __builtin_ia32_rdtsc();
	uint64_t ns, cycles;

	do {
		ns = sgpu_now_ns() - begin_ns;
		cycles = __builtin_ia32_rdtsc() - begin;
	} while (ns < RATE_NS);
	return (struct sgpu_bench_exit){ (uint64_t)((double)cycles / (double)ns * 1e9),
					 measure_guest_exit() };
}
