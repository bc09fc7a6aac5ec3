/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA device's row, and the symbol by which the program finds it.
 */
#include <sgpu/version.h>

#include <device/cuda/gpu.h>
#include <device/cuda/plugin.h>

const struct sgpu_device_backend sgpu_cuda_backend = {
	.name = "cuda",
	.probe = sgpu_cuda_probe,
	.open = sgpu_cuda_device_open,
	.close = sgpu_cuda_device_close,
	.info = sgpu_cuda_info,
	.alloc = sgpu_cuda_alloc,
	.free = sgpu_cuda_free,
	.stream_create = sgpu_cuda_stream_create,
	.stream_free = sgpu_cuda_stream_free,
	.stream_sync = sgpu_cuda_stream_sync,
	.event_create = sgpu_cuda_event_create,
	.event_free = sgpu_cuda_event_free,
	.event_sync = sgpu_cuda_event_sync,
	.event_record = sgpu_cuda_event_record,
	.stream_wait = sgpu_cuda_stream_wait,
	.copy_in = sgpu_cuda_copy_in,
	.copy_out = sgpu_cuda_copy_out,
	.clear = sgpu_cuda_clear,
	.key_load = sgpu_cuda_key_load,
	.key_free = sgpu_cuda_key_free,
	.open_chunks = sgpu_cuda_open_chunks,
	.seal_chunks = sgpu_cuda_seal_chunks,
	.digest = sgpu_cuda_digest_memory,
	.launch = sgpu_cuda_launch,
	.callback = sgpu_cuda_callback,
	.cancel = sgpu_cuda_cancel,
	.event_query = sgpu_cuda_event_query,
	.host_alloc = sgpu_cuda_host_alloc,
	.host_free = sgpu_cuda_host_free,
	.host_register = sgpu_cuda_host_register,
	.host_unregister = sgpu_cuda_host_unregister,
	.op = sgpu_cuda_find_op,
	.module_load = sgpu_cuda_module_load,
	.module_free = sgpu_cuda_module_free,
	.module_launch = sgpu_cuda_module_launch,
	.parts = sgpu_cuda_parts,
	.pages = sgpu_cuda_pages_info,
	.space_create = sgpu_cuda_space_create,
	.space_free = sgpu_cuda_space_free,
	.page_map = sgpu_cuda_page_map,
	.page_unmap = sgpu_cuda_page_unmap,
	.space_access = sgpu_cuda_space_access,
	.launch_on = sgpu_cuda_launch_on,
	.code = sgpu_cuda_code,
	.evidence = sgpu_cuda_evidence,
	.settle = sgpu_cuda_settle_all,
	.agree = sgpu_cuda_agree,
};

extern const struct sgpu_cuda_plugin sgpu_cuda_plugin __attribute__((visibility("default")));
const struct sgpu_cuda_plugin sgpu_cuda_plugin = {
	.abi = SGPU_CUDA_PLUGIN_ABI,
	.backend_size = sizeof(struct sgpu_device_backend),
	.version = SGPU_VERSION,
	.backend = &sgpu_cuda_backend,
};
