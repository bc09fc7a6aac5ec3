/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-measure.
 */
#ifndef SGPU_MEASURE_PARTS_H
#define SGPU_MEASURE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/attest.h>

#include "cli.h"
#include "sgpu-seal/passphrase.h"

CLI_VERB(keygen);
CLI_VERB(certify);
CLI_VERB(quote);
CLI_VERB(verify);
CLI_VERB(appraise);
CLI_VERB(policy);
CLI_VERB(release);
CLI_VERB(inspect);
CLI_VERB(memory);

#define MEASURE_SECOND UINT64_C(1000000000) /* in ns: the unit of --max-age */

/* Loads the public half of an X25519 key file, private or public. Errors: as sgpu_key_load,
 * SGPU_EINVALID for another kind. */
SGPU_MUST_CHECK int measure_load_x25519(const char *path, struct sgpu_key *key,
					struct sgpu_error *error);
/* Prints the error of parsing or verifying a quote, with the file's name if it is no quote. Returns
 * an exit status. */
int measure_quote_error(const char *path, const char *text, size_t size, struct sgpu_error *error);

/* ---- verb_release.c, also used by policy ---- */
#define RELEASE_RUNNER "sgpu-enclave"
/* Makes {"version", "release", "files": [{"name", "size", "digest"}]} of a build: sgpu-enclave and
 * the CUDA device, if any. */
SGPU_MUST_CHECK int release_of_build(const char *folder, json_t **release,
				     struct sgpu_error *error);
/* Reads such digests, and verifies the signature of `key`. Errors: SGPU_EINVALID, SGPU_EAUTH. */
SGPU_MUST_CHECK int release_read(const char *path, const struct sgpu_key *key, json_t **release,
				 struct sgpu_error *error);
/* Returns the file of that name, or for NULL the one that is not sgpu-enclave; NULL: none. */
const json_t *release_file(const json_t *release, const char *name);

json_t *measure_hex(const void *data, size_t size);

/* ---- verb_verify.c, also used by appraise ---- */
#define MEASURE_CHECK_OPTIONS(type, checks)                                                    \
	{ "roots", 0, "FILE", "trusted certificates for the attestation key",                  \
	  CLI_INPUT(type, checks roots_path) },                                                \
		{ "nonce", 0, "HEX", "the nonce that the quote was asked for with",            \
		  CLI_BYTES(type, checks nonce, SGPU_NONCE_MIN, SGPU_NONCE_MAX) },             \
		{ "owner", 0, "KEY", "the owner's X25519 key that the quote must be bound to", \
		  CLI_INPUT(type, checks owner_path) },                                        \
		{ "tee-roots", 0, "FILE", "trusted certificates for the hardware's report",    \
		  CLI_INPUT(type, checks tee_roots_path) },                                    \
		{ "tee-certificates", 0, "FILE", "certificates between the report and those",  \
		  CLI_INPUT(type, checks tee_certificates_path) },                             \
	{                                                                                      \
		"max-age", 0, "DURATION", "how old a quote may be (default: 1h)",              \
			CLI_DURATION(type, checks max_age_ns, MEASURE_SECOND)                  \
	}

struct measure_checks {
	const char *roots_path, *owner_path, *tee_roots_path, *tee_certificates_path;
	struct cli_bytes nonce;
	uint64_t max_age_ns;
	struct sgpu_chain roots, tee_roots, tee_certificates;
	struct sgpu_key owner;
	char *quote;
	size_t quote_size;
	struct sgpu_quote_result result;
};
/* Returns an exit status, after messages. */
int measure_run_checks(struct measure_checks *checks, const char *quote_path,
		       struct sgpu_error *error);
void measure_checks_clear(struct measure_checks *checks);
/* Print the checks on standard output, a line each, or return them as a new object {"signature":
 * {"state": "verified", "text": "ES384"}, ...}. */
void measure_print_checks(const struct measure_checks *checks);
json_t *measure_checks_json(const struct measure_checks *checks);

#endif
