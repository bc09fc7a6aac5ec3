/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench open: what it takes to open a device in a process that has none yet. The case session starts it.
 */
#include <inttypes.h>

#include "verbs.h"

enum { OPT_DEVICE = CLI_LONG, OPT_SECURE };

const struct cli_option open_options[] = {
	CLI_COMMON,
	{ "device", OPT_DEVICE, "DEVICE", "cpu, cuda, cuda:N or auto (the default)" },
	{ "secure", OPT_SECURE, NULL, "with a secure context for an owner whose key is there" },
	{ NULL, 0, NULL, NULL },
};

int verb_open(int argc, char **argv)
{
	const char *value, *selector = "auto";
	enum bench_opening kind = BENCH_PLAIN;
	uint64_t opening, closing;
	struct sgpu_error error = { 0 };
	struct sgpu_key owner = { 0 };
	int first = argc, key, rc;

	while ((key = cli_next(argc, argv, &value, &first))) {
		switch (key) {
		case OPT_DEVICE:
			selector = value;
			break;
		case OPT_SECURE:
			kind = BENCH_SECURE;
			break;
		default:
			return 2;
		}
	}
	if (!cli_positionals(argc, first, 0, 0)) {
		return 2;
	}
	rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, &error);
	if (rc == SGPU_OK) {
		rc = bench_open(selector, 0, &owner, kind, &opening, &closing, &error);
	}
	sgpu_key_clear(&owner);
	if (rc != SGPU_OK) {
		return cli_error(&error);
	}
	printf(cli_json ? "{\"opening_ns\":%" PRIu64 ",\"closing_ns\":%" PRIu64 "}\n" : "%" PRIu64 " %" PRIu64 "\n", opening,
	       closing);
	return 0;
}
