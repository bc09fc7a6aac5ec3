/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes policies, and appraises claims that have nothing by those that parse.
 */
#include <stdint.h>
#include <stdlib.h>

#include <sgpu/attest.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sgpu_error error = { 0 };
	json_t *policy = NULL;
	struct sgpu_appraisal appraisal;
	struct sgpu_quote_result result = { .verified = true, .tee_verified = size & 1 };

	if (sgpu_policy_parse((const char *)data, size, "policy", &policy, &error)) {
		if (policy || !error.text[0]) {
			abort();
		}
		return 0;
	}
	result.claims = json_object();
	if (sgpu_appraise(policy, &result, 1800000000, &appraisal, NULL) ||
	    appraisal.accepted != (json_array_size(appraisal.reasons) == 0) || !appraisal.ear) {
		abort();
	}
	sgpu_appraisal_clear(&appraisal);
	sgpu_quote_result_clear(&result);
	json_decref(policy);
	return 0;
}
