/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure verify: whether a quote is what it claims to be. What it says is judged by appraise.
 */
#include <stdlib.h>

#include "parts.h"
#include "verbs.h"

const struct cli_option verify_options[] = { CLI_COMMON,
					     MEASURE_CHECK_OPTIONS(struct measure_checks, ),
					     CLI_END };

static int report(const struct measure_checks *checks)
{
	if (cli_json) {
		return measure_print_record(json_pack("{s:b, s:o, s:o*, s:O}", "verified", 1,
						      "checks", measure_checks_json(checks), "tee",
						      measure_tee_json(&checks->result), "claims",
						      checks->result.claims),
					    false);
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
