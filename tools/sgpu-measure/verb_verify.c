/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure verify: verifies a quote and prints what was checked.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "parts.h"

enum { ROOTS_MAX = 1 << 20, TIME_MAX = 32 };

/* Whoever can change a root can have any quote accepted, so only a trusted file is read. */
static int load_roots(const char *path, struct sgpu_chain *chain, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;

	if (!path) {
		return 0;
	}
	int rc = sgpu_read_file(path, "says whose quotes are believed", ROOTS_MAX, &text, &size,
				error);
	rc = rc ? rc : sgpu_chain_parse(text, size, path, chain, error);
	free(text);
	return rc;
}

/* Fails if --tee-roots was given and no hardware report was verified. */
static int verify(struct measure_checks *checks, struct sgpu_error *error)
{
	const struct sgpu_quote_checks wanted = {
		.roots = &checks->roots,
		.nonce = checks->nonce.size ? checks->nonce.data : NULL,
		.nonce_size = checks->nonce.size,
		.owner_key = checks->owner_path ? checks->owner.public_half : NULL,
		.tee_certificates =
			checks->tee_certificates_path ? &checks->tee_certificates : NULL,
		.tee_roots = checks->tee_roots_path ? &checks->tee_roots : NULL,
		.now = time(NULL),
		.max_age = (int64_t)(checks->max_age_ns / MEASURE_SECOND),
	};
	const int rc = sgpu_quote_verify(checks->quote, checks->quote_size, &wanted,
					 &checks->result, error);

	if (rc || !checks->tee_roots_path || checks->result.tee_verified) {
		return rc;
	}
	sgpu_fail(error, SGPU_EPOLICY,
		  "the quote has no report of the hardware that could be verified");
	return sgpu_hint(
		error,
		"--tee-roots asks for one; without it the quote is verified as far as it goes");
}

int measure_run_checks(struct measure_checks *checks, const char *quote_path,
		       struct sgpu_error *error)
{
	int rc, status;

	if (!checks->roots_path) {
		return cli_usage("the trusted certificates are missing, with --roots");
	}
	if (checks->tee_certificates_path && !checks->tee_roots_path) {
		return cli_usage("--tee-certificates lead to nothing without --tee-roots");
	}
	status = cli_take_input(quote_path);
	if (status) {
		return status;
	}
	rc = load_roots(checks->roots_path, &checks->roots, error);
	rc = rc ? rc : load_roots(checks->tee_roots_path, &checks->tee_roots, error);
	if (!rc && checks->tee_certificates_path) {
		rc = sgpu_chain_load(checks->tee_certificates_path, &checks->tee_certificates,
				     error);
	}
	if (!rc && checks->owner_path) {
		rc = measure_load_x25519(checks->owner_path, &checks->owner, error);
	}
	status = rc ? cli_error(error)
		    : cli_read_input(quote_path, SGPU_QUOTE_MAX, "a quote", &checks->quote,
				     &checks->quote_size);
	return status || !verify(checks, error)
		       ? status
		       : measure_quote_error(quote_path, checks->quote, checks->quote_size, error);
}

void measure_checks_clear(struct measure_checks *checks)
{
	sgpu_chain_clear(&checks->roots);
	sgpu_chain_clear(&checks->tee_roots);
	sgpu_chain_clear(&checks->tee_certificates);
	sgpu_quote_result_clear(&checks->result);
	free(checks->quote);
	checks->quote = NULL;
}

/* `state` is "verified", "not checked" or "absent". */
static void SGPU_PRINTF(4, 5)
	set(json_t *list, const char *name, const char *state, const char *format, ...)
{
	char text[384];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	json_object_set_new(list, name,
			    json_pack("{s:s, s:o*}", "state", state, "text", cli_json_text(text)));
}

/* Adds an unchecked record: "not checked" if the claims name it, else "absent" and their reason. */
static void set_record(const struct measure_checks *checks, json_t *list, const char *name,
		       const char *label, const char *unchecked)
{
	const json_t *own = json_object_get(checks->result.claims, SGPU_EAT_PROFILE);
	const char *reason =
		json_string_value(json_object_get(json_object_get(own, "absent"), label));

	if (json_object_get(json_object_get(own, "records"), label)) {
		set(list, name, "not checked", "%s", unchecked);
	} else {
		set(list, name, "absent", "%s", reason ? reason : "the quote does not say why");
	}
}

