/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes quotes; input that begins with 'c' is claims, wrapped first to get behind two layers of
 * base64. Without a root nothing verifies.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/attest.h>

#include "base/json.h"
#include "attest/quote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *wrap(const uint8_t *claims, size_t size)
{
	static struct sgpu_signer *ca;
	static struct sgpu_chain chain;
	char *pem = NULL, *token = NULL;
	size_t pem_size = 0;

	if (!ca && (sgpu_signer_generate(false, &ca, NULL) ||
		    sgpu_ca_create(ca, "f", 0, 1, &pem, &pem_size, NULL) ||
		    sgpu_chain_parse(pem, pem_size, "f", &chain, NULL))) {
		abort();
	}
	free(pem);
	if (sgpu_jws_sign(ca, &chain, "eat+jwt", claims, size, &token, NULL)) {
		abort();
	}
	json_t *collection =
		json_pack("{s:s, s:[s, o, i]}", "__cmwc_t", SGPU_CMW_PROFILE, "eat", SGPU_TYPE_EAT,
			  sgpu_json_from_bytes(token, strlen(token)), 4);
	char *quote = json_dumps(collection, JSON_COMPACT);
	json_decref(collection);
	free(token);
	return quote;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sgpu_record records[SGPU_RECORDS_MAX];
	struct sgpu_quote_result result;
	const struct sgpu_quote_checks checks = { .roots = &(struct sgpu_chain){ .count = 0 } };
	char *quote =
		size && data[0] == 'c' ? wrap(data + 1, size - 1) : strndup((char *)data, size);
	json_t *claims, *policy = NULL;

	if (!sgpu_quote_parse(quote, strlen(quote), &claims, records, NULL, NULL)) {
		(void)!sgpu_policy_from_claims(claims, &policy, NULL);
		sgpu_records_clear(records);
		json_decref(claims);
		json_decref(policy);
	}
	if (!sgpu_quote_verify(quote, strlen(quote), &checks, &result, NULL)) {
		abort();
	}
	sgpu_quote_result_clear(&result);
	free(quote);
	return 0;
}
