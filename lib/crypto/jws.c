/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON web signatures (RFC 7515), compact: making the text, and taking it apart.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "crypto/internal.h"

enum { WHAT_SIZE = 64 };

int sgpu_jws_text(json_t *header, const char *payload, char **text, struct sgpu_error *error)
{
	char *canonical = NULL;
	size_t length = 0;
	int rc = header ? sgpu_json_canonical(header, &canonical, &length, error)
			: sgpu_fail_nomem(error);

	json_decref(header);
	*text = rc ? NULL : malloc(SGPU_BASE64URL_MAX(length) + 1 + strlen(payload) + 1);
	if (*text) {
		sgpu_base64url_encode(canonical, length, *text);
		strcat(*text, ".");
		strcat(*text, payload);
	}
	free(canonical);
	return rc || *text ? rc : sgpu_fail_nomem(error);
}

int sgpu_jws_token(const char *text, const uint8_t *signature, size_t size, char **token,
		   struct sgpu_error *error)
{
	const size_t kept = strlen(text);

	*token = malloc(kept + SGPU_BASE64URL_MAX(size) + 2);
	if (!*token) {
		return sgpu_fail_nomem(error);
	}
	memcpy(*token, text, kept);
	(*token)[kept] = '.';
	sgpu_base64url_encode(signature, size, *token + kept + 1);
	return 0;
}

void sgpu_jws_clear(struct sgpu_jws *jws)
{
	json_decref(jws->header);
	free(jws->header_text);
	free(jws->payload);
	memset(jws, 0, sizeof(*jws));
}

static int read_part(const char *text, size_t length, const char *what, const char *part,
		     uint8_t **data, size_t *size, struct sgpu_error *error)
{
	char name[WHAT_SIZE];

	snprintf(name, sizeof(name), "%s: %s", what, part);
	return sgpu_base64url_read(text, length, name, data, size, error);
}

int sgpu_jws_parse(const char *token, size_t size, size_t signature_size, const char *what,
		   struct sgpu_jws *jws, struct sgpu_error *error)
{
	const char *first = size <= SGPU_JWS_MAX ? memchr(token, '.', size) : NULL;
	const char *second =
		first ? memchr(first + 1, '.', size - (size_t)(first + 1 - token)) : NULL;
	struct sgpu_error inner = { 0 };
	uint8_t *signature = NULL;
	size_t length = 0;

	memset(jws, 0, sizeof(*jws));
	if (!second) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: not three parts with dots between them, or too long", what);
	}
	jws->signed_text = token;
	jws->signed_size = (size_t)(second - token);
	int rc = read_part(token, (size_t)(first - token), what, "header",
			   (uint8_t **)&jws->header_text, &jws->header_size, error);
	if (!rc &&
	    sgpu_json_parse(jws->header_text, jws->header_size, &jws->header, NULL, NULL, &inner)) {
		jws->header = NULL;
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: header: %s", what, inner.text);
	}
	rc = rc ? rc
		: read_part(first + 1, (size_t)(second - first - 1), what, "payload",
			    (uint8_t **)&jws->payload, &jws->payload_size, error);
	rc = rc ? rc
		: read_part(second + 1, size - jws->signed_size - 1, what, "signature", &signature,
			    &length, error);
	if (!rc && length != signature_size) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: the signature has %zu bytes, not %zu",
			       what, length, signature_size);
	}
	if (!rc) {
		memcpy(jws->signature, signature, length);
	}
	free(signature);
	return rc;
}
