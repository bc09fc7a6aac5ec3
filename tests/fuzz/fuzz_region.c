/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata of a region: any first page is refused or understood, and what is understood is
 * written back the same.
 */
#include <stdlib.h>
#include <string.h>

#include <stage/region.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char page[SGPU_REGION_HEADER] = { 0 }, again[SGPU_REGION_HEADER];
	struct sgpu_region region, second;
	uint64_t file_size;

	memcpy(page, data, size < sizeof(page) ? size : sizeof(page));
	if (!sgpu_region_decode(page, &region)) {
		return 0;
	}
	if (!sgpu_region_id_valid(region.id) || region.expires <= region.created ||
	    !sgpu_region_file_size(region.size, &file_size) ||
	    file_size < region.size + SGPU_REGION_HEADER) {
		abort();
	}
	if (sgpu_region_encode(&region, again, NULL) < 0 || !sgpu_region_decode(again, &second) ||
	    memcmp(&region, &second, sizeof(region)) != 0) {
		abort();
	}
	return 0;
}
