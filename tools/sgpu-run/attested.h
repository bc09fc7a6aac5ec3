/* SPDX-License-Identifier: Apache-2.0
 *
 * A run that proves itself first: it makes a key of its own, quotes it for the verifier's nonce, and takes a batch that
 * is sealed to it.
 */
#ifndef SGPU_RUN_ATTESTED_H
#define SGPU_RUN_ATTESTED_H

#include <stdbool.h>

#include <sgpu/attest.h>
#include <sgpu/crypto.h>

#include "cli.h"

/* As on the command line; NULL or no bytes: not given. */
struct attested {
	const char *quote, *key, *certificate, *owner;
	struct cli_bytes nonce;
};

/* Whether the options belong together: prints and returns false. */
bool attested_check(const struct attested *options, bool dry_run);
/* Fills *recipient, which should lie in memory for secrets, with a new X25519 key, and writes the quote: all of it, or
 * no file. `run` has the device and what holds for this run; nonce, recipient and owner's key are filled in here. The
 * attestation key is loaded for this and gone when it returns. */
SGPU_MUST_CHECK int attested_quote(const struct attested *options, const struct sgpu_quote_subject *run,
				   struct sgpu_key *recipient, struct sgpu_error *error);

#endif
