/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench list: the cases.
 */
#include "verbs.h"

const struct cli_option list_options[] = { CLI_END };

int verb_list(int argc, char **argv)
{
	json_t *list = json_array();
	char **arguments;
	int status = cli_read(argc, argv, NULL, &arguments);

	for (const struct sgpu_bench_case *row = bench_cases; status == 0 && row->name; row++) {
		json_t *one = json_pack("{s:s, s:s, s:s}", "case", row->name, "help", row->help,
					"unit", row->unit);

		if (cli_json) {
			status = cli_print_json(one, stdout, JSON_COMPACT);
		} else if (json_array_append_new(list, one) != 0) {
			status = cli_fail(SGPU_ENOMEM, "out of memory");
		}
	}
	if (status == 0 && !cli_json) {
		cli_table(stdout, list, "case help unit");
	}
	json_decref(list);
	return status;
}
