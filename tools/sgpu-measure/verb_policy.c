/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure policy: writes a policy from a quote that is trusted or
 * from the files of a build.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "parts.h"

struct task {
	const char *quote_path, *build_path, *release_path, *key_path, *owners_path, *at_least;
	const char *out_path;
	struct sgpu_owners owners;
	json_t *claims;
};

const struct cli_option policy_options[] = {
	CLI_COMMON,
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

/* Whether the host of a platform can read the runner's memory. Then a GPU whose memory
 * it can also read makes nothing worse. */
static bool is_open(const char *kind)
{
	return kind && (!strcmp(kind, "plain") || !strcmp(kind, "gramine-direct"));
}

/* ---- claims that a quote of the build should have: digests of files, and conditions without which
 * the digests prove nothing: the process that holds the key made the quote, is not debugged, and
 * runs no other code ---- */
static json_t *runner_claims(const struct task *task, const json_t *file)
{
	json_t *owners = task->owners.count ? json_array() : NULL; /* NULL: any owner */

	for (int i = 0; owners && i < task->owners.count; i++) {
		json_array_append_new(owners, json_string(task->owners.names[i]));
	}
	return json_pack("{s:s, s:s, s:{s:O, s:O, s:s, s:b, s:b, s:o*, s:s, s:{s:b}, s:s}}",
			 "swname", RELEASE_RUNNER, "dbgstat", "disabled", SGPU_EAT_PROFILE,
			 "digest", json_object_get(file, "digest"), "size",
			 json_object_get(file, "size"), "measured", "process", "modules", 0,
			 "files", 0, "owners", owners, "sessions",
			 task->owners.count ? "owners" : "none", "confinement", "all", 1, "key",
			 "ephemeral");
}

/* A build without the CUDA device has no code for a GPU, so the policy must refuse quotes with a
 * GPU. On a GPU, other programs' work can run in between. */
static json_t *device_claims(const struct task *task, const json_t *code)
{
	return code ? json_pack("{s:{s:[O], s:b, s:s*}}", SGPU_EAT_PROFILE, "code", code,
				"preemption", 1, "confidential",
				is_open(task->at_least) ? "off" : NULL)
		    : json_pack("{s:{s:[]}}", SGPU_EAT_PROFILE, "code");
}

static int read_release(const struct task *task, json_t **release, struct sgpu_error *error)
{
	struct sgpu_key_set keys = { 0 };
	int rc = sgpu_key_set_load(task->key_path, &keys, error);

	if (!rc && keys.signing.kind == SGPU_SIGNING_NONE) {
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

static int claims_of_build(struct task *task, struct sgpu_error *error)
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
		json_t *platform =
			task->at_least ? json_pack("{s:{s:s}}", "platform", "kind", task->at_least)
				       : json_object();
		task->claims = json_pack("{s:s, s:{s:o, s:o}, s:o}", "dbgstat", "disabled",
					 "submods", "runner",
					 runner_claims(task, release_file(release, RELEASE_RUNNER)),
					 "gpu-0", device_claims(task, release_file(release, NULL)),
					 SGPU_EAT_PROFILE, platform);
		rc = task->claims ? 0 : sgpu_fail_nomem(error);
	}
	json_decref(release);
	return rc;
}

/* ---- the verb ---- */
static int read_quote(struct task *task, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int status = measure_read_input(task->quote_path, "a quote", &text, &size);

	if (status) {
		return status;
	}
	int rc = sgpu_quote_parse(text, size, &task->claims, NULL, NULL, error);
	status = rc ? measure_quote_error(task->quote_path, text, size, error) : 0;
	free(text);
	if (!rc) {
		cli_note("nothing of the quote was verified: it must be one of a machine that you "
			 "trust");
	}
	return status;
}

static int run(struct task *task)
{
	struct sgpu_error error = { 0 };
	const char *kind;
	char *text = NULL;
	size_t size = 0;
	int rc, status = cli_output_prepare(task->out_path, 0644, false);

	if (status) {
		return status;
	}
	if (!task->build_path && !task->release_path) {
		status = read_quote(task, &error);
	} else if (claims_of_build(task, &error)) {
		status = cli_error(&error);
	}
	if (status) {
		return status;
	}
	/* Neither a quote's claims nor a build contain the measurements of a hardware report. */
	kind = json_string_value(json_object_get(
		json_object_get(json_object_get(task->claims, SGPU_EAT_PROFILE), "platform"),
		"kind"));
	if (!is_open(kind)) {
		cli_note("the policy accepts no guest before its 'platform' has the 'measurements' "
			 "of one");
	}
	rc = sgpu_policy_from_claims(task->claims, &text, &size, &error);
	rc = rc ? rc : cli_write_text(task->out_path, 0644, text, size, &error);
	free(text);
	return rc ? cli_error(&error) : 0;
}

static int check_options(const struct task *task)
{
	static const char *const kinds[] = { "plain", "gramine-direct", "sgx", "tdx", "snp" };
	size_t kind = 0;

	while (task->at_least && kind < SGPU_ARRAY_LENGTH(kinds) &&
	       strcmp(task->at_least, kinds[kind])) {
		kind++;
	}
	if (kind == SGPU_ARRAY_LENGTH(kinds)) {
		return cli_usage("--at-least is plain, gramine-direct, sgx, tdx or snp");
	}
	const bool build = task->build_path || task->release_path;

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
	json_decref(task.claims);
	sgpu_owners_clear(&task.owners);
	return status;
}