static void set_hardware(const struct measure_checks *checks, json_t *list)
{
	static const char of_maker[] = "it is for the verifier of its maker";
	const struct sgpu_quote_result *r = &checks->result;

	if (r->tee_verified) {
		set(list, "tsm_report", "verified", "%s%s", sgpu_platform_name(r->tee.kind),
		    r->tee.debug ? ", which can be debugged" : "");
	} else {
		set_record(checks, list, "tsm_report", "tsm-report", "no --tee-roots given");
	}
	set_record(checks, list, "sgx_quote", "gramine", of_maker);
	set_record(checks, list, "gpu_evidence", "nv-gpu-evidence", of_maker);
}

/* Writes a time as "2026-11-21T15:01:25Z", or as a number if that is impossible. */
static const char *time_text(time_t moment, char text[TIME_MAX])
{
	struct tm parts;

	if (!gmtime_r(&moment, &parts) || !strftime(text, TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts)) {
		snprintf(text, TIME_MAX, "%lld", (long long)moment);
	}
	return text;
}

json_t *measure_checks_json(const struct measure_checks *checks)
{
	json_t *list = json_object();
	const int64_t made =
		(int64_t)json_integer_value(json_object_get(checks->result.claims, "iat"));
	const int64_t age = time(NULL) - made;
	char moment[TIME_MAX];

	set(list, "signature", "verified", "ES384");
	set(list, "chain", "verified", "leads to '%s'", checks->roots_path);
	set(list, "time", "verified", "made at %s, %lld s ago", time_text((time_t)made, moment),
	    (long long)(age < 0 ? 0 : age));
	if (checks->result.nonce_checked) {
		set(list, "nonce", "verified", "%zu bytes", checks->nonce.size);
	} else {
		set(list, "nonce", "not checked", "no --nonce given");
	}
	if (checks->owner_path) {
		set(list, "owner", "verified", "bound to '%s'", checks->owner_path);
	} else {
		set(list, "owner", "not checked", "no --owner given");
	}
	set(list, "binding", "verified", "its parts belong together");
	set_hardware(checks, list);
	return list;
}

void measure_print_checks(const struct measure_checks *checks)
{
	json_t *list = measure_checks_json(checks), *check;
	const char *name;

	json_object_foreach (list, name, check) {
		cli_print_line(stdout, "%-13s  %s: %s", name, cli_text_of(check, "state"),
			       cli_text_of(check, "text"));
	}
	json_decref(list);
}

/* Returns a verified hardware report in a policy's terms, or NULL. */
static json_t *tee_json(const struct sgpu_quote_result *result)
{
	const struct sgpu_tee_report *tee = &result->tee;
	char tcb[17];

	if (!result->tee_verified) {
		return NULL;
	}
	snprintf(tcb, sizeof(tcb), "%016" PRIx64, tee->tcb);
	json_t *object = json_pack(
		"{s:s, s:i, s:b, s:b, s:s, s:o}", "kind", sgpu_platform_word(tee->kind), "version",
		(int)tee->version, "debug", tee->debug, "migratable", tee->migratable, "tcb", tcb,
		"measurement", measure_hex(tee->measurement, sizeof(tee->measurement)));
	if (tee->kind == SGPU_PLATFORM_SNP) {
		json_object_set_new(object, "vmpl", json_integer(tee->vmpl));
		return object;
	}
	json_object_set_new(object, "sept_ve", json_boolean(tee->sept_ve));
	for (int i = 0; i < 4; i++) {
		char name[8];
		snprintf(name, sizeof(name), "rtmr%d", i);
		json_object_set_new(object, name, measure_hex(tee->rtmr[i], sizeof(tee->rtmr[i])));
	}
	return object;
}

const struct cli_option verify_options[] = { MEASURE_CHECK_OPTIONS(struct measure_checks, ),
					     CLI_END };

static int report(const struct measure_checks *checks)
{
	if (cli_json) {
		return cli_print_json(json_pack("{s:b, s:o, s:o*, s:O}", "verified", 1, "checks",
						measure_checks_json(checks), "tee",
						tee_json(&checks->result), "claims",
						checks->result.claims),
				      stdout, JSON_COMPACT);
	}
	measure_print_checks(checks);
	return 0;
}

int verb_verify(int argc, char **argv)
{
	struct measure_checks checks = { 0 };
	struct sgpu_error error = { 0 };
	char **paths;
	int status = cli_read(argc, argv, &checks, &paths);

	status = status ? status : measure_run_checks(&checks, paths[0], &error);
	status = status ? status : report(&checks);
	measure_checks_clear(&checks);
	return status;
}
