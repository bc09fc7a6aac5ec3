/* SPDX-License-Identifier: Apache-2.0
 *
 * Key files that a passphrase protects: a JWE (RFC 7516) in its flattened JSON serialization,
 * PBES2-HS512+A256KW (RFC 7518, section 4.8) and A256GCM, around the keys' text. A program that
 * does not call sgpu_key_ask links none of this.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/key.h"

/* ROUNDS take 0.5 s on a processor of 2023; a hostile file can make a reader wait for ROUNDS_MAX.
 */
enum { ROUNDS = 600000, ROUNDS_MIN = 1000, ROUNDS_MAX = 10000000 };
enum { SALT = 16, SALT_MIN = 8, SALT_MAX = 64, WRAPPED = SGPU_KEY_SIZE + 8 };
static const char alg[] = "PBES2-HS512+A256KW", enc[] = "A256GCM";

struct protection {
	uint8_t salt[sizeof(alg) + SALT_MAX]; /* the algorithm, a zero, p2s */
	size_t salt_size;		      /* of p2s */
	json_int_t rounds;
	uint8_t kek[SGPU_KEY_SIZE], wrapped[WRAPPED];
	struct sgpu_message_keys keys;
	uint8_t sealed[SGPU_KEY_TEXT_MAX + SGPU_TAG_SIZE];
};

static sgpu_passphrase *ask_passphrase;

static int derive(struct protection *p, const char *passphrase, size_t size,
		  struct sgpu_error *error)
{
	memcpy(p->salt, alg, sizeof(alg));
	return PKCS5_PBKDF2_HMAC(passphrase, (int)size, p->salt, (int)(sizeof(alg) + p->salt_size),
				 (int)p->rounds, EVP_sha512(), sizeof(p->kek), p->kek) == 1
		       ? 0
		       : sgpu_crypto_fail(error, "PBKDF2");
}

int sgpu_key_protect(const char *passphrase, size_t length, char **text, size_t *size,
		     struct sgpu_error *error)
{
	struct protection p = { .salt_size = SALT, .rounds = ROUNDS };
	uint8_t *p2s = p.salt + sizeof(alg);
	char *header = NULL, *dumped = NULL, *made = NULL;
	int rc = sgpu_random(p2s, SALT, error);

	rc = rc ? rc : sgpu_random(&p.keys, sizeof(p.keys), error);
	rc = rc ? rc : derive(&p, passphrase, length, error);
	rc = rc ? rc : sgpu_wrap(p.kek, p.keys.key, p.wrapped, error);
	rc = rc ? rc
		: sgpu_jws_text(json_pack("{s:s, s:s, s:i, s:o}", "alg", alg, "enc", enc, "p2c",
					  ROUNDS, "p2s", sgpu_json_from_bytes(p2s, SALT)),
				"", &header, error);
	if (!rc) {
		header[strlen(header) - 1] = '\0'; /* the dot before a payload */
		rc = sgpu_message_crypt(&p.keys, true, header, strlen(header), (uint8_t *)*text,
					*size, p.sealed, error);
	}
	if (!rc) {
		json_t *json = json_pack("{s:s, s:o, s:o, s:o, s:o}", "protected", header,
					 "encrypted_key", sgpu_json_from_bytes(p.wrapped, WRAPPED),
					 "iv", sgpu_json_from_bytes(p.keys.nonce, SGPU_NONCE_SIZE),
					 "ciphertext", sgpu_json_from_bytes(p.sealed, *size), "tag",
					 sgpu_json_from_bytes(p.sealed + *size, SGPU_TAG_SIZE));

		dumped = json_dumps(json, JSON_COMPACT);
		rc = dumped && asprintf(&made, "%s\n", dumped) > 0 ? 0 : sgpu_fail_nomem(error);
		json_decref(json);
	}
	if (!rc) {
		sgpu_free_wiped(text, *size);
		*text = made;
		*size = strlen(made);
	}
	sgpu_wipe(&p, sizeof(p));
	free(dumped);
	free(header);
	return rc;
}

static size_t bytes_of(const json_t *object, const char *member)
{
	return json_string_length(json_object_get(object, member)) * 3 / 4;
}

