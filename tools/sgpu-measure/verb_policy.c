/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure policy: writes a policy, or bare reference values, from a quote that is trusted or
 * from the files of a build.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "parts.h"

struct task {
	const char *quote_path, *build_path, *release_path, *key_path, *owners_path, *at_least;
	const char *out_path;
	bool reference_values;
	struct sgpu_owners owners;
	json_t *claims;
};

const struct cli_option policy_options[] = {
	CLI_COMMON,
	{ "reference-values", 0, NULL, "only digests, as {\"name\": [\"hex\", ...]}",
	  CLI_FLAG(struct task, reference_values) },
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
/* Returns the owners' ids; NULL: any owner, or out of memory. */
static json_t *owner_claims(const struct task *task)
{
	json_t *list = task->owners.count ? json_array() : NULL;

	for (int i = 0; list && i < task->owners.count; i++) {
		json_array_append_new(list, json_string(task->owners.names[i]));
	}
	return list;
}

static json_t *runner_claims(const struct task *task, const json_t *file)
{
	return json_pack("{s:s, s:s, s:{s:O, s:O, s:s, s:b, s:b, s:o*, s:s, s:{s:b}, s:s}}",
			 "swname", RELEASE_RUNNER, "dbgstat", "disabled", SGPU_EAT_PROFILE,
			 "digest", json_object_get(file, "digest"), "size",
			 json_object_get(file, "size"), "measured", "process", "modules", 0,
			 "files", 0, "owners", owner_claims(task), "sessions",
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

/* ---- reference values ---- */
static int add_digest(json_t *values, const json_t *name, const json_t *digest,
		      struct sgpu_error *error)
{
	const char *key = json_string_value(name), *text = json_string_value(digest);
	uint8_t bytes[SGPU_KT128_SIZE];

	if (!key || !text || sgpu_base64url_decode(text, bytes, sizeof(bytes), NULL)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the quote has a digest without a name, or of another length");
	}
	json_t *list = json_object_get(values, key);
	if (!list) {
		list = json_array();
		json_object_set_new(values, key, list);
	}
	return json_array_append_new(list, measure_hex(bytes, sizeof(bytes)))
		       ? sgpu_fail_nomem(error)
		       : 0;
}

static int reference_values(const json_t *claims, json_t **list, struct sgpu_error *error)
{
	const json_t *submods = json_object_get(claims, "submods"), *submod = NULL, *item = NULL;
	json_t *values = *list = json_object();
	const char *name = NULL;
	int rc = values ? 0 : sgpu_fail_nomem(error);

	json_object_foreach ((json_t *)(uintptr_t)submods, name, submod) {
		const json_t *own = json_object_get(submod, SGPU_EAT_PROFILE);
		size_t i = 0;
		if (!rc && json_object_get(own, "digest")) {
			rc = add_digest(values, json_object_get(submod, "swname"),
					json_object_get(own, "digest"), error);
		}
		json_array_foreach (json_object_get(own, "code"), i, item) {
			rc = rc ? rc
				: add_digest(values, json_object_get(item, "name"),
					     json_object_get(item, "digest"), error);
		}
	}
	return rc;
}

/* ---- the verb ---- */
static int write_policy(const struct task *task, struct sgpu_error *error)
{
	json_t *values = NULL;
	char *text = NULL;
	size_t size = 0;
	int rc;

	if (task->reference_values) {
		rc = reference_values(task->claims, &values, error);
		rc = rc ? rc : cli_write_json(task->out_path, 0644, json_incref(values), error);
	} else {
		rc = sgpu_policy_from_claims(task->claims, &text, &size, error);
		rc = rc ? rc : cli_write_text(task->out_path, 0644, text, size, error);
	}
	json_decref(values);
	free(text);
	return rc;
}

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

/* Whether the policy needs the measurements of a hardware report, which neither a quote's claims
 * nor a build contain. */
static bool guest_missing(const struct task *task)
{
	const char *kind = json_string_value(json_object_get(
		json_object_get(json_object_get(task->claims, SGPU_EAT_PROFILE), "platform"),
		"kind"));

	return !task->reference_values && !is_open(kind);
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
	} else if (claims_of_build(task, &error)) {
		status = cli_error(&error);
	}
	if (status) {
		return status;
	}
	if (guest_missing(task)) {
		cli_note("the policy accepts no guest before its 'platform' has the 'measurements' "
			 "of one");
	}
	return write_policy(task, &error) ? cli_error(&error) : 0;
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
	if (build && !task->owners_path && !task->reference_values) {
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
