/* SPDX-License-Identifier: Apache-2.0
 *
 * A run or a session that proves itself first: it makes a key of its own, quotes it for the
 * verifier's nonce, and takes a batch that is sealed to it, or a session that is bound to it.
 */
#ifndef SGPU_RUN_ATTESTED_H
#define SGPU_RUN_ATTESTED_H

#include <stdbool.h>

#include <sgpu/attest.h>

#include "cli.h"
#include "worker.h"

/* As on the command line; NULL or no bytes: not given. */
struct attested {
	const char *quote, *key, *certificate, *owner;
	struct cli_bytes nonce;
};

/* Rows of a verb's table of options. */
#define ATTESTED_OPTIONS(type, member, of)                                                        \
	{ "quote", 0, "FILE", "first write evidence of this " of " there, with a key of its own", \
	  CLI_TEXT(type, member.quote) },                                                         \
		{ "nonce", 0, "HEX", "what the verifier sent for the quote: 8 to 64 bytes",       \
		  CLI_BYTES(type, member.nonce, SGPU_NONCE_MIN, SGPU_NONCE_MAX) },                \
		{ "attestation-key", 0, "KEY", "the key that signs the quote",                    \
		  CLI_INPUT(type, member.key) },                                                  \
	{                                                                                         \
		"certificate", 0, "FILE", "certificate chain of that key, up to the authority",   \
			CLI_INPUT(type, member.certificate)                                       \
	}

/* Whether the options belong together: prints and returns false. */
bool attested_check(const struct attested *options, bool dry_run);
/* Once the worker is open: adds a new X25519 key to its keys, and writes the quote that names it:
 * all of it, or no file. The attestation key is loaded for this and gone when it returns. */
SGPU_MUST_CHECK int attested_quote(const struct attested *options, struct worker *worker,
				   struct sgpu_error *error);

#endif
