/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine has: memory, under the limits of the control group that this process is in.
 */
#ifndef SGPU_DEVICE_HOST_H
#define SGPU_DEVICE_HOST_H

#include <stdint.h>

/* Bytes of memory that this process may ever have, and that it could have now without another being
 * killed for it. Either may be NULL; UINT64_MAX when it cannot be told. */
void sgpu_host_memory(uint64_t *total, uint64_t *available);

/* The processor's name, "AMD EPYC 9B45": printable, cut to fit. */
void sgpu_host_processor(char *name, unsigned size);

#endif
