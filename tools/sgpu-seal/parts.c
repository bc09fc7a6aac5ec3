/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys from the options of several verbs, and what is reported with --json.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "parts.h"

static int add(struct seal_keys *keys, const char *path, enum seal_use use,
	       const struct sgpu_key_set *set, struct sgpu_error *error)
{
	const bool verifies = use == SEAL_OPENER && set->signing.kind != SGPU_KEY_NONE;
	const bool signs = verifies || ((use == SEAL_OWNER || use == SEAL_CHANGER) &&
					set->signing.secret_known);
	const bool opens = use == SEAL_READER || use == SEAL_OPENER || use == SEAL_CHANGER;

	/* These keys decide who reads the data, or whose batch is trusted. */
	if (set->others_write && (use == SEAL_RECIPIENT || verifies)) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "others can write to key '%s', which says who is trusted", path);
		return sgpu_hint(error, "it has to be a file of your own, or of root, to which "
					"nobody else can write: "
					"chmod go-w");
	}
	if (signs && keys->signer_count >= SGPU_SIGNATURES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d keys that sign",
				 SGPU_SIGNATURES_MAX);
	}
	if (signs) {
		keys->signers[keys->signer_count++] = set->signing;
	}
	if (set->key.kind == SGPU_KEY_NONE && !signs) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "key '%s' has %s key to sign with, and none to encrypt with", path,
				 set->signing.secret_known ? "a" : "a public");
	}
	if (verifies && set->key.kind != SGPU_KEY_NONE && !set->key.secret_known) {
		return 0; /* the public halves of another owner */
	}
	if (opens && set->key.kind != SGPU_KEY_NONE && !set->key.secret_known) {
		sgpu_fail(error, SGPU_EKEY,
			  "key '%s' is the public half of '%s', which opens nothing", path,
			  set->key.kid);
		return sgpu_hint(error,
				 "give the file with both halves, which 'sgpu-seal keygen' wrote");
	}
	if (set->key.kind != SGPU_KEY_NONE) {
		keys->list[keys->count++] = set->key;
	}
	return 0;
}

static int load_all(struct seal_keys *keys, const struct cli_list *paths, enum seal_use use)
{
	struct sgpu_error error = { 0 };
	int status = 0;

	for (int i = 0; i < paths->count && !status; i++) {
		struct sgpu_key_set set = { 0 };
		int rc = keys->count < SGPU_RECIPIENTS_MAX
				 ? 0
				 : sgpu_fail(&error, SGPU_EUSAGE, "more than %d keys",
					     SGPU_RECIPIENTS_MAX);

		status = cli_take_input(paths->items[i]);
		rc = rc || status ? rc : sgpu_key_set_load(paths->items[i], &set, &error);
		rc = rc || status ? rc : add(keys, paths->items[i], use, &set, &error);
		sgpu_key_set_clear(&set);
		status = rc ? cli_error(&error) : status;
	}
	return status;
}

int seal_keys_load(struct seal_keys *keys, enum seal_use use)
{
	const int status = load_all(keys, &keys->own, use);

	return status ? status : load_all(keys, &keys->others, SEAL_RECIPIENT);
}

void seal_keys_clear(struct seal_keys *keys)
{
	free(keys->own.items);
	free(keys->others.items);
	sgpu_wipe(keys, sizeof(*keys));
}

void seal_record(json_t *record, uint64_t bytes_in, uint64_t bytes_out)
{
	if (cli_json && record) {
		json_object_set_new(record, "bytes_in", json_integer((json_int_t)bytes_in));
		json_object_set_new(record, "bytes_out", json_integer((json_int_t)bytes_out));
		json_object_set_new(record, "provider", json_string(sgpu_aead_provider()));
		cli_print_json(json_incref(record), stderr, JSON_COMPACT);
	}
	json_decref(record);
}

json_t *seal_recipient_kids(const struct sgpu_batch *batch)
{
	json_t *kids = json_array();
	size_t i = 0;
	json_t *recipient = NULL;
	json_array_foreach (batch->recipients, i, recipient) {
		json_array_append(kids, json_object_get(recipient, "kid"));
	}
	return kids;
}
