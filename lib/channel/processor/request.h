/* SPDX-License-Identifier: Apache-2.0
 *
 * What trusted code in the processor's own program asks of it: lib/secure.
 */
#ifndef SGPU_PROCESSOR_REQUEST_H
#define SGPU_PROCESSOR_REQUEST_H

#include <sgpu/channel.h>

#include "channel/bind.h"

/* Begins a request of trusted code in this process (sgpu/secure.h): every range must be mapped in
 * the context of the channel, and that context becomes the one that kernels reach. Contexts that
 * want the device take turns in the order in which they ask; a context that is active already waits
 * for nobody. Until sgpu_processor_leave nothing is unmapped and no other context becomes
 * reachable: the caller enqueues the request in between, sends no command, and begins no other
 * request. A range of no bytes touches nothing. Errors: SGPU_EUSAGE (a range that is not the
 * context's, no such channel), SGPU_EDEVICE; there is nothing to leave then. */
SGPU_MUST_CHECK int sgpu_processor_enter(struct sgpu_processor *processor, uint32_t channel,
					 const struct sgpu_device_range *ranges, int count,
					 struct sgpu_error *error);
void sgpu_processor_leave(struct sgpu_processor *processor);
/* The channel of this grant takes groups of the bound session alone. Before its first group.
 * Errors: SGPU_EUSAGE (it has had one, or is not there), SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_processor_bind(struct sgpu_processor *processor,
					const struct sgpu_grant *grant,
					const struct sgpu_binding *binding,
					struct sgpu_error *error);
/* Opens the group of a CH_SUBMIT, which nobody changes meanwhile: *size bytes of items, which the
 * caller carries out and wipes. Returns reply->code. */
int sgpu_processor_open_group(struct sgpu_processor *processor, const struct sgpu_command *command,
			      uint8_t items[SGPU_GROUP_MAX], size_t *size,
			      struct sgpu_reply *reply);
/* Seals the answer to the group that was taken last: once, under its number *counter. `sealed` has
 * room for size + SGPU_TAG_SIZE. Errors: SGPU_EUSAGE (no group is left to answer; more than
 * SGPU_GROUP_MAX). */
SGPU_MUST_CHECK int sgpu_processor_answer(struct sgpu_processor *processor, uint32_t channel,
					  const void *answer, size_t size, uint8_t *sealed,
					  uint64_t *counter, struct sgpu_error *error);
/* Whether [address, address + size) of the device is mapped, all of it, in the context of the
 * channel. */
bool sgpu_processor_reaches(struct sgpu_processor *processor, uint32_t channel, sgpu_devptr address,
			    uint64_t size);
/* Whether the processor made this very grant, and its channel is there. Anybody can seal a key of
 * their own to an owner, so a grant that came through other hands proves nothing by itself. Errors:
 * SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_processor_vouch(struct sgpu_processor *processor,
					 const struct sgpu_grant *grant, struct sgpu_error *error);
/* The host's way to write to frames of the unprotected region; SGPU_EPOLICY anywhere else. */
SGPU_MUST_CHECK int sgpu_processor_host_write(struct sgpu_processor *processor, uint64_t physical,
					      const void *from, uint64_t size,
					      struct sgpu_error *error);

#endif
