/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench open: times opening a device in a new process. The case session starts it.
 */
#include <inttypes.h>

#include "cases.h"
#include "verbs.h"

struct request {
	const char *device;
	bool secure;
};

const struct cli_option open_options[] = {
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct request, device) },
	{ "secure", 0, NULL, "with a secure context for an owner whose key is known",
	  CLI_FLAG(struct request, secure) },
	CLI_END,
};

int verb_open(int argc, char **argv)
{
	struct request request = { .device = "auto" };
	uint64_t ns[2];
	struct sgpu_error error = { 0 };
	char **arguments;
	int rc = cli_read(argc, argv, &request, &arguments);

	if (rc) {
		return rc;
	}
	if (bench_open(request.device, 0, request.secure, ns, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	printf(cli_json ? "{\"opening_ns\":%" PRIu64 ",\"closing_ns\":%" PRIu64 "}\n"
			: "%" PRIu64 " %" PRIu64 "\n",
	       ns[0], ns[1]);
	return 0;
}
