/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of a context. Each has a graph of the device and all ranges that its launches touch. Every
 * run checks these ranges as a launch does, since memory that was mapped when the graph was
 * recorded may be unmapped by then.
 */
#include <stdlib.h>
#include <string.h>

#include "secure/context.h"

struct sgpu_secure_graph {
	struct sgpu_device_object object;
	struct sgpu_device_guard guard; /* the recorder's: notes the ranges of launches */
	struct sgpu_secure *context;
	struct sgpu_recording *inner;
	sgpu_record_fn function; /* used while recording */
	void *argument;
	int range_count, range_room;
	struct sgpu_device_range *ranges;
};

static struct sgpu_secure_graph *graph_of(struct sgpu_recording *graph)
{
	return (struct sgpu_secure_graph *)(void *)graph;
}

static struct sgpu_secure_graph *recorded_by(struct sgpu_device_guard *guard)
{
	return (struct sgpu_secure_graph *)(void *)((char *)guard -
						    offsetof(struct sgpu_secure_graph, guard));
}

static bool make_room(struct sgpu_secure_graph *g, int count)
{
	const int room = 2 * g->range_room + count;
	struct sgpu_device_range *more;

	if (count <= g->range_room - g->range_count) {
		return true;
	}
	more = realloc(g->ranges, (size_t)room * sizeof(*more));
	if (more) {
		g->ranges = more;
		g->range_room = room;
	}
	return more != NULL;
}

static int note(struct sgpu_device_guard *guard, const struct sgpu_device_range *ranges, int count,
		struct sgpu_task *task)
{
	struct sgpu_secure_graph *g = recorded_by(guard);

	if (!make_room(g, count)) {
		return SGPU_ENOMEM;
	}
	if (count > 0) {
		memcpy(g->ranges + g->range_count, ranges, (size_t)count * sizeof(*ranges));
		g->range_count += count;
	}
	return g->context->guard.calls->enter(&g->context->guard, ranges, count, task);
}

static void leave(struct sgpu_device_guard *guard)
{
	struct sgpu_secure *context = recorded_by(guard)->context;

	context->guard.calls->leave(&context->guard);
}

static int record_on(struct sgpu_stream *recorder, void *argument, struct sgpu_error *error)
{
	struct sgpu_secure_graph *g = argument;

	((struct sgpu_device_object *)(void *)recorder)->guard = &g->guard;
	return g->function(recorder, g->argument, error);
}

static void free_graph(struct sgpu_recording *graph)
{
	struct sgpu_secure_graph *g = graph_of(graph);

	sgpu_recording_free(&g->inner);
	free(g->ranges);
	free(g);
}

static int launch(struct sgpu_stream *stream, struct sgpu_recording *graph, struct sgpu_task *task)
{
	const struct sgpu_secure_graph *g = graph_of(graph);
	struct sgpu_device_guard *guard = &g->context->guard;
	int rc = guard->calls->enter(guard, g->ranges, g->range_count, task);

	if (rc == SGPU_OK) {
		rc = sgpu_device_backend_of(g->inner)->graph->launch(stream, g->inner, task);
		guard->calls->leave(guard);
	}
	return rc;
}

int sgpu_secure_record(struct sgpu_device_guard *guard, sgpu_record_fn function, void *argument,
		       struct sgpu_recording **recording, struct sgpu_error *error)
{
	static const struct sgpu_device_graph_calls graph_calls = { .free = free_graph,
								    .launch = launch };
	static const struct sgpu_device_backend backend = { .graph = &graph_calls };
	static const struct sgpu_device_guard_calls calls = { .enter = note, .leave = leave };
	struct sgpu_secure_graph *g = calloc(1, sizeof(*g));
	int rc;

	if (!g) {
		return sgpu_fail_nomem(error);
	}
	*g = (struct sgpu_secure_graph){ .object = { &backend, guard },
					 .guard = { .calls = &calls, .device = guard->device },
					 .context = sgpu_secure_guarded(guard),
					 .function = function,
					 .argument = argument };
	rc = sgpu_device_record(guard->device, record_on, g, &g->inner, error);
	if (rc < 0) {
		free_graph((struct sgpu_recording *)(void *)g);
		return rc;
	}
	*recording = (struct sgpu_recording *)(void *)g;
	return SGPU_OK;
}
