/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases: what the files of the pool share.
 */
#ifndef SGPU_STAGE_LEASE_H
#define SGPU_STAGE_LEASE_H

#include <sgpu/lease.h>

#define SGPU_LEASE_HUGE ((uint64_t)2 << 20)

struct sgpu_lease_memory {
	int fd;
	uint8_t *base;
	uint64_t size, page; /* page: leases begin at multiples of it */
	enum sgpu_page_kind pages;
};
SGPU_MUST_CHECK int sgpu_lease_memory_create(uint64_t size, struct sgpu_lease_memory *memory,
					     struct sgpu_error *error);
/* Accepts one that was freed. */
void sgpu_lease_memory_free(struct sgpu_lease_memory *memory);

#endif
