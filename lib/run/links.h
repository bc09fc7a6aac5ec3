/* SPDX-License-Identifier: Apache-2.0
 *
 * The ways between the devices of a runner: sealed copies, each pair of devices with its own key. A
 * way is opened when a batch first needs it, and kept for the runner's life.
 */
#ifndef SGPU_RUN_LINKS_H
#define SGPU_RUN_LINKS_H

#include <sgpu/device.h>

struct sgpu_links;
struct sgpu_run_device;

SGPU_MUST_CHECK int sgpu_links_create(struct sgpu_links **links, struct sgpu_error *error);
/* No copy is under way, and the devices are open. Accepts a pointer to NULL. */
void sgpu_links_free(struct sgpu_links **links);
/* The way between two devices of the runner, which is the links'. From any thread that may block.
 * Errors: SGPU_ENOMEM, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_links_get(struct sgpu_links *links, const struct sgpu_run_device *from,
				   const struct sgpu_run_device *to, struct sgpu_peer **peer,
				   struct sgpu_error *error);

#endif
