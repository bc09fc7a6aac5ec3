/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the key file, also one that is protected, and the signature of a JWS. What parses must
 * come back the same from its own text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "crypto/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same text as a set of keys, and as a signature with its header. */
static void fuzz_set(const char *data, size_t size)
{
	static const struct sgpu_key_set none;
	struct sgpu_key_set set, again;
	struct sgpu_key named;
	size_t text_size = 0;
	char *text = NULL;
	json_t *entry = json_loadb(data, size, 0, NULL);

	if (entry && !sgpu_signature_key(entry, "sgpu-batch+jws", &named, NULL) &&
	    strlen(named.kid) != SGPU_KID_SIZE) {
		abort();
	}
	json_decref(entry);
	if (sgpu_key_set_parse(data, size, "fuzz", &set, NULL)) {
		if (memcmp(&set, &none, sizeof(set))) {
			abort();
		}
		return;
	}
	if (sgpu_key_set_text(&set, &text, &text_size, NULL) ||
	    sgpu_key_set_parse(text, text_size, "fuzz", &again, NULL) ||
	    memcmp(&set, &again, sizeof(set))) {
		abort();
	}
	sgpu_free_wiped(&text, text_size);
}

static int refuse(const char *name, char *text, size_t *size, struct sgpu_error *error)
{
	(void)name;
	(void)text;
	*size = 0;
	return sgpu_fail(error, SGPU_ECANCELED, "no passphrase");
}

/* A protected file, up to the question for its passphrase. */
static void fuzz_protected(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	sgpu_key_ask(refuse);
	memcpy(text, data, size);
	if (!sgpu_key_unlock("fuzz", &text, &size, NULL)) {
		abort();
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sgpu_error error = { 0 };
	struct sgpu_key key, again;
	static const struct sgpu_key none;
	size_t text_size = 0;
	char *text = NULL;
	fuzz_set((const char *)data, size);
	fuzz_protected(data, size);
	int code = sgpu_key_parse((const char *)data, size, "fuzz", &key, &error);

	if (code) {
		/* Nothing of a key that was refused may be left. */
		if (code != SGPU_EINVALID || !error.text[0] || memcmp(&key, &none, sizeof(key))) {
			abort();
		}
		return 0;
	}
	if (sgpu_key_set_text(&(struct sgpu_key_set){ .key = key }, &text, &text_size, NULL) ||
	    sgpu_key_parse(text, text_size, "fuzz", &again, NULL) ||
	    memcmp(&key, &again, sizeof(key)) || strlen(key.kid) != SGPU_KID_SIZE) {
		abort();
	}
	sgpu_free_wiped(&text, text_size);
	return 0;
}
