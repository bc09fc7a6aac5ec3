/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run submit: a batch in, a response out. The response appears only when the run came to its
 * end.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "verbs.h"

static struct sgpu_run *volatile running;

static void stop_running(void)
{
	if (running) {
		sgpu_run_cancel(running);
	}
}

const struct cli_option submit_options[] = {
	CLI_COMMON,
	WORKER_OPTIONS(struct submit, worker),
	{ "timeout", 0, "DURATION", "fail unfinished work after this time: 90, 500ms, 5m",
	  CLI_DURATION(struct submit, timeout_ns, 0) },
	{ "trace", 0, "FILE", "write a trace that Perfetto and Chrome open",
	  CLI_TEXT(struct submit, trace) },
	{ "stats", 0, NULL, "times and bytes by stage, on standard error",
	  CLI_FLAG(struct submit, stats) },
	ATTESTED_OPTIONS(struct submit, attested, "run"),
	{ "owner", 0, "KEY", "the owner's X25519 public key, to be bound into the quote",
	  CLI_INPUT(struct submit, attested.owner) },
	{ "dry-run", 0, NULL, "show the plan and run nothing; needs no key",
	  CLI_FLAG(struct submit, dry_run) },
	{ "output", 'o', "FILE", "write the response there, not to standard output",
	  CLI_TEXT(struct submit, output) },
	{ "socket", 0, "PATH", "let the server there run the batch (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct submit, socket) },
	{ "lease", 0, NULL, "leave results in memory of the server, for 'sgpu-seal open'",
	  CLI_FLAG(struct submit, lease) },
	{ "local", 0, NULL, "run the batch in this process, even where a server is",
	  CLI_FLAG(struct submit, local) },
	CLI_END,
};

/* Returns a given option about the runner, or NULL. With such an option, this process runs the
 * batch, since a server has keys, rules and a device of its own. */
static const char *find_runner_option(const struct submit *r)
{
	const struct worker *w = &r->worker;
	const struct {
		const char *name;
		bool given;
	} options[] = { { "--key", w->key_paths.count > 0 },
			{ "--device", strcmp(w->selector, "auto") != 0 },
			{ "--jobs", w->config.jobs > 0 },
			{ "--owners", w->owners.count > 0 },
			{ "--state", w->state != NULL },
			{ "--replay-window", w->window_ns > 0 },
			{ "--files", w->files != NULL },
			{ "--allow-modules", w->allow_modules },
			{ "--quote", r->attested.quote != NULL },
			{ "--trace", r->trace != NULL },
			{ "--dry-run", r->dry_run },
			{ "--local", r->local } };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(options); i++) {
		if (options[i].given) {
			return options[i].name;
		}
	}
	return NULL;
}

