/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run: runs batches. See sgpu-run(1).
 */
#include <stdlib.h>

#include "verbs.h"

static const struct cli_verb verbs[] = {
	{ "submit", "[BATCH]", "run a batch and write its response", submit_options, verb_submit },
	{ "worker", "DIR", "run the batches of a directory, or of a list, until none is left",
	  worker_options, verb_worker },
	{ "serve", "", "run the batches that other processes submit", serve_options, verb_serve },
	{ "status", "", "show what the server does", status_options, verb_status },
	{ "quote", "", "have the server attest the worker that runs one's batches", quote_options,
	  verb_quote },
	{ "session", "", "serve a session of a program, on standard input and output",
	  session_options, verb_session },
	{ "info", "", "show devices, what is missing, and what this platform protects",
	  info_options, verb_info },
	{ "ops", "[OPERATION]", "list the operations and the devices that have them", ops_options,
	  verb_ops },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-run",
	.summary = "run batches on a device",
	.verbs = verbs,
	.default_verb = "submit",
};

int main(int argc, char **argv)
{
	/* Where there is no TPM, its library would print lines of its own. */
	setenv("TSS2_LOG", "all+NONE", 0);
	return cli_main(&tool, argc, argv);
}
