/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure policy: writes a policy from a trusted quote or from the files of a build.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"
#include "host/host.h"
#include "parts.h"

struct task {
	const char *quote_path, *build_path, *release_path, *key_path, *owners_path, *at_least;
	const char *out_path;
	struct sgpu_owners owners;
	json_t *policy;
};

const struct cli_option policy_options[] = {
	{ "build", 0, "DIR", "from the files of a build, not from a quote",
	  CLI_TEXT(struct task, build_path) },
	{ "release", 0, "FILE", "from the signed digests of a release",
	  CLI_INPUT(struct task, release_path) },
	{ "key", 'k', "KEY", "with --release: whose signature it must have",
	  CLI_INPUT(struct task, key_path) },
	{ "owners", 0, "FILE",
	  "with these: whose batches the runner may take, a thumbprint a line; or 'any'",
	  CLI_TEXT(struct task, owners_path) },
	{ "at-least", 0, "KIND",
	  "with these: plain, gramine-direct, sgx, tdx or snp (default: what a report proves)",
	  CLI_TEXT(struct task, at_least) },
	{ "output", 'o', "FILE", "where it goes (default: standard output)",
	  CLI_TEXT(struct task, out_path) },
	CLI_END,
};

/* Whether the host of a platform can read the runner's memory. If so, a GPU whose memory it can
 * also read makes nothing worse. */
static bool is_open(const char *kind)
{
	const int rank = sgpu_platform_rank(kind);

	return rank >= 0 && rank < SGPU_RANK_TEE;
}

/* ---- what a quote of the build should have: digests of files, and what makes them proof: the
 * process that holds the key made the quote, is not debugged, and runs no other code ---- */
static json_t *digests_of(const json_t *file)
{
	uint8_t digest[SGPU_KT128_SIZE];

	return !file ? json_array()
	       : sgpu_json_bytes(file, "release", "digest", digest, sizeof(digest), NULL)
		       ? NULL
		       : json_pack("[o]", measure_hex(digest, sizeof(digest)));
}

static json_t *runner_policy(const struct task *task, const json_t *file)
{
	json_t *owners = task->owners.count ? json_array() : json_string("any");

	for (int i = 0; i < task->owners.count; i++) {
		json_array_append_new(owners, json_string(task->owners.names[i]));
	}
	return json_pack("{s:o, s:b, s:b, s:b, s:o, s:s, s:b, s:s, s:b}", "digests",
			 digests_of(file), "debug", 0, "modules", 0, "files", 0, "owners", owners,
			 "sessions", task->owners.count ? "owners" : "none", "confinement", 1,
			 "key", "ephemeral", "process", 1);
}

/* A build without the CUDA device has no code for a GPU, so the policy must refuse quotes with one.
 * On a GPU, other programs' work can run in between. */
static json_t *device_policy(const struct task *task, const json_t *code)
{
	return json_pack("{s:o, s:o*, s:o*}", "code", digests_of(code), "confidential",
			 code && is_open(task->at_least) ? json_false() : NULL, "preemption",
			 code ? json_true() : NULL);
}

static int read_release(const struct task *task, json_t **release, struct sgpu_error *error)
{
	struct sgpu_key_set keys = { 0 };
	int rc = sgpu_key_set_load(task->key_path, &keys, error);

	if (!rc && keys.signing.kind == SGPU_KEY_NONE) {
		rc = sgpu_fail(error, SGPU_EINVALID, "key '%s' verifies no signatures",
			       task->key_path);
	} else if (!rc && keys.others_write) {
		rc = sgpu_fail(error, SGPU_EPOLICY,
			       "others can write to key '%s', which says who is trusted",
			       task->key_path);
	}
	rc = rc ? rc : release_read(task->release_path, &keys.signing, release, error);
	sgpu_key_set_clear(&keys);
	return rc;
}

static int policy_of_build(struct task *task, struct sgpu_error *error)
{
	json_t *release = NULL;
	int rc = 0;

	if (task->owners_path && strcmp(task->owners_path, "any")) {
		cli_remember_input(task->owners_path);
		rc = sgpu_owners_load(task->owners_path, &task->owners, error);
	}
	rc = rc			? rc
	     : task->build_path ? release_of_build(task->build_path, &release, error)
				: read_release(task, &release, error);
	if (!rc) {
		task->policy = json_pack(
			"{s:i, s:o, s:o, s:o*}", "version", 1, "runner",
			runner_policy(task, release_file(release, RELEASE_RUNNER)), "device",
			device_policy(task, release_file(release, NULL)), "platform",
			task->at_least ? json_pack("{s:s}", "at_least", task->at_least) : NULL);
		rc = task->policy ? 0 : sgpu_fail_nomem(error);
	}
	json_decref(release);
	return rc;
}

static int read_quote(struct task *task, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	json_t *claims = NULL;
	int status = cli_read_input(task->quote_path, SGPU_QUOTE_MAX, "a quote", &text, &size);

	if (status) {
		return status;
	}
	int rc = sgpu_quote_parse(text, size, &claims, NULL, NULL, error);
	status = rc ? measure_quote_error(task->quote_path, text, size, error) : 0;
	free(text);
	if (!rc) {
		cli_note("nothing of the quote was verified: it must be one of a machine that you "
			 "trust");
		rc = sgpu_policy_from_claims(claims, &task->policy, error);
		status = rc ? cli_error(error) : 0;
	}
	json_decref(claims);
	return status;
}

static int run(struct task *task)
{
	struct sgpu_error error = { 0 };
	int status = cli_output_prepare(task->out_path, 0644, false);

	if (status) {
		return status;
	}
	if (!task->build_path && !task->release_path) {
		status = read_quote(task, &error);
	} else if (policy_of_build(task, &error)) {
		status = cli_error(&error);
	}
	if (status) {
		return status;
	}
	/* Neither a quote's claims nor a build have the measurements of a hardware report. */
	if (!is_open(json_string_value(
		    json_object_get(json_object_get(task->policy, "platform"), "at_least")))) {
		cli_note("the policy accepts no guest before its 'platform' has the 'measurements' "
			 "of one");
	}
	return cli_write_json(task->out_path, 0644, task->policy, &error) ? cli_error(&error) : 0;
}

static int check_options(const struct task *task)
{
	const bool build = task->build_path || task->release_path;

	if (task->at_least && sgpu_platform_rank(task->at_least) < 0) {
		return cli_usage("--at-least is one of: " SGPU_PLATFORM_WORDS);
	}
	if ((task->build_path != NULL) + (task->release_path != NULL) + (task->quote_path != NULL) >
	    1) {
		return cli_usage("a quote, --build and --release exclude each other");
	}
	if ((task->release_path != NULL) != (task->key_path != NULL)) {
		return cli_usage("--release and the key that signed it, -k, go together");
	}
	if (!build && (task->owners_path || task->at_least)) {
		return cli_usage("%s is for a policy with --build or --release",
				 task->owners_path ? "--owners" : "--at-least");
	}
	/* A policy that names no owners accepts no runner. */
	if (build && !task->owners_path) {
		return cli_usage("the file of owners is missing, with --owners; '--owners any' "
				 "accepts a runner that takes "
				 "work of anybody");
	}
	return 0;
}

int verb_policy(int argc, char **argv)
{
	struct task task = { 0 };
	char **paths;
	int status = cli_read(argc, argv, &task, &paths);

	task.quote_path = paths[0];
	status = status ? status : check_options(&task);
	status = status ? status : run(&task);
	sgpu_owners_clear(&task.owners);
	return status;
}
