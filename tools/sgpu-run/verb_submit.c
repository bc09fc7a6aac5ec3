/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run submit: a batch in, a response out. The response appears only when the run came to its end.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/run.h>
#include <sgpu/io.h>
#include <sgpu/secret.h>
#include <sgpu/secure.h>

#include "attested.h"
#include "confinement.h"
#include "harden.h"
#include "key_files.h"
#include "landlock.h"
#include "report.h"
#include "verbs.h"

enum { KEYS_MAX = 64, KEYS_SIZE = (KEYS_MAX + 1) * sizeof(struct sgpu_key) };

static const uint64_t DEFAULT_WINDOW_US = SGPU_REPLAY_WINDOW_DAYS * UINT64_C(86400000000);

struct request {
	struct cli_list key_paths;
	int key_count;                          /* the key of an attested run has no path: it is the last */
	struct sgpu_key *keys;                  /* in memory for secrets */
	struct key_files key_files;             /* where keys and the attestation key are */
	struct sgpu_owners owners;              /* whose batches are taken; none: anybody's */
	const char *state;                      /* folder; NULL: in memory */
	uint64_t window_ns;
	struct sgpu_replay *replay;
	struct sgpu_files *files;               /* where payloads may be; NULL: nowhere */
	struct attested attested;
	int in_fd;                              /* the batch; -1 while it is not open */
	const char *in_name;
	const char *device, *trace, *output, *batch;
	struct sgpu_device_config config;
	uint64_t timeout_ns;
	struct sgpu_module_confinement modules; /* once the device is open */
	bool stats, dry_run, allow_modules;
};

struct outputs {
	struct sgpu_output response, trace;
};

static struct sgpu_run *volatile running;
static struct request *current;
static bool on_gpu;

static void stop_running(void)
{
	if (running) {
		sgpu_run_cancel(running);
	}
}

static int take_files(void *values, const char *folder)
{
	struct request *r = values;
	struct sgpu_error error = { 0 };
	int rc = r->files ? SGPU_OK : sgpu_files_create(&r->files, &error);

	if (rc == SGPU_OK) {
		rc = sgpu_files_allow(r->files, folder, &error);
	}
	return rc == SGPU_OK ? 0 : cli_error(&error);
}

static int take_owners(void *values, const char *path)
{
	struct request *r = values;
	struct sgpu_error error = { 0 };

	cli_remember_input(path);
	if (r->owners.count > 0) {
		return cli_usage("--owners is given twice: one file names them all");
	}
	return sgpu_owners_load(path, &r->owners, &error) == SGPU_OK ? 0 : cli_error(&error);
}

const struct cli_option submit_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "a key that opens the batch; may be given several times",
	  CLI_LIST(struct request, key_paths) },
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)", CLI_TEXT(struct request, device) },
	{ "jobs", 'j', "N", "workers of the CPU device (default: one a processor)",
	  CLI_NUMBER(struct request, config.jobs, 1, SGPU_POOL_JOBS_MAX) },
	{ "timeout", 0, "DURATION", "fail unfinished work after this time: 90, 500ms, 5m",
	  CLI_DURATION(struct request, timeout_ns, 0) },
	{ "trace", 0, "FILE", "write a trace that Perfetto and Chrome open", CLI_TEXT(struct request, trace) },
	{ "stats", 0, NULL, "times and bytes by stage, on standard error", CLI_FLAG(struct request, stats) },
	{ "owners", 0, "FILE", "take only batches that one of these keys signed: thumbprints, one a line",
	  CLI_TAKE(take_owners) },
	{ "state", 0, "DIR", "record the batches there, so that none runs twice",
	  CLI_TEXT(struct request, state) },
	{ "replay-window", 0, "DURATION", "how old a batch may be (default: 7d)",
	  CLI_DURATION(struct request, window_ns, 0) },
	{ "files", 0, "DIR", "let batches name payloads in files of this directory; may be repeated",
	  CLI_TAKE(take_files) },
	{ "allow-modules", 0, NULL, "run kernels that the batch brings along",
	  CLI_FLAG(struct request, allow_modules) },
	{ "quote", 0, "FILE", "first write evidence of this run there, with a key of its own",
	  CLI_TEXT(struct request, attested.quote) },
	{ "nonce", 0, "HEX", "what the verifier sent for the quote: 8 to 64 bytes",
	  CLI_BYTES(struct request, attested.nonce, SGPU_NONCE_MIN, SGPU_NONCE_MAX) },
	{ "attestation-key", 0, "KEY", "the key that signs the quote", CLI_INPUT(struct request, attested.key) },
	{ "certificate", 0, "FILE", "certificate chain of that key, up to the authority",
	  CLI_INPUT(struct request, attested.certificate) },
	{ "owner", 0, "KEY", "the owner's X25519 public key, to be bound into the quote",
	  CLI_INPUT(struct request, attested.owner) },
	{ "dry-run", 0, NULL, "show the plan and run nothing; needs no key", CLI_FLAG(struct request, dry_run) },
	{ "output", 'o', "FILE", "write the response there, not to standard output",
	  CLI_TEXT(struct request, output) },
	CLI_END,
};

