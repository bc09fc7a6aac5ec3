/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON Web Signatures (RFC 7515), compact, ES384: making them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/internal.h"

static int header_text(const struct sgpu_chain *chain, const char *typ, char **text, size_t *size,
		       struct sgpu_error *error)
{
	json_t *header = json_pack("{s:s, s:s*}", "alg", "ES384", "typ", typ);
	json_t *x5c = header && chain && chain->count ? json_array() : NULL;
	int bad = !header || (chain && chain->count && !x5c);

	for (int i = 0; x5c && !bad && i < chain->count; i++) {
		char *der = sgpu_encode_base64(chain->der[i], chain->size[i]);
		bad = !der || json_array_append_new(x5c, json_string(der));
		free(der);
	}
	if (x5c) {
		bad = json_object_set_new(header, "x5c", x5c) || bad;
	}
	int code = bad ? sgpu_fail_nomem(error) : sgpu_json_canonical(header, text, size, error);
	json_decref(header);
	return code;
}

int sgpu_jws_sign(const struct sgpu_signer *signer, const struct sgpu_chain *chain, const char *typ,
		  const void *payload, size_t size, char **token, struct sgpu_error *error)
{
	uint8_t signature[SGPU_ES384_SIZE] = { 0 };
	char *header = NULL, *made = NULL;
	size_t header_size = 0;

	*token = NULL;
	int code = header_text(chain, typ, &header, &header_size, error);
	if (code) {
		return code;
	}
	made = malloc(SGPU_BASE64URL_MAX(header_size) + SGPU_BASE64URL_MAX(size) +
		      SGPU_BASE64URL_MAX(sizeof(signature)) + 3);
	if (!made) {
		free(header);
		return sgpu_fail_nomem(error);
	}
	sgpu_base64url_encode(header, header_size, made);
	strcat(made, ".");
	sgpu_base64url_encode(payload, size, made + strlen(made));
	size_t length = strlen(made);
	code = sgpu_signer_sign(signer, made, length, signature, error);
	free(header);
	if (code) {
		free(made);
		return code;
	}
	made[length] = '.';
	sgpu_base64url_encode(signature, sizeof(signature), made + length + 1);
	*token = made;
	return 0;
}
