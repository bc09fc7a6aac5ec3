/* SPDX-License-Identifier: Apache-2.0
 *
 * The evidence of a run or a session. The private half of the key that it names never leaves this
 * process and goes with it: a batch that is sealed to it opens in the program that was measured, or
 * nowhere, and so does a session that is bound to it.
 */
#include "base/io.h"
#include "worker.h"

#include <stdlib.h>
#include <time.h>

#include <sgpu/base.h>

bool attested_check(const struct attested *options, bool dry_run)
{
	const struct {
		const char *name;
		bool given;
	} needed[] = { { "--nonce", options->nonce.size > 0 },
		       { "--attestation-key", options->key != NULL },
		       { "--certificate", options->certificate != NULL },
		       { "--owner", options->owner != NULL } };
	const size_t optional = SGPU_ARRAY_LENGTH(needed) - 1;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(needed); i++) {
		if (!options->quote && needed[i].given) {
			cli_usage("%s is for a run with --quote", needed[i].name);
			return false;
		}
		if (options->quote && !needed[i].given && i < optional) {
			cli_usage("--quote needs %s", needed[i].name);
			return false;
		}
	}
	if (options->quote && dry_run) {
		cli_usage("--dry-run runs nothing, so there is nothing to quote");
		return false;
	}
	if (options->quote && cli_is_standard(options->quote)) {
		cli_usage("the quote goes to a file, since standard output is for what follows");
		return false;
	}
	return true;
}

static int load_owner(const char *path, struct sgpu_key *owner, struct sgpu_error *error)
{
	const int code = sgpu_key_load(path, owner, error);

	return !code && owner->kind == SGPU_KEY_OCT
		       ? sgpu_fail(error, SGPU_EKEY,
				   "'%s' is a symmetric key, the owner's is an X25519 key", path)
		       : code;
}

int attested_quote(const struct attested *options, struct worker *w, struct sgpu_error *error)
{
	struct sgpu_signer *ak = NULL;
	struct sgpu_chain chain = { .count = 0 };
	struct sgpu_key owner = { .kind = 0 };
	struct sgpu_key *key = &w->keys[w->key_count], public_half;
	json_t *confinement = worker_confinement(w);
	struct sgpu_quote_subject subject = worker_subject(w, confinement);
	char *quote = NULL;
	size_t size = 0;
	int code =
		confinement ? sgpu_signer_load(options->key, &ak, error) : sgpu_fail_nomem(error);

	code = code ? code : sgpu_chain_load(options->certificate, &chain, error);
	if (!code && options->owner) {
		code = load_owner(options->owner, &owner, error);
	}
	code = code ? code : sgpu_key_generate(SGPU_KEY_X25519, key, error);
	code = code ? code : sgpu_key_public(key, &public_half, error);
	if (!code) {
		w->key_count++;
		subject.recipient =
			&public_half; /* what signs has no business with the other half */
		subject.nonce = options->nonce.data;
		subject.nonce_size = options->nonce.size;
		subject.owner_key = options->owner ? owner.public_half : NULL;
		code = sgpu_quote_create(&subject, ak, &chain, time(NULL), &quote, &size, error);
	}
	code = code ? code : cli_write_text(options->quote, 0666, quote, size, error);
	free(quote);
	json_decref(confinement);
	sgpu_key_clear(&owner);
	sgpu_chain_clear(&chain);
	sgpu_signer_free(&ak);
	return code;
}