/* What makes no sense together. */
static int check_request(const struct request *r)
{
	if (r->key_paths.count > KEYS_MAX) {
		return cli_usage("more than %d keys", KEYS_MAX);
	}
	for (int i = 0; i < r->key_paths.count; i++) {
		if (cli_is_standard(r->key_paths.items[i]) && cli_is_standard(r->batch)) {
			return cli_usage("the key and the batch cannot both come from standard input");
		}
	}
	if ((r->trace && !cli_outputs_apart("the trace", r->trace, "the response", r->output)) ||
	    (r->attested.quote && !cli_outputs_apart("the quote", r->attested.quote, "the response", r->output)) ||
	    (r->attested.quote && r->trace && !cli_outputs_apart("the quote", r->attested.quote, "the trace", r->trace))) {
		return 2;
	}
	if (r->files && r->owners.count == 0) {
		return cli_usage("--files needs --owners: whoever makes a batch chooses what is read there");
	}
	if ((r->state || r->window_ns) && r->owners.count == 0) {
		return cli_usage("%s needs --owners: anybody could use up the ids of others' batches",
				 r->state ? "--state" : "--replay-window");
	}
	if (r->trace && r->dry_run) {
		return cli_usage("--dry-run runs nothing, so there is nothing to trace");
	}
	return attested_check(&r->attested, r->dry_run) ? 0 : 2;
}

/* All of them are read before the first batch, and no batch gets at where they lie. */
static int load_keys(struct request *r, struct sgpu_error *error)
{
	int rc = r->attested.key ? key_files_note(&r->key_files, r->attested.key, r->files, r->state, error) : SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < r->key_paths.count; i++) {
		rc = key_files_note(&r->key_files, r->key_paths.items[i], r->files, r->state, error);
	}
	for (int i = 0; rc == SGPU_OK && i < r->key_paths.count; i++) {
		rc = sgpu_key_load_private(r->key_paths.items[i], &r->keys[i], error);
		r->key_count += rc == SGPU_OK;
	}
	return rc;
}

static void describe(struct sgpu_device *device)
{
	struct sgpu_device_agreement agreement;
	struct sgpu_device_info info;

	if (!cli_verbose || sgpu_device_get_info(device, &info, NULL) != SGPU_OK) {
		return;
	}
	if (!info.opens_on_device) {
		cli_detail("device '%s': %s, %u %s; AES-GCM by %s", info.selector, info.name, info.compute_units,
			   report_units(&info), sgpu_aead_provider());
		return;
	}
	cli_detail("device '%s': %s, %s, %u %s; confidential computing: %s", info.selector, info.name, info.driver,
		   info.compute_units, report_units(&info), info.confidential);
	if (sgpu_device_agree(device, &agreement, NULL) == SGPU_OK) {
		cli_detail("%s", agreement.text);
	}
}

