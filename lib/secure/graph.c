/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of a context: the device's, with all ranges that their launches touch, which each run is
 * checked for as a launch is: memory that was mapped when a graph was recorded need not be when it
 * runs.
 */
#include <stdlib.h>
#include <string.h>

#include "secure/context.h"

struct sgpu_secure_graph {
	struct sgpu_device_object object;
	struct sgpu_secure *context;
	struct sgpu_recording *inner;
	sgpu_record_fn function; /* while it is recorded */
	void *argument;
	int range_count, range_room;
	struct sgpu_device_range *ranges;
};

static struct sgpu_secure_graph *graph_of(struct sgpu_recording *graph)
{
	return (struct sgpu_secure_graph *)(void *)graph;
}

int sgpu_secure_graph_note(struct sgpu_secure_graph *graph, const struct sgpu_device_range *ranges,
			   int count)
{
	if (count > graph->range_room - graph->range_count) {
		const int room = 2 * graph->range_room + count;
		struct sgpu_device_range *more =
			realloc(graph->ranges, (size_t)room * sizeof(*more));

		if (!more) {
			return SGPU_ENOMEM;
		}
		graph->ranges = more;
		graph->range_room = room;
	}
	if (count > 0) {
		memcpy(graph->ranges + graph->range_count, ranges, (size_t)count * sizeof(*ranges));
		graph->range_count += count;
	}
	return SGPU_OK;
}

/* The device's recorder as a stream of the context. */
static int record_on(struct sgpu_stream *inner, void *argument, struct sgpu_error *error)
{
	struct sgpu_secure_graph *g = argument;
	struct sgpu_secure_stream stream = { .object.backend = &g->context->backend,
					     .context = g->context,
					     .inner = inner,
					     .recording = g };

	return g->function((struct sgpu_stream *)(void *)&stream, g->argument, error);
}

static void free_graph(struct sgpu_recording *graph)
{
	struct sgpu_secure_graph *g = graph_of(graph);

	sgpu_recording_free(&g->inner);
	free(g->ranges);
	free(g);
}

static int record(struct sgpu_device *device, sgpu_record_fn function, void *argument,
		  struct sgpu_recording **graph, struct sgpu_error *error)
{
	struct sgpu_secure *context = sgpu_secure_of(device);
	struct sgpu_secure_graph *g = calloc(1, sizeof(*g));
	int rc;

	if (!g) {
		return sgpu_fail_nomem(error);
	}
	*g = (struct sgpu_secure_graph){ .object.backend = &context->backend,
					 .context = context,
					 .function = function,
					 .argument = argument };
	rc = sgpu_device_record(context->ground->device, record_on, g, &g->inner, error);
	if (rc < 0) {
		free_graph((struct sgpu_recording *)(void *)g);
		return rc;
	}
	*graph = (struct sgpu_recording *)(void *)g;
	return SGPU_OK;
}

static int launch(struct sgpu_stream *stream, struct sgpu_recording *graph, struct sgpu_task *task)
{
	const struct sgpu_secure_stream *s = sgpu_secure_stream_of(stream);
	const struct sgpu_secure_graph *g = graph_of(graph);
	int rc;

	if (g->context != s->context) {
		return sgpu_task_refuse(task, SGPU_EPOLICY, "the graph is not of this context");
	}
	rc = sgpu_secure_begin(s->context, g->ranges, g->range_count, task);
	return rc < 0 ? rc
		      : sgpu_secure_end(s->context,
					sgpu_recording_launch(s->inner, g->inner, task));
}

const struct sgpu_device_graph_calls sgpu_secure_graph_calls = { .record = record,
								 .free = free_graph,
								 .launch = launch };
