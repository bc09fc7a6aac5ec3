/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands as bytes.
 */
#ifndef SGPU_CHANNEL_CODEC_H
#define SGPU_CHANNEL_CODEC_H

#include <sgpu/channel.h>

/* What travels, and what is fuzzed. Little endian, lengths exact, unknown bits refused. decode
 * borrows from `bytes` where it can and uses `pages` (SGPU_CHANNEL_PAGES_MAX of them) for the rest.
 * Errors: SGPU_EINVALID. */
enum { SGPU_COMMAND_SIZE_MAX = 128 + 4 * SGPU_CHANNEL_PAGES_MAX + SGPU_GROUP_MAX };
SGPU_MUST_CHECK int sgpu_command_encode(const struct sgpu_command *command, uint8_t *bytes,
					size_t capacity, size_t *size, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_command_decode(const uint8_t *bytes, size_t size, uint32_t *pages,
					struct sgpu_command *command, struct sgpu_error *error);

/* sgpu_processor_command for a command as bytes: the only door for an untrusted side that is not in
 * this program. */
int sgpu_processor_execute(struct sgpu_processor *processor, const uint8_t *command, size_t size,
			   struct sgpu_reply *reply);

#endif
