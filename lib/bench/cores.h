/* SPDX-License-Identifier: Apache-2.0
 *
 * Processors that two threads are bound to, so that a measurement knows whether they share one.
 */
#ifndef SGPU_BENCH_CORES_H
#define SGPU_BENCH_CORES_H

#include <stdbool.h>

/* Finds two processors of different cores that the calling thread may use; if there are only
 * hardware threads of one core, two of those. Returns how many it found, 1 or 2: with one, both
 * entries name it. 0: it is not known. */
int sgpu_find_cores(int cpus[2]);
/* Binds the calling thread to a processor. */
bool sgpu_bind_to_cpu(int cpu);

#endif
