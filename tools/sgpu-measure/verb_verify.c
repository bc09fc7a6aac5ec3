/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure verify: whether a quote is what it claims to be. What it says is judged by appraise.
 */
#include <stdlib.h>

#include "parts.h"
#include "verbs.h"

const struct cli_option verify_options[] = { CLI_COMMON, MEASURE_CHECK_OPTIONS, { NULL, 0, NULL, NULL } };

static int report(const struct measure_checks *checks)
{
	if (cli_json) {
		return measure_print_record(json_pack("{s:b, s:o, s:o*, s:O}", "verified", 1, "checks",
						      measure_checks_json(checks), "tee",
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
	const char *value = NULL;
	int first = argc, status = 0;

	for (int key = 0; !status && (key = cli_next(argc, argv, &value, &first)) != 0;) {
		status = measure_take_check(&checks, key, value) ? 2 : 0;
	}
	if (!status && !cli_positionals(argc, first, 0, 1)) {
		status = 2;
	}
	if (!status) {
		status = measure_run_checks(&checks, first < argc ? argv[first] : NULL, &error);
	}
	if (!status) {
		status = report(&checks);
	}
	measure_checks_clear(&checks);
	return status;
}
