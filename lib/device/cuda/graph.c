/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: launches are captured once, on a separate native stream; later, one driver call enqueues
 * them all. Each launch has status words, which the host clears before each execution and reads
 * after it. The graph itself clears the counters of all launches.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/stream.h>

enum {
	RANGES_MAX = 16 * SGPU_RECORDING_LAUNCHES_MAX,
	COUNTER_BYTES = SGPU_RECORDING_LAUNCHES_MAX * SGPU_LAUNCH_COUNTERS * 4,
};

struct sgpu_recording {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	CUgraphExec native;
	CUdeviceptr counters; /* a set for each launch */
	int launches;
	struct sgpu_cuda_status *status[SGPU_RECORDING_LAUNCHES_MAX];
	int range_count;
	struct sgpu_device_range ranges[RANGES_MAX];
	atomic_bool runs;
};

int sgpu_cuda_graph_add(struct sgpu_stream *recorder, sgpu_launch_fn function, void *argument,
			const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	struct sgpu_recording *g = recorder->recording;
	struct sgpu_task ignored = { 0 }, *heard = task ? task : &ignored;
	struct sgpu_launch launch = { .device = g->device,
				      .native = recorder->native,
				      .error = &heard->error,
				      .recorded = true };
	int rc;

	if (g->launches == SGPU_RECORDING_LAUNCHES_MAX || count > RANGES_MAX - g->range_count) {
		return sgpu_task_refuse(heard, SGPU_EUNAVAILABLE,
					"a graph of so many launches is not recorded");
	}
	rc = sgpu_device_check(g->device, ranges, count, heard);
	if (rc < 0) {
		return rc;
	}
	for (int i = 0; i < count; i++) {
		g->ranges[g->range_count++] = ranges[i];
	}
	g->status[g->launches] = sgpu_cuda_status_take(g->device);
	if (!g->status[g->launches]) {
		return sgpu_task_refuse(heard, SGPU_ENOMEM, "out of memory");
	}
	launch.status = (int64_t *)(uintptr_t)g->status[g->launches]->device;
	launch.counters =
		(unsigned *)(uintptr_t)g->counters + (size_t)g->launches * SGPU_LAUNCH_COUNTERS;
	g->launches++;
	heard->code = function(&launch, argument);
	return heard->code;
}

static int capture(struct sgpu_recording *g, CUstream native, sgpu_record_fn function,
		   void *argument, CUgraph *captured, struct sgpu_error *error)
{
	struct sgpu_stream recorder = { .object.backend = &sgpu_cuda_backend,
					.device = g->device,
					.recording = g,
					.native = native };
	CUresult result = sgpu_cu.cuStreamBeginCapture(native, CU_STREAM_CAPTURE_MODE_RELAXED),
		 ended;
	int rc;

	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_check(g->device, result, "cannot record a graph", error);
	}
	result = sgpu_cu.cuMemsetD8Async(g->counters, 0, COUNTER_BYTES, native);
	rc = sgpu_cuda_check(g->device, result, "cannot record a graph", error);
	rc = rc == SGPU_OK ? function(&recorder, argument, error) : rc;
	/* End the capture even after a failure: otherwise the stream would stay in capture mode. */
	ended = sgpu_cu.cuStreamEndCapture(native, captured);
	return rc == SGPU_OK ? sgpu_cuda_check(g->device, ended, "cannot record a graph", error)
			     : rc;
}

static void graph_free(struct sgpu_recording *graph)
{
	if (sgpu_cuda_enter(graph->device, NULL) == SGPU_OK && graph->native) {
		sgpu_cuda_note(graph->device, sgpu_cu.cuGraphExecDestroy(graph->native));
	}
	for (int i = 0; i < graph->launches; i++) {
		sgpu_cuda_status_give(graph->device, graph->status[i]);
	}
	sgpu_cuda_private_free(graph->device, graph->counters);
	free(graph);
}

static int graph_record(struct sgpu_device *device, sgpu_record_fn function, void *argument,
			struct sgpu_recording **graph, struct sgpu_error *error)
{
	struct sgpu_recording *g;
	CUgraph captured = NULL;
	CUstream native = NULL;
	int rc = sgpu_cuda_enter(device, error);

	if (rc < 0) {
		return rc;
	}
	g = calloc(1, sizeof(*g));
	if (!g) {
		return sgpu_fail_nomem(error);
	}
	g->object.backend = &sgpu_cuda_backend;
	g->device = device;
	rc = sgpu_cuda_private_alloc(device, COUNTER_BYTES, &g->counters, error);
	if (rc == SGPU_OK) {
		rc = sgpu_cuda_check(device,
				     sgpu_cu.cuStreamCreate(&native, CU_STREAM_NON_BLOCKING),
				     "cannot create a stream", error);
	}
	if (rc == SGPU_OK) {
		rc = capture(g, native, function, argument, &captured, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_cuda_check(device,
				     sgpu_cu.cuGraphInstantiateWithFlags(&g->native, captured, 0),
				     "cannot make a graph", error);
	}
	if (captured) {
		sgpu_cuda_note(device, sgpu_cu.cuGraphDestroy(captured));
	}
	if (native) {
		sgpu_cuda_note(device, sgpu_cu.cuStreamDestroy(native));
	}
	if (rc < 0) {
		graph_free(g);
		return rc;
	}
	*graph = g;
	return SGPU_OK;
}

static int graph_ranges(const struct sgpu_recording *graph, const struct sgpu_device_range **ranges)
{
	*ranges = graph->ranges;
	return graph->range_count;
}

static int graph_launch(struct sgpu_stream *stream, struct sgpu_recording *graph,
			struct sgpu_task *task)
{
	struct sgpu_cuda_record record = { .task = task, .graph = graph };
	int rc;

	if (stream->device != graph->device) {
		return sgpu_task_refuse(task, SGPU_EUSAGE, "the graph is of another device");
	}
	rc = sgpu_device_check(graph->device, graph->ranges, graph->range_count, task);
	if (rc < 0) {
		return rc;
	}
	if (atomic_exchange(&graph->runs, true)) {
		return sgpu_task_refuse(task, SGPU_ERETRY, "the graph runs");
	}
	rc = sgpu_cuda_begin(stream, task);
	if (rc < 0) {
		atomic_store(&graph->runs, false);
		return rc;
	}
	if (sgpu_cuda_cancelled(graph->device)) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	for (int i = 0; i < graph->launches; i++) {
		graph->status[i]->host[0] = graph->status[i]->host[1] = 0;
	}
	atomic_thread_fence(memory_order_seq_cst);
	return sgpu_cuda_commit(stream, &record,
				sgpu_cu.cuGraphLaunch(graph->native, stream->native),
				"cannot launch a graph");
}

int sgpu_cuda_graph_end(struct sgpu_recording *graph, struct sgpu_task *task)
{
	int rc = SGPU_OK;

	for (int i = 0; i < graph->launches && rc == SGPU_OK; i++) {
		rc = sgpu_cuda_code_from(graph->status[i]->host[0]);
		if (task && rc != SGPU_OK) {
			task->actual = (uint64_t)i;
		}
	}
	atomic_store(&graph->runs, false);
	return rc;
}

const struct sgpu_device_graph_calls sgpu_cuda_graph_calls = {
	.record = graph_record,
	.free = graph_free,
	.ranges = graph_ranges,
	.launch = graph_launch,
};
