/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure: evidence of what runs where. See sgpu-measure(1).
 */
#include <stdlib.h>

#include "parts.h"

static const struct cli_verb verbs[] = {
	{ "keygen", "", "make a key, and a request for its certificate", keygen_options,
	  verb_keygen },
	{ "certify", "[REQUEST]", "answer a request with a certificate", certify_options,
	  verb_certify },
	{ "quote", "", "sign what runs here, for a verifier's nonce", quote_options, verb_quote },
	{ "verify", "[QUOTE]", "check signature, chain, time, nonce and binding", verify_options,
	  verb_verify },
	{ "appraise", "[QUOTE]", "verify, then judge by a policy", appraise_options,
	  verb_appraise },
	{ "policy", "[QUOTE]", "write a policy that accepts a quote, or a build", policy_options,
	  verb_policy },
	{ "release", "", "sign the digests of a build", release_options, verb_release },
	{ "inspect", "[QUOTE]", "show the content of a quote, verifying nothing", inspect_options,
	  verb_inspect },
	{ "memory", "[FILE]", "measure memory of a device", memory_options, verb_memory },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-measure",
	.summary = "prove which code runs on which platform, and check such proofs",
	.verbs = verbs,
	.holds_secrets = true,
};

int main(int argc, char **argv)
{
	/* Keeps the TPM's libraries from logging each attempt on standard error. */
	setenv("TSS2_LOG", "all+NONE", 0);
	sgpu_key_ask(passphrase_ask);
	return cli_main(&tool, argc, argv);
}
