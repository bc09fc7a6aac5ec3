/* SPDX-License-Identifier: Apache-2.0
 *
 * What a descriptor may say.
 */
#ifndef SGPU_RING_CHECK_H
#define SGPU_RING_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/ring.h>

/* Judges a copy. members: what the service's opcodes use, as in struct sgpu_ring_worker_config;
 * NULL: anything. member: of a batch. `code` is returned for what may not be. */
SGPU_MUST_CHECK int sgpu_ring_check(const struct sgpu_ring_descriptor *descriptor,
				    const uint8_t *members, bool member, int code,
				    struct sgpu_error *error);

#endif
