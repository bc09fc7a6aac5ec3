/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of morphology3d: balls by squared distances (morphology3d.c) and components
 * (components3d.c).
 */
#ifndef SGPU_OPS_CPU_MORPHOLOGY3D_H
#define SGPU_OPS_CPU_MORPHOLOGY3D_H

#include <string.h>

#include "ops/ops_private.h"

/* Keeps the largest component of `mask`, shape [z, y, x], bytes 0 and 1, in place. */
SGPU_MUST_CHECK int sgpu_ops_keep_largest(uint8_t *mask, const uint64_t shape[3], void *scratch,
					  struct sgpu_pool *pool, struct sgpu_error *error);
uint64_t sgpu_ops_keep_largest_scratch(const uint64_t shape[3]);

#endif
