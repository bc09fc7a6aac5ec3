/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-serve: shares devices between the users of a machine. See sgpu-serve(1).
 */
#include "serve.h"

static const struct cli_verb verbs[] = {
	{ "", "", "run the batches that other processes submit", serve_options, verb_serve },
	{ "status", "", "show what the server does", status_options, verb_status },
	{ "quote", "", "have the server attest the worker that runs one's batches", quote_options,
	  verb_quote },
	{ "reload", "", "have the server read its keys, owners and tenants again", reload_options,
	  verb_reload },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-serve",
	.summary = "share devices between the users of this machine",
	.verbs = verbs,
};

int main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
