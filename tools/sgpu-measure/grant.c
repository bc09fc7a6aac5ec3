/* SPDX-License-Identifier: Apache-2.0
 *
 * A processor and an allocator over the device, and one channel, which maps nothing: its directory
 * is all the memory that it needs.
 */
#include <string.h>

#include "grant.h"

/* Frames: a directory for each channel, some that the host sees, some that nobody maps. */
enum { FRAMES = 64, UNPROTECTED = 16, HIDDEN = 16 };

/* The allocator and the processor stand in one program here. */
static int send_command(void *processor, const struct sgpu_command *command,
			struct sgpu_reply *reply)
{
	return sgpu_processor_command(processor, command, reply);
}

int measure_grant_open(struct sgpu_device *device, const uint8_t owner_key[32],
		       struct measure_grant *grant, struct sgpu_error *error)
{
	struct sgpu_processor_config config = { .frames = FRAMES,
						.unprotected = UNPROTECTED,
						.hidden = HIDDEN };

	memset(grant, 0, sizeof(*grant));
	int code = sgpu_pager_of(device, &grant->pager, error);
	grant->open = !code;
	if (!code) {
		code = sgpu_processor_create(&grant->pager, &config, &grant->processor, error);
	}
	if (!code) {
		code = sgpu_allocator_create(&grant->pager.info, &config, send_command,
					     grant->processor, &grant->allocator, error);
	}
	if (!code) {
		code = sgpu_allocator_channel(grant->allocator, owner_key, &grant->grant, error);
	}
	if (code) {
		measure_grant_close(grant);
	}
	return code;
}

void measure_grant_close(struct measure_grant *grant)
{
	sgpu_allocator_free(&grant->allocator);
	sgpu_processor_free(&grant->processor);
	if (grant->open) {
		sgpu_pager_close(&grant->pager);
	}
	grant->open = false;
}
