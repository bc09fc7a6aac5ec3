/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes enrolment: the first line of the input is the request, the rest the endorsement keys that
 * are known. The seeds are older than what is accepted, and a fuzzer makes no signatures, so nobody
 * gets a certificate.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/attest.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sgpu_signer *ca;
static struct sgpu_chain chain;

static void prepare(void)
{
	char *pem = NULL;
	size_t size = 0;

	if (sgpu_signer_generate(false, &ca, NULL) ||
	    sgpu_ca_create(ca, "fuzz", 1800000000, 100, &pem, &size, NULL) ||
	    sgpu_chain_parse(pem, size, "fuzz", &chain, NULL)) {
		abort();
	}
	free(pem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\n', size);
	size_t length = end ? (size_t)(end - data) : size, pem_size = 0;
	struct sgpu_error error = { 0 };
	struct sgpu_chain other;
	char *pem = NULL;

	if (!ca) {
		prepare();
	}
	char *known = end ? strndup((const char *)end + 1, size - length - 1) : strdup("");
	int code = sgpu_ca_certify(ca, &chain, known, (const char *)data, length, 1800000000, 1, 60,
				   &pem, &pem_size, &error);
	if (!code || pem || !error.text[0]) {
		abort();
	}
	if (!sgpu_chain_parse(known, strlen(known), "fuzz", &other, NULL)) {
		sgpu_chain_clear(&other);
	}
	free(known);
	return 0;
}
