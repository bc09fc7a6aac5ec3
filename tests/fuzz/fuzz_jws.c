/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes tokens: whatever is refused leaves nothing, and what verifies does so again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sgpu_error error = { 0 };
	struct sgpu_chain chain;
	size_t payload_size = 0;
	char *payload = NULL;
	int code = token_verify((const char *)data, size, NULL, &payload, &payload_size, &chain,
				&error);

	if (code) {
		if ((code != SGPU_EINVALID && code != SGPU_ESIGNATURE) || payload || payload_size ||
		    chain.count || !error.text[0]) {
			abort();
		}
		return 0;
	}
	if (chain.count < 1 || chain.count > SGPU_CHAIN_MAX || payload_size > size) {
		abort();
	}
	uint8_t machine[SGPU_SHA256_SIZE];
	/* No roots: nothing is trusted. */
	if (sgpu_chain_verify(chain.list[0], &chain, &(struct sgpu_chain){ .count = 0 }, 1800000000,
			      machine, "AK", NULL) == 0) {
		abort();
	}
	sgpu_chain_clear(&chain);
	free(payload);
	return 0;
}
