/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure appraise: verifies a quote, and judges it by a policy. Only a quote that the policy
 * accepts gives the key to seal to.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/io.h"
#include "parts.h"

enum { POLICY_MAX = 1 << 20 };

struct task {
	struct measure_checks checks;
	const char *policy_path, *recipient_path, *ear_path, *quote_path;
	bool no_nonce;
	json_t *policy;
	struct sgpu_appraisal appraisal;
};

const struct cli_option appraise_options[] = {
	{ "policy", 'p', "POLICY", "the policy, sgpu-policy(5)",
	  CLI_INPUT(struct task, policy_path) },
	MEASURE_CHECK_OPTIONS(struct task, checks.),
	{ "recipient", 0, "FILE", "write the runner's public key there, if the quote is accepted",
	  CLI_TEXT(struct task, recipient_path) },
	{ "no-nonce", 0, NULL, "write it also without --nonce: the quote may be an old one",
	  CLI_FLAG(struct task, no_nonce) },
	{ "output", 'o', "FILE", "write the result there, as EAR claims",
	  CLI_TEXT(struct task, ear_path) },
	CLI_END,
};

static int check(struct task *task, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_read_file(task->policy_path, "says what is accepted", POLICY_MAX, &text,
				&size, error);

	rc = rc ? rc : sgpu_policy_parse(text, size, task->policy_path, &task->policy, error);
	free(text);
	return rc ? cli_error(error) : measure_run_checks(&task->checks, task->quote_path, error);
}

static int judge(struct task *task, struct sgpu_error *error)
{
	struct sgpu_key_set recipient = { .key.kind = SGPU_KEY_NONE };
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_appraise(task->policy, &task->checks.result, time(NULL), &task->appraisal,
			       error);

	/* The result is written even if the policy refuses the quote. */
	if (!rc && task->ear_path) {
		rc = cli_write_json(task->ear_path, 0644, json_incref(task->appraisal.ear), error);
	}
	if (rc || !task->appraisal.accepted || !task->recipient_path) {
		return rc;
	}
	rc = sgpu_quote_recipient(task->checks.result.claims, &recipient.key, error);
	rc = rc ? rc : sgpu_key_set_text(&recipient, &text, &size, error);
	rc = rc ? rc : cli_write_text(task->recipient_path, 0644, text, size, error);
	free(text);
	return rc;
}

static bool data_on_stdout(const struct task *task)
{
	return (task->ear_path && cli_is_standard(task->ear_path)) ||
	       (task->recipient_path && cli_is_standard(task->recipient_path));
}

static int refuse(const struct task *task)
{
	const json_t *reason = NULL;
	int status = 0;
	size_t i = 0;

	json_array_foreach (task->appraisal.reasons, i, reason) {
		status = cli_fail(SGPU_EPOLICY, "%s: '%s' is '%s', and '%s' is wanted",
				  cli_text_of(reason, "text"), cli_text_of(reason, "claim"),
				  cli_text_of(reason, "got"), cli_text_of(reason, "expected"));
	}
	return status ? status : cli_fail(SGPU_EPOLICY, "the policy does not accept the quote");
}

static int report(const struct task *task)
{
	const struct sgpu_appraisal *a = &task->appraisal;
	int status = 0;

	if (cli_json) {
		status =
			cli_print_json(json_pack("{s:b, s:O, s:o, s:O}", "accepted", a->accepted,
						 "reasons", a->reasons, "checks",
						 measure_checks_json(&task->checks), "ear", a->ear),
				       data_on_stdout(task) ? stderr : stdout, JSON_COMPACT);
	} else if (!data_on_stdout(task)) {
		measure_print_checks(&task->checks);
		printf("policy         %s\n", a->accepted ? "accepted" : "not accepted");
	}
	return !a->accepted ? refuse(task) : status;
}

static int check_paths(const struct task *task)
{
	if (!task->policy_path) {
		return cli_usage("the policy is missing, with -p");
	}
	if (task->no_nonce && task->checks.nonce.size) {
		return cli_usage("--nonce and --no-nonce exclude each other");
	}
	/* Without a nonce, the quote may be old, and its key may belong to a process that has
	 * ended, or to another owner. */
	if (task->recipient_path && !task->checks.nonce.size && !task->no_nonce) {
		return cli_usage("--recipient needs --nonce, which alone shows that the quote is "
				 "new; --no-nonce does without");
	}
	return cli_take_input(task->quote_path);
}

/* Removes an earlier run's file; leaves pipes and devices alone. Returns an exit status. */
static int remove_older(const char *path)
{
	struct sgpu_output output;
	struct sgpu_error error = { 0 };
	struct stat status;
	bool removed;

	if (!path || cli_is_standard(path) ||
	    (stat(path, &status) == 0 && !S_ISREG(status.st_mode))) {
		return 0;
	}
	int rc = cli_output_take(&output, path, 0600, false, &error);
	rc = rc ? rc : sgpu_output_remove_older(&output, &removed, &error);
	sgpu_output_close(&output);
	return rc ? cli_error(&error) : 0;
}

static int run(struct task *task)
{
	struct sgpu_error error = { 0 };
	int status = check_paths(task);

	status = status ? status : cli_output_prepare(task->ear_path, 0644, false);
	status = status ? status : cli_output_prepare(task->recipient_path, 0644, false);
	status = status ? status : check(task, &error);
	return status ? status : judge(task, &error) ? cli_error(&error) : report(task);
}

int verb_appraise(int argc, char **argv)
{
	struct task task = { 0 };
	char **paths;
	int status = cli_read(argc, argv, &task, &paths);

	task.quote_path = *paths;
	for (; *paths; paths++) {
		cli_remember_input(*paths);
	}
	/* Removed before anything is read: a caller that ignores the exit status would take an
	 * earlier run's key and result for those of this quote. */
	const int key = remove_older(task.recipient_path), result = remove_older(task.ear_path);

	status = status ? status : key ? key : result;
	status = status ? status : run(&task);
	json_decref(task.policy);
	sgpu_appraisal_clear(&task.appraisal);
	measure_checks_clear(&task.checks);
	return status;
}
