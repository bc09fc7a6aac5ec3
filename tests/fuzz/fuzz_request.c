/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes requests for a certificate, which strangers send to an authority.
 */
#include <stdint.h>
#include <stdlib.h>

#include <sgpu/attest.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sgpu_signer *ca;
	static struct sgpu_chain chain;
	struct sgpu_error error = { 0 };
	char *pem = NULL;
	size_t pem_size = 0;

	if (!ca && (sgpu_signer_generate(false, &ca, NULL) ||
		    sgpu_ca_create(ca, "fuzz", 1800000000, 100, &pem, &pem_size, NULL) ||
		    sgpu_chain_parse(pem, pem_size, "fuzz", &chain, NULL))) {
		abort();
	}
	free(pem);
	int code = sgpu_ca_certify(ca, &chain, (const char *)data, size, 1800000000, 0, &pem,
				   &pem_size, &error);
	if (!code != !!pem || !code == !!error.text[0]) {
		abort();
	}
	free(pem);
	return 0;
}
