/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel of timer.cu. It enqueues on `stream` and returns a cudaError_t.
 */
#ifndef SGPU_DEVICE_CUDA_TIMER_H
#define SGPU_DEVICE_CUDA_TIMER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores %globaltimer, in ns, at an address of device memory. */
int sgpu_cuda_store_time(void *stream, uint64_t address);

#ifdef __cplusplus
}
#endif
#endif
