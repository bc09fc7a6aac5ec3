/* SPDX-License-Identifier: Apache-2.0
 *
 * The backends that this build has; device.c lists them in its table.
 */
#ifndef SGPU_DEVICE_BACKENDS_H
#define SGPU_DEVICE_BACKENDS_H

#include <sgpu/device.h>

extern const struct sgpu_device_backend sgpu_device_cpu;
extern const struct sgpu_device_backend sgpu_device_cuda; /* loads what is behind it on first use */

#endif
