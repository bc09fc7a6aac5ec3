/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch in, a response out. The response appears only when the run came to its end.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "enclave.h"

struct submission {
	struct enclave *enclave; /* an attested run's key is the last one */
	const char *batch;
	struct sgpu_submission run; /* in_fd: -1 while the batch is not open */
	int manifest_fd;	    /* of --manifest, or -1 */
	struct sgpu_output response, trace;
};

static struct sgpu_run *volatile running;
static pthread_mutex_t watched = PTHREAD_MUTEX_INITIALIZER; /* keeps the run from being freed */

static void stop_running(void)
{
	sgpu_io_interrupt();
	if (running) {
		sgpu_run_cancel(running);
	}
}

/* Until the process ends, shows progress and looks for a device that is stuck. */
static void *watch(void *enclave)
{
	struct sgpu_run_progress p;

	while (poll(NULL, 0, 100) <= 0) {
		pthread_mutex_lock(&watched);
		if (running) {
			enclave_watch(enclave, running, &p);
			cli_progress(&p.bytes_in_all, p.bytes_in);
		}
		pthread_mutex_unlock(&watched);
	}
	return NULL;
}

/* Shows both or none: the trace is written before the response is shown. */
static int show_outputs(struct submission *s, const struct sgpu_run *run, struct sgpu_error *error)
{
	const bool traced = s->enclave->request->trace != NULL;
	int rc = traced ? report_trace(run, s->enclave, &s->trace, error) : SGPU_OK;

	rc = rc ? rc : sgpu_output_commit(&s->response, error);
	return rc || !traced ? rc : sgpu_output_commit(&s->trace, error);
}

static int run_open_batch(struct submission *s, struct sgpu_error *error)
{
	struct enclave *w = s->enclave;
	const struct run_request *r = w->request;
	struct sgpu_run_options *options = &s->run.options;
	struct sgpu_run *run = NULL;
	struct report report;
	struct sgpu_error other;
	uint64_t ended_ns;
	int rc;

	s->run.out_fd = s->response.fd;
	s->run.out_name = cli_is_standard(r->output) ? "standard output" : r->output;
	*options = enclave_run_options(w);
	options->spans = r->trace != NULL;
	options->results = r->results;
	options->new_response = s->response.temporary != NULL;
	options->manifest = s->manifest_fd >= 0 ? &s->manifest_fd : NULL;
	options->deadline_ns = r->timeout_ns ? sgpu_now_ns() + r->timeout_ns : 0;
	rc = sgpu_run_create(w->runner, &s->run, &run, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	running = run;
	if (sgpu_io_interrupted()) {
		sgpu_run_cancel(run); /* the signal came before there was anything to stop */
	}
	cli_progress_begin("running", 0);
	if (w->on_gpu || (isatty(cli_error_fd) && !cli_quiet && !cli_json)) {
		rc = sgpu_thread_start(NULL, watch, w, error);
	}
	rc = rc ? rc : sgpu_run_batch(run, error);
	cli_progress_end();
	pthread_mutex_lock(&watched);
	running = NULL;
	pthread_mutex_unlock(&watched);
	report_collect(run, w, &report);
	if (rc != SGPU_OK && rc != SGPU_ESEGMENTS) {
		report_refusal(s->response.fd, &report, error);
	} else if (show_outputs(s, run, &other) != SGPU_OK) {
		*error = other;
		rc = other.code;
	}
	/* The user waits until all is cleared, so that time is reported, too. */
	ended_ns = sgpu_now_ns();
	sgpu_run_free(&run);
	enclave_stop(w);
	report.progress.elapsed_ns += sgpu_now_ns() - ended_ns;
	report_outcome(&report, r->stats, rc);
	return rc;
}

/* Pipes are opened when their readers are to come. */
static const char *if_pipe(const char *path)
{
	struct stat status;

	return path && stat(path, &status) == 0 && S_ISFIFO(status.st_mode) ? path : NULL;
}

static int submit(struct submission *s)
{
	const struct run_request *r = s->enclave->request;
	/* The batch's sender waits for the evidence, and opens a pipe only then. So the files are
	 * opened under confinement. */
	struct landlock_needs needs = { .more = { r->quote ? s->batch : NULL, if_pipe(r->output),
						  if_pipe(r->trace) } };
	struct sgpu_error error = { 0 };
	int rc = enclave_open(s->enclave, &needs, &error), status = 0;

	if (rc == SGPU_OK && r->quote) {
		status = cli_input(s->batch, &s->run.in_name, &s->run.in_fd);
	}
	rc = rc || status ? rc : cli_output_take(&s->response, r->output, 0666, false, &error);
	rc = rc || status || !r->trace ? rc
				       : cli_output_take(&s->trace, r->trace, 0666, false, &error);
	s->enclave->shared_files = !s->response.regular; /* who has standard output may cut it */
	if (rc == SGPU_OK && status == 0) {
		rc = enclave_start(s->enclave, s->run.in_fd, &error);
		rc = rc ? rc : run_open_batch(s, &error);
	}
	sgpu_output_close(&s->response);
	sgpu_output_close(&s->trace);
	return status != 0 || rc == SGPU_OK		       ? status
	       : rc == SGPU_ECANCELED && sgpu_io_interrupted() ? sgpu_exit_status(rc)
							       : cli_error(&error);
}

int run_batch(struct enclave *enclave, const char *path)
{
	const struct run_request *r = enclave->request;
	struct submission s = { .enclave = enclave,
				.batch = path,
				.run.in_fd = -1,
				.manifest_fd = -1,
				.response = SGPU_OUTPUT_INIT,
				.trace = SGPU_OUTPUT_INIT };
	const char *name;
	int status;

	status = enclave_check(enclave);
	status = status ? status : enclave_begin(enclave, stop_running);
	if (status) {
		return status;
	}
	/* With a quote, it is opened after that is written. */
	status = r->quote ? cli_take_input(path) : cli_input(path, &s.run.in_name, &s.run.in_fd);
	status = status ? status : cli_binary_output(r->output);
	status = status ? status : cli_output_prepare(r->output ? r->output : "-", 0666, false);
	status = status ? status : cli_output_prepare(r->trace, 0666, false);
	status = status ? status : cli_output_prepare(r->quote, 0666, false);
	if (!status && r->manifest) {
		status = cli_input(r->manifest, &name, &s.manifest_fd);
	}
	return status ? status : submit(&s);
}
