/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-worker: runs the batches of a directory, or of a list, until none is left. See
 * sgpu-worker(1).
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "drain.h"
#include "enclave.h"
#include "runner.h"
#include "spool.h"

struct request {
	struct enclave worker;
	struct spool_options spool;
	uint64_t timeout_ns;
	bool missing;
};

static const struct cli_option worker_options[] = {
	CLI_COMMON,
	RUNNER_OPTIONS(struct request, worker.options),
	{ "timeout", 0, "DURATION", "fail what a batch has not finished after this time",
	  CLI_DURATION(struct request, timeout_ns, 0) },
	{ "output", 'o', "DIR", "write the responses there (default: beside the batches)",
	  CLI_TEXT(struct request, spool.output) },
	{ "remove", 0, NULL, "remove batches that are done, do not keep them",
	  CLI_FLAG(struct request, spool.remove) },
	{ "reclaim", 0, NULL, "take over the claims of workers of other hosts: they are gone",
	  CLI_FLAG(struct request, spool.reclaim) },
	{ "missing", 0, NULL, "list what is left to do, and run nothing",
	  CLI_FLAG(struct request, missing) },
	{ "null", '0', NULL, "names in the list end with NUL, not with a line feed",
	  CLI_FLAG(struct request, spool.nul) },
	CLI_END,
};

static int check_request(struct request *r)
{
	const int status = enclave_check(&r->worker);

	if (status) {
		return status;
	}
	if (!r->spool.path && !r->spool.output) {
		return cli_usage("a list needs --output: where the responses go");
	}
	if (!r->spool.path && (r->spool.remove || r->spool.reclaim)) {
		return cli_usage("%s is for a directory, not for a list",
				 r->spool.remove ? "--remove" : "--reclaim");
	}
	if (r->spool.path && r->spool.nul) {
		return cli_usage("-0 is for a list, not for a directory");
	}
	for (int i = 0; !r->spool.path && i < r->worker.options.keys.count; i++) {
		if (cli_is_standard(r->worker.options.keys.items[i])) {
			return cli_usage(
				"the key and the list cannot both come from standard input");
		}
	}
	return 0;
}

static int say_what_was_done(const struct drain_counts *c, int status)
{
	int printed = 0;

	if (cli_json) {
		printed = cli_print_json(json_pack("{s:I, s:I, s:I, s:i, s:i}", "answered",
						   (json_int_t)c->answered, "segments_failed",
						   (json_int_t)c->partly, "failed",
						   (json_int_t)c->failed, "left_alone",
						   (int)c->left, "for_others", (int)c->others),
					 stdout, JSON_COMPACT);
	} else {
		cli_note("%" PRIu64 " batches answered, %" PRIu64
			 " of them with failed segments; %" PRIu64 " failed, %u for other "
			 "keys",
			 c->answered, c->partly, c->failed, c->others);
	}
	return status ? status : printed;
}

static int work(struct request *r)
{
	struct landlock_needs needs = { 0 };
	struct drain_counts counts = { 0 };
	struct spool *spool = NULL;
	struct sgpu_error error = { 0 };
	int rc, status;

	cli_raise_descriptors();
	signal(SIGIO, SIG_IGN); /* sent when others open a file that we hold by F_SETLEASE */
	rc = enclave_open(&r->worker, NULL, &error);
	if (rc == SGPU_OK) {
		key_files_close(&r->worker.key_files, -1);
		r->spool.keys = &r->worker.key_files;
		r->spool.opening = r->worker.keys;
		r->spool.opening_count = r->worker.key_count;
		rc = spool_open(&r->spool, &spool, &error);
	}
	if (rc == SGPU_OK) {
		spool_need(spool, &needs);
		r->worker.many_runs = true;
		rc = enclave_start(&r->worker, &needs, false, &error);
	}
	status = rc < 0 ? cli_error(&error)
			: say_what_was_done(&counts,
					    drain(&r->worker, spool, r->timeout_ns, &counts));
	spool_close(&spool);
	enclave_stop(&r->worker);
	return status;
}

static int list_missing(const struct request *r)
{
	struct cli_table table = { 0 };
	struct sgpu_error error = { 0 };
	json_t *missing = NULL, *one;
	int status, left;
	size_t i;

	if (spool_missing(&r->spool, &missing, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	left = json_array_size(missing) > 0 ? sgpu_exit_status(SGPU_EDIFFERS) : 0;
	if (cli_json) {
		status = cli_print_json(missing, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
		return status ? status : left;
	}
	json_array_foreach (missing, i, one) {
		const json_t *alive = json_object_get(one, "alive");
		const char *state = json_string_value(json_object_get(one, "state"));
		const char *why = json_string_value(json_object_get(one, "reason"));
		const char *worker = json_string_value(json_object_get(one, "worker"));

		if (i == 0) {
			cli_row(&table, "BATCH", "STATE", "WHY");
		}
		cli_row(&table, json_string_value(json_object_get(one, "batch")),
			!worker		       ? state
			: json_is_true(alive)  ? "claimed"
			: json_is_false(alive) ? "claimed, dead"
					       : "claimed, unknown",
			worker ? worker : why);
	}
	json_decref(missing);
	status = cli_table_print(&table);
	return status ? status : left;
}

static int verb_worker(int argc, char **argv)
{
	struct request r = { .worker = { .keys = NULL } };
	char **paths;
	int status = cli_read(argc, argv, &r, &paths);

	r.worker.spread = ENCLAVE_BATCHES;
	if (status == 0) {
		r.spool.path = cli_is_standard(paths[0]) ? NULL : paths[0];
		status = check_request(&r);
	}
	if (status == 0 && r.missing) {
		return enclave_end(&r.worker, list_missing(&r));
	}
	status = status ? status : enclave_begin(&r.worker, drain_stop);
	if (status == 0) {
		cli_signals_gently(drain_stop); /* finishes the batches under way */
		status = work(&r);
	}
	return enclave_end(&r.worker, status);
}

static const struct cli_verb verbs[] = {
	{ "", "DIR", "run the batches of a directory, or of a list, until none is left",
	  worker_options, verb_worker },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-worker",
	.summary = "run the batches of a directory",
	.verbs = verbs,
};

int main(int argc, char **argv)
{
	/* Where there is no TPM, its library would print lines of its own. */
	setenv("TSS2_LOG", "all+NONE", 0);
	return cli_main(&tool, argc, argv);
}
