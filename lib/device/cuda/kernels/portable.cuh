/* SPDX-License-Identifier: Apache-2.0
 *
 * For headers of device code that are also C, so that tests can run it without a GPU.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_PORTABLE_CUH
#define SGPU_DEVICE_CUDA_KERNELS_PORTABLE_CUH

#ifdef __CUDACC__
#define SGPU_ON_DEVICE static __device__ __forceinline__
#define SGPU_ON_DEVICE_CALLED static __device__ __noinline__
#define SGPU_DEVICE_TABLE static __constant__ const
#define SGPU_UNROLL _Pragma("unroll")
#define SGPU_ROLL _Pragma("unroll 1")
#else
#define SGPU_ON_DEVICE static inline
#define SGPU_ON_DEVICE_CALLED static inline
#define SGPU_DEVICE_TABLE static const
#define SGPU_UNROLL
#define SGPU_ROLL
#endif

#endif
