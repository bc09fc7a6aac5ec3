/* SPDX-License-Identifier: Apache-2.0
 *
 * See link.h.
 */
#include "remote/link.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/memory_file.h"

int sgpu_link_create(int *memory, int *area, struct sgpu_error *error)
{
	int rc = sgpu_ring_memory_create(LINK_ENTRIES, LINK_ENTRIES, memory, error);

	*area = -1;
	if (rc < 0) {
		return rc;
	}
	rc = sgpu_memory_file_create("sgpu-session", LINK_SIZE, true, false, area, error);
	if (rc < 0) {
		close(*memory);
		*memory = -1;
	}
	return rc;
}

int sgpu_link_map(int fd, uint8_t **area, struct sgpu_error *error)
{
	uint64_t size = 0;
	void *memory;
	int rc = sgpu_memory_file_check(fd, "the area of a session", LINK_SIZE, LINK_SIZE, &size,
					NULL, error);

	*area = NULL;
	if (rc < 0) {
		return rc;
	}
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		return sgpu_fail_errno(error, "cannot map the area of a session");
	}
	(void)madvise(memory, size, MADV_DONTDUMP);
	*area = memory;
	return SGPU_OK;
}

void sgpu_link_unmap(uint8_t **area)
{
	if (*area) {
		munmap(*area, LINK_SIZE);
		*area = NULL;
	}
}
