/* SPDX-License-Identifier: Apache-2.0
 *
 * The call of a case on another device than the CPU.
 */
#ifndef OPS_DEVICE_H
#define OPS_DEVICE_H

#include "ops_harness.h"

/* Whether $SGPU_TEST_DEVICE names another device than the CPU. Opens it at the first call. Skips
 * the whole file where there is none. */
bool ops_device_wanted(void);
/* True when there is no device to test, or it did as the CPU. */
bool ops_run_device(struct ops_case *c);

#endif
