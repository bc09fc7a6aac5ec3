/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel of gaussian3d, the same on every device.
 */
#ifndef SGPU_OPS_CPU_GAUSSIAN3D_H
#define SGPU_OPS_CPU_GAUSSIAN3D_H

#include "ops/ops_private.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_GAUSSIAN_SIGMA_MAX = 64,
	SGPU_GAUSSIAN_TRUNCATE_MAX = 8,
	SGPU_GAUSSIAN_RADIUS_MAX = SGPU_GAUSSIAN_SIGMA_MAX * SGPU_GAUSSIAN_TRUNCATE_MAX,
};

/* The weights at distance 0 to the radius, which is returned. The centre and twice the others sum
 * to 1. */
int sgpu_ops_gaussian_weights(double sigma, double truncate,
			      double weights[SGPU_GAUSSIAN_RADIUS_MAX + 1]);

#ifdef __cplusplus
}
#endif
#endif
