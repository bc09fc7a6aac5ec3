/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of timer.cu. Both enqueue on `stream` and return a cudaError_t.
 */
#ifndef SGPU_DEVICE_CUDA_TIMER_H
#define SGPU_DEVICE_CUDA_TIMER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores %globaltimer, in ns, at an address of device memory. */
int sgpu_cuda_store_time(void *stream, uint64_t address);
/* Keeps one multiprocessor busy for so many of its cycles. */
int sgpu_cuda_spin(void *stream, uint64_t cycles);

#ifdef __cplusplus
}
#endif
#endif
