/* SPDX-License-Identifier: Apache-2.0
 *
 * NUMA nodes, and binding memory to one, through libnuma if the build has it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/region.h"

#if SGPU_NUMA
#include <numa.h>
#include <numaif.h>

int sgpu_numa_nodes(struct sgpu_numa_node **nodes, int *count, struct sgpu_error *error)
{
	long long total, left;
	int node, highest;

	*nodes = NULL;
	*count = 0;
	if (numa_available() < 0) {
		return SGPU_OK;
	}
	highest = numa_max_node();
	*nodes = calloc((size_t)(highest < 0 ? 0 : highest) + 1, sizeof(**nodes));
	if (!*nodes) {
		return sgpu_fail_nomem(error);
	}
	for (node = 0; node <= highest; node++) {
		total = numa_node_size64(node, &left);
		if (total > 0) {
			(*nodes)[*count] = (struct sgpu_numa_node){ node, (uint64_t)total,
								    left > 0 ? (uint64_t)left : 0 };
			(*count)++;
		}
	}
	return SGPU_OK;
}

static int check_node(int node, struct sgpu_error *error)
{
	long long left;

	if (numa_available() < 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "this kernel has no NUMA support");
	}
	return node <= numa_max_node() && numa_node_size64(node, &left) > 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EUSAGE, "NUMA node %d has no memory or is not there",
				   node);
}

int sgpu_numa_bind(void *data, uint64_t size, int node, struct sgpu_error *error)
{
	struct bitmask *mask;
	long result;
	int rc = check_node(node, error);

	if (rc < 0) {
		return rc;
	}
	mask = numa_allocate_nodemask();
	if (!mask) {
		return sgpu_fail_nomem(error);
	}
	numa_bitmask_setbit(mask, (unsigned)node);
	result = mbind(data, size, MPOL_BIND, mask->maskp, mask->size + 1, 0);
	numa_bitmask_free(mask);
	if (result != 0) {
		return sgpu_fail_errno(error, "cannot bind memory to NUMA node %d", node);
	}
	return SGPU_OK;
}

#else

int sgpu_numa_nodes(struct sgpu_numa_node **nodes, int *count, struct sgpu_error *error)
{
	(void)error;
	*nodes = NULL;
	*count = 0;
	return SGPU_OK;
}

int sgpu_numa_bind(void *data, uint64_t size, int node, struct sgpu_error *error)
{
	(void)data;
	(void)size;
	sgpu_fail(error, SGPU_EUNAVAILABLE,
		  "cannot bind to NUMA node %d: this build has no NUMA support", node);
	sgpu_hint(error, "build sgpu with NUMA=1 and libnuma");
	return SGPU_EUNAVAILABLE;
}

#endif