/* Decides whether a server runs the batch. Returns an exit status. */
static int choose_runner(struct submit *r)
{
	const char *option = find_runner_option(r);
	struct sgpu_error error = { 0 };
	struct stat status;

	if (option && r->socket) {
		return cli_usage(
			"%s is about a runner in this process, and --socket about one in another",
			option);
	}
	if (option && r->lease) {
		return cli_usage(
			"%s is about a runner in this process, and --lease about one in another",
			option);
	}
	if (option) {
		return 0;
	}
	if (sgpu_service_find(r->socket, &r->service, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	r->remote =
		r->service.named || (r->service.text[0] && lstat(r->service.text, &status) == 0);
	return r->lease && !r->remote
		       ? cli_usage("--lease needs a server, and there is none at '%s'",
				   r->service.text)
		       : 0;
}

/* Checks options that exclude each other. */
static int check_request(struct submit *r)
{
	const struct cli_list *keys = &r->worker.key_paths;
	int status = worker_check(&r->worker);

	for (int i = 0; status == 0 && i < keys->count; i++) {
		if (cli_is_standard(keys->items[i]) && cli_is_standard(r->batch)) {
			return cli_usage(
				"the key and the batch cannot both come from standard input");
		}
	}
	if (status) {
		return status;
	}
	if ((r->trace && !cli_outputs_apart("the trace", r->trace, "the response", r->output)) ||
	    (r->attested.quote &&
	     !cli_outputs_apart("the quote", r->attested.quote, "the response", r->output)) ||
	    (r->attested.quote && r->trace &&
	     !cli_outputs_apart("the quote", r->attested.quote, "the trace", r->trace))) {
		return 2;
	}
	if (r->trace && r->dry_run) {
		return cli_usage("--dry-run runs nothing, so there is nothing to trace");
	}
	return attested_check(&r->attested, r->dry_run);
}

/* Refuses outputs that would replace a payload file of the batch. */
static int spare_payloads(const struct submit *r, const struct sgpu_run *run,
			  struct sgpu_error *error)
{
	const struct sgpu_batch *batch = sgpu_run_get_batch(run);
	const char *const outputs[] = { r->output, r->trace };
	struct stat status;

	for (int i = 0; i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind == SGPU_LOCATION_FILE &&
		    sgpu_files_look(r->worker.files, batch->segments[i].location.file, &status,
				    NULL) == SGPU_OK) {
			cli_remember_file(&status);
		}
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(outputs); i++) {
		if (!cli_is_standard(outputs[i]) && cli_is_input(outputs[i])) {
			return sgpu_fail(error, SGPU_EUSAGE, "'%s' is a payload of the batch",
					 outputs[i]);
		}
	}
	return SGPU_OK;
}

/* Shows the response and the trace, both or none: the trace is written before the response is
 * shown. */
static int show_outputs(const struct submit *r, const struct sgpu_run *run, struct outputs *outputs,
			struct sgpu_error *error)
{
	int rc = spare_payloads(r, run, error);

	if (rc == SGPU_OK && r->trace) {
		rc = report_trace(run, &outputs->trace, error);
	}
	rc = rc ? rc : sgpu_output_commit(&outputs->response, error);
	if (rc == SGPU_OK && r->trace) {
		rc = sgpu_output_commit(&outputs->trace, error);
	}
	return rc;
}

void submit_refuse(int fd, const struct report *report, const struct sgpu_error *why)
{
	struct sgpu_batch_refusal refusal = { .code = why->code };

	if (sgpu_exit_status(why->code) == sgpu_exit_status(SGPU_EREFUSED)) {
		snprintf(refusal.batch_id, sizeof(refusal.batch_id), "%.*s", SGPU_BATCH_ID_TEXT,
			 report->batch_id);
		snprintf(refusal.text, sizeof(refusal.text), "%s", why->text);
		/* the exit status says the same */
		(void)!sgpu_batch_refusal_write(fd, "the response", &refusal, NULL);
	}
}

void submit_tell(const struct submit *r, const struct report *report, int rc)
{
	if (r->stats && (rc == SGPU_OK || rc == SGPU_ESEGMENTS)) {
		report_stats(report);
	}
	/* If the reader of the response has ended, the run has not failed. */
	report_batch(report, NULL,
		     rc == SGPU_ESYSTEM && sgpu_io_reader_gone() ? SGPU_ECANCELED : rc, NULL);
}

static int run_batch(struct submit *r, struct outputs *outputs, struct sgpu_error *error)
{
	struct sgpu_submission submission = {
		.in_fd = r->in_fd,
		.in_name = r->in_name,
		.out_fd = outputs->response.fd,
		.out_name = cli_is_standard(r->output) ? "standard output" : r->output,
		.options = worker_run_options(&r->worker),
	};
	const struct worker *w = &r->worker;
	struct sgpu_run *run = NULL;
	struct report report;
	struct sgpu_error other;
	uint64_t ended_ns;
	int rc;

	submission.options.spans = r->trace != NULL;
	submission.options.deadline_ns = r->timeout_ns ? sgpu_now_ns() + r->timeout_ns : 0;
	rc = sgpu_runner_submit(r->worker.devices[0].runner, &submission, NULL, NULL, &run, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	running = run;
	if (sgpu_io_interrupted()) {
		sgpu_run_cancel(run); /* the signal came before there was anything to stop */
	}
	report_progress_begin(run, w);
	rc = sgpu_run_wait(run, error);
	report_progress_end();
	running = NULL;
	report_collect(run, worker_secure_device(&w->devices[0]), w->keys, w->key_count, &report);
	report.devices = w->device_count;
	if (rc != SGPU_OK && rc != SGPU_ESEGMENTS) {
		submit_refuse(outputs->response.fd, &report, error);
	} else if (show_outputs(r, run, outputs, &other) != SGPU_OK) {
		*error = other;
		rc = other.code;
	}
	/* The user waits until all is cleared, so the reported time includes that. */
	ended_ns = sgpu_now_ns();
	sgpu_run_free(&run);
	worker_stop(&r->worker);
	report.progress.elapsed_ns += sgpu_now_ns() - ended_ns;
	submit_tell(r, &report, rc);
	return rc;
}

/* Opens the batch, which no output may replace. Returns an exit status. */
static int open_batch(struct submit *r)
{
	const int status = cli_input(r->batch, &r->in_name, &r->in_fd);

	if (status) {
		return status;
	}
	return cli_output_apart(r->output) && (!r->trace || cli_output_apart(r->trace)) ? 0 : 2;
}

/* Runs the batch under the filter, once everything is open. */
static int run_filtered(struct submit *r, struct outputs *outputs)
{
	struct landlock_needs needs = { .outputs = { &outputs->response, &outputs->trace } };
	struct sgpu_error error = { 0 };
	int rc = cli_output_take(&outputs->response, r->output, 0666, &error);

	if (rc == SGPU_OK && r->trace) {
		rc = cli_output_take(&outputs->trace, r->trace, 0666, &error);
	}
	if (rc == SGPU_OK && !cli_binary_output(outputs->response.fd)) {
		return 2;
	}
	rc = rc ? rc : worker_start(&r->worker, &needs, r->attested.quote != NULL, &error);
	rc = rc ? rc : run_batch(r, outputs, &error);
	return rc == SGPU_OK				       ? 0
	       : rc == SGPU_ECANCELED && sgpu_io_interrupted() ? sgpu_exit_status(rc)
							       : cli_error(&error);
}

static int submit(struct submit *r)
{
	struct outputs outputs = { SGPU_OUTPUT_INIT, SGPU_OUTPUT_INIT };
	struct sgpu_error error = { 0 };
	int status = 0;

	if (worker_open(&r->worker, r->attested.key, &error) != SGPU_OK) {
		status = cli_error(&error);
	} else if (r->attested.quote) {
		/* The evidence comes first: the batch's sender waits for it, and opens a pipe only
		 * then. */
		if (attested_quote(&r->attested, &r->worker, &error) != SGPU_OK) {
			status = cli_error(&error);
		} else {
			cli_detail("'%s' is written; batches for this run are sealed to the key "
				   "in it",
				   r->attested.quote);
			status = open_batch(r);
		}
	}
	if (status == 0) {
		key_files_close(&r->worker.key_files, r->in_fd);
		status = run_filtered(r, &outputs);
	}
	sgpu_output_close(&outputs.response);
	sgpu_output_close(&outputs.trace);
	worker_stop(&r->worker);
	return status;
}

static int dry_run(const struct submit *r)
{
	struct sgpu_error error = { 0 };

	if (r->worker.all) {
		return cli_fail(SGPU_EUSAGE,
				"--device: how many '%s' are, only the machine knows: name them",
				r->worker.selector);
	}
	return report_plan(r->in_fd, r->in_name, r->worker.named, r->output ? r->output : "-",
			   &error) == SGPU_OK
		       ? 0
		       : cli_error(&error);
}

static int open_and_run(struct submit *r)
{
	int status;

	if (r->attested.quote) {
		cli_remember_input(r->batch); /* opened after the quote is written */
	}
	status = r->attested.quote ? cli_output_apart(r->attested.quote) ? 0 : 2 : open_batch(r);
	status = status ? status : cli_output_prepare(r->output, 0666, false);
	status = status ? status : cli_output_prepare(r->trace, 0666, false);
	status = status	      ? status
		 : r->dry_run ? dry_run(r)
		 : r->remote  ? submit_remote(r)
			      : submit(r);
	if (r->in_fd > STDIN_FILENO) {
		close(r->in_fd);
	}
	return status;
}

int verb_submit(int argc, char **argv)
{
	struct submit r = { .worker = WORKER_INIT, .in_fd = -1 };
	char **paths;
	int status = cli_read(argc, argv, &r, &paths);

	r.batch = paths[0];
	r.worker.spread = r.attested.quote ? WORKER_ONE : WORKER_GRAPHS;
	status = status ? status : check_request(&r);
	status = status ? status : choose_runner(&r);
	if (status == 0 && r.remote) {
		cli_signals(NULL);
	} else if (status == 0) {
		status = worker_begin(&r.worker, stop_running);
	}
	status = status ? status : open_and_run(&r);
	return worker_end(&r.worker, status);
}
