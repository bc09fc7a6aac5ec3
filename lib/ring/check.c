/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place that says what a descriptor may say. It sees copies only.
 */
#include <sgpu/base.h>

#include "ring/memory.h"

static uint8_t members_of(const struct sgpu_ring_descriptor *d)
{
	return (uint8_t)((d->handle ? SGPU_RING_HANDLE : 0) | (d->offset ? SGPU_RING_OFFSET : 0) |
			 (d->length ? SGPU_RING_LENGTH : 0) |
			 (d->argument ? SGPU_RING_ARGUMENT : 0));
}

int sgpu_ring_check(const struct sgpu_ring_descriptor *descriptor, const uint8_t *members, int code,
		    struct sgpu_error *error)
{
	const struct sgpu_ring_descriptor *d = descriptor;
	const bool is_opcode =
		d->opcode >= SGPU_RING_OPCODE_SERVICE && d->opcode < SGPU_RING_OPCODES;
	const uint8_t known = !is_opcode ? 0 : members ? members[d->opcode] : UINT8_MAX;
	uint64_t end;

	if (!(known & SGPU_RING_KNOWN)) {
		return sgpu_fail(error, code, "a descriptor has the unknown opcode %u", d->opcode);
	}
	if (d->reserved || d->reserved2 || d->reserved3 || d->generation) {
		return sgpu_fail(error, code,
				 "a descriptor of opcode %u has reserved members that are not 0",
				 d->opcode);
	}
	if (members_of(d) & ~known) {
		return sgpu_fail(error, code,
				 "a descriptor of opcode %u has members that it does not use",
				 d->opcode);
	}
	if (!sgpu_add_u64(d->offset, d->length, &end)) {
		return sgpu_fail(error, code,
				 "a descriptor of opcode %u has a range that does not end",
				 d->opcode);
	}
	return SGPU_OK;
}
