/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place that says what a descriptor may say. It sees copies only.
 */
#include "ring/check.h"

#include <sgpu/base.h>

enum {
	ALL_MEMBERS = SGPU_RING_HANDLE | SGPU_RING_OFFSET | SGPU_RING_LENGTH | SGPU_RING_COUNTER |
		      SGPU_RING_ARGUMENT
};

/* The ring's own opcodes. */
static const struct {
	uint8_t members, flags;
	bool in_batch;
} own[SGPU_RING_OPCODE_SERVICE] = {
	[SGPU_RING_NOP] = { SGPU_RING_KNOWN, SGPU_RING_FENCE, true },
	[SGPU_RING_BATCH] = { SGPU_RING_KNOWN | SGPU_RING_HANDLE | SGPU_RING_OFFSET |
				      SGPU_RING_LENGTH,
			      SGPU_RING_FENCE, false },
	[SGPU_RING_DRAIN] = { SGPU_RING_KNOWN, 0, false },
	[SGPU_RING_CANCEL] = { SGPU_RING_KNOWN | SGPU_RING_ARGUMENT, 0, false },
};

static uint8_t members_of(const struct sgpu_ring_descriptor *d)
{
	return (uint8_t)((d->handle ? SGPU_RING_HANDLE : 0) | (d->offset ? SGPU_RING_OFFSET : 0) |
			 (d->length ? SGPU_RING_LENGTH : 0) | (d->counter ? SGPU_RING_COUNTER : 0) |
			 (d->argument ? SGPU_RING_ARGUMENT : 0));
}

int sgpu_ring_check(const struct sgpu_ring_descriptor *descriptor, const uint8_t *members,
		    bool member, int code, struct sgpu_error *error)
{
	const struct sgpu_ring_descriptor *d = descriptor;
	uint8_t known, flags = SGPU_RING_FENCE;
	bool allowed = true;
	uint64_t end;

	if (d->opcode < SGPU_RING_OPCODE_SERVICE) {
		known = own[d->opcode].members;
		flags = own[d->opcode].flags;
		allowed = !member || own[d->opcode].in_batch;
	} else {
		known = members ? members[d->opcode] : SGPU_RING_KNOWN | ALL_MEMBERS;
	}
	if (!(known & SGPU_RING_KNOWN)) {
		return sgpu_fail(error, code, "a descriptor has the unknown opcode %u", d->opcode);
	}
	if (!allowed) {
		return sgpu_fail(error, code,
				 "a descriptor of a batch has opcode %u, which no batch may hold",
				 d->opcode);
	}
	if (d->flags & ~flags) {
		return sgpu_fail(error, code, "a descriptor of opcode %u has flags 0x%x", d->opcode,
				 d->flags);
	}
	if (d->reserved || d->reserved2 || d->generation || d->client || (member && d->cookie)) {
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
	if (d->opcode == SGPU_RING_BATCH &&
	    (d->length == 0 || d->length % SGPU_RING_DESCRIPTOR_SIZE != 0 ||
	     d->length > (uint64_t)SGPU_RING_BATCH_MAX * SGPU_RING_DESCRIPTOR_SIZE)) {
		return sgpu_fail(error, code,
				 "a batch of %llu bytes is not one of 1 to %d descriptors",
				 (unsigned long long)d->length, SGPU_RING_BATCH_MAX);
	}
	return SGPU_OK;
}
