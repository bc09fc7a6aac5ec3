/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program and the shared object sgpu-cuda.so agree on: the one symbol that it shows.
 */
#ifndef SGPU_DEVICE_CUDA_PLUGIN_H
#define SGPU_DEVICE_CUDA_PLUGIN_H

#include <stdint.h>

#include <device/backend.h>

/* Raised whenever something that crosses the border changes: a struct of sgpu/device.h, a call of
 * device/backend.h, or struct sgpu_op_call. */
enum { SGPU_CUDA_PLUGIN_ABI = 5 };
#define SGPU_CUDA_PLUGIN_SYMBOL "sgpu_cuda_plugin"

struct sgpu_cuda_plugin {
	uint32_t abi;	       /* first, whatever else changes */
	uint32_t backend_size; /* sizeof(struct sgpu_device_backend) */
	const char *version;   /* SGPU_VERSION */
	const struct sgpu_device_backend *backend;
};

#endif
