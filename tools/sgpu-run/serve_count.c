/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of a worker's batches, in the counters that the supervisor reads.
 */
#include <sgpu/base.h>
#include <sgpu/run.h>

#include "serve.h"

/* A batch that needs more than its user may have, or than is free, is no fault of the machine; nor
 * is one that the client's own files do not give, or whose response they do not take. */
static enum serve_sum result_of(const struct sgpu_run *run, int code)
{
	switch (code) {
	case SGPU_OK:
		return SERVE_DONE;
	case SGPU_ESEGMENTS:
		return SERVE_SOME_FAILED;
	case SGPU_ENOMEM:
	case SGPU_ERETRY:
		return SERVE_OVER_QUOTA;
	case SGPU_ECANCELED:
	case SGPU_ETIMEOUT:
		return SERVE_CANCELLED;
	case SGPU_ESYSTEM:
	case SGPU_ENOSPACE:
		return run && sgpu_run_descriptor_failed(run) ? SERVE_CANCELLED : SERVE_FAILED;
	case SGPU_EDEVICE:
		return SERVE_FAILED;
	default:
		return run && sgpu_run_was_replayed(run) ? SERVE_REPLAYED : SERVE_REFUSED;
	}
}

void serve_count(struct serve_counters *counters, const struct sgpu_run *run, int code,
		 uint64_t since_ns, const struct sgpu_run_progress *progress)
{
	const uint64_t latency = sgpu_now_ns() - since_ns;
	int i = 0;

	while (i < SERVE_LATENCIES - 1 && latency > serve_latency_bounds_ns[i]) {
		i++;
	}
	atomic_fetch_add(&counters->sums[result_of(run, code)], 1);
	atomic_fetch_add(&counters->sums[SERVE_LATENCY_NS], latency);
	atomic_fetch_add(&counters->sums[SERVE_LATENCY + i], 1);
	atomic_fetch_add(&counters->sums[SERVE_BYTES_IN], progress->bytes_in);
	atomic_fetch_add(&counters->sums[SERVE_BYTES_OUT], progress->bytes_out);
}
