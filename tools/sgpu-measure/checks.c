/* SPDX-License-Identifier: Apache-2.0
 *
 * The verification that verify and appraise share: its options, and its run.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "parts.h"

enum { ROOTS_MAX = 1 << 20 };

static int load_chain(const char *path, struct sgpu_chain *chain, struct sgpu_error *error)
{
	return path ? sgpu_chain_load(path, chain, error) : 0;
}

/* Whoever can change a root can have any quote accepted. */
static int load_roots(const char *path, struct sgpu_chain *chain, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;

	if (!path) {
		return 0;
	}
	int code = sgpu_read_trusted_file(path, "says whose quotes are believed", ROOTS_MAX, &text,
					  &size, error);
	code = code ? code : sgpu_chain_parse(text, size, path, chain, error);
	free(text);
	return code;
}

static int load(struct measure_checks *checks, struct sgpu_error *error)
{
	int code = load_roots(checks->roots_path, &checks->roots, error);

	code = code ? code : load_roots(checks->tee_roots_path, &checks->tee_roots, error);
	if (!code) {
		code = load_chain(checks->tee_certificates_path, &checks->tee_certificates, error);
	}
	if (!code && checks->owner_path) {
		code = measure_load_x25519(checks->owner_path, &checks->owner, error);
	}
	return code;
}

/* Whoever names roots for the hardware's report wants one that leads there. */
static int demand_report(const struct measure_checks *checks, struct sgpu_error *error)
{
	if (!checks->tee_roots_path || checks->result.tee_verified) {
		return 0;
	}
	sgpu_fail(error, SGPU_EPOLICY,
		  "the quote has no report of the hardware that could be verified");
	return sgpu_hint(
		error,
		"--tee-roots asks for one; without it the quote is verified as far as it goes");
}

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
		.now = measure_now(),
		.max_age = (int64_t)(checks->max_age_ns / MEASURE_SECOND),
	};
	const int code = sgpu_quote_verify(checks->quote, checks->quote_size, &wanted,
					   &checks->result, error);

	return code ? code : demand_report(checks, error);
}

static int check_options(const struct measure_checks *checks, const char *quote_path)
{
	const char *const paths[] = { checks->roots_path, checks->owner_path,
				      checks->tee_roots_path, checks->tee_certificates_path };

	if (!checks->roots_path) {
		return cli_usage("the trusted certificates are missing, with --roots");
	}
	if (checks->tee_certificates_path && !checks->tee_roots_path) {
		return cli_usage("--tee-certificates lead to nothing without --tee-roots");
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(paths); i++) {
		if (paths[i] && !strcmp(paths[i], "-") && cli_is_standard(quote_path)) {
			return cli_usage("standard input cannot be both the quote and what it is "
					 "checked with");
		}
	}
	return 0;
}

int measure_run_checks(struct measure_checks *checks, const char *quote_path,
		       struct sgpu_error *error)
{
	int status = check_options(checks, quote_path);

	if (status) {
		return status;
	}
	if (load(checks, error)) {
		return cli_error(error);
	}
	if (measure_read_input(quote_path, "a quote", &checks->quote, &checks->quote_size,
			       &status)) {
		return status;
	}
	return verify(checks, error)
		       ? measure_quote_error(quote_path, checks->quote, checks->quote_size, error)
		       : 0;
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
