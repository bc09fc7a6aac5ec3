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

int verb_list(int argc, char **argv)
{
	struct request request = { .device = "auto" };
	struct sgpu_device *device = NULL;
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };
	json_t *list = json_array();
	char **arguments;
	int status = cli_read(argc, argv, &request, &arguments), rc;

	if (status) {
		return status;
	}
	rc = sgpu_device_open(request.device, NULL, &device, &error);
	rc = rc ? rc : sgpu_device_get_info(device, &info, &error);
	status = rc ? cli_error(&error) : 0;
	for (const struct sgpu_bench_case *row = bench_cases; status == 0 && row->name; row++) {
		struct sgpu_error lack = { 0 };
		const bool can = sgpu_bench_can_run(row, &info, &lack) == SGPU_OK;
		json_t *one = json_pack("{s:s, s:s, s:s, s:s, s:b, s:s}", "case", row->name, "help",
					row->help, "unit", row->unit, "requires",
					sgpu_bench_needs[row->needs], "can_run", can, "reason",
					lack.text);

		if (cli_json) {
			status = cli_print_json(one, stdout, JSON_COMPACT);
		} else if (json_array_append_new(list, one) != 0) {
			status = cli_fail(SGPU_ENOMEM, "out of memory");
		}
	}
	if (status == 0 && !cli_json) {
		cli_table(stdout, list, "case help unit requires reason");
	}
	sgpu_device_close(&device);
	json_decref(list);
	return status;
}
