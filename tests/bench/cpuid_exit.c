/* SPDX-License-Identifier: Apache-2.0
 *
 * What it takes a virtual machine to run CPUID, which leaves it: prints the median of blocks of
 * eight, in nanoseconds. By itself, so that sgpu-bench has something to agree with; see agree.sh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { BLOCKS = 2001, BLOCK = 8 };

static int by_value(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) -
	       (*(const double *)a < *(const double *)b);
}

int main(void)
{
	static double ns[BLOCKS];
	struct timespec begin, end;
	unsigned a, b, c, d;

	for (int i = 0; i < BLOCKS; i++) {
		clock_gettime(CLOCK_MONOTONIC_RAW, &begin);
		for (int j = 0; j < BLOCK; j++) {
			__cpuid(0, a, b, c, d);
		}
		clock_gettime(CLOCK_MONOTONIC_RAW, &end);
		ns[i] = ((double)(end.tv_sec - begin.tv_sec) * 1e9 +
			 (double)(end.tv_nsec - begin.tv_nsec)) /
			BLOCK;
	}
	qsort(ns, BLOCKS, sizeof(*ns), by_value);
	printf("%.1f\n", ns[BLOCKS / 2]);
	return 0;
}
#else
int main(void)
{
	fprintf(stderr, "cpuid_exit: this processor has no CPUID\n");
	return 77;
}
#endif
