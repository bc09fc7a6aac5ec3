/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes headers of NIfTI-1 and NIfTI-2, also compressed.
 */
#include "array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_array(data, size);
}
