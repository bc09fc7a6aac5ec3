/* SPDX-License-Identifier: Apache-2.0
 *
 * The digests of pages of device memory, of which a measure is made (sgpu/digest.h). The GPU
 * computes them, all at once, and nothing else of the memory leaves it; the processor computes the
 * digest of their list.
 */
#ifndef SGPU_DEVICE_CUDA_MEASURE_H
#define SGPU_DEVICE_CUDA_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include <crypto/kt128.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of device memory that the kernels work in. */
size_t sgpu_cuda_measure_scratch(void);
/* Enqueues on `stream`, a CUstream of the current context: work enqueued on it later finds
 * SGPU_KT128_SIZE bytes a page at `digests`, host memory, and the scratch memory cleared. Addresses
 * are device addresses. Returns a cudaError_t; some of it may be under way when it fails. */
int sgpu_cuda_measure_enqueue(void *stream, uint64_t memory, uint64_t size,
			      const struct sgpu_measure_custom *custom, unsigned multiprocessors,
			      uint64_t scratch, uint8_t *digests);

#ifdef __cplusplus
}
#endif
#endif
