/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA device's calls, and the symbol by which the program finds them.
 */
#include <sgpu/version.h>

#include <device/cuda/gpu.h>
#include <device/cuda/plugin.h>

static int check_range(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		       struct sgpu_task *task)
{
	return sgpu_cuda_check_range(stream->device, memory, size, task);
}

static const struct sgpu_device_memory_calls memory = {
	.alloc = sgpu_cuda_alloc,
	.free = sgpu_cuda_free,
	.host_alloc = sgpu_cuda_host_alloc,
	.host_free = sgpu_cuda_host_free,
	.host_register = sgpu_cuda_host_register,
	.host_unregister = sgpu_cuda_host_unregister,
	.limit = sgpu_cuda_memory_limit,
	.copy_in = sgpu_cuda_copy_in,
	.copy_out = sgpu_cuda_copy_out,
	.clear = sgpu_cuda_clear,
	.check = check_range,
	.digest = sgpu_cuda_digest_memory,
	.measure = sgpu_cuda_measure_memory,
};

static const struct sgpu_device_stream_calls stream = {
	.create = sgpu_cuda_stream_create,
	.free = sgpu_cuda_stream_free,
	.sync = sgpu_cuda_stream_sync,
	.wait = sgpu_cuda_stream_wait,
	.callback = sgpu_cuda_callback,
	.launch = sgpu_cuda_launch,
	.event_create = sgpu_cuda_event_create,
	.event_free = sgpu_cuda_event_free,
	.event_record = sgpu_cuda_event_record,
	.event_sync = sgpu_cuda_event_sync,
	.event_query = sgpu_cuda_event_query,
};

static const struct sgpu_device_graph_calls graph = {
	.record = sgpu_cuda_graph_record,
	.free = sgpu_cuda_graph_free,
	.launch = sgpu_cuda_graph_launch,
};

static const struct sgpu_device_key_calls key = {
	.load = sgpu_cuda_key_load,
	.free = sgpu_cuda_key_free,
	.open_chunks = sgpu_cuda_open_chunks,
	.seal_chunks = sgpu_cuda_seal_chunks,
	.reaches = sgpu_cuda_reaches,
	.open_from = sgpu_cuda_open_from,
	.seal_to = sgpu_cuda_seal_to,
	.agree = sgpu_cuda_agree,
};

static const struct sgpu_device_page_calls page = {
	.info = sgpu_cuda_pages_info,
	.space_create = sgpu_cuda_space_create,
	.space_free = sgpu_cuda_space_free,
	.map = sgpu_cuda_page_map,
	.unmap = sgpu_cuda_page_unmap,
	.access = sgpu_cuda_space_access,
};

static const struct sgpu_device_peer_calls peer = {
	.alloc = sgpu_cuda_peer_alloc,
	.free = sgpu_cuda_peer_free,
	.copy = sgpu_cuda_peer_copy,
	.wait = sgpu_cuda_peer_wait,
};

static const struct sgpu_device_module_calls module = {
	.load = sgpu_cuda_module_load,
	.free = sgpu_cuda_module_free,
	.launch = sgpu_cuda_module_launch,
};

const struct sgpu_device_backend sgpu_cuda_backend = {
	.name = "cuda",
	.probe = sgpu_cuda_probe,
	.open = sgpu_cuda_device_open,
	.close = sgpu_cuda_device_close,
	.info = sgpu_cuda_info,
	.synchronize = sgpu_cuda_synchronize,
	.poll = sgpu_cuda_poll,
	.cancel = sgpu_cuda_cancel,
	.op = sgpu_cuda_find_op,
	.parts = sgpu_cuda_parts,
	.code = sgpu_cuda_code,
	.evidence = sgpu_cuda_evidence,
	.memory = &memory,
	.stream = &stream,
	.graph = &graph,
	.key = &key,
	.page = &page,
	.peer = &peer,
	.module = &module,
};

extern const struct sgpu_cuda_plugin sgpu_cuda_plugin __attribute__((visibility("default")));
const struct sgpu_cuda_plugin sgpu_cuda_plugin = {
	.abi = SGPU_CUDA_PLUGIN_ABI,
	.backend_size = sizeof(struct sgpu_device_backend),
	.version = SGPU_VERSION,
	.backend = &sgpu_cuda_backend,
};
