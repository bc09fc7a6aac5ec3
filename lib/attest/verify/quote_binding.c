/* SPDX-License-Identifier: Apache-2.0
 *
 * The report data of the hardware's records. They are a hash of the quote's claims, and not only of
 * the attestation key: a thief of that key can sign other claims, but gets no report of the
 * hardware over them.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"

static const char label[] = "sgpu quote v1"; /* its NUL is hashed, too */

/* All claims but those on the records, which are made after this: a new object that shares the
 * others. */
static json_t *covered_claims(const json_t *claims)
{
	json_t *covered = json_copy((json_t *)claims),
	       *own = json_copy(json_object_get(claims, SGPU_OWN));

	if (own) {
		json_object_del(own, "records");
		json_object_del(own, "absent");
	}
	if (!covered || json_object_set_new(covered, SGPU_OWN, own)) {
		json_decref(covered);
		return NULL;
	}
	return covered;
}

int sgpu_quote_report_data(const json_t *claims, const uint8_t ak[SGPU_SHA256_SIZE],
			   uint8_t report_data[64], struct sgpu_error *error)
{
	uint8_t joined[sizeof(label) + SGPU_SHA256_SIZE + SGPU_SHA512_SIZE];
	json_t *covered = covered_claims(claims);
	char *text = NULL;
	size_t size = 0;
	int code = covered ? sgpu_json_canonical(covered, &text, &size, error)
			   : sgpu_fail_nomem(error);

	json_decref(covered);
	memcpy(joined, label, sizeof(label));
	memcpy(joined + sizeof(label), ak, SGPU_SHA256_SIZE);
	code = code ? code
		    : sgpu_sha512(text, size, joined + sizeof(label) + SGPU_SHA256_SIZE, error);
	free(text);
	return code ? code : sgpu_sha512(joined, sizeof(joined), report_data, error);
}