/* more: the header's unprotected part, where some libraries put p2c and p2s, or NULL. */
static int read_header(const char *name, const char *text, json_t *more, struct protection *p,
		       struct sgpu_error *error)
{
	const char *its_alg = "", *its_enc = "";
	json_t *header = NULL, *unused;
	uint8_t *decoded = NULL;
	size_t size = 0;
	int rc = sgpu_base64url_read(text, strlen(text), name, &decoded, &size, error);

	rc = rc ? rc : sgpu_key_object((char *)decoded, size, name, &header, error);
	const size_t members = json_object_size(header) + json_object_size(more);
	const bool merged = !rc && (!more || json_object_update(header, more) == 0);

	p->salt_size = bytes_of(header, "p2s");
	if (!rc && (!merged || json_object_size(header) != members ||
		    json_unpack(header, "{s:s, s:s, s:I, s:o, s?o, s?o, s?o !}", "alg", &its_alg,
				"enc", &its_enc, "p2c", &p->rounds, "p2s", &unused, "cty", &unused,
				"kid", &unused, "typ", &unused) ||
		    strcmp(its_alg, alg) || strcmp(its_enc, enc) || p->rounds < ROUNDS_MIN ||
		    p->rounds > ROUNDS_MAX || p->salt_size < SALT_MIN || p->salt_size > SALT_MAX)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "%s: not encrypted by %s and %s, with 'p2c' of %d to %d and 'p2s' "
			       "of %d to %d bytes",
			       name, alg, enc, ROUNDS_MIN, ROUNDS_MAX, SALT_MIN, SALT_MAX);
	}
	rc = rc ? rc
		: sgpu_json_bytes(header, name, "p2s", p->salt + sizeof(alg), p->salt_size, error);
	json_decref(header);
	free(decoded);
	return rc;
}

static int unlock(const char *name, char **text, size_t *size, struct sgpu_error *error)
{
	char passphrase[SGPU_PASSPHRASE_MAX] = "", *plain = calloc(1, *size + 1);
	struct protection p = { .rounds = 0 };
	const char *header = "";
	json_t *object = NULL, *more;
	size_t length = 0, sealed;
	int rc = plain ? sgpu_key_object(*text, *size, name, &object, error)
		       : sgpu_fail_nomem(error);

	sealed = bytes_of(object, "ciphertext");
	more = json_object_get(object, "header");
	if (!rc && json_object_size(object) != (more ? 6 : 5)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: not a flattened JWE", name);
	}
	rc = rc ? rc : sgpu_json_string(object, name, "protected", &header, error);
	rc = rc ? rc : sgpu_json_bytes(object, name, "encrypted_key", p.wrapped, WRAPPED, error);
	rc = rc ? rc : sgpu_json_bytes(object, name, "iv", p.keys.nonce, SGPU_NONCE_SIZE, error);
	rc = rc ? rc : sgpu_json_bytes(object, name, "ciphertext", p.sealed, sealed, error);
	rc = rc ? rc
		: sgpu_json_bytes(object, name, "tag", p.sealed + sealed, SGPU_TAG_SIZE, error);
	rc = rc ? rc : read_header(name, header, more, &p, error);
	rc = rc ? rc : ask_passphrase(name, passphrase, &length, error);
	rc = rc ? rc : derive(&p, passphrase, length, error);
	rc = rc ? rc : sgpu_unwrap(p.kek, p.wrapped, p.keys.key, error);
	rc = rc ? rc
		: sgpu_message_crypt(&p.keys, false, header, strlen(header), p.sealed, sealed,
				     (uint8_t *)plain, error);
	if (rc == SGPU_EAUTH) {
		sgpu_fail(error, rc, "'%s' does not open: wrong passphrase, or it was altered",
			  name);
	}
	if (!rc) {
		sgpu_free_wiped(text, *size);
		*text = plain;
		*size = sealed;
		plain = NULL;
	}
	sgpu_wipe(passphrase, sizeof(passphrase));
	sgpu_wipe(&p, sizeof(p));
	json_decref(object);
	free(plain);
	return rc;
}

void sgpu_key_ask(sgpu_passphrase *ask)
{
	ask_passphrase = ask;
	sgpu_key_unlock = unlock;
}
