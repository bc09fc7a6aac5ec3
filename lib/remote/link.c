/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that both sides of a session over a ring share.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "remote/carrier.h"

int sgpu_link_create(int *memory, int *area, struct sgpu_error *error)
{
	int rc = sgpu_ring_memory_create(LINK_ENTRIES, LINK_ENTRIES, memory, error);

	*area = -1;
	if (rc < 0) {
		return rc;
	}
	rc = sgpu_memory_file_create("sgpu-session", LINK_SIZE, true, area, error);
	if (rc < 0) {
		close(*memory);
		*memory = -1;
	}
	return rc;
}

int sgpu_link_map(int fd, uint8_t **area, struct sgpu_error *error)
{
	uint64_t size;
	void *memory;
	const int rc = sgpu_memory_file_map(fd, "the area of a session", LINK_SIZE, LINK_SIZE,
					    &memory, &size, error);

	*area = memory;
	return rc;
}

void sgpu_link_unmap(uint8_t **area)
{
	if (*area) {
		munmap(*area, LINK_SIZE);
		*area = NULL;
	}
}
