/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench list: the cases, and whether they can run here.
 */
#include "verbs.h"

struct request {
	const char *device;
};

const struct cli_option list_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct request, device) },
	CLI_END,
};

static const struct column columns[] = {
	{ "case", 13 }, { "measures", 60 }, { "unit", 4 },
	{ "needs", 6 }, { "not here", 0 },  { NULL, 0 },
};

static int print_case(const struct sgpu_bench_case *row, const struct sgpu_device_info *info)
{
	struct sgpu_error error = { 0 };
	bool can = sgpu_bench_can_run(row, info, &error) == SGPU_OK;
	const char *const unit = sgpu_bench_units[row->unit], *const needs =
								      sgpu_bench_needs[row->needs];

	if (cli_json) {
		return cli_print_json(json_pack("{s:s, s:s, s:s, s:s, s:b, s:s}", "case", row->name,
						"help", row->help, "unit", unit, "requires", needs,
						"can_run", can, "reason", error.text),
				      stdout, JSON_COMPACT);
	}
	print_row(stdout, columns,
		  (const char *const[]){ row->name, row->help, unit, needs, error.text });
	return 0;
}

int verb_list(int argc, char **argv)
{
	struct request request = { .device = "auto" };
	struct sgpu_device *device = NULL;
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &request, &arguments), rc;

	if (status) {
		return status;
	}
	rc = sgpu_device_open(request.device, NULL, &device, &error);
	rc = rc ? rc : sgpu_device_get_info(device, &info, &error);
	if (rc != SGPU_OK) {
		status = cli_error(&error);
	} else if (!cli_json) {
		print_head(stdout, columns);
	}
	for (int i = 0; rc == SGPU_OK && status == 0 && bench_cases[i].name; i++) {
		status = print_case(&bench_cases[i], &info);
	}
	sgpu_device_close(&device);
	return status;
}
