/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed copies between the runner's devices. A move begins when the segment has arrived, or the
 * operation that writes it has ended; operations that read the copy are enqueued after the move. So
 * no move waits for a stream, and no stream for a move.
 */
#include "run/private.h"

/* Bytes. Before each portion of a large segment, a move checks whether the run was stopped. */
#define PORTION ((uint64_t)256 << 20)

static struct sgpu_peer **peer_of(struct sgpu_run *run, const struct sgpu_plan_move *move)
{
	return &run->runner
			->peers[run->devices[move->from]->number][run->devices[move->to]->number];
}

static int copy_segment(struct sgpu_run *run, const struct sgpu_plan_move *move, uint64_t size,
			struct sgpu_error *error)
{
	const sgpu_devptr from = run->memory.buffers[move->from_buffer],
			  to = run->memory.buffers[move->to_buffer];
	int rc = SGPU_OK;

	for (uint64_t at = 0; rc == SGPU_OK && at < size; at += PORTION) {
		const int stop = atomic_load(&run->stop);

		rc = stop != SGPU_OK
			     ? sgpu_fail(error, stop, "the run was stopped")
			     : sgpu_peer_copy(*peer_of(run, move), to + at, from + at,
					      size - at < PORTION ? size - at : PORTION, error);
	}
	return rc;
}

void sgpu_moves_make(struct sgpu_run *run, int segment)
{
	const struct sgpu_plan *plan = run->job.plan;
	const struct sgpu_segment *s = &run->job.manifest->segments[segment];

	for (int i = plan->segments[segment].first_move; i >= 0; i = plan->moves[i].next) {
		const struct sgpu_plan_move *move = &plan->moves[i];
		const uint64_t begin = sgpu_now_ns();
		struct sgpu_error error = { 0 };
		uint64_t size = 0;
		int rc;

		(void)sgpu_type_bytes(&s->type, &size); /* known, since it was planned */
		rc = copy_segment(run, move, size, &error);
		sgpu_trace_add(run, &(struct sgpu_span){ .kind = SGPU_SPAN_MOVE,
							 .device = run->devices[move->from]->number,
							 .number = run->devices[move->to]->number,
							 .label = s->id,
							 .begin_ns = begin,
							 .end_ns = sgpu_now_ns(),
							 .bytes = size });
		if (rc != SGPU_OK) {
			sgpu_graph_not_moved(
				run, move, rc,
				sgpu_run_text(run,
					      "segment '%s' was not moved from device %d to device "
					      "%d: %s",
					      s->id, run->devices[move->from]->number,
					      run->devices[move->to]->number,
					      error.text[0] ? error.text : sgpu_strerror(rc)));
		}
	}
}

int sgpu_moves_open(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_plan *plan = run->job.plan;
	int rc = SGPU_OK;

	pthread_mutex_lock(&run->runner->peers_mutex);
	for (int i = 0; rc == SGPU_OK && i < plan->move_count; i++) {
		struct sgpu_peer **peer = peer_of(run, &plan->moves[i]);

		rc = *peer ? SGPU_OK
			   : sgpu_peer_open(run->devices[plan->moves[i].from]->device,
					    run->devices[plan->moves[i].to]->device, NULL, peer,
					    error);
	}
	pthread_mutex_unlock(&run->runner->peers_mutex);
	return rc;
}
