/* SPDX-License-Identifier: Apache-2.0
 *
 * A channel for an owner of whom only the public key is here: what quote puts into its claims.
 */
#ifndef SGPU_MEASURE_GRANT_H
#define SGPU_MEASURE_GRANT_H

#include <sgpu/channel.h>

/* Everything that the channel stands on, so that it lives while the quote is made. */
struct measure_grant {
	struct sgpu_pager pager;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	bool open;
	struct sgpu_grant grant;
};

/* Errors: SGPU_EUNAVAILABLE where the device maps no pages. */
SGPU_MUST_CHECK int measure_grant_open(struct sgpu_device *device, const uint8_t owner_key[32],
				       struct measure_grant *grant, struct sgpu_error *error);
void measure_grant_close(struct measure_grant *grant);

#endif
