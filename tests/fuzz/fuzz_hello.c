/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the hello of a session, sgpu-session(5): as it is sent, or, after a byte 1, its payload,
 * which is then signed. None opens, since nothing is sealed to this runner.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sgpu/base.h>
#include <sgpu/session.h>

#include "channel/keys.h"
#include "crypto/crypto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sgpu_key key;
static struct sgpu_key signer;

static char *signed_text(const uint8_t *data, size_t size)
{
	char encoded[SGPU_HELLO_MAX], *text = NULL;
	json_t *jws = NULL;

	if (size > SGPU_HELLO_MAX / 2) {
		return NULL;
	}
	sgpu_base64url_encode(data, size, encoded);
	if (sgpu_signature_make(&signer, "sgpu-session+jws", encoded, &jws, NULL) == SGPU_OK &&
	    json_object_set_new(jws, "payload", json_string(encoded)) == 0) {
		text = json_dumps(jws, JSON_COMPACT);
	}
	json_decref(jws);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t nonce[32];
	static struct sgpu_hello hello;
	const struct sgpu_session_authority authority = { .key = &key };
	struct sgpu_error error = { 0 };
	char *text = NULL;
	int rc;

	if (!signer.secret_known &&
	    (sgpu_key_generate(SGPU_KEY_X25519, &key, NULL) != SGPU_OK ||
	     sgpu_key_generate(SGPU_KEY_ED25519, &signer, NULL) != SGPU_OK)) {
		abort();
	}
	if (size > 0 && data[0] == 1) {
		text = signed_text(data + 1, size - 1);
	}
	rc = text ? sgpu_hello_open(text, strlen(text), nonce, &authority, &hello, &error)
		  : sgpu_hello_open(data, size, nonce, &authority, &hello, &error);
	if (rc == SGPU_OK || !error.text[0] ||
	    (rc != SGPU_EINVALID && rc != SGPU_EAUTH && rc != SGPU_ENOMEM)) {
		abort();
	}
	free(text);
	return 0;
}