/* Only the batch says in which files payloads are, and none of them may be replaced. */
static int spare_payloads(const struct request *r, const struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = sgpu_run_get_batch(run);
	const char *const outputs[] = { r->output, r->trace };
	struct stat status;

	for (int i = 0; i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind == SGPU_LOCATION_FILE &&
		    sgpu_files_look(r->files, batch->segments[i].location.file, &status, NULL) == SGPU_OK) {
			cli_remember_file(&status);
		}
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(outputs); i++) {
		if (!cli_is_standard(outputs[i]) && cli_is_input(outputs[i])) {
			return sgpu_fail(error, SGPU_EUSAGE, "'%s' is a payload of the batch", outputs[i]);
		}
	}
	return SGPU_OK;
}

/* Both appear, or none: the trace is written before the response is shown. */
static int show_outputs(const struct request *r, const struct sgpu_run *run, struct outputs *outputs,
			struct sgpu_error *error)
{
	int rc = spare_payloads(r, run, error);

	if (rc == SGPU_OK && r->trace) {
		rc = report_trace(run, &outputs->trace, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_output_commit(&outputs->response, error);
	}
	if (rc == SGPU_OK && r->trace) {
		rc = sgpu_output_commit(&outputs->trace, error);
	}
	return rc;
}

/* There is nothing left but to end: what the device holds goes with the process. */
static void give_up(void)
{
	sigset_t all;

	sgpu_wipe(current->keys, KEYS_SIZE);
	cli_fail(SGPU_EDEVICE, "the device does not stop what it was told to stop");
	sigfillset(&all);
	pthread_sigmask(SIG_UNBLOCK, &all, NULL);
	_exit(cli_finish(sgpu_exit_status(SGPU_EDEVICE)));
}

static bool is_gpu(struct sgpu_device *device)
{
	struct sgpu_device_info info;

	return sgpu_device_get_info(device, &info, NULL) == SGPU_OK && info.opens_on_device;
}

static void say_what_was_done(const struct request *r, struct sgpu_device *device, const struct sgpu_run *run, int code)
{
	if (r->stats && (code == SGPU_OK || code == SGPU_ESEGMENTS)) {
		report_stats(run, device);
	}
	report_batch(run, r->keys, r->key_count, code);
}

/* One batch on a runner of its own. */
static int run_batch(const struct request *r, struct sgpu_device *device, struct outputs *outputs,
		     struct sgpu_error *error)
{
	const struct sgpu_runner_config config = { .device = device };
	struct sgpu_submission submission = {
		.in_fd = r->in_fd, .in_name = r->in_name, .out_fd = outputs->response.fd,
		.out_name = cli_is_standard(r->output) ? "standard output" : r->output,
		.options = { .keys = r->keys, .key_count = r->key_count, .spans = r->trace != NULL, .files = r->files,
			     .allow_modules = r->allow_modules, .owners = (const char *const *)r->owners.names,
			     .owner_count = r->owners.count, .replay = r->replay },
	};
	struct sgpu_runner *runner = NULL;
	struct sgpu_run *run = NULL;
	struct sgpu_error other;
	int rc = sgpu_runner_create(&config, &runner, error);

