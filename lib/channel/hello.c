/* SPDX-License-Identifier: Apache-2.0
 *
 * The hello of a session, sgpu-session(5): made by the program, opened by the runner.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include "base/json.h"
#include "crypto/crypto.h"

#include "channel/keys.h"

static const char INFO[] = "sgpu session v1", TYP[] = "sgpu-session+jws";

enum { SEALED = SGPU_KEY_SIZE + SGPU_TAG_SIZE };

/* The payload, but for `owner`. */
struct content {
	uint8_t enc[32], key[32], nonce[32], runner[32], secret[SEALED];
};
static const struct {
	const char *name;
	size_t at, size;
} parts[] = {
	{ "enc", offsetof(struct content, enc), 32 },
	{ "key", offsetof(struct content, key), 32 },
	{ "nonce", offsetof(struct content, nonce), 32 },
	{ "runner", offsetof(struct content, runner), 32 },
	{ "secret", offsetof(struct content, secret), SEALED },
};

static json_t *payload_of(const struct content *c, const char *kid)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "owner", kid, "enc",
			 sgpu_json_from_bytes(c->enc, sizeof(c->enc)), "key",
			 sgpu_json_from_bytes(c->key, sizeof(c->key)), "nonce",
			 sgpu_json_from_bytes(c->nonce, sizeof(c->nonce)), "runner",
			 sgpu_json_from_bytes(c->runner, sizeof(c->runner)), "secret",
			 sgpu_json_from_bytes(c->secret, sizeof(c->secret)));
}

static int sign(json_t *payload, const struct sgpu_key *owner, struct sgpu_hello *hello,
		struct sgpu_error *error)
{
	char *text = NULL, encoded[SGPU_HELLO_MAX / 2];
	json_t *jws = NULL;
	size_t size = 0;
	int rc = payload ? sgpu_json_canonical(payload, &text, &size, error)
			 : sgpu_fail_nomem(error);

	json_decref(payload);
	if (rc == SGPU_OK) {
		sgpu_base64url_encode(text, size, encoded);
		rc = sgpu_signature_make(owner, TYP, encoded, &jws, error);
	}
	free(text);
	text = NULL;
	if (rc == SGPU_OK && json_object_set_new(jws, "payload", json_string(encoded)) != 0) {
		rc = sgpu_fail_nomem(error);
	}
	rc = rc ? rc : sgpu_json_canonical(jws, &text, &hello->size, error);
	if (rc == SGPU_OK) {
		memcpy(hello->text, text, hello->size);
	}
	json_decref(jws);
	free(text);
	return rc;
}

int sgpu_hello_make(const uint8_t challenge[SGPU_CHALLENGE_SIZE], const struct sgpu_key *runner,
		    const uint8_t key[32], const struct sgpu_key *owner, struct sgpu_hello *hello,
		    struct sgpu_error *error)
{
	struct content c;
	int rc;

	if (!sgpu_equal(challenge, runner->public_half, 32)) {
		return sgpu_fail(error, SGPU_EAUTH, "the runner has another key");
	}
	memcpy(c.runner, challenge, sizeof(c.runner));
	memcpy(c.nonce, challenge + 32, sizeof(c.nonce));
	memcpy(c.key, key, sizeof(c.key));
	memcpy(hello->key, key, sizeof(hello->key));
	rc = sgpu_random(hello->secret, sizeof(hello->secret), error);
	rc = rc ? rc
		: sgpu_hpke_seal(runner->public_half, INFO, strlen(INFO), key, 32, hello->secret,
				 sizeof(hello->secret), c.enc, c.secret, error);
	return rc ? rc : sign(payload_of(&c, owner->kid), owner, hello, error);
}

/* *kid: borrowed from *json, which the caller frees. */
static int read_payload(const char *encoded, json_t **json, struct content *c, const char **kid,
			struct sgpu_error *error)
{
	static const char where[] = "hello";
	int rc = sgpu_json_decode(encoded, strlen(encoded), where, json, error);

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(parts); i++) {
		rc = sgpu_json_bytes(*json, where, parts[i].name, (uint8_t *)c + parts[i].at,
				     parts[i].size, error);
	}
	rc = rc ? rc : sgpu_json_string(*json, where, "owner", kid, error);
	return rc || json_object_size(*json) == SGPU_ARRAY_LENGTH(parts) + 1
		       ? rc
		       : sgpu_fail(error, SGPU_EINVALID, "the hello has other members");
}

static bool is_listed(const struct sgpu_session_authority *authority, const char *kid)
{
	bool listed = !authority->owners;

	for (int i = 0; !listed && i < authority->owner_count; i++) {
		listed = strcmp(authority->owners[i], kid) == 0;
	}
	return listed;
}

/* Whether the hello answers this challenge of this runner, and its signer may open sessions. */
static int judge(const struct content *c, const struct sgpu_key *signer, const char *kid,
		 const struct sgpu_session_authority *authority, const uint8_t nonce[32],
		 struct sgpu_error *error)
{
	if (!sgpu_equal(c->runner, authority->key->public_half, 32) ||
	    !sgpu_equal(c->nonce, nonce, 32)) {
		return sgpu_fail(error, SGPU_EAUTH, "the hello answers another challenge");
	}
	if (strcmp(signer->kid, kid) != 0) {
		return sgpu_fail(error, SGPU_EAUTH, "the hello is signed by another than it names");
	}
	return is_listed(authority, kid)
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EPOLICY, "'%s' is no owner of this runner", kid);
}

int sgpu_hello_open(const void *text, size_t size, const uint8_t nonce[32],
		    const struct sgpu_session_authority *authority, struct sgpu_hello *hello,
		    struct sgpu_error *error)
{
	struct sgpu_key signer;
	const char *encoded = NULL, *kid = NULL;
	json_t *jws = NULL, *held = NULL, *payload = NULL;
	struct content c;
	int rc = size > SGPU_HELLO_MAX
			 ? sgpu_fail(error, SGPU_EINVALID, "a hello of %zu bytes", size)
			 : sgpu_json_parse(text, size, NULL, &jws, error);

	rc = rc ? rc : sgpu_json_string(jws, "hello", "payload", &encoded, error);
	held = json_incref(json_object_get(jws, "payload"));
	if (rc == SGPU_OK) {
		(void)json_object_del(jws, "payload");
		rc = sgpu_signature_key(jws, TYP, &signer, error);
		rc = rc ? rc : sgpu_signature_verify(jws, encoded, &signer, error);
	}
	rc = rc ? rc : read_payload(encoded, &payload, &c, &kid, error);
	rc = rc ? rc : judge(&c, &signer, kid, authority, nonce, error);
	rc = rc ? rc
		: sgpu_hpke_open(authority->key, c.enc, INFO, strlen(INFO), c.key, sizeof(c.key),
				 c.secret, SEALED, hello->secret, error);
	if (rc == SGPU_OK) {
		memcpy(hello->key, c.key, sizeof(hello->key));
		memcpy(hello->text, text, size);
		hello->size = size;
	}
	json_decref(payload);
	json_decref(held);
	json_decref(jws);
	return rc;
}
