/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu: runs its own verbs, and for another one the program of that name beside it.
 */
#include <string.h>

#include <sgpu/keys.h>

#include "sgpu.h"

static const struct cli_verb verbs[] = {
	{ "run", "OPERATION [NAME=VALUE | [NAME=]FILE]... | MANIFEST",
	  "run operations on your files, sealed all the way", run_options, verb_run },
	{ "host", "add|list|show|update|remove [NAME [ADDRESS]]",
	  "say which hosts may get your jobs, and what they have to prove", host_options,
	  verb_host },
	{ "pipe", "", "run jobs for the program at standard input and output", pipe_options,
	  verb_pipe },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu",
	.summary = "run jobs on files of your own; 'sgpu VERB' else runs 'sgpu-VERB'",
	.verbs = verbs,
	.holds_secrets = true,
};

static bool is_own(const char *word)
{
	bool own = *word == '-';

	for (const struct cli_verb *verb = verbs; verb->name; verb++) {
		own |= strcmp(verb->name, word) == 0;
	}
	return own;
}

int main(int argc, char **argv)
{
	struct sgpu_error error = { 0 };

	if (argc > 1 && !is_own(argv[1])) {
		(void)program_become(argv[1], argv + 1, &error);
	}
	sgpu_key_ask(passphrase_ask);
	return cli_main(&tool, argc, argv);
}