	if (rc == SGPU_OK && r->timeout_ns != 0) {
		submission.options.deadline_ns = sgpu_now_ns() + r->timeout_ns;
	}
	if (rc == SGPU_OK) {
		rc = sgpu_runner_submit(runner, &submission, NULL, NULL, &run, error);
	}
	if (rc != SGPU_OK) {
		goto out;
	}
	running = run;
	if (sgpu_io_interrupted()) {
		sgpu_run_cancel(run); /* the signal came before there was anything to stop */
	}
	report_progress_begin(run, on_gpu ? give_up : NULL);
	rc = sgpu_run_wait(run, error);
	report_progress_end();
	running = NULL;
	if ((rc == SGPU_OK || rc == SGPU_ESEGMENTS) && show_outputs(r, run, outputs, &other) != SGPU_OK) {
		*error = other;
		rc = other.code;
	}
	say_what_was_done(r, device, run, rc);
out:
	sgpu_run_free(&run);
	sgpu_runner_free(&runner);
	return rc;
}

static int open_outputs(const struct request *r, struct outputs *outputs, struct sgpu_error *error)
{
	int rc = cli_output_take(&outputs->response, r->output, 0666, error);

	if (rc == SGPU_OK && r->trace) {
		rc = cli_output_take(&outputs->trace, r->trace, 0666, error);
	}
	return rc;
}

/* An implementation that is not there would otherwise fail every sealed segment, one after the other. */
static int check_aead(struct sgpu_error *error)
{
	static const uint8_t key[SGPU_KEY_SIZE];
	struct sgpu_aead *aead = NULL;
	int rc = sgpu_aead_create(NULL, key, &aead, error);

	sgpu_aead_free(&aead);
	return rc;
}

/* Opens the batch, which no output may replace: an exit status. */
static int open_batch(struct request *r)
{
	const int status = cli_input(r->batch, &r->in_name, &r->in_fd);

	if (status) {
		return status;
	}
	return cli_output_apart(r->output) && (!r->trace || cli_output_apart(r->trace)) ? 0 : 2;
}

/* The evidence comes first: whoever sends the batch waits for it, and if that is a pipe, not even its name can be opened
 * before. An exit status. */
static int prove(struct request *r, struct sgpu_device *device)
{
	json_t *confinement = confinement_claim(harden_filters(), landlock_version() > 0, r->modules.process ? &r->modules : NULL);
	const struct sgpu_quote_subject run = { .device = device, .preemption = on_gpu,
						.allows_modules = r->allow_modules, .files = r->files != NULL,
						.owners = (const char *const *)r->owners.names,
						.owner_count = r->owners.count,
						.confinement = confinement };
	struct sgpu_error error = { 0 };
	int rc = confinement ? attested_quote(&r->attested, &run, &r->keys[r->key_count], &error) :
			       sgpu_fail_nomem(&error);

	json_decref(confinement);
	if (rc != SGPU_OK) {
		return cli_error(&error);
	}
	r->key_count++;
	cli_detail("'%s' is written; batches for this run are sealed to the key in it", r->attested.quote);
	return open_batch(r);
}

/* The run's own memory on the device; a device that maps no pages does without. */
static int make_context(struct sgpu_device *device, struct sgpu_secure **context, struct sgpu_error *error)
{
	int rc = sgpu_secure_create(device, NULL, context, error);

	if (rc != SGPU_EUNAVAILABLE) {
		return rc;
	}
	cli_detail("no secure context: %s", error->text);
	return SGPU_OK;
}

static void describe_context(struct sgpu_secure *context)
{
	struct sgpu_secure_stats stats;

	if (cli_verbose && context) {
		sgpu_secure_get_stats(context, &stats);
		cli_detail("secure context: %" PRIu64 " MiB of pages, %" PRIu64 " commands, %" PRIu64 " refused, %" PRIu64
			   " requests in %" PRIu64 " streams", stats.mapped_bytes >> 20, stats.commands, stats.refused,
			   stats.requests, stats.streams);
	}
}

/* Nothing else is opened, and nothing else is asked of the kernel. A quote may not say otherwise. */
static int confine(const struct request *r, const struct outputs *outputs, struct sgpu_error *error)
{
	const struct landlock_needs needs = { .files = r->files, .gpu = on_gpu, .output_count = 2,
					      .outputs = { &outputs->response, &outputs->trace },
					      .states = { r->state }, .state_count = r->state != NULL };
	int rc = landlock_confine(&needs, error);

	if (rc != SGPU_OK && (!r->attested.quote || landlock_version() == 0)) {
		cli_warning("%s", error->text);
		rc = SGPU_OK;
	}
	if (rc == SGPU_OK && harden_filter(on_gpu, error) != SGPU_OK) {
		rc = r->attested.quote && harden_filters() ? error->code : SGPU_OK;
		if (rc == SGPU_OK) {
			cli_warning("%s", error->text);
		}
	}
	return rc;
}

/* With everything open: what runs from here on runs under the filter. */
static int run_filtered(struct request *r, struct sgpu_device *device, struct outputs *outputs)
{
	struct sgpu_secure *context = NULL;
	struct sgpu_error error = { 0 };
	int rc = open_outputs(r, outputs, &error);

	if (rc == SGPU_OK && !cli_binary_output(outputs->response.fd)) {
		return 2;
	}
	if (rc == SGPU_OK) {
		rc = make_context(device, &context, &error);
	}
	if (rc == SGPU_OK) {
		rc = confine(r, outputs, &error);
	}
	if (rc == SGPU_OK) {
		rc = run_batch(r, context ? sgpu_secure_device(context) : device, outputs, &error);
	}
	describe_context(context);
	sgpu_secure_destroy(&context);
	return rc == SGPU_OK ? 0 : rc == SGPU_ECANCELED && sgpu_io_interrupted() ? sgpu_exit_status(rc) :
	       cli_error(&error);
}

static int submit(struct request *r)
{
	struct outputs outputs = { SGPU_OUTPUT_INIT, SGPU_OUTPUT_INIT };
	struct sgpu_device *device = NULL;
	struct sgpu_error error = { 0 };
	int rc = load_keys(r, &error), status;

	if (rc == SGPU_OK && r->owners.count > 0) {
		rc = sgpu_replay_create(r->state, r->window_ns ? r->window_ns / 1000 : DEFAULT_WINDOW_US, &r->replay, &error);
	}

	if (rc == SGPU_OK) {
		rc = check_aead(&error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_device_open(r->device, &r->config, &device, &error);
	}
	if (rc != SGPU_OK) {
		return cli_error(&error);
	}
	on_gpu = is_gpu(device);
	describe(device);
	if (r->allow_modules) {
		rc = confinement_of_modules(device, &r->modules, &error);
	}
	status = rc != SGPU_OK ? cli_error(&error) : r->attested.quote ? prove(r, device) : 0;
	if (status == 0) {
		key_files_close(&r->key_files, r->in_fd);
		status = run_filtered(r, device, &outputs);
	}
	sgpu_output_close(&outputs.response);
	sgpu_output_close(&outputs.trace);
	sgpu_device_close(&device);
	return status;
}

static int read_options(struct request *r, int argc, char **argv)
{
	char **paths;
	const int status = cli_read(argc, argv, r, &paths);

	r->batch = paths[0];
	r->config.modules = r->allow_modules;
	return status ? status : check_request(r);
}

static int dry_run(const struct request *r)
{
	struct sgpu_error error = { 0 };

	return report_plan(r->in_fd, r->in_name, r->output ? r->output : "-", &error) == SGPU_OK ? 0 : cli_error(&error);
}

static int open_and_run(struct request *r)
{
	int status;

	for (int i = 0; i < r->key_paths.count; i++) {
		cli_remember_input(r->key_paths.items[i]);
	}
	if (r->attested.quote) {
		cli_remember_input(r->batch); /* opened after the quote is written */
	}
	status = r->attested.quote ? cli_output_apart(r->attested.quote) ? 0 : 2 : open_batch(r);
	if (status == 0) {
		status = cli_output_prepare(r->output, 0666, false);
	}
	if (status == 0) {
		status = cli_output_prepare(r->trace, 0666, false);
	}
	if (status == 0) {
		status = r->dry_run ? dry_run(r) : submit(r);
	}
	if (r->in_fd > STDIN_FILENO) {
		close(r->in_fd);
	}
	return status;
}

int verb_submit(int argc, char **argv)
{
	struct request r = { .device = "auto", .in_fd = -1 };
	sigset_t usr1;
	int status = read_options(&r, argc, argv);

	if (status) {
		sgpu_files_free(&r.files);
		sgpu_owners_clear(&r.owners);
		free(r.key_paths.items);
		return status;
	}
	current = &r;
	cli_harden();
	r.keys = sgpu_secret_alloc(KEYS_SIZE);
	if (!r.keys) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL); /* before any thread: only the one that waits for it gets it */
	cli_signals(stop_running);
	status = open_and_run(&r);
	sgpu_secret_free(r.keys, KEYS_SIZE);
	sgpu_files_free(&r.files);
	sgpu_owners_clear(&r.owners);
	sgpu_replay_free(&r.replay);
	free(r.key_paths.items);
	key_files_clear(&r.key_files);
	status = cli_finish(status);
	if (on_gpu) {
		/* All is closed, and nothing waits to be flushed on standard output. What a GPU's driver does at an
		 * exit would wait for a kernel that never ends. */
		fflush(stderr);
		_exit(status);
	}
	return status;
}
