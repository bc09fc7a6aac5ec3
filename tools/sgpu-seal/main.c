/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal: keys, sealed batches, opened responses. See sgpu-seal(1).
 */
#include "parts.h"

static const struct cli_verb verbs[] = {
	{ "keygen", "", "make a secret key", keygen_options, verb_keygen },
	{ "pubkey", "[KEY]", "write the public halves of a key file", pubkey_options, verb_pubkey },
	{ "keyinfo", "[KEY]", "say what is in a key file, but nothing secret", keyinfo_options,
	  verb_keyinfo },
	{ "seal", "[BATCH]", "seal the secret payloads of a batch", seal_options, verb_seal },
	{ "open", "[RESPONSE]", "verify a response and open its outputs", open_options, verb_open },
	{ "seal-file", "[IN [OUT]]", "seal one file with a key, or to a public key",
	  seal_file_options, verb_seal_file },
	{ "open-file", "[IN [OUT]]", "open one file that was sealed alone", open_file_options,
	  verb_open_file },
	{ "inspect", "[FILE]", "show what a batch or a response is", inspect_options,
	  verb_inspect },
	{ "rewrap", "[FILE]", "change who can open a batch or a response", rewrap_options,
	  verb_rewrap },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-seal",
	.summary = "seal batches for a runner and open its responses",
	.verbs = verbs,
	.holds_secrets = true,
};

int main(int argc, char **argv)
{
	sgpu_key_ask(passphrase_ask);
	return cli_main(&tool, argc, argv);
}
