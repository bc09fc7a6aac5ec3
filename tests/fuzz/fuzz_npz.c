/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the archives that .npz files are.
 */
#include "array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_array(data, size);
}
