/* SPDX-License-Identifier: Apache-2.0
 *
 * One submission: how it is received, what it may do, and its report. See serving.h.
 */
#include <unistd.h>

#include <sgpu/base.h>

#include "serving.h"

/* Returns why a batch may not name regions, or NULL. Signatures do not cover where payloads are. */
static const char *find_region_fault(const struct work *work)
{
	return serving.begin.spool	? "batches of a directory name no regions"
	       : work->uid == geteuid() ? NULL
					: "regions of this runner belong to another user";
}

static int make_run(struct work *work, struct sgpu_run **run, struct sgpu_error *error)
{
	struct sgpu_submission submission = { .in_fd = work->fds[0],
					      .in_name = work->request.in_name,
					      .out_fd = work->fds[1],
					      .out_name = work->request.out_name,
					      .options = enclave_run_options(serving.enclave) };
	const uint64_t timeout = work->request.timeout_ns, since = work->since_ns;
	const int rc = serve_lease_options(work->request.lease, &submission.options, error);

	submission.options.results = work->request.results[0] ? work->request.results : NULL;
	submission.options.refuse_regions = find_region_fault(work);
	submission.options.new_response = serving.begin.spool;
	submission.options.manifest = work->request.manifest ? &work->fds[2] : NULL;
	submission.options.deadline_ns = timeout == 0			? 0
					 : timeout < UINT64_MAX - since ? since + timeout
									: UINT64_MAX;
	return rc < 0 ? rc : sgpu_run_create(serving.enclave->runner, &submission, run, error);
}

int work_begin(struct work *work, struct sgpu_run **run, struct sgpu_error *error)
{
	struct wire_submit *request = &work->request;
	int rc = wire_receive(work->connection, WIRE_SUBMIT, request, sizeof(*request), work->fds,
			      3, error);

	if (rc != SGPU_OK) {
		return rc == SGPU_ETIMEOUT ? SGPU_EINVALID : rc; /* the client sent nothing */
	}
	request->in_name[sizeof(request->in_name) - 1] = '\0';
	request->out_name[sizeof(request->out_name) - 1] = '\0';
	request->results[sizeof(request->results) - 1] = '\0';
	if (!serving.begin.spool &&
	    (!wire_takes(work->fds[0], false) || !wire_takes(work->fds[1], true) ||
	     !wire_takes(work->fds[2], false))) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "a file of the batch is not a descriptor that a server takes");
	}
	return make_run(work, run, error);
}

/* An exceeded limit of the user, a lack of free memory, and errors of the client's own files are no
 * faults of the machine. */
static enum serve_sum result_of(const struct sgpu_run *run, int rc)
{
	switch (rc) {
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
	case SGPU_EDEVICE:
		return run && sgpu_run_get_result(run)->descriptor_failed ? SERVE_CANCELLED
									  : SERVE_FAILED;
	case SGPU_ETAKEN:
		return SERVE_REPLAYED;
	default:
		return SERVE_REFUSED;
	}
}

void work_report(struct work *work, const struct sgpu_run *run, struct wire_answer *answer,
		 struct sgpu_error *error)
{
	const struct enclave *w = serving.enclave;
	const struct sgpu_run_result *result = run ? sgpu_run_get_result(run) : NULL;
	const struct report_user by = { .uid = work->uid,
					.name = work->user,
					.reason = error->text };
	const struct sgpu_run_progress *progress = &answer->report.progress;
	_Atomic uint64_t *sums = serving.counters->sums;
	const int rc = error->code;

	if (run) {
		report_collect(run, w, &answer->report);
		answer->response_full = result->response_full;
		answer->response_size = result->response_size;
	}
	if (run && result->has_module && w->owners.count > 1) {
		atomic_store(&serving.draining, true); /* others are for another worker */
	}
	if (w->quoted && rc == SGPU_EKEY) {
		(void)sgpu_hint(error,
				"if it is sealed to the key of a quote, the worker that gave the "
				"quote has ended: ask for a new one with 'sgpu-serve quote'");
	}
	atomic_fetch_add(&sums[result_of(run, rc)], 1);
	atomic_fetch_add(&sums[SERVE_LATENCY_NS], sgpu_now_ns() - work->since_ns);
	atomic_fetch_add(&sums[SERVE_BYTES_IN], progress->bytes_in);
	atomic_fetch_add(&sums[SERVE_BYTES_OUT], progress->bytes_out);
	if (!serving.begin.spool) { /* whose worker prints the line itself */
		report_batch(&answer->report, NULL, rc, &by);
	}
}
